"""The floor: what Docker itself costs for the same work, done by hand on its API.

Run as a program of its own: `floor.py AT_ONCE [separate]`; with `separate` each trial has a second
container for its verifier.
"""

from __future__ import annotations

import io
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import docker
from trivial import COUNT, SOLVE, TEST, VERIFIER_DOCKERFILE

IMAGE = "rackbench/base:1"
VERIFIER_IMAGE = "rackbench/bench-verifier:1"


def packed(name: str, content: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(content), 0o755
        archive.addfile(entry, io.BytesIO(content.encode()))
    return buffer.getvalue()


def run(api: docker.APIClient, container: str, command: str) -> None:
    started = api.exec_create(container, ["sh", "-c", command])
    api.exec_start(started["Id"])


@contextmanager
def container(api: docker.APIClient, image: str) -> Iterator[str]:
    limits = api.create_host_config(
        init=True, network_mode="none", nano_cpus=10**9, mem_limit="512m", memswap_limit="512m"
    )
    made = api.create_container(image, ["sleep", "infinity"], host_config=limits)["Id"]
    try:
        api.start(made)
        yield made
    finally:
        api.remove_container(made, force=True, v=True)


def copied(api: docker.APIClient, made: str, path: str) -> bytes:
    chunks, _ = api.get_archive(made, path)
    return b"".join(chunks)


def must_be_solved(archive: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        reward = files.extractfile("verifier/reward.txt")
        assert reward is not None
        assert reward.read() == b"1\n"


def shared(api: docker.APIClient) -> None:
    with container(api, IMAGE) as made:
        api.put_archive(made, "/", packed("solution/solve.sh", SOLVE))
        run(api, made, "mkdir -p /logs/verifier; /solution/solve.sh")
        api.put_archive(made, "/", packed("tests/test.sh", TEST))
        run(api, made, "/tests/test.sh")
        must_be_solved(copied(api, made, "/logs/verifier"))


def separate(api: docker.APIClient) -> None:
    with container(api, IMAGE) as made:
        api.put_archive(made, "/", packed("solution/solve.sh", SOLVE))
        run(api, made, "mkdir -p /app; /solution/solve.sh")
        artifact = copied(api, made, "/app/hello.txt")
    with container(api, VERIFIER_IMAGE) as made:
        api.put_archive(made, "/app", artifact)
        run(api, made, "mkdir -p /logs/verifier; /tests/test.sh")
        must_be_solved(copied(api, made, "/logs/verifier"))


def build_verifier(api: docker.APIClient) -> None:
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        (context / "Dockerfile").write_text(VERIFIER_DOCKERFILE)
        (context / "test.sh").write_text(TEST)
        (context / "test.sh").chmod(0o755)
        for line in api.build(path=folder, tag=VERIFIER_IMAGE, rm=True, decode=True):
            assert "error" not in line, line


def main() -> None:
    api = docker.from_env().api
    trial = separate if "separate" in sys.argv[2:] else shared
    if trial is separate and not api.images(VERIFIER_IMAGE):
        build_verifier(api)
    with ThreadPoolExecutor(int(sys.argv[1])) as pool:
        list(pool.map(trial, [api] * COUNT))


if __name__ == "__main__":
    main()
