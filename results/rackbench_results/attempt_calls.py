"""Attempts with their model calls, as far as the cost of them goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rackbench_results.attribution import CallSpan
from rackbench_results.outcomes import Outcome
from rackbench_results.records import Call, Result
from rackbench_results.store import RunFolder, final_of, read_lines


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt with its model calls."""

    id: str
    """Different for every attempt of a run."""
    trial: str
    """task/arm/index."""
    task: str
    arm: str
    counts: bool
    """It stands for its trial and says something about the model."""
    solved: bool
    spans: tuple[CallSpan, ...]


def attempts_of_arm(folder: RunFolder, arm: str) -> list[Attempt]:
    """Every attempt of an arm that made calls, those that never got a result among them."""
    found = []
    with_results = dict(folder.results_with_paths(arm))
    final = {path for path, _ in final_of(with_results.items()).values()}
    for path in folder.attempts_of(arm):
        result = with_results.get(path)
        name = str(path.relative_to(folder.path))
        spans = tuple(_span(call, name) for call in _calls(path) if call.sent_seconds is not None)
        task = path.parent.parent.parent.name
        found.append(
            Attempt(
                id=name,
                trial=f"{task}/{arm}/{path.parent.name}",
                task=task,
                arm=arm,
                counts=path in final and _says_something(result),
                solved=result is not None and result.outcome is Outcome.SOLVED,
                spans=spans,
            )
        )
    return found


def _says_something(result: Result | None) -> bool:
    return result is not None and result.outcome in (Outcome.SOLVED, Outcome.UNSOLVED)


def _span(call: Call, attempt: str) -> CallSpan:
    began = call.received_at.timestamp()
    sent = call.sent_seconds or 0.0
    first = call.first_token_seconds
    return CallSpan(
        attempt=attempt,
        begin=began + sent,
        first_token=None if first is None else began + first,
        end=began + max(sent, call.finished_seconds or sent),
        prompt_tokens=call.prompt_tokens,
        cached_tokens=call.cached_tokens,
        completion_tokens=call.completion_tokens,
    )


def _calls(path: Path) -> Iterable[Call]:
    log = path / "calls.jsonl"
    return read_lines(log, Call) if log.exists() else ()
