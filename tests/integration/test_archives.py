"""Archives as sources of tasks: good ones, damaged ones, hostile ones."""

from __future__ import annotations

import gzip
import io
import stat
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from rackbench_tasks import Places, Source, Suite, TaskError, load_sources, load_suite
from rackbench_tasks.sources.archive import Bounds, archive_digest, unpacked

TASK = {
    "task.toml": "[environment]\nmemory_mb = 256\n",
    "instruction.md": "Fix it.\n",
    "environment/Dockerfile": "FROM base\n",
    "tests/test.sh": "#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n",
}


def write_task(folder: Path, **changed: str) -> Path:
    for name, text in {**TASK, **changed}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "tests" / "test.sh").chmod(0o755)
    return folder


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "cache" / "sources")


def load(places: Places, *sources: Any, beside: Path | None = None) -> Suite:
    return load_sources(
        [Source.model_validate(source) for source in sources],
        beside=beside or places.cache,
        strict=True,
        host_env={},
        places=places,
    )


def problem_of(places: Places, *sources: Any, beside: Path | None = None) -> str:
    with pytest.raises(TaskError) as caught:
        load(places, *sources, beside=beside)
    (problem,) = caught.value.problems
    return problem


def names(suite: Suite) -> list[str]:
    return [task.name for task in suite.tasks]


def tar(path: Path, entries: list[tuple[tarfile.TarInfo, bytes]], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as made:  # type: ignore[call-overload]
        for entry, content in entries:
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
    return path


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, target, 0o777
    return made


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    folder = tmp_path / "packed" / "vendor-1.0"
    for name in ("apple", "banana"):
        write_task(folder / name)
    (folder / "apple" / "link").symlink_to("tests/test.sh")
    return folder


def make_zip(path: Path, folder: Path) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for file in sorted(folder.rglob("*")):
            name = str(file.relative_to(folder.parent))
            if file.is_symlink():
                info = zipfile.ZipInfo(name)
                info.external_attr = (stat.S_IFLNK | 0o777) << 16
                made.writestr(info, str(file.readlink()))
            else:
                made.write(file, name)
    return path


@pytest.mark.parametrize("kind", [".tar", ".tar.gz", ".tar.xz", ".tar.bz2", ".tar.zst", ".zip"])
def test_an_archive(packed: Path, places: Places, tmp_path: Path, kind: str) -> None:
    archive = tmp_path / f"vendor{kind}"
    if kind == ".zip":
        make_zip(archive, packed)
    else:
        subprocess.run(["tar", "-caf", archive, "-C", packed.parent, packed.name], check=True)
    local = load_suite(packed, strict=True, host_env={}, places=places)
    suite = load_suite(archive, strict=True, host_env={}, places=places)
    assert (suite.name, suite.digest) == ("vendor", local.digest)
    origin = suite.origins["apple"]
    assert (origin.kind, origin.source) == ("archive", str(archive))
    assert (origin.path, origin.archive_digest) == ("vendor-1.0/apple", archive_digest(archive))
    inside = load(places, {"archive": archive.name, "path": "vendor-1.0/apple"}, beside=tmp_path)
    assert names(inside) == ["apple"]


def test_an_archive_is_unpacked_once_and_pinned(
    packed: Path, places: Places, tmp_path: Path
) -> None:
    archive = make_zip(tmp_path / "vendor.zip", packed)
    source = {"archive": str(archive), "digest": archive_digest(archive)}
    folder = load(places, source).tasks[0].folder
    kept = folder.stat().st_ino
    assert load(places, source).tasks[0].folder.stat().st_ino == kept
    assert folder.is_relative_to(places.cache / archive_digest(archive).removeprefix("sha256:"))
    problem = problem_of(places, {**source, "digest": "sha256:" + "0" * 64})
    assert archive_digest(archive) in problem
    assert "0" * 64 in problem


@pytest.mark.parametrize(
    ("name", "entries", "said"),
    [
        ("up", [(entry("../evil"), b"x")], "leads out of it"),
        ("root", [(entry("/etc/evil"), b"x")], "leads out of it"),
        ("windows", [(entry("..\\evil"), b"x")], "leads out of it"),
        ("link", [(entry("a", tarfile.SYMTYPE, "/etc"), b"")], "link 'a' to '/etc' leads out"),
        ("link up", [(entry("d/a", tarfile.SYMTYPE, "../../x"), b"")], "leads out of it"),
        (
            "link through a link",
            [
                (entry("d", tarfile.SYMTYPE, "."), b""),
                (entry("a", tarfile.SYMTYPE, "d/../.."), b""),
            ],
            "leads out of it",
        ),
        (
            "file through a link",
            [(entry("d", tarfile.SYMTYPE, "e"), b""), (entry("d/f"), b"x")],
            "cannot be unpacked: File exists",
        ),
        ("hard link", [(entry("a", tarfile.LNKTYPE, "../../etc/passwd"), b"")], "leads out of it"),
        ("device", [(entry("a", tarfile.CHRTYPE), b"")], "no file, folder or link"),
        ("pipe", [(entry("a", tarfile.FIFOTYPE), b"")], "no file, folder or link"),
        ("twice", [(entry("a"), b"x"), (entry("a"), b"y")], "cannot be unpacked: File exists"),
    ],
)
def test_hostile_archives(
    places: Places, tmp_path: Path, name: str, entries: list[Any], said: str
) -> None:
    archive = tar(tmp_path / "evil.tar", entries)
    assert said in problem_of(places, {"path": str(archive)})
    left = [path.name for path in places.cache.iterdir()] if places.cache.exists() else []
    assert left == []
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "a/../../.."])
def test_hostile_zips(places: Places, tmp_path: Path, target: str) -> None:
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as made:
        info = zipfile.ZipInfo("a")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        made.writestr(info, target)
    assert "leads out of it" in problem_of(places, {"path": str(tmp_path / "evil.zip")})
    with zipfile.ZipFile(tmp_path / "slip.zip", "w") as made:
        made.writestr("../evil", "x")
    assert "leads out of it" in problem_of(places, {"path": str(tmp_path / "slip.zip")})


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_bombs(places: Places, tmp_path: Path, kind: str) -> None:
    zeros = bytes(20_000_000)
    bomb = tmp_path / f"bomb.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("zeros", zeros)
    else:
        tar(bomb, [(entry("zeros"), zeros)], "w:gz")
    assert bomb.stat().st_size < 100_000
    many = tar(tmp_path / "many.tar", [(entry(str(number)), b"") for number in range(50)])
    name = tar(tmp_path / "name.tar", [(entry("a" * 2_000_000), b"")])
    for archive, bounds, said in (
        (name, Bounds(), "2000014 bytes about one entry"),
        (bomb, Bounds(total_bytes=1_000_000), "it holds more than 1000000 bytes"),
        (many, Bounds(entries=49), "it has more than 49 entries"),
    ):
        with pytest.raises(TaskError, match=said):
            unpacked(archive, digest="sha256:1", cache=places.cache, bounds=bounds)
    assert list(places.cache.iterdir()) == []


def test_damaged_archives(packed: Path, places: Places, tmp_path: Path) -> None:
    subprocess.run(["tar", "-czf", tmp_path / "whole.tgz", "-C", packed, "."], check=True)
    whole = (tmp_path / "whole.tgz").read_bytes()
    for name, content in {
        "cut.tgz": whole[: len(whole) // 2],
        "text.tar": b"no archive\n",
        "empty.tar.zst": b"no archive\n",
        "text.zip": b"no archive\n",
    }.items():
        (tmp_path / name).write_bytes(content)
        problem = problem_of(places, {"path": str(tmp_path / name)})
        assert f"{tmp_path / name}: is damaged, or no archive" in problem
    for cut in (700, 1024, 2048, len(whole) - 512):
        plain = tmp_path / f"cut-{cut}.tar"
        plain.write_bytes(gzip.decompress(whole)[:cut])
        assert f"{plain}: is damaged, or no archive" in problem_of(places, {"path": str(plain)})
    assert "there is no" in problem_of(places, {"archive": str(tmp_path / "none.tar")})
    assert "expected an archive" in problem_of(places, {"archive": str(tmp_path / "x.rar")})
