"""Compare the answer with what the logs hold, key by key; the reward goes to standard output."""

import json
import stat
import sys
from pathlib import Path

ANSWER = Path("/app/answer.json")
EXPECTED = json.loads(Path("/tests/expected.json").read_text())
LIMIT_BYTES = 1_000_000


def answer():
    """The agent's answer; nothing where it cannot be read."""
    try:
        if not stat.S_ISREG(ANSWER.stat().st_mode):
            return {}
        with ANSWER.open("rb") as file:
            found = json.loads(file.read(LIMIT_BYTES).decode())
    except (OSError, ValueError, RecursionError) as error:
        print(f"{ANSWER}: {error}", file=sys.stderr)
        return {}
    return found if isinstance(found, dict) else {}


def right(found, wanted) -> bool:
    return type(found) is type(wanted) and found == wanted


found = answer()
parts = {key: int(right(found.get(key), wanted)) for key, wanted in EXPECTED.items()}
json.dump({"reward": sum(parts.values()) / len(parts), **parts}, sys.stdout)
print()
