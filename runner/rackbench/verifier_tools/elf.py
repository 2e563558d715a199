"""Making a Linux program find its libraries beside itself, wherever it is put."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRINGS, _RPATH, _RUNPATH = 1, 5, 15, 29
_GLIBC = re.compile(rb"\0GLIBC_2\.(\d+)(?=[.\0])")


@dataclass(frozen=True, slots=True)
class _Entry:
    at: int
    tag: int
    value: int


def is_elf(path: Path) -> bool:
    """Whether a file is a program or library for this kind of machine's format."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def newest_glibc(path: Path) -> int:
    """The minor version of the C library that a file asks for, as 36 of 2.36; 0 for none."""
    return max((int(found) for found in _GLIBC.findall(path.read_bytes())), default=0)


def needs(path: Path) -> list[str]:
    """Names of the libraries that a file is linked to."""
    content = path.read_bytes()
    entries, strings = _dynamic(content)
    return [_string(content, strings + e.value) for e in entries if e.tag == _NEEDED]


def linked(programs: Sequence[Path], env: Mapping[str, str] | None = None) -> dict[str, Path]:
    """Where this machine finds the libraries that files are linked to, by the names they ask for."""
    done = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False, env=env)
    found: dict[str, Path] = {}
    for line in done.stdout.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        place = rest.split(" (")[0]
        if arrow and place.startswith("/") and Path(place).exists():
            found.setdefault(name, Path(place))
    return found


def loader(path: Path) -> Path | None:
    """The program that loads a file and its libraries; None for one that needs none."""
    content = path.read_bytes()
    found = re.search(rb"\0?(/lib[\w/.-]*/ld-linux[\w.-]*)\0", content[:4096])
    return Path(found.group(1).decode()) if found else None


def search_beside(path: Path, relative: str) -> bool:
    """Turn the path that a file looks for libraries in into one relative to itself.

    It becomes the old kind of path, that the libraries it loads inherit. False where the file has
    none, or one too short to be overwritten.
    """
    content = bytearray(path.read_bytes())
    entries, strings = _dynamic(content)
    new = f"$ORIGIN/{relative}".encode()
    for entry in entries:
        if entry.tag not in (_RPATH, _RUNPATH):
            continue
        start = strings + entry.value
        old_bytes = content.index(b"\0", start) - start
        if old_bytes < len(new):
            return False
        content[start : start + old_bytes] = new.ljust(old_bytes, b"\0")
        struct.pack_into("<q", content, entry.at, _RPATH)
        path.write_bytes(content)
        return True
    return False


def _dynamic(content: bytes | bytearray) -> tuple[list[_Entry], int]:
    """The dynamic section, and where in the file its strings begin."""
    table, size, count = (
        struct.unpack_from("<Q", content, 32)[0],
        *struct.unpack_from("<HH", content, 54),
    )
    loads, entries = [], []
    for number in range(count):
        kind, _, offset, address, _, in_file = struct.unpack_from(
            "<IIQQQQ", content, table + number * size
        )
        if kind == _LOAD:
            loads.append((address, offset, in_file))
        elif kind == _DYNAMIC:
            for at in range(offset, offset + in_file, 16):
                tag, value = struct.unpack_from("<qQ", content, at)
                if not tag:
                    break
                entries.append(_Entry(at, tag, value))
    strings = next((entry.value for entry in entries if entry.tag == _STRINGS), 0)
    for address, offset, in_file in loads:
        if address <= strings < address + in_file:
            return entries, strings - address + offset
    return entries, 0


def _string(content: bytes | bytearray, at: int) -> str:
    return bytes(content[at : content.index(b"\0", at)]).decode()
