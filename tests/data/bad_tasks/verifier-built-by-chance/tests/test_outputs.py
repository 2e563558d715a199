"""The discount rounds half up."""

import subprocess

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


def test_one_percent():
    assert discounted(250, 1) == "248"


def test_five_percent():
    assert discounted(110, 5) == "105"


def test_fifteen_percent():
    assert discounted(1050, 15) == "893"
