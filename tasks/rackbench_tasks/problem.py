"""What is wrong with a task or a suite, said so that a person can mend it."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

_SHOWN_CHARACTERS = 80
_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a table",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a number of at least {ge:g}",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "literal_error": "{expected}",
    "model_attributes_type": "a table",
    "model_type": "a table",
    "string_too_short": "text that is not empty",
    "string_type": "text",
    "tuple_type": "a list",
    "value_error": "{error}",
}

_KINDS = {dict: "a table", list: "a list", tuple: "a list", type(None): "empty"}


class TaskError(ValueError):
    """Tasks that cannot be used as they are; one line per problem in `problems`."""

    def __init__(self, *problems: str) -> None:
        super().__init__(*map(one_line, problems))

    @property
    def problems(self) -> tuple[str, ...]:
        """Every problem found, each on one line."""
        return self.args

    def __str__(self) -> str:
        return "\n".join(self.problems)


def one_line(text: str) -> str:
    """Text on one line: what could break a line or drive a terminal is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown(value: object) -> str:
    """A value as it stands in a file, cut where it is long; of what is not plain, its kind."""
    if isinstance(value, str):
        cut = value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "…"
        return f'"{one_line(cut)}" (text)'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) >= 10**_SHOWN_CHARACTERS:
        return "a huge number"  # Python refuses to write out some
    if isinstance(value, (int, float)):
        return str(value)
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def key_path(location: tuple[object, ...]) -> str:
    """Where a key stands: `steps.0.agent.timeout_sec`."""
    return ".".join(map(str, location))


def schema_problems(error: ValidationError) -> list[str]:
    """One line for each value that does not fit: key, what was found, what is expected.

    Keys that do not exist are left out: `unknown_keys` has more to say about them.
    """
    return [text for _, text in located_problems(error)]


def located_problems(error: ValidationError) -> list[tuple[str, str]]:
    """The lines of `schema_problems`, each with the path of its key before it."""
    return [
        (key_path(line["loc"]), _schema_problem(dict(line)))
        for line in error.errors(include_url=False)
        if line["type"] != "extra_forbidden"
    ]


def _schema_problem(line: dict[str, Any]) -> str:
    path = key_path(line["loc"])
    if line["type"] == "missing":
        return f"{path!r} is missing"
    expected = _EXPECTED.get(line["type"])
    wanted = expected.format_map(line.get("ctx", {})) if expected else line["msg"]
    return f"{path!r} is {shown(line['input'])}; expected {wanted}"
