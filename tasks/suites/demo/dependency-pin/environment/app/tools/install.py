"""Install what a lock file names: usage: install.py LOCK TARGET

Each wheel is taken from the wheelhouse, compared with the hash in the lock file, and unpacked into the
target folder, which is made anew. Nothing is resolved, and no requirement is looked at.
"""

import hashlib
import re
import shutil
import sys
import zipfile
from pathlib import Path

WHEELHOUSE = Path(__file__).resolve().parent.parent / "wheelhouse"
LINE = re.compile(r"([a-z][a-z0-9_]*)==([0-9]+(?:\.[0-9]+)*) --hash=sha256:([0-9a-f]{64})")


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    lock, target = map(Path, sys.argv[1:])
    wheels = []
    for line in lock.read_text().splitlines():
        match = LINE.fullmatch(line)
        if not match:
            print(f"{lock}: not a line of a lock file: {line!r}", file=sys.stderr)
            return 1
        name, version, wanted = match.groups()
        wheel = WHEELHOUSE / f"{name}-{version}-py3-none-any.whl"
        if not wheel.is_file():
            print(f"there is no {wheel}", file=sys.stderr)
            return 1
        found = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if found != wanted:
            print(f"{wheel.name}: its hash is {found}, not {wanted}", file=sys.stderr)
            return 1
        wheels.append(wheel)
    if target.exists():
        shutil.rmtree(target)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
        print(f"installed {wheel.name}")
    return 0


sys.exit(main())
