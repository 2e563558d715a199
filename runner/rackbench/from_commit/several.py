"""One commit, or several at once in a bounded number of slots."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio

from rackbench.errors import RackbenchError
from rackbench.from_commit.creation import create
from rackbench.from_commit.fix import find_fix
from rackbench.from_commit.repository import Repository
from rackbench.from_commit.request import Created, Request
from rackbench.from_commit.scan import Candidate
from rackbench.sandbox.docker import docker_sandboxes
from rackbench_harnesses.ports import SandboxError


@dataclass(frozen=True, slots=True)
class Proved:
    """What became of a candidate."""

    candidate: Candidate
    created: Created | None
    problem: str | None
    seconds: float


def from_commit(
    repository: Repository, commit: str, request: Request, *, on_stage: Callable[[str], None]
) -> Created:
    """Make a task of one commit.

    Raises UsageError, ProofError, PrerequisiteError.
    """
    fix = find_fix(repository, commit, mainline=request.mainline, tests=request.tests)

    async def make() -> Created:
        with docker_sandboxes() as sandboxes:
            return await create(fix, request, sandboxes=sandboxes, on_stage=on_stage)

    return anyio.run(make)


def prove_all(
    repository: Repository,
    candidates: Sequence[Candidate],
    request: Request,
    *,
    slots: int,
    keep: bool,
    on_end: Callable[[Proved], None],
) -> list[Proved]:
    """Prove candidates, so many at a time; one that fails does not stop the others.

    Raises PrerequisiteError.
    """
    ended: dict[str, Proved] = {}

    async def make() -> None:
        limiter = anyio.CapacityLimiter(slots)
        with docker_sandboxes() as sandboxes:

            async def one(candidate: Candidate) -> None:
                async with limiter:
                    began = time.monotonic()
                    created, problem = None, None
                    try:
                        fix = find_fix(
                            repository,
                            candidate.commit,
                            mainline=request.mainline,
                            tests=request.tests,
                        )
                        created = await create(
                            fix, request, sandboxes=sandboxes, keep=keep, on_stage=_say_nothing
                        )
                    except (RackbenchError, SandboxError) as error:
                        problem = str(error)
                    seconds = time.monotonic() - began
                    ended[candidate.commit] = Proved(candidate, created, problem, seconds)
                    on_end(ended[candidate.commit])

            async with anyio.create_task_group() as group:
                for candidate in candidates:
                    group.start_soon(one, candidate)

    anyio.run(make)
    return [ended[candidate.commit] for candidate in candidates]


def _say_nothing(_: str) -> None:
    pass
