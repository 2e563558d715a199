"""Other people's spellings of keys, made Harbor's own before a table is checked."""

from __future__ import annotations

from typing import Any

from rackbench_tasks.findings import Findings
from rackbench_tasks.formats.harbor_schema import LATEST, SCHEMA_VERSIONS
from rackbench_tasks.problem import TaskError, shown

_NOT_OF_HARBOR = "2.0"
"""Written by many, as the version of the benchmark; Harbor reads it like any other."""
_LINUX = frozenset({"alpine", "debian", "fedora", "ubuntu"})


def check_version(table: dict[str, Any], findings: Findings) -> None:
    """Leave one `schema_version`, and refuse an unknown one: other complaints would be noise."""
    key = "version" if "schema_version" not in table and "version" in table else "schema_version"
    found = table.get(key, LATEST)
    old = table.pop("version", None)
    if key == "version" and found == _NOT_OF_HARBOR:
        findings.warning(
            f"'version' \"{found}\" is none of Harbor's; it is read as {LATEST}", key="version"
        )
        found = LATEST
    if found not in SCHEMA_VERSIONS:
        known = ", ".join(f'"{version}"' for version in SCHEMA_VERSIONS)
        raise TaskError(f"{findings.origin}: {key!r} is {shown(found)}; known are {known}")
    if key != "version" and old is not None and old != found:
        findings.warning(f"'version' is ignored beside 'schema_version' \"{found}\"", key="version")
    table["schema_version"] = found


def translate(table: dict[str, Any], findings: Findings) -> None:
    """Read what relatives of Harbor's format mean, each with a warning."""
    environment, verifier = table.get("environment"), table.get("verifier")
    if isinstance(environment, dict):
        _name_of_linux(environment, findings)
    if isinstance(verifier, dict) and isinstance(verifier.get("command"), str):
        _command_variant(table, verifier, findings)
    steps = table.get("steps")
    for number, step in enumerate(steps if isinstance(steps, list) else ()):
        if isinstance(step, dict):
            _step_variant(step, f"steps.{number}", findings)


def _name_of_linux(environment: dict[str, Any], findings: Findings) -> None:
    named = environment.get("os")
    if isinstance(named, str) and named.lower().startswith(tuple(_LINUX)):
        findings.warning(f'\'environment.os\' "{named}" is read as "linux"', key="environment.os")
        environment["os"] = "linux"


def _command_variant(table: dict[str, Any], verifier: dict[str, Any], findings: Findings) -> None:
    """A verifier that is one command, whose exit code is the reward."""
    findings.warning(
        "'verifier.command' is none of Harbor's keys; where there is no tests/test.sh it is run, "
        "and the reward is 1 if it exits with 0",
        key="verifier.command",
    )
    seconds = "verifier.timeout_seconds"
    _move((verifier, seconds), (verifier, "verifier.timeout_sec"), findings)
    environment = table.get("environment")
    if isinstance(environment, dict):
        image, seconds = "environment.image", "environment.timeout_seconds"
        _move((environment, image), (environment, "environment.docker_image"), findings)
        agent = table.setdefault("agent", {})
        if isinstance(agent, dict):
            _move((environment, seconds), (agent, "agent.timeout_sec"), findings)


def _step_variant(step: dict[str, Any], at: str, findings: Findings) -> None:
    """A step that says its folder, or an id in place of a name."""
    folder = step.get("dir")
    if isinstance(folder, str) and folder.startswith("steps/") and folder.count("/") == 1:
        findings.warning(f"'{at}.dir' names the step's folder, and so the step", key=f"{at}.dir")
        step["name"] = folder.removeprefix("steps/")
        del step["dir"]
    if isinstance(step.get("id"), str):
        findings.warning(f"'{at}.id' is none of Harbor's keys", key=f"{at}.id")
        step.setdefault("name", step["id"])
        del step["id"]
        agent = step.setdefault("agent", {})
        if isinstance(agent, dict):
            _move((step, f"{at}.timeout_sec"), (agent, f"{at}.agent.timeout_sec"), findings)


def _move(
    source: tuple[dict[str, Any], str], target: tuple[dict[str, Any], str], findings: Findings
) -> None:
    """Take a key over into the table and by the name that are Harbor's; both by their paths."""
    (table, old), (home, new) = source, target
    key, name = old.rpartition(".")[2], new.rpartition(".")[2]
    if key in table and name not in home:
        home[name] = table.pop(key)
        findings.warning(f"{old!r} is read as {new!r}", key=old)
