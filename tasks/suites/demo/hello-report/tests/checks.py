"""The status file holds the one line that was asked for."""

import stat
import sys
from pathlib import Path

PATH = Path("/app/status.txt")
WANTED = b"billing: ready for release 4.2\n"


def main() -> int:
    try:
        if not stat.S_ISREG(PATH.stat().st_mode):
            print(f"{PATH} is not a file")
            return 1
        with PATH.open("rb") as file:
            found = file.read(len(WANTED) + 100)
    except OSError as error:
        print(f"{PATH} cannot be read: {error}")
        return 1
    print(f"wanted {WANTED!r}, found {found!r}")
    return 0 if found == WANTED else 1


sys.exit(main())
