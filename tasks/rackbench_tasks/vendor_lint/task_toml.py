"""The settings of the task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rackbench_tasks.vendor_lint.finding import LintFinding, error, warning
from rackbench_tasks.vendor_lint.settings import Settings, told
from rackbench_tasks.vendor_lint.taxonomy import is_reserved

_FIXED: dict[str, tuple[float, str]] = {
    "verifier.timeout_sec": (28800, "task-toml/verifier-timeout"),
    "agent.timeout_sec": (28800, "task-toml/agent-timeout"),
    "environment.cpus": (2, "task-toml/resources"),
    "environment.memory_mb": (8192, "task-toml/resources"),
    "environment.storage_mb": (10240, "task-toml/resources"),
    "environment.build_timeout_sec": (7200, "task-toml/resources"),
}
_FORBIDDEN = {
    "gpus": "no task of this profile has a GPU",
    "difficulty": "difficulty is told in difficulty_explanation alone",
    "tier": "difficulty is told in difficulty_explanation alone",
    "difficulty_tier": "difficulty is told in difficulty_explanation alone",
    "milestones": "milestones are gone from the format",
    "number_of_milestones": "milestones are gone from the format",
    "allow_internet": "network_mode has taken its place",
}
_FORBIDDEN_AT_TOP = {
    "schema_version": "the profile has one version",
    "version": "the profile has one version",
    "task": "the name stands at the top, as `name`",
}


def settings_rules(settings: Settings, slug: str) -> Iterator[LintFinding]:
    """Every rule of task.toml but those of its metadata."""
    name = settings.get("name")
    if name != slug:
        yield error(
            "task-toml/name",
            settings.where("name"),
            f'`name` is {told(name)}; it must be the folder\'s name; write name = "{slug}" above the '
            "first table",
        )
    yield from _artifacts(settings)
    yield from _phases(settings)
    yield from _forbidden(settings, settings.content, "")


def _artifacts(settings: Settings) -> Iterator[LintFinding]:
    if settings.get("verifier.artifacts") is not None:
        yield error(
            "task-toml/artifacts-under-verifier",
            settings.where("verifier.artifacts"),
            "`artifacts` stands under [verifier], where it is dropped without a word, and the "
            "verifier gets nothing; move it above the first table",
        )
    entries = settings.get("artifacts")
    if not entries:
        yield error(
            "task-toml/artifacts-missing",
            settings.where("artifacts"),
            "there is no list `artifacts` at the top: a verifier in a container of its own would "
            "get nothing of the agent's work; name every path that the tests read",
        )
    elif not isinstance(entries, list):
        yield error(
            "task-toml/artifacts-shape",
            settings.where("artifacts"),
            f"`artifacts` is {told(entries)}; write a list of paths",
        )
    else:
        for number, entry in enumerate(entries):
            if problem := _artifact_problem(entry):
                yield error(
                    "task-toml/artifacts-shape", settings.where(f"artifacts.{number}"), problem
                )


def _artifact_problem(entry: Any) -> str | None:
    source = entry.get("source") if isinstance(entry, dict) else entry
    if isinstance(entry, dict) and (unknown := set(entry) - {"source", "exclude"}):
        return f"an artifact has {', '.join(sorted(unknown))}; only source and exclude are known"
    if not isinstance(source, str) or not source.startswith("/"):
        return f"an artifact is {told(source)}; write an absolute path"
    if is_reserved(source.rstrip("/")):
        return f"an artifact is {source}, which belongs to the verifier or the oracle; use another"
    return None


def _phases(settings: Settings) -> Iterator[LintFinding]:
    mode = settings.get("verifier.environment_mode")
    if mode != "separate":
        yield error(
            "task-toml/verifier-mode",
            settings.where("verifier.environment_mode"),
            f"[verifier] environment_mode is {told(mode)}; the agent must not share the "
            'verifier\'s container; write environment_mode = "separate"',
        )
    for key, (wanted, rule) in _FIXED.items():
        value = settings.get(key)
        if isinstance(value, bool) or value != wanted:
            table, _, name = key.partition(".")
            yield error(
                rule,
                settings.where(key),
                f"[{table}] {name} is {told(value)}; all tasks have the same; "
                f"write {name} = {wanted:g}",
            )
    network = settings.get("environment.network_mode")
    if network not in ("public", "no-network"):
        yield error(
            "task-toml/network-mode",
            settings.where("environment.network_mode"),
            f'[environment] network_mode is {told(network)}; write "public", or "no-network" '
            "where the network would spare the agent the work",
        )
    elif network == "no-network":
        yield warning(
            "task-toml/no-network",
            settings.where("environment.network_mode"),
            'network_mode is "no-network"; it is for tasks that the network would solve; '
            "say in the review why",
        )


def _forbidden(settings: Settings, table: Any, above: str) -> Iterator[LintFinding]:
    if isinstance(table, list):
        for number, entry in enumerate(table):
            yield from _forbidden(settings, entry, f"{above}{number}.")
    if not isinstance(table, dict):
        return
    for key, value in table.items():
        why = _FORBIDDEN.get(key) or (None if above else _FORBIDDEN_AT_TOP.get(key))
        if why:
            yield error(
                "task-toml/forbidden-key",
                settings.where(f"{above}{key}"),
                f"the key {above}{key} is forbidden: {why}; delete it",
            )
        elif "canary" in key.lower():
            yield error(
                "layout/canary",
                settings.where(f"{above}{key}"),
                f"the key {above}{key} is for a canary; none may be in a task; delete it",
            )
        else:
            yield from _forbidden(settings, value, f"{above}{key}.")
