"""A suite file as written: YAML that names tasks from one or more sources."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, Strict, ValidationError

from rackbench_tasks.files import read_text
from rackbench_tasks.findings import Findings
from rackbench_tasks.formats.lines import yaml_lines
from rackbench_tasks.keys import unknown_keys
from rackbench_tasks.problem import TaskError, located_problems
from rackbench_tasks.sources.source import Digest, Source, Text, Written

SUFFIXES = (".yaml", ".yml")


def _path_alone(value: object) -> object:
    return {"path": value} if isinstance(value, str) else value


def _not_empty(value: tuple[Source, ...]) -> tuple[Source, ...]:
    if not value:
        raise ValueError("a list that is not empty")
    return value


class Sample(Written):
    """A choice by chance, the same for the same seed."""

    count: Annotated[int, Strict(), Field(ge=1)]
    seed: Annotated[int, Strict()] = 0


class SuiteFile(Written):
    """A whole suite file."""

    name: Text | None = None
    description: str = ""
    tasks: Annotated[
        tuple[Annotated[Source, BeforeValidator(_path_alone)], ...], AfterValidator(_not_empty)
    ]
    order: tuple[Text, ...] = ()
    """Folder names or ids, first to last; the others follow."""
    sample: Sample | None = None
    digests: Mapping[str, Digest] | None = None
    """By folder name or id, the digest that each task must have; with it, every task needs one."""


class _Loader(yaml.SafeLoader):
    """YAML in which a key that stands twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value]
        if twice := [key for key in keys if keys.count(key) > 1]:
            line = node.start_mark.line + 1
            raise yaml.YAMLError(f"the key {twice[0]!r} stands twice in the mapping at line {line}")
        return super().construct_mapping(node, deep)


def read_suite_file(path: Path) -> SuiteFile:
    """Read and check a suite file.

    Raises TaskError with every problem found, and its line; a key that does not exist is one.
    """
    text = read_text(path)
    try:
        written = yaml.load(text, _Loader)  # noqa: S506  # a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise TaskError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(written, dict):
        raise TaskError(f"{path}: expected a suite: `tasks:` with a list of paths")
    findings = Findings(str(path), lines=yaml_lines(text))
    findings.unknown(unknown_keys(SuiteFile, written), strict=True)
    try:
        suite = SuiteFile.model_validate(written)
    except ValidationError as error:
        for key, problem in located_problems(error):
            findings.problem(problem, key=key)
        findings.raise_problems()
        raise
    findings.raise_problems()
    return suite
