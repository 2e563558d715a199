"""Interpreters for verifiers: copied from a prefix of this machine so that they run anywhere."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from rackbench.errors import PrerequisiteError
from rackbench.verifier_tools import elf
from rackbench.verifier_tools.index import Python

Report = Callable[[str], None]

_LEFT_OUT = ("test", "tests", "idlelib", "turtledemo", "tkinter", "lib2to3", "__pycache__")
_LEFT_OUT_FILES = ("*.a", "_tkinter*.so", "_test*.so", "*_test*.so", "*.pyc")
# What every image with a C library has.
_SYSTEM_LIBRARIES = (
    "libc.so", "libm.so", "libpthread.so", "libdl.so", "librt.so", "libutil.so", "libresolv.so",
    "libgcc_s.so", "libstdc++.so", "ld-linux", "linux-vdso",
)  # fmt: skip


def add_python(prefix: Path, pythons: Path, *, report: Report) -> tuple[str, Python]:
    """Copy the interpreter of a prefix, unless it is there; its folder's name and what it is.

    Raises PrerequisiteError where there is none, or it cannot be moved.
    """
    program = _program(prefix)
    version = _ask(program, "import platform; print(platform.python_version())")
    name = f"cpython-{version}-linux-{platform.machine()}-gnu"
    target = pythons / name
    if not target.exists():
        report(f"copying Python {version} from {prefix}")
        unfinished = pythons.parent / f".{name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        pythons.mkdir(parents=True, exist_ok=True)
        _copy(prefix, unfinished, version)
        _make_movable(prefix, unfinished, version)
        _prove(unfinished)
        unfinished.replace(target)
    glibc = max(elf.newest_glibc(path) for path in _programs(target))
    return name, Python(version=version, source=str(prefix), glibc=f"2.{glibc}")


def fetch_python(uv: Path, version: str, pythons: Path, *, report: Report) -> str | None:
    """Have uv install a Python of its own; None, or why it could not be had."""
    report(f"asking uv for Python {version}")
    env = {**os.environ, "UV_PYTHON_INSTALL_DIR": str(pythons), "UV_PYTHON_INSTALL_BIN": "0"}
    done = subprocess.run(
        [uv, "python", "install", "--no-progress", version],
        capture_output=True,
        text=True,
        check=False,
        env=env,
    )
    if done.returncode == 0:
        return None
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"uv ended with {done.returncode}"


def _program(prefix: Path) -> Path:
    program = prefix / "bin" / "python3"
    if not program.exists():
        raise PrerequisiteError(
            f"{prefix} is no Python prefix: there is no bin/python3 in it; "
            "give the folder that holds bin and lib, as `--python ~/.pyenv/versions/3.13.0`"
        )
    if (prefix / "pyvenv.cfg").exists():
        raise PrerequisiteError(
            f"{prefix} is a virtual environment, which cannot be moved; "
            f"give the Python it was made from: {program.resolve().parent.parent}"
        )
    return program


def _ask(program: Path, code: str) -> str:
    done = subprocess.run([program, "-I", "-c", code], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PrerequisiteError(f"{program} does not run: {done.stderr.strip()[-500:]}")
    return done.stdout.strip()


def _copy(prefix: Path, target: Path, version: str) -> None:
    minor = ".".join(version.split(".")[:2])
    library = f"lib/python{minor}"

    def left_out(folder: str, names: list[str]) -> set[str]:
        inside = Path(folder).relative_to(prefix).as_posix()
        out = set(shutil.ignore_patterns(*_LEFT_OUT_FILES)(folder, names))
        out |= {name for name in names if name in _LEFT_OUT or name.startswith("config-")}
        if inside == f"{library}/site-packages":
            out |= set(names)
        return out

    shutil.copytree(prefix / library, target / library, symlinks=True, ignore=left_out)
    for path in sorted((prefix / "lib").glob("libpython*.so*")):
        shutil.copy2(path, target / "lib" / path.name, follow_symlinks=False)
    (target / "bin").mkdir()
    shutil.copy2((prefix / "bin" / "python3").resolve(), target / "bin" / f"python{minor}")
    for name in ("python3", "python"):
        (target / "bin" / name).symlink_to(f"python{minor}")


def _make_movable(prefix: Path, target: Path, version: str) -> None:
    minor = ".".join(version.split(".")[:2])
    program = target / "bin" / f"python{minor}"
    libraries = _libraries(_programs(target), prefix)
    _strip(_programs(target))
    beside = elf.search_beside(program, "../lib")
    shared = any(name.startswith("libpython") for name in elf.needs(program))
    if shared and not beside:
        raise PrerequisiteError(
            f"the Python in {prefix} cannot be moved: it finds its library by a path that is not "
            "its own; give one built with a prefix of its own (pyenv), or let uv install one"
        )
    for path in _programs(target):
        if path.parent.name == "lib-dynload":
            elf.search_beside(path, "../..")
    if beside:
        for library in libraries:
            kept = target / "lib" / library.name
            if not kept.exists():
                shutil.copy2(library.resolve(), kept)


def _libraries(programs: Sequence[Path], prefix: Path) -> list[Path]:
    """Libraries of this machine that the interpreter and its modules are linked to."""
    found = elf.linked(programs, {**os.environ, "LD_LIBRARY_PATH": str(prefix / "lib")})
    return [path for name, path in found.items() if not name.startswith(_SYSTEM_LIBRARIES)]


def _strip(programs: Sequence[Path]) -> None:
    """Leave out what only a debugger reads, where the program for it is there."""
    strip = shutil.which("strip")
    if strip:
        subprocess.run([strip, "--strip-debug", *programs], capture_output=True, check=False)


def _prove(folder: Path) -> None:
    """Run it where it will not stay, and compile its library: nothing can be written later."""
    program = folder / "bin" / "python3"
    code = (
        "import sys, zlib, ssl, ctypes, subprocess, compileall, py_compile\n"
        "mode = py_compile.PycInvalidationMode.UNCHECKED_HASH\n"
        "library = sys.prefix + f'/lib/python{sys.version_info[0]}.{sys.version_info[1]}'\n"
        "compileall.compile_dir(library, quiet=2, invalidation_mode=mode)\n"
        "print(sys.prefix)"
    )
    if _ask(program, code) != str(folder):
        raise PrerequisiteError(f"the Python in {folder} takes another folder for its own")


def _programs(folder: Path) -> list[Path]:
    """The interpreter and every library of it, no links."""
    candidates = [*folder.glob("bin/*"), *folder.rglob("*.so*")]
    return [p for p in sorted(candidates) if p.is_file() and not p.is_symlink() and elf.is_elf(p)]
