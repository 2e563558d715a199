"""Runs that are there: found by name, and summed up from their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from rackbench.errors import UsageError
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
    summary = summarise(
        RunFacts(
            results=folder.final_results(),
            calls={arm["name"]: folder.calls_of(arm["name"]) for arm in plan["arms"]},
            costs=read_costs(folder),
            endpoint_of_arm={arm["name"]: arm["endpoint"] for arm in plan["arms"]},
            **plan["summary"],
        )
    )
    write_record(folder.summary_path, summary)
    return summary


def read_costs(folder: RunFolder) -> dict[str, list[EndpointCost]]:
    """All cost records of a run, by endpoint."""
    costs: dict[str, list[EndpointCost]] = {}
    for path in sorted(folder.path.glob("endpoints/*/cost-*.json")):
        if cost := read_record(path, EndpointCost):
            costs.setdefault(path.parent.name, []).append(cost)
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
