"""Find versions that meet every requirement, the newest first, and print the lock file."""

import hashlib
import operator
import re
import sys
import zipfile
from pathlib import Path

APP = Path("/app")
SIGNS = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    "<": operator.lt,
    ">": operator.gt,
}
HERE = {"python_version": "%d.%d" % sys.version_info[:2], "sys_platform": sys.platform}


def number(version):
    parts = [int(part) for part in version.split(".")]
    return parts + [0] * (5 - len(parts))


def meets(version, specifier):
    clauses = re.findall(r"(==|!=|>=|<=|<|>)\s*([0-9.]+)", specifier)
    return all(SIGNS[sign](number(version), number(wanted)) for sign, wanted in clauses)


def requirement(text):
    """The name and the specifier of a requirement; None where its marker is not true here."""
    text, _, marker = text.partition(";")
    if marker:
        name, sign, value = re.fullmatch(r'\s*(\w+)\s*(\S+)\s*"(.*)"\s*', marker).groups()
        known, wanted = HERE[name], value
        if name == "python_version":
            known, wanted = number(known), number(value)
        if not SIGNS[sign](known, wanted):
            return None
    name, specifier = re.fullmatch(r"\s*(\w+)\s*(.*?)\s*", text).groups()
    return name, specifier


def listed(path):
    lines = (APP / path).read_text().splitlines()
    return [requirement(line) for line in lines if line and not line.startswith("#")]


def candidates():
    """Every wheel that may be used: {name: [(version, hash, requirements)]}, the newest first."""
    signed = dict(
        reversed(line.split()) for line in (APP / "wheelhouse/SHA256SUMS").read_text().splitlines()
    )
    yanked = (APP / "wheelhouse/YANKED").read_text().split()
    constraints = listed("constraints.txt")
    found = {}
    for wheel in (APP / "wheelhouse").glob("*.whl"):
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        name, version = wheel.name.split("-")[:2]
        if signed.get(wheel.name) != digest or f"{name}=={version}" in yanked:
            continue
        with zipfile.ZipFile(wheel) as archive:
            metadata = archive.read(f"{name}-{version}.dist-info/METADATA").decode()
        fields = [line.split(": ", 1) for line in metadata.splitlines() if ": " in line]
        python = ",".join(value for key, value in fields if key == "Requires-Python")
        if not meets("%d.%d.%d" % sys.version_info[:3], python):
            continue
        if not all(meets(version, limit) for other, limit in constraints if other == name):
            continue
        needs = [requirement(value) for key, value in fields if key == "Requires-Dist"]
        found.setdefault(name, []).append((version, digest, [need for need in needs if need]))
    for versions in found.values():
        versions.sort(key=lambda candidate: number(candidate[0]), reverse=True)
    return found


def resolve(open_needs, chosen, available):
    """The choice that meets the open requirements too; None where there is none."""
    if not open_needs:
        return chosen
    (name, specifier), *rest = open_needs
    if name in chosen:
        return resolve(rest, chosen, available) if meets(chosen[name][0], specifier) else None
    for candidate in available.get(name, []):
        if meets(candidate[0], specifier):
            found = resolve(rest + candidate[2], {**chosen, name: candidate}, available)
            if found:
                return found
    return None


versions = resolve(listed("requirements.in"), {}, candidates())
if not versions:
    sys.exit("no set of versions meets all requirements")
for name, (version, digest, _) in sorted(versions.items()):
    print(f"{name}=={version} --hash=sha256:{digest}")
