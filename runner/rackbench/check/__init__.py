"""`rackbench task check`: proves tasks by running them, and by looking into their images."""

from rackbench.check.finding import CheckedTask, CheckName, Finding, Level
from rackbench.check.options import CheckOptions, chosen_checks
from rackbench.check.whole import CheckReport, check_tasks, judge, run_attempts

__all__ = [
    "CheckName",
    "CheckOptions",
    "CheckReport",
    "CheckedTask",
    "Finding",
    "Level",
    "check_tasks",
    "chosen_checks",
    "judge",
    "run_attempts",
]
