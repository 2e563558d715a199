"""The stricter lint of a vendor's kit; made only where its profile is asked for."""

from __future__ import annotations

from rackbench.check.case import Case, Check
from rackbench.check.finding import CheckName, Finding, Level
from rackbench_tasks.vendor_lint import lint


def _judge(case: Case) -> list[Finding]:
    return [
        Finding(
            CheckName.VENDOR,
            Level.ERROR if found.level == "error" else Level.WARNING,
            f"{found.rule}: {found.text}",
            (found.where,),
        )
        for found in lint(case.task.folder)
    ]


CHECK = Check(CheckName.VENDOR, lambda _: (), _judge)
