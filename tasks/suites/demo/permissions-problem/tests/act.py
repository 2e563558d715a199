"""Says what the user that runs it can do with the paths on standard input; folders end with `/`."""

import json
import os
import sys
from pathlib import Path


def can(action) -> bool:
    try:
        action()
    except OSError:
        return False
    return True


def open_for_writing(path):
    os.close(os.open(path, os.O_WRONLY))


def create_and_delete(folder):
    path = Path(folder) / ".probe"
    path.touch()
    path.unlink()


def abilities(path):
    if path.endswith("/"):
        return {
            "read": can(lambda: os.listdir(path)),
            "change": can(lambda: create_and_delete(path)),
        }
    return {
        "read": can(lambda: Path(path).read_bytes()),
        "change": can(lambda: open_for_writing(path)),
        "run": os.access(path, os.X_OK),
    }


json.dump({path: abilities(path) for path in json.load(sys.stdin)}, sys.stdout)
