"""Proves a task in sandboxes: its tests fail before the fix, pass after it, and it is not in there."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from rackbench.errors import Exit, RackbenchError
from rackbench.from_commit.cut import Cut
from rackbench.from_commit.fix import Fix, new_blobs
from rackbench.from_commit.probe import BUILD_SECONDS, built, container_spec
from rackbench.from_commit.verifier import TestRun
from rackbench.sandbox.container import Container
from rackbench.sandbox.docker import DockerSandboxes
from rackbench_harnesses.ports import Command, CommandResult
from rackbench_tasks import Build

_RESULTS_BYTES = 64_000_000
_LEAST_BYTES = 64
_ADDITIONAL_SECONDS = 120.0
_LAST_LINES = 15
_SHOWN = 8
_BY_EXIT_CODE = "the test command"


class ProofError(RackbenchError, RuntimeError):
    """A commit does not make a task: what was seen in the sandbox speaks against it."""

    exit_code = Exit.VOIDS


@dataclass(frozen=True, slots=True)
class Seen:
    """One run of the tests."""

    outcomes: Mapping[str, str]
    """By test; `passed`, or why not."""
    output: str
    seconds: float

    def passed(self, test: str) -> bool:
        """Whether a test ran and passed."""
        return self.outcomes.get(test) == "passed"


@dataclass(frozen=True, slots=True)
class Proof:
    """What tells a solution from none."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    left_out: tuple[str, ...]
    """Tests that do not pass with the fix either, or not every time."""
    seconds: float
    """The slowest run of the tests."""


async def prove(
    fix: Fix,
    run: TestRun,
    folder: Path,
    *,
    cut: Cut,
    sandboxes: DockerSandboxes,
    leave_out_failing: bool,
) -> Proof:
    """Run a task's tests without and with its reference solution.

    Raises ProofError, UsageError where the image cannot be built.
    """
    async with built(sandboxes, Build(folder / "environment")) as image:
        spec = container_spec(image)
        async with sandboxes.start(spec, on_teardown_error=_ignore) as sandbox:
            await _must_be_cut(sandbox, fix, run, cut)
            before = await _test(sandbox, run, folder)
        async with sandboxes.start(spec, on_teardown_error=_ignore) as sandbox:
            await _solve(sandbox, folder)
            after = [await _test(sandbox, run, folder), await _test(sandbox, run, folder)]
        return judge(before, after, leave_out_failing=leave_out_failing)


def judge(before: Seen, after: Sequence[Seen], *, leave_out_failing: bool) -> Proof:
    """Sort tests by what became of them before and after the fix.

    Raises ProofError.
    """
    known = sorted({test for seen in after for test in seen.outcomes})
    good = [test for test in known if all(seen.passed(test) for seen in after)]
    ran_badly = [
        test
        for test in known
        if test not in good and any(seen.outcomes.get(test) == "failed" for seen in after)
    ]
    solved_by_fix = tuple(test for test in good if not before.passed(test))
    if not good:
        raise ProofError(
            "no test passes with the fix; the environment may lack something. "
            f"The last lines of the tests:\n{_end(after[0].output)}"
        )
    if ran_badly and not leave_out_failing:
        raise ProofError(
            f"{len(ran_badly)} tests fail with the fix too: {_listed(ran_badly)}; name others with "
            "--tests, mend the environment, or leave them out: --leave-out-failing. "
            f"The last lines of the tests:\n{_end(after[0].output)}"
        )
    if not solved_by_fix:
        raise ProofError(f"no test fails before the fix: all {len(good)} pass without it")
    return Proof(
        fail_to_pass=solved_by_fix,
        pass_to_pass=tuple(test for test in good if before.passed(test)),
        left_out=tuple(ran_badly),
        seconds=max(seen.seconds for seen in (before, *after)),
    )


async def _must_be_cut(sandbox: Container, fix: Fix, run: TestRun, cut: Cut) -> None:
    """Raises ProofError where the sandbox holds objects or files of the fix."""
    listed = await sandbox.run(
        Command(
            [
                "git", "-c", "safe.directory=*", "cat-file",
                "--batch-all-objects", "--batch-check=%(objectname)",
            ],
            user="0",
            cwd=run.workdir,
            timeout_seconds=_ADDITIONAL_SECONDS,
            output_limit_bytes=_RESULTS_BYTES,
        )
    )  # fmt: skip
    if listed.exit_code != 0:
        raise ProofError(f"git does not work in {run.workdir} of the sandbox: {_said(listed)}")
    if more := set(listed.text.split()) - cut.objects:
        raise ProofError(
            f"the repository in the sandbox holds {len(more)} objects that are not of the state "
            f"before the fix, {min(more)} among them; does the Dockerfile copy a .git?"
        )
    changed = {change.oid for change in fix.source if not change.is_removal}
    oids = [
        oid
        for oid, entry in new_blobs(fix).items()
        if oid in changed and entry.size_bytes >= _LEAST_BYTES
    ]
    wanted = {
        hashlib.sha1(content, usedforsecurity=False).hexdigest(): len(content)
        for content in (await to_thread.run_sync(fix.repository.blobs, oids)).values()
    }
    if not wanted:
        return
    sizes = " -o ".join(f"-size {size}c" for size in sorted(set(wanted.values())))
    found = await sandbox.run(
        Command(
            ["sh", "-c", f"find / -xdev -type f \\( {sizes} \\) -exec sha1sum {{}} +"],
            user="0",
            cwd="/",
            timeout_seconds=BUILD_SECONDS,
        )
    )
    for line in found.text.splitlines():
        digest, _, path = line.partition("  ")
        if digest in wanted:
            raise ProofError(f"the image holds a file of the fix: {path}")


async def _solve(sandbox: Container, folder: Path) -> None:
    await sandbox.upload_folder(folder / "solution", "/solution")
    done = await sandbox.run(
        Command(["bash", "/solution/solve.sh"], timeout_seconds=_ADDITIONAL_SECONDS)
    )
    if done.exit_code != 0:
        raise ProofError(f"the fix cannot be applied in the sandbox: {_said(done)}")


async def _test(sandbox: Container, run: TestRun, folder: Path) -> Seen:
    await sandbox.make_log_folders()
    await sandbox.run(Command(["rm", "-rf", "/tests", "/logs/verifier"], user="0", cwd="/"))
    await sandbox.upload_folder(folder / "tests", "/tests")
    began = time.monotonic()
    done = await sandbox.run(
        Command(
            ["sh", "-c", "exec /tests/test.sh 2>&1"],
            user="0",
            timeout_seconds=run.limit_seconds + _ADDITIONAL_SECONDS,
        )
    )
    seconds = time.monotonic() - began
    written = await sandbox.listing("/logs/verifier", limit_bytes=_RESULTS_BYTES)
    files = written.files if written else {}
    if run.by_pytest:
        outcomes = json.loads(files.get("results.json", b"{}"))
    else:
        solved = files.get("reward.txt", b"").strip() == b"1"
        outcomes = {_BY_EXIT_CODE: "passed" if solved else "failed"}
    return Seen(outcomes, done.text, seconds)


def _said(done: CommandResult) -> str:
    return (
        done.stderr.decode(errors="replace").strip() or _end(done.text)
    ) or f"exit {done.exit_code}"


def _end(output: str) -> str:
    return "\n".join(f"  {line}" for line in output.strip().splitlines()[-_LAST_LINES:])


def _listed(tests: Sequence[str]) -> str:
    more = f" … and {len(tests) - _SHOWN} more" if len(tests) > _SHOWN else ""
    return ", ".join(tests[:_SHOWN]) + more


def _ignore(_: str) -> None:
    pass
