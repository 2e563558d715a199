"""The lock file meets every requirement, and what it names is installed and works."""

import hashlib
import importlib.util
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

APP = Path("/app")
TESTS = Path("/tests")
LOCK = APP / "requirements.lock"
LINE = re.compile(r"([a-z][a-z0-9_]*)==([0-9.]+) --hash=sha256:([0-9a-f]{64})")
CLAUSE = re.compile(r"(==|!=|>=|<=|<|>)([0-9.]+)")
HERE = "3.11"
MARKERS = {
    'python_version >= "3.9"': True,
    'python_version < "3.9"': False,
    'sys_platform == "win32"': False,
}

spec = importlib.util.spec_from_file_location("make_wheelhouse", TESTS / "make_wheelhouse.py")
shop = importlib.util.module_from_spec(spec)
spec.loader.exec_module(shop)


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory):
    """The wheelhouse as it was shipped."""
    folder = tmp_path_factory.mktemp("made") / "wheelhouse"
    shop.main(folder)
    return folder


@pytest.fixture(scope="module")
def lock():
    """What the lock file names: (name, version, hash), line by line."""
    found = []
    for line in LOCK.read_text().splitlines():
        match = LINE.fullmatch(line)
        assert match, f"not a line of a lock file: {line!r}"
        found.append(match.groups())
    assert found
    return found


@pytest.fixture(scope="module")
def versions(lock):
    found = {name: version for name, version, _ in lock}
    for chosen in found.items():
        assert chosen in shop.PACKAGES, f"there is no {chosen}"
    return found


def number(version: str) -> tuple[int, ...]:
    parts = [int(part) for part in version.split(".")]
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


def meets(version: str, specifier: str) -> bool:
    tests = {
        "==": lambda a, b: a == b,
        "!=": lambda a, b: a != b,
        ">=": lambda a, b: a >= b,
        "<=": lambda a, b: a <= b,
        "<": lambda a, b: a < b,
        ">": lambda a, b: a > b,
    }
    for clause in filter(None, specifier.replace(" ", "").split(",")):
        sign, wanted = CLAUSE.fullmatch(clause).groups()
        if not tests[sign](number(version), number(wanted)):
            return False
    return True


def split(requirement: str) -> tuple[str, str]:
    """The name and the specifier of a requirement."""
    name, rest = re.fullmatch(r"([a-z]+)\s*(.*)", requirement).groups()
    return name, rest.strip("() ")


def asked(path: str) -> list[tuple[str, str]]:
    lines = (TESTS / "originals" / path).read_text().splitlines()
    return [split(line) for line in lines if line and not line.startswith("#")]


def needed_by(name: str, version: str) -> list[tuple[str, str]]:
    found = []
    for requirement in shop.PACKAGES[name, version][1]:
        text, _, marker = requirement.partition(" ; ")
        if not marker or MARKERS[marker]:
            found.append(split(text))
    return found


def test_form(lock):
    names = [name for name, _, _ in lock]
    assert names == sorted(set(names))
    assert LOCK.read_text().endswith("\n")


def test_requirements(versions):
    wanted = asked("requirements.in.txt")
    for name, version in versions.items():
        wanted += needed_by(name, version)
    for name, specifier in wanted:
        assert name in versions, f"{name} is needed"
        assert meets(versions[name], specifier), f"{name} has to be {specifier}"


def test_constraints(versions):
    for name, specifier in asked("constraints.txt.txt"):
        if name in versions:
            assert meets(versions[name], specifier), f"{name} has to be {specifier}"


def test_python(versions):
    for name, version in versions.items():
        assert meets(HERE, shop.PACKAGES[name, version][2] or ""), f"{name} {version}"


def test_nothing_that_nobody_needs(versions):
    reached, queue = set(), [name for name, _ in asked("requirements.in.txt")]
    while queue:
        name = queue.pop()
        if name not in reached:
            reached.add(name)
            queue += [needed for needed, _ in needed_by(name, versions[name])]
    assert set(versions) == reached


def test_yanked(versions):
    assert not set(versions.items()) & set(shop.YANKED)


def test_hashes(lock, wheelhouse):
    signed = {}
    for line in (wheelhouse / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        signed[name] = digest
    for name, version, digest in lock:
        wheel = f"{name}-{version}-py3-none-any.whl"
        assert digest == signed[wheel], wheel
        found = hashlib.sha256((wheelhouse / wheel).read_bytes()).hexdigest()
        assert digest == found, f"{wheel} is damaged"


def test_what_is_installed(versions, wheelhouse):
    wanted = {}
    for name, version in versions.items():
        with zipfile.ZipFile(wheelhouse / f"{name}-{version}-py3-none-any.whl") as archive:
            wanted |= {member: archive.read(member) for member in archive.namelist()}
    vendor = APP / "vendor"
    found = {
        path.relative_to(vendor).as_posix(): path.read_bytes()
        for path in vendor.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert found == wanted


REPORT = """\
east: mean 1.0 t, p90 1.0 t
north: mean 5.5 t, p90 9.0 t
west: mean 20.0 t, p90 30.0 t
all berths: 8.8 t
"""


def test_the_report(versions, tmp_path):
    moves = ["berth,tonnes", "west,30", "east,1", "west,10"]
    moves += [f"north,{tonnes}" for tonnes in range(10, 0, -1)]
    (tmp_path / "moves.csv").write_text("\n".join(moves) + "\n")
    done = subprocess.run(
        ["/app/bin/dock-report", tmp_path / "moves.csv"],
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
        cwd="/",
    )
    assert (done.returncode, done.stdout) == (0, REPORT), done.stderr[-2000:]


@pytest.mark.parametrize(
    "path", ["bin/dock-report", "tools/install.py", "requirements.in", "constraints.txt"]
)
def test_what_stays(path):
    name = f"{Path(path).name}.txt"
    assert (APP / path).read_bytes() == (TESTS / "originals" / name).read_bytes()


def test_the_wheelhouse_stays(wheelhouse):
    def contents(folder):
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    assert contents(APP / "wheelhouse") == contents(wheelhouse)
