"""Tables for people. What is unknown is a dash, and what came from agents is made harmless."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rackbench_results.outcomes import Outcome
from rackbench_results.records import Result
from rackbench_results.summary import ArmSummary, EndpointSummary, Summary

_WORDS = {
    *("arm", "trial", "endpoint", "outcome", "why", "95 % interval", "device"),
    *("activity", "method"),
}
_STYLES = {Outcome.SOLVED: "green", Outcome.UNSOLVED: "yellow", Outcome.VOID: "red"}
_DASH = "–"


def safe_text(text: str, style: str = "") -> Text:
    """Text without markup and control characters, whatever is in it."""
    return Text("".join(c if c.isprintable() or c in "\n\t" else "�" for c in text), style=style)


def summary_table(summary: Summary) -> RenderableType:
    """What a run found: warnings first, then rates, then work, then cost."""
    parts: list[RenderableType] = [Text(line, style="bold red") for line in summary.warnings]
    parts += [_rates(summary.arms), Text(), _work(summary.arms)]
    if any(arm.device_hours is not None for arm in summary.arms):
        parts += [Text(), _cost(summary.arms)]
    if voids := _voids(summary.arms):
        parts += [Text(), *voids]
    if summary.endpoints:
        parts += [Text(), _endpoints(summary.endpoints)]
    return Group(*parts)


def _rates(arms: Sequence[ArmSummary]) -> Table:
    table = plain_table(
        "arm", "solved", "counted", "void", "rate", "95 % interval", "bracket", "reward"
    )
    for arm in arms:
        interval = f"{_range(arm.interval)} {arm.interval_method}" if arm.interval else _DASH
        table.add_row(
            safe_text(arm.arm, "bold"),
            str(arm.solved),
            str(arm.counted),
            str(arm.void),
            _number(arm.solve_rate, "{:.2f}"),
            interval,
            _range(arm.bracket),
            _number(arm.mean_reward, "{:.2f}"),
        )
    return table


def _work(arms: Sequence[ArmSummary]) -> Table:
    table = plain_table(
        "arm", "steps", "prompt tok", "cached", "output", "wall s", "TTFT s", "ITL ms"
    )
    for arm in arms:
        gap = arm.itl_seconds_median
        table.add_row(
            safe_text(arm.arm, "bold"),
            str(arm.steps) if arm.endpoint else _DASH,
            _number(arm.prompt_tokens, "{:,}"),
            _number(arm.cached_tokens, "{:,}"),
            _number(arm.completion_tokens, "{:,}"),
            _number(arm.wall_seconds_median, "{:.1f}"),
            _number(arm.ttft_seconds_median, "{:.2f}"),
            _number(None if gap is None else gap * 1000, "{:.1f}"),
        )
    return table


def _cost(arms: Sequence[ArmSummary]) -> Table:
    """All-in; what was in use, and by which rule, is in the ledger's own table."""
    listed = any(arm.list_price_cost is not None for arm in arms)
    columns = ["arm", "endpoint", "device-hours", "cost", "per solved"]
    table = plain_table(*columns, *(["API price"] if listed else []))
    for arm in arms:
        hours = _number(arm.all_in_hours, "{:.3f}")
        row: list[str | Text] = [
            safe_text(arm.arm, "bold"),
            safe_text(arm.endpoint or _DASH),
            f"{hours} {arm.device.upper()}" if arm.device else hours,
            _money(arm.cost, arm.currency),
            _money(arm.cost_per_solved, arm.currency),
        ]
        table.add_row(*row, *([_number(arm.list_price_cost, "{:.4f}")] if listed else []))
    return table


def _voids(arms: Sequence[ArmSummary]) -> list[Text]:
    lines = []
    for arm in arms:
        reasons = {**arm.voids_by_reason}
        for name in ("unsupported", "cancelled", "missing"):
            if count := getattr(arm, name):
                reasons[name] = count
        if reasons:
            said = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
            lines.append(safe_text(f"{arm.arm}: not counted: {said}"))
    return lines


def _endpoints(endpoints: Sequence[EndpointSummary]) -> Table:
    table = plain_table(
        "endpoint", "device", "hours", "in use", "voided", "rest", "cost", "restarts"
    )
    for endpoint in endpoints:
        table.add_row(
            safe_text(endpoint.endpoint, "bold"),
            (endpoint.device or _DASH).upper(),
            _number(endpoint.total_hours, "{:.3f}"),
            _number(endpoint.attributed_hours, "{:.3f}"),
            _number(endpoint.voided_hours, "{:.3f}"),
            _number(endpoint.unattributed_hours, "{:.3f}"),
            _money(endpoint.cost, endpoint.currency),
            str(endpoint.restarts),
        )
    return table


def trials_table(results: Sequence[Result]) -> Table:
    """One line a trial."""
    table = plain_table("trial", "outcome", "reward", "steps", "s", "why")
    for result in results:
        task = result.task_id.rpartition("/")[2]
        why = f"{result.reason}: {result.detail}" if result.reason else result.detail
        table.add_row(
            safe_text(f"{task}/{result.arm}/{result.key.index}"),
            Text(result.outcome, style=_STYLES.get(result.outcome, "dim")),
            _number(result.reward, "{:g}"),
            str(result.usage.steps),
            f"{result.seconds:.1f}",
            safe_text(why.replace("\n", " ")[:300]),
        )
    return table


def plain_table(*columns: str) -> Table:
    """A table without lines; numbers to the right, words to the left and folded."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        words = column in _WORDS
        # Where it is narrow, words are folded: half a number would be another number.
        justify: Literal["left", "right"] = "left" if words else "right"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=not words)
    return table


def _number(value: float | None, form: str) -> str:
    return _DASH if value is None else form.format(value)


def _range(value: tuple[float, float] | None) -> str:
    return _DASH if value is None else f"{value[0]:.2f}…{value[1]:.2f}"


def _money(value: float | None, currency: str | None) -> str:
    return _DASH if value is None else f"{value:.4f} {currency or ''}".strip()
