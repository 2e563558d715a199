"""`rackbench doctor`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rackbench.cli.options import Json
from rackbench.errors import Exit

if TYPE_CHECKING:
    from rackbench.doctor import Finding

Fix = Annotated[
    list[str] | None,
    typer.Option(
        "--fix",
        metavar="NAME",
        help="Mend this first: docker, base-image or engine; may be given several times.",
    ),
]


def doctor(fix: Fix = None, json: Json = False) -> None:
    """Say what this machine has of what runs need, and mend what is missing."""
    from rackbench.doctor import examine, mend, needed

    if fix:
        mend(fix, _say)
    findings = examine()
    _print(findings, json=json)
    if needed(findings):
        raise typer.Exit(Exit.PREREQUISITE)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _print(findings: list[Finding], *, json: bool) -> None:
    from dataclasses import asdict
    from json import dumps

    if json:
        print(dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False))
        return
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        print(f"{finding.state:8} {finding.name:{width}}  {finding.found}")
        if finding.remedy:
            print(f"{'':8} {'':{width}}  → {finding.remedy}")
