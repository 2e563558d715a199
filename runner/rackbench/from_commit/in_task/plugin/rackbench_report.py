"""A plug-in for pytest: one line of JSON for every phase of a test that says something."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def pytest_runtest_logreport(report: Any) -> None:
    """Write down a test's id and outcome."""
    if hasattr(report, "wasxfail"):
        outcome = "expected failure"
    elif report.passed and report.when != "call":
        return
    else:
        outcome = report.outcome
    with Path(os.environ["RACKBENCH_REPORT"]).open("a") as file:
        file.write(json.dumps([report.nodeid, outcome]) + "\n")
