"""Runs that are there: found by name, and summed up from their files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from rackbench.errors import UsageError
from rackbench_results.accounting import ledgers_of
from rackbench_results.ledger import Ledger
from rackbench_results.records import EndpointCost
from rackbench_results.store import RunFolder, StoreError, read_json, read_record, write_record
from rackbench_results.summary import RunFacts, Summary, summarise


def find_run(name: str, results: Path) -> RunFolder:
    """A run folder by path, by (the beginning of) its id, or `last`.

    Raises UsageError.
    """
    if (Path(name) / "plan.json").is_file():
        return RunFolder(Path(name).resolve())
    runs = sorted(path.parent for path in results.glob("*/plan.json"))
    if name == "last" and runs:
        return RunFolder(runs[-1].resolve())
    found = [path for path in runs if path.name.startswith(name)]
    if len(found) == 1:
        return RunFolder(found[0].resolve())
    if found:
        raise UsageError(f"{name!r} fits {len(found)} runs: {', '.join(p.name for p in found[:5])}")
    known = ", ".join(path.name for path in runs[-3:]) or "none"
    raise UsageError(f"there is no run {name!r} in {results} (latest: {known})")


def summarise_run(folder: RunFolder) -> Summary:
    """Every derived number, from the files alone."""
    _, plan = plan_record(folder)
    endpoint_of_arm = {arm["name"]: arm["endpoint"] for arm in plan["arms"]}
    summary = summarise(
        RunFacts(
            results=folder.final_results(),
            calls={arm["name"]: folder.calls_of(arm["name"]) for arm in plan["arms"]},
            costs=read_costs(folder, sorted({*filter(None, endpoint_of_arm.values())})),
            ledgers={ledger.endpoint: ledger for ledger in ledgers_of(folder, endpoint_of_arm)},
            endpoint_of_arm=endpoint_of_arm,
            **plan["summary"],
        )
    )
    write_record(folder.summary_path, summary)
    return summary


def ledgers_of_run(folder: RunFolder) -> list[Ledger]:
    """What every endpoint of a run used, from the files alone."""
    _, plan = plan_record(folder)
    return ledgers_of(folder, {arm["name"]: arm["endpoint"] for arm in plan["arms"]})


def read_costs(folder: RunFolder, endpoints: Iterable[str]) -> dict[str, list[EndpointCost]]:
    """All cost records of a run, by endpoint; an endpoint that was never up is left out."""
    costs = {}
    for name in endpoints:
        paths = sorted(folder.endpoint_folder(name).glob("cost-*.json"))
        if found := [cost for path in paths if (cost := read_record(path, EndpointCost))]:
            costs[name] = found
    return costs


def plan_record(folder: RunFolder) -> tuple[dict[str, Any], dict[str, Any]]:
    """The run file's values as asked, and the plan as resolved.

    Raises UsageError.
    """
    try:
        plan: dict[str, Any] = read_json(folder.plan_path)
        values: dict[str, Any] = yaml.safe_load(folder.spec_path.read_text())
    except (StoreError, OSError, yaml.YAMLError) as error:
        raise UsageError(f"{folder.path} is no whole run folder: {error}") from error
    return values, plan
