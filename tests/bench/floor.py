"""The floor: what Docker itself costs for the same work, done by hand on its API.

Run as a program of its own: `floor.py AT_ONCE`.
"""

from __future__ import annotations

import io
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor

import docker
from trivial import COUNT, SOLVE, TEST

IMAGE = "rackbench/base:1"


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


def trial(api: docker.APIClient) -> None:
    limits = api.create_host_config(
        init=True, network_mode="none", nano_cpus=10**9, mem_limit="512m", memswap_limit="512m"
    )
    container = api.create_container(IMAGE, ["sleep", "infinity"], host_config=limits)["Id"]
    try:
        api.start(container)
        api.put_archive(container, "/", packed("solution/solve.sh", SOLVE))
        run(api, container, "mkdir -p /logs/verifier; /solution/solve.sh")
        api.put_archive(container, "/", packed("tests/test.sh", TEST))
        run(api, container, "/tests/test.sh")
        chunks, _ = api.get_archive(container, "/logs/verifier")
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            reward = archive.extractfile("verifier/reward.txt")
            assert reward is not None
            assert reward.read() == b"1\n"
    finally:
        api.remove_container(container, force=True, v=True)


def main() -> None:
    api = docker.from_env().api
    with ThreadPoolExecutor(int(sys.argv[1])) as pool:
        list(pool.map(trial, [api] * COUNT))


if __name__ == "__main__":
    main()
