"""Make a wheelhouse of small packages: usage: make_wheelhouse.py FOLDER

The wheels are the same bytes wherever they are made: no compression, fixed times and modes.
"""

import hashlib
import sys
import zipfile
from pathlib import Path

STATISTICS = '''\
"""Numbers for quays."""


def mean(values):
    return sum(values) / len(values)
'''
MEDIAN = '''

def median(values):
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
'''
QUANTILE = '''

def quantile(values, share):
    """The smallest value that at least this share of all values does not exceed."""
    values = sorted(values)
    return values[max(0, -(-len(values) * share // 100) - 1)]
'''
OTHER_QUANTILE = '''

def quantile(share, *, values):
    return sorted(values)[int(len(values) * share / 100)]
'''
PARSE = '''\
"""Tables as text."""


def parse(text):
    lines = [line.split(",") for line in text.splitlines() if line]
    return [dict(zip(lines[0], line)) for line in lines[1:]]
'''
PARSE_TO_OBJECTS = PARSE.replace("def parse(", "def parse_table(")
LOG = '''\
"""Notes of what was done."""

NOTES = []


def note(text):
    NOTES.append(text)
'''
OLD_SUMMARY = '''\
"""Sums for quays."""

import keelmath
import logreef


def summarise(rows):
    logreef.note("summarise")
    return {"all": keelmath.mean([float(row["tonnes"]) for row in rows])}
'''
SUMMARY = '''\
"""Sums for quays."""

import keelmath
import logreef
import mastparse


def summarise(text):
    """Mean and 90 % quantile of the tonnes moved, by berth."""
    berths = {}
    for row in mastparse.parse(text):
        berths.setdefault(row["berth"], []).append(float(row["tonnes"]))
    logreef.note(f"{len(berths)} berths")
    return {
        berth: {"mean": keelmath.mean(tonnes), "p90": keelmath.quantile(tonnes, 90)}
        for berth, tonnes in sorted(berths.items())
    }
'''
RENDER = '''\
"""Summaries as text."""

import keelmath


def render(summary):
    lines = [f"{name}: mean {s['mean']:.1f} t, p90 {s['p90']:.1f} t" for name, s in summary.items()]
    total = keelmath.mean([s["mean"] for s in summary.values()])
    return "\\n".join([*lines, f"all berths: {total:.1f} t"])
'''
EMPTY = '"""Nothing is needed any more."""\n'

# (name, version): (code, Requires-Dist, Requires-Python)
PACKAGES = {
    ("brineform", "1.4.0"): (RENDER, ["keelmath (>=1.2,<2.2)"], None),
    ("brineform", "1.5.0"): (RENDER, ["keelmath (<2.0)"], None),
    ("brineform", "1.6.0"): (RENDER, ["keelmath (>=2.0,<2.2)", "mastparse (<1.0)"], ">=3.8"),
    ("brineform", "1.7.0"): (RENDER, ["keelmath (>=2.1)"], ">=3.8"),
    ("keelmath", "1.0.0"): (STATISTICS, [], None),
    ("keelmath", "1.5.0"): (STATISTICS + MEDIAN, [], None),
    ("keelmath", "1.9.0"): (STATISTICS + MEDIAN, [], None),
    ("keelmath", "2.0.0"): (STATISTICS + MEDIAN, [], None),
    ("keelmath", "2.1.0"): (STATISTICS + MEDIAN + QUANTILE, [], ">=3.8"),
    ("keelmath", "2.1.1"): (STATISTICS + MEDIAN + QUANTILE, [], ">=3.8"),
    ("keelmath", "2.2.0"): (STATISTICS + MEDIAN + OTHER_QUANTILE, [], ">=3.8"),
    ("keelmath", "3.0.0"): (STATISTICS, [], ">=3.9"),
    ("logreef", "1.0.0"): (LOG, [], None),
    ("logreef", "1.2.0"): (LOG, [], None),
    ("logreef", "1.2.1"): (LOG, [], ">=3.8,!=3.9.0"),
    ("logreef", "1.3.0"): (LOG, [], ">=3.12"),
    ("logreef", "1.10.0"): (LOG, ["keelmath (>=2.2)"], ">=3.8"),
    ("mastparse", "0.8.0"): (PARSE, [], None),
    ("mastparse", "0.9.0"): (PARSE, [], None),
    ("mastparse", "0.9.5"): (PARSE, ["keelmath (>=2.0,<3)"], None),
    ("mastparse", "0.10.0"): (PARSE, ["keelmath (>=2.2,<3)"], None),
    ("mastparse", "1.0.0"): (PARSE_TO_OBJECTS, ["keelmath (>=2.0)"], None),
    ("quayside", "2.0.0"): (OLD_SUMMARY, ["keelmath (>=1.0,<2)", "logreef"], None),
    ("quayside", "2.1.0"): (
        SUMMARY,
        [
            "keelmath (>=2.1)",
            "mastparse (>=0.9,<2)",
            'logreef (>=1.2) ; python_version >= "3.9"',
            'reefcompat (>=1.0) ; python_version < "3.9"',
            'winquay ; sys_platform == "win32"',
        ],
        ">=3.7",
    ),
    ("quayside", "2.2.0"): (SUMMARY, ["keelmath (>=2.1)", "mastparse (>=0.9)"], ">=3.12"),
    ("quayside", "3.0.0"): (SUMMARY, ["keelmath (>=3)"], ">=3.8"),
    ("reefcompat", "1.0.0"): (EMPTY, ["logreef (>=1.0)"], None),
    ("winquay", "1.1.0"): (EMPTY, [], None),
}
YANKED = [("brineform", "1.7.0"), ("keelmath", "3.0.0")]
DAMAGED = [("keelmath", "2.1.1"), ("reefcompat", "1.0.0")]


def wheel(path: Path, name: str, version: str, code: str) -> None:
    _, requires, python = PACKAGES[name, version]
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata += [f"Requires-Python: {python}"] if python else []
    metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": code,
        f"{info}/METADATA": "\n".join(metadata) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for member, text in files.items():
            entry = zipfile.ZipInfo(member, (2026, 1, 1, 0, 0, 0))
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, text)


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    sums = []
    for name, version in PACKAGES:
        path = folder / f"{name}-{version}-py3-none-any.whl"
        code = PACKAGES[name, version][0]
        wheel(path, name, version, code)
        sums.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
        if (name, version) in DAMAGED:
            wheel(path, name, version, code.replace("values[max(0,", "values[min(0,") + "# v2\n")
    (folder / "SHA256SUMS").write_text("".join(sorted(sums, key=lambda line: line.split()[1])))
    (folder / "YANKED").write_text("".join(f"{name}=={version}\n" for name, version in YANKED))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
