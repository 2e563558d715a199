"""The label is as asked."""

from pathlib import Path


def test_label():
    path = Path("/app/label.txt")
    assert path.is_file()
    assert path.read_text() == "ROUNDED PRICES\n"
