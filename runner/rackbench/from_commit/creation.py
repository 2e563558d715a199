"""From a commit to a task's folder, which is written once the task is proved."""

from __future__ import annotations

import glob
import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from anyio import to_thread

from rackbench.errors import UsageError
from rackbench.from_commit.draft import draft_instruction
from rackbench.from_commit.environment import Environment, write_environment
from rackbench.from_commit.fix import Fix
from rackbench.from_commit.folder import appearing
from rackbench.from_commit.probe import CPUS, MEMORY_MB
from rackbench.from_commit.proof import Proof, prove
from rackbench.from_commit.request import Created, Request
from rackbench.from_commit.verifier import (
    KEPT,
    TestRun,
    how_to_run,
    limit_for,
    solve_script,
    unchanged,
    write_verifier,
)
from rackbench.sandbox.docker import DockerSandboxes

_AGENT_SECONDS = 1800
_ALLOWED = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+|^[^A-Za-z0-9]+")
_LEFT_BEHIND = (".git", "__pycache__", ".pytest_cache", ".hypothesis")


async def create(
    fix: Fix,
    request: Request,
    *,
    sandboxes: DockerSandboxes,
    keep: bool = True,
    on_stage: Callable[[str], None],
) -> Created:
    """Make a task and prove it; its folder appears at the end, or not at all.

    Raises UsageError, ProofError.
    """
    began = time.monotonic()
    name = request.name or _UNSAFE.sub("-", f"{fix.repository.name}-{fix.commit[:8]}")
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name for a task: letters, digits, '.', '_' and '-'")
    with appearing(request.to / name if keep else None) as folder:
        run = how_to_run(fix, request.test_command, "")
        on_stage("preparing the environment")
        where = folder / "environment"
        await to_thread.run_sync(where.mkdir)
        environment = await write_environment(
            fix, request, where, sandboxes=sandboxes, by_pytest=run.by_pytest
        )
        run = how_to_run(fix, request.test_command, environment.workdir)
        await to_thread.run_sync(_write_first, fix, request, run, folder)
        on_stage("building the image, and running the tests without and with the fix")
        proof = await prove(
            fix,
            run,
            folder,
            cut=environment.cut,
            sandboxes=sandboxes,
            leave_out_failing=request.leave_out_failing,
        )
        await to_thread.run_sync(write_verifier, fix, _proved(run, proof), folder / "tests")
        notes = _notes(environment, proof)
        seen = unchanged(fix, folder / "tests" / "files")
        (folder / "task.toml").write_text(_toml(fix, name, _proved(run, proof), seen))
        (folder / "NOTES.md").write_text(_about(fix, request, environment, proof))
    return Created(
        folder=request.to / name if keep else None,
        commit=fix.commit,
        subject=fix.subject,
        fail_to_pass=proof.fail_to_pass,
        pass_to_pass=proof.pass_to_pass,
        seconds=time.monotonic() - began,
        notes=notes,
    )


def _write_first(fix: Fix, request: Request, run: TestRun, folder: Path) -> None:
    """What the proof needs."""
    write_verifier(fix, run, folder / "tests")
    solution = folder / "solution"
    solution.mkdir()
    patch = fix.repository.read(
        "diff", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv",
        fix.parent, fix.commit, "--", *(f":(top,literal){change.path}" for change in fix.source),
    )  # fmt: skip
    (solution / "fix.patch").write_bytes(patch)
    (solution / "solve.sh").write_text(solve_script(run))
    (solution / "solve.sh").chmod(0o755)
    issue = _issue(request.issue)
    text = draft_instruction(fix, issue=issue, workdir=run.workdir)
    (folder / "instruction.md").write_text(text)


def _proved(run: TestRun, proof: Proof) -> TestRun:
    return TestRun(
        workdir=run.workdir,
        command=run.command,
        shell=run.shell,
        fail_to_pass=proof.fail_to_pass,
        pass_to_pass=proof.pass_to_pass,
        limit_seconds=limit_for(proof.seconds),
    )


def _issue(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if not text.strip():
        raise UsageError(f"{path} is empty; it has to say what is wrong")
    return text


def _notes(environment: Environment, proof: Proof) -> tuple[str, ...]:
    notes = list(environment.notes)
    if proof.left_out:
        notes.append(f"left out, since they fail with the fix too: {', '.join(proof.left_out)}")
    return tuple(notes)


def _toml(fix: Fix, name: str, run: TestRun, seen: Sequence[str]) -> str:
    places = [glob.escape(f"{run.workdir}/{path}") for path in seen[:_ALLOWED]]
    allowed = {"passes_idle": [KEPT] if run.pass_to_pass else [], "reachable": places}
    return f"""schema_version = "1.4"
artifacts = [{{ source = {_quoted(run.workdir)}, exclude = {_listed(_LEFT_BEHIND)} }}]

[task]
name = {_quoted(name)}
description = {_quoted(fix.subject)}

[metadata]
source_repository = {_quoted(fix.repository.name)}
source_commit = {_quoted(fix.commit)}

# Meant to be so: what passed before goes on passing, and the support of the tests is the project's.
[metadata.check]
{"".join(f"{key} = {_listed(values)}{chr(10)}" for key, values in allowed.items() if values)}
[agent]
timeout_sec = {_AGENT_SECONDS}

[verifier]
environment_mode = "separate"
timeout_sec = {run.limit_seconds + 60}
user = "root"

[environment]
build_timeout_sec = 1800
cpus = {CPUS}
memory_mb = {MEMORY_MB}
storage_mb = 10240
network_mode = "no-network"
workdir = {_quoted(run.workdir)}
"""


def _about(fix: Fix, request: Request, environment: Environment, proof: Proof) -> str:
    source = f"the text of {request.issue.name}" if request.issue else "the commit's message"
    notes = "".join(f"- {note}\n" for note in _notes(environment, proof))
    return f"""# Notes for the editor of this task

The agent does not see this file. Please edit `instruction.md`: it was drafted from {source}.
It should say what is wrong and what is wanted, so that somebody who knows neither the change nor the
tests can do the work, and it should name every behaviour that the tests ask for. Lines that spoke of
tests were left out.

- Repository: {fix.repository.name}, commit {fix.commit}
- State before: {fix.parent}, as a repository of one commit; its history is cut off
- Subject: {fix.subject}
- Environment: made from {environment.origin}
- Reference solution: {len(fix.source)} files of the commit that are not tests
{notes}
## The tests

Run at each check: {", ".join(f"`{path}`" for path in fix.runnable)}.
They took {proof.seconds:.1f} s here.

{_tests("Fail without the fix and pass with it", proof.fail_to_pass)}
{_tests("Pass in both cases, and must go on passing", proof.pass_to_pass, shown=20)}"""


def _tests(title: str, tests: Sequence[str], *, shown: int = 200) -> str:
    lines = "".join(f"- `{test}`\n" for test in tests[:shown])
    more = f"- … and {len(tests) - shown} more\n" if len(tests) > shown else ""
    return f"{title} ({len(tests)}):\n\n{lines}{more}"


def _listed(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _quoted(text: object) -> str:
    return json.dumps(str(text), ensure_ascii=False)
