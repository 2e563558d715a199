"""The discount rounds half up."""

import json
import subprocess
from pathlib import Path

ASK = "import sys; sys.path.insert(0, '/app'); import price; print(price.with_discount({}, {}))"


def discounted(cents, percent):
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-B", "-c", ASK.format(cents, percent)],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        cwd="/tests",
    )
    return done.stdout.strip()


def test_cases():
    cases = json.loads(Path("/tests/expected.json").read_text())
    found = {case: discounted(*map(int, case.split())) for case in cases}
    assert found == cases
