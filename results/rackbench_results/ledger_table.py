"""The ledger, for people."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rackbench_results.ledger import METHODS, Amount, Ledger
from rackbench_results.table import plain_table, safe_text

_DASH = "–"


def ledger_table(ledger: Ledger) -> RenderableType:
    """One endpoint: the total and its activities, how each method splits it, and the arms."""
    parts: list[RenderableType] = [_heading(ledger)]
    if ledger.total:
        parts += [Text(), _activities(ledger, ledger.total), Text(), _methods(ledger)]
        parts += [Text(), _arms(ledger)]
    parts += [safe_text(f"note: {note}") for note in ledger.notes]
    return Group(*parts)


def trial_costs_table(ledger: Ledger) -> Table:
    """One line a trial: device-seconds in use by each method, and the list price."""
    table = plain_table("trial", *METHODS, "API price")
    for trial in ledger.trials:
        seconds = (trial.by_method.get(method) for method in METHODS)
        listed = trial.list_price_cost
        table.add_row(
            safe_text(trial.trial),
            *(
                _DASH if amount is None else f"{amount.device_hours * 3600:.1f} s"
                for amount in seconds
            ),
            _DASH if listed is None else f"{listed:.4f}",
        )
    return table


def _heading(ledger: Ledger) -> Text:
    line = safe_text(ledger.endpoint, "bold")
    if ledger.device:
        line.append(f"  {ledger.devices} × {ledger.device.upper()}")
    if ledger.price_per_device_hour is not None:
        price = f"{ledger.price_per_device_hour:g} {ledger.currency} a device-hour"
        line.append_text(safe_text(f", {price} ({ledger.price_source}, {ledger.price_date})"))
    elif ledger.total:
        line.append(", no price given: hours only")
    if ledger.concurrency is not None:
        line.append(f", {ledger.concurrency:.1f} calls at once while any was in flight")
    return line


def _activities(ledger: Ledger, total: Amount) -> Table:
    table = plain_table("activity", "device-hours", "share", "cost", "energy")
    for name, amount in [*ledger.phases.items(), ("total", total)]:
        share = amount.device_hours / total.device_hours if total.device_hours else 0.0
        table.add_row(name, _hours(amount), f"{share:.0%}", _money(amount, ledger), _energy(amount))
    return table


def _methods(ledger: Ledger) -> RenderableType:
    table = plain_table("method", "attributed", "voided", "unattributed")
    for split in ledger.methods:
        amounts = (split.attributed, split.voided, split.unattributed)
        table.add_row(split.method, *(_hours_and_money(amount, ledger) for amount in amounts))
    rules = [safe_text(f"{split.method}: {split.rule}", "dim") for split in ledger.methods]
    return Group(table, *rules)


def _arms(ledger: Ledger) -> Table:
    table = plain_table(
        "arm",
        "method",
        "trials",
        "solved",
        "in use",
        "all-in",
        "per trial",
        "per task",
        "per solved",
    )
    for arm in ledger.arms:
        amounts = (arm.attributed, arm.all_in, arm.per_trial, arm.per_task, arm.per_solved)
        table.add_row(
            safe_text(arm.arm, "bold"),
            arm.method,
            str(arm.trials),
            str(arm.solved),
            *(_hours_and_money(amount, ledger) for amount in amounts),
        )
    return table


def _hours(amount: Amount) -> str:
    return f"{amount.device_hours:.4f}"


def _hours_and_money(amount: Amount | None, ledger: Ledger) -> str:
    if amount is None:
        return _DASH
    money = "" if amount.cost is None else f" {_money(amount, ledger)}"
    return f"{_hours(amount)} h{money}"


def _money(amount: Amount, ledger: Ledger) -> str:
    return _DASH if amount.cost is None else f"{amount.cost:.4f} {ledger.currency or ''}".strip()


def _energy(amount: Amount) -> str:
    return _DASH if amount.joules is None else f"{amount.joules / 3.6e6:.3f} kWh"
