"""In which line of a file each of its keys stands."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

import yaml

from rackbench_tasks.problem import key_path

_Path = tuple[object, ...]

_MOST_CHARACTERS = 2_000_000
"""To be parsed for one file: a value of very many lines is parsed once for each of them."""


def toml_lines(text: str) -> dict[str, int]:
    """Line numbers, from 1, by path of the key such as `steps.0.agent`; of valid TOML."""
    lines: dict[str, int] = {}
    arrays: dict[_Path, int] = {}
    table: _Path = ()
    for number, statement, values in _statements(text):
        header = statement.lstrip().startswith("[")
        if header:
            table = _header(values, arrays, is_array=statement.lstrip().startswith("[["))
            lines.setdefault(key_path(table), number)
        else:
            for path in _paths(values, table):
                lines.setdefault(key_path(path), number)
    return lines


def _statements(text: str) -> Iterator[tuple[int, str, dict[str, object]]]:
    """Each header and each assignment, with the number of its first line."""
    start, lines, left, within = 1, list[str](), _MOST_CHARACTERS, False
    for number, line in enumerate(text.split("\n"), start=1):
        lines.append(line)
        within ^= any(line.count(quotes) % 2 for quotes in ("'''", '"""'))
        if within:
            continue  # a text of several lines
        statement = "\n".join(lines)
        left -= len(statement)
        if left < 0:
            return
        try:
            values = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue  # it goes on in the next line
        if values:
            yield start, statement, values
        start, lines = number + 1, []


def _header(values: object, arrays: dict[_Path, int], *, is_array: bool) -> _Path:
    """The path of a table, a number added below each array of tables."""
    path: _Path = ()
    while isinstance(values, dict) and values:
        ((key, values),) = values.items()
        path = (*path, key)
        is_last = not values or values == [{}]
        if is_array and is_last:
            arrays[path] = arrays.get(path, -1) + 1
        if path in arrays:
            path = (*path, arrays[path])
    return path


def _paths(values: object, at: _Path) -> Iterator[_Path]:
    if at:
        yield at
    items: Iterator[tuple[object, object]] = iter(())
    if isinstance(values, dict):
        items = iter(values.items())
    elif isinstance(values, list):
        items = iter(enumerate(values))
    for key, value in items:
        yield from _paths(value, (*at, key))


def yaml_lines(text: str) -> dict[str, int]:
    """Line numbers, from 1, by path of the key; of valid YAML."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    return dict(_nodes(node, (), set())) if node else {}


def _nodes(node: yaml.Node, at: _Path, seen: set[int]) -> Iterator[tuple[str, int]]:
    if id(node) in seen:
        return  # an alias: it may hold itself, and it stands where its anchor does
    seen.add(id(node))
    items: list[tuple[object, yaml.Node, yaml.Node]] = []
    if isinstance(node, yaml.MappingNode):
        items = [(key.value, key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        items = [(number, item, item) for number, item in enumerate(node.value)]
    for key, marked, value in items:
        yield key_path((*at, key)), marked.start_mark.line + 1
        yield from _nodes(value, (*at, key), seen)
