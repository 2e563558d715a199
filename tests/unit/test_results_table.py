"""What people see: nothing invented, nothing squeezed, nothing that an agent can paint."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from rackbench_results import Call, EndpointCost, Result, TrialKey, Usage
from rackbench_results.accounting import make_ledger
from rackbench_results.attempt_calls import Attempt
from rackbench_results.attribution import CallSpan
from rackbench_results.summary import RunFacts, summarise
from rackbench_results.table import safe_text, summary_table, trials_table

NOW = datetime(2026, 11, 30, tzinfo=UTC)
DONE = (True, True)
"""Counts, solved."""
ARMS = {"claude-code-kimi-k3.1-pro": "kimi", "loop-current": "current", "oracle": None}


def shown(table: object, *, width: int = 100, terminal: bool = False) -> str:
    out = io.StringIO()
    colours = "standard" if terminal else None
    console = Console(file=out, width=width, force_terminal=terminal, color_system=colours)
    console.print(table)
    return out.getvalue()


def result(number: int, *, arm: str = "loop-current", **fields: object) -> Result:
    values = {
        "run_id": "run",
        "key": TrialKey(task_digest="t", arm_digest="a", index=number % 5),
        "task_id": f"team/task-{number // 5}",
        "arm": arm,
        "attempt": 1,
        "outcome": "solved",
        "started_at": NOW,
        "finished_at": NOW + timedelta(seconds=3599.96),
    }
    return Result.model_validate({**values, **fields})


def results() -> list[Result]:
    """125 trials of each arm with a model, as large as they come."""
    used = Usage(
        steps=499, prompt_tokens=45_678_901, completion_tokens=1_234_567, model_seconds=3000
    )
    found = []
    for arm in ("claude-code-kimi-k3.1-pro", "loop-current"):
        for number in range(125):
            fields = {0: {"outcome": "void", "reason": "sandbox"}, 1: {"reward": 1.0}}.get(
                number % 7, {"outcome": "unsolved", "reason": "wrong", "reward": 0.0}
            )
            found.append(result(number, arm=arm, usage=used, **fields))
    return found


def summary(of: list[Result]) -> object:
    def cost(devices: int, price: float | None) -> EndpointCost:
        return EndpointCost(
            device="gpu",
            devices=devices,
            launched_at=NOW - timedelta(hours=1),
            stopped_at=NOW + timedelta(hours=30),
            scored_seconds=100_000,
            price_per_device_hour=price,
            currency="USD" if price else None,
        )

    call = Call(
        number=1,
        received_at=NOW,
        dialect="openai-chat",
        path="/",
        first_token_seconds=12.345,
        token_gaps_seconds=(0.0123,),
    )
    costs = {"kimi": [cost(8, 4.5)], "current": [cost(8, None)]}
    arm_of = {"kimi": "claude-code-kimi-k3.1-pro", "current": "loop-current"}
    since = (NOW - timedelta(hours=1)).timestamp()
    spans = (CallSpan("a", since, since, since + 100_000, 45_678_901, 0, 1_234_567),)
    facts = RunFacts(
        results=of,
        calls={"claude-code-kimi-k3.1-pro": [call]},
        costs=costs,
        ledgers={
            name: make_ledger(
                name, of_it, [Attempt("a", f"a/{arm_of[name]}/0", "a", arm_of[name], *DONE, spans)]
            )
            for name, of_it in costs.items()
        },
        endpoint_of_arm=ARMS,
        planned=dict.fromkeys(ARMS, 125),
        solved_at=1.0,
        void_threshold=0.1,
        seed=0,
    )
    return summary_table(summarise(facts))


def cells(text: str, arm: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.startswith(arm)]


def test_at_100_columns_an_arm_is_a_line_in_each_table() -> None:
    text = shown(summary(results()))
    assert max(map(len, text.splitlines())) <= 100
    rates, work, cost, _ = cells(text, "claude-code-kimi-k3.1-pro")
    assert rates[1:6] == ["18", "107", "18", "0.17", "0.13…0.21"]
    assert rates[6:] == ["task", "bootstrap", "0.14…0.17", "0.17"]
    assert work[1:] == ["62375", "5,709,862,625", "–", "154,320,875", "3600.0", "12.35", "12.3"]
    assert cost[1:] == ["kimi", "248.000", "GPU", "1116.0000", "USD", "1116.0000", "USD"]


def test_warnings_come_first_and_voids_are_told() -> None:
    text = shown(summary(results()))
    assert "of the trials are void" in text.splitlines()[0]
    assert "loop-current: not counted: 18 sandbox" in text
    assert "oracle: not counted: 125 missing" in text


def test_the_unknown_is_a_dash() -> None:
    text = shown(summary(results()))
    assert cells(text, "oracle")[0][1:] == ["0", "0", "0", "–", "–", "–", "–"]
    assert set(cells(text, "oracle")[1][1:]) == {"–"}
    assert set(cells(text, "oracle")[2][1:]) == {"–"}
    # Hours are known, the price is not.
    assert cells(text, "loop-current")[2][1:] == ["current", "248.000", "GPU", "–", "–"]


@pytest.mark.parametrize("width", [72, 80])
def test_where_it_is_narrow_words_fold_and_numbers_do_not(width: int) -> None:
    text = shown(summary(results()), width=width)
    assert max(map(len, text.splitlines())) <= width
    for number in ("5,709,862,625", "154,320,875", "1116.0000 USD", "0.14…0.17"):
        assert number in text


def test_a_trial_is_a_line() -> None:
    table = trials_table(
        [
            result(0, reward=1.0, usage=Usage(steps=7)),
            result(1, outcome="void", reason="verifier", detail="timed out\nafter 9 s"),
        ]
    )
    first, second = shown(table).splitlines()[1:]
    assert first.split() == ["task-0/loop-current/0", "solved", "1", "7", "3600.0"]
    assert second.split()[:5] == ["task-0/loop-current/1", "void", "–", "0", "3600.0"]
    assert second.rstrip().endswith("verifier: timed out after 9 s")


HOSTILE = "[red]x[/red] \x1b[31m\x1b]0;title\x07 \x9b2J \r\b\u202egpj.exe [link=http://x]y[/link]"


def test_what_an_agent_wrote_cannot_paint_the_terminal() -> None:
    hostile = result(0, outcome="void", reason="sandbox", detail=HOSTILE)
    text = shown(trials_table([hostile]), width=200, terminal=True)
    for line in text.splitlines()[1:]:
        said = line[line.index("sandbox") :]
        assert "[red]x[/red]" in said
        assert "[link=http://x]y[/link]" in said
        assert not set(said) & set("\x07\x08\r\x9b\u202e")
        assert "\x1b" not in said


def test_safe_text_keeps_what_people_write() -> None:
    plain = "Grüße, 世界 – «ok» 👍\n\tindented"
    assert safe_text(plain).plain == plain
    assert safe_text("\x00\x1b\x7f\u200b").plain == "�" * 4


def test_a_dumb_terminal_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    out = io.StringIO()
    Console(file=out, width=100, force_terminal=True).print(summary(results()))
    assert "\x1b[3" not in out.getvalue()
    assert not any("\u2500" <= c <= "\u257f" for c in out.getvalue())
