"""All rules, over one folder."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from rackbench_tasks.files import absolute
from rackbench_tasks.problem import TaskError
from rackbench_tasks.vendor_lint.agent_image import agent_image
from rackbench_tasks.vendor_lint.bundle import Bundle
from rackbench_tasks.vendor_lint.compose import compose_rules, read_compose
from rackbench_tasks.vendor_lint.delivery import delivery_rules
from rackbench_tasks.vendor_lint.finding import Level, LintFinding, error
from rackbench_tasks.vendor_lint.layout import layout
from rackbench_tasks.vendor_lint.metadata import metadata
from rackbench_tasks.vendor_lint.settings import FILE, Settings, read_settings
from rackbench_tasks.vendor_lint.task_toml import settings_rules
from rackbench_tasks.vendor_lint.test_code import read_tests, test_rules
from rackbench_tasks.vendor_lint.verifier import verifier_image, verifier_script


def lint(folder: Path) -> tuple[LintFinding, ...]:
    """Everything that the profile `tb4-vendor` has against a task, errors first.

    Siblings of the folder are read where they are those of a delivery. Raises TaskError where
    there is no such folder.
    """
    folder = absolute(folder)
    if not folder.is_dir():
        raise TaskError(f"{folder}: expected a task's folder")
    found = dict.fromkeys(_findings(Bundle(folder)))
    return tuple(sorted(found, key=lambda one: one.level is not Level.ERROR))


def _findings(bundle: Bundle) -> Iterator[LintFinding]:
    yield from layout(bundle)
    settings = None
    text = bundle.text(FILE)
    if text is not None:
        try:
            settings = read_settings(text)
        except tomllib.TOMLDecodeError as problem:
            yield error("task-toml/unreadable", FILE, f"is no TOML: {problem}")
    compose = read_compose(bundle)
    services = len(compose.services) if compose else 1
    if settings is not None:
        yield from settings_rules(settings, bundle.slug)
        yield from metadata(settings, services=services)
    yield from agent_image(bundle)
    if compose is not None:
        yield from compose_rules(compose)
    yield from verifier_image(bundle, _artifacts(settings))
    yield from verifier_script(bundle)
    yield from test_rules(bundle)
    yield from delivery_rules(bundle, [test.name for test in read_tests(bundle).tests])


def _artifacts(settings: Settings | None) -> list[str]:
    return settings.artifacts if settings else []
