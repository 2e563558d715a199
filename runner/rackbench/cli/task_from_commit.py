"""`rackbench task from-commit`."""

from __future__ import annotations

import json as jsonlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rackbench.cli.options import Json

if TYPE_CHECKING:
    from rackbench.from_commit import Candidate, Created, Proved, Repository, Request, Scan

_DEFAULT_LAST = 200
_DEFAULT_LIMIT = 30


def from_commit(
    repository: Annotated[
        Path, typer.Argument(metavar="REPO", help="A git repository, bare or not.")
    ],
    commit: Annotated[
        str | None,
        typer.Argument(metavar="COMMIT", help="The fix: a commit by id, tag or branch."),
    ] = None,
    *,
    to: Annotated[
        Path | None, typer.Option(help="Folder for the task's own; default: here.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Of the task; default: from the commit.")] = None,
    tests: Annotated[
        list[str] | None,
        typer.Option(help="Test file or folder to judge by; default: those that it changed."),
    ] = None,
    issue: Annotated[
        Path | None, typer.Option(help="Text for the instruction; default: the commit's message.")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(help="Image to work in; default: the repository's own Dockerfile."),
    ] = None,
    dockerfile: Annotated[
        Path | None, typer.Option(help="Dockerfile of the repository, or of this machine.")
    ] = None,
    workdir: Annotated[str | None, typer.Option(help="Where the work tree is put.")] = None,
    install: Annotated[
        str | None, typer.Option(help="Command that makes the tests runnable, at build time.")
    ] = None,
    package: Annotated[
        list[str] | None, typer.Option(help="Python package that the tests need as well.")
    ] = None,
    test_command: Annotated[
        str | None,
        typer.Option(help="How tests are run; {tests} stands for the files. Default: pytest."),
    ] = None,
    mainline: Annotated[
        int | None, typer.Option(min=1, help="Of a merge, the parent that is the state before.")
    ] = None,
    leave_out_failing: Annotated[
        bool,
        typer.Option("--leave-out-failing", help="Leave out tests that fail with the fix too."),
    ] = False,
    scan: Annotated[bool, typer.Option("--scan", help="List commits that qualify.")] = False,
    last: Annotated[int, typer.Option(min=1, help="Commits to look at.")] = _DEFAULT_LAST,
    limit: Annotated[int, typer.Option(min=1, help="Candidates to show.")] = _DEFAULT_LIMIT,
    merges: Annotated[
        bool, typer.Option("--merges", help="Look at the main line, a merge as one change.")
    ] = False,
    prove: Annotated[
        bool,
        typer.Option(
            "--prove", help="Prove each candidate in the sandbox; with --to, keep the tasks."
        ),
    ] = False,
    slots: Annotated[int, typer.Option(min=1, help="Candidates to prove at once.")] = 2,
    json: Json = False,
) -> None:
    """Turn a fix of a repository into a task, proved before it is written."""
    from rackbench.errors import UsageError
    from rackbench.from_commit import Request, open_repository
    from rackbench.from_commit import from_commit as make

    where = open_repository(repository)
    request = Request(
        to=to or Path(),
        name=name,
        mainline=mainline,
        tests=tuple(tests or ()),
        issue=issue,
        base=base,
        dockerfile=dockerfile,
        workdir=workdir,
        install=install,
        packages=tuple(package or ()),
        test_command=test_command,
        leave_out_failing=leave_out_failing,
    )
    if scan:
        if commit or name or issue or tests:
            raise UsageError("--scan takes neither a commit nor --name, --issue or --tests")
        code = _scan(
            where, request, last, limit, merges=merges, prove=prove, keep=to is not None,
            slots=slots, json=json,
        )  # fmt: skip
        raise typer.Exit(code)
    if commit is None:
        raise UsageError("name a commit, or look for some: rackbench task from-commit REPO --scan")
    if prove:
        raise UsageError("--prove goes with --scan; a single commit is proved in any case")
    created = make(where, commit, request, on_stage=_say)
    if json:
        print(jsonlib.dumps(_created(created), indent=2, ensure_ascii=False))
    else:
        _show(created)


def _scan(
    repository: Repository,
    request: Request,
    last: int,
    limit: int,
    *,
    merges: bool,
    prove: bool,
    keep: bool,
    slots: int,
    json: bool,
) -> int:
    from dataclasses import replace

    from rackbench.from_commit import prove_all, scan

    began = time.monotonic()
    found = scan(repository, last=last, limit=limit, merges=merges)
    seconds = time.monotonic() - began
    if not prove:
        if json:
            print(jsonlib.dumps(_scanned(found, seconds, None), indent=2, ensure_ascii=False))
        else:
            _show_scan(found, seconds)
        return 0
    if merges:
        request = replace(request, mainline=1)
    began = time.monotonic()
    proved = prove_all(
        repository, found.candidates, request, slots=slots, keep=keep, on_end=_progress
    )
    minutes = (time.monotonic() - began) / 60
    if json:
        data = {**_scanned(found, seconds, proved), "proof_minutes": round(minutes, 2)}
        print(jsonlib.dumps(data, indent=2, ensure_ascii=False))
    else:
        good = sum(result.created is not None for result in proved)
        print(
            f"{good} of {len(proved)} candidates proved in {minutes:.1f} minutes, {slots} at a time"
        )
    return 0 if any(result.created for result in proved) else 1


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _progress(result: Proved) -> None:
    from rackbench_results.table import safe_text

    mark = "proved" if result.created else "no    "
    subject = safe_text(result.candidate.subject).plain
    print(
        f"{mark} {result.candidate.commit[:10]} {subject} ({result.seconds:.0f} s)", file=sys.stderr
    )
    if result.problem:
        print(f"       {safe_text(result.problem.splitlines()[0]).plain}", file=sys.stderr)


def _show(created: Created) -> None:
    from rackbench_results.table import safe_text

    print(f"{created.folder}")
    print(
        f"proved in {created.seconds:.0f} s: {len(created.fail_to_pass)} tests fail without the fix "
        f"and pass with it, {len(created.pass_to_pass)} pass in both cases"
    )
    for note in created.notes:
        print(f"note: {safe_text(note).plain}")
    print(f"edit {created.folder}/instruction.md; what it was drafted from is in NOTES.md")
    print(f"then: rackbench task check {created.folder}")


def _show_scan(found: Scan, seconds: float) -> None:
    from rich.console import Console
    from rich.table import Table

    from rackbench_results.table import safe_text

    table = Table(box=None)
    for column in ("commit", "date", "score", "files", "lines", "test lines", "subject"):
        table.add_column(
            column, justify="left" if column in ("commit", "date", "subject") else "right"
        )
    for candidate in found.candidates:
        table.add_row(
            candidate.commit[:10],
            f"{candidate.date:%Y-%m-%d}",
            f"{candidate.score:g}",
            str(candidate.source_files),
            str(candidate.source_lines),
            str(candidate.test_lines),
            safe_text(candidate.subject),
        )
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    print(f"\n{len(found.candidates)} candidates of {found.looked_at} commits in {seconds:.1f} s")
    for why, count in found.rejected.most_common():
        print(f"  {count:5} {why}")


def _scanned(found: Scan, seconds: float, proved: list[Proved] | None) -> dict[str, Any]:
    by_commit = {result.candidate.commit: result for result in proved or ()}
    return {
        "looked_at": found.looked_at,
        "seconds": round(seconds, 3),
        "candidates": [
            _candidate(candidate, by_commit.get(candidate.commit)) for candidate in found.candidates
        ],
        "rejected": dict(found.rejected),
    }


def _candidate(candidate: Candidate, proved: Proved | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "commit": candidate.commit,
        "date": candidate.date.isoformat(),
        "subject": candidate.subject,
        "score": candidate.score,
        "source_files": candidate.source_files,
        "source_lines": candidate.source_lines,
        "test_lines": candidate.test_lines,
        "tests": list(candidate.tests),
    }
    if proved:
        data["proof"] = {
            "problem": proved.problem,
            "seconds": round(proved.seconds, 1),
            "task": _created(proved.created) if proved.created else None,
        }
    return data


def _created(created: Created) -> dict[str, Any]:
    return {
        "folder": str(created.folder) if created.folder else None,
        "commit": created.commit,
        "subject": created.subject,
        "fail_to_pass": list(created.fail_to_pass),
        "pass_to_pass": list(created.pass_to_pass),
        "seconds": round(created.seconds, 1),
        "notes": list(created.notes),
    }
