"""The table of the settings that is about the task, for people."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from rackbench_tasks.vendor_lint.finding import LintFinding, error, warning
from rackbench_tasks.vendor_lint.settings import Settings, told
from rackbench_tasks.vendor_lint.taxonomy import DOMAINS, EXPLANATIONS, LANGUAGES

_FEW_CHARACTERS = 40
_AUTHORS = ("author_name", "author_email")


def metadata(settings: Settings, *, services: int) -> Iterator[LintFinding]:
    """The rules of [metadata]; `services` are those of the compose file, 1 without one."""
    yield from _authors(settings)
    yield from _category(settings)
    yield from _lists(settings)
    hours = settings.get("metadata.expert_time_estimate_hours")
    if not _is_number(hours) or hours <= 0:
        yield error(
            "task-toml/expert-time",
            settings.where("metadata.expert_time_estimate_hours"),
            f"expert_time_estimate_hours is {told(hours)}; write the hours that somebody who "
            "knows the field needs",
        )
    for key in EXPLANATIONS:
        text = settings.get(f"metadata.{key}")
        if not isinstance(text, str) or len(text.strip()) < _FEW_CHARACTERS:
            yield error(
                "task-toml/explanations",
                settings.where(f"metadata.{key}"),
                f"{key} is {told(text)}; write some sentences",
            )
    yield from _several_containers(settings, services)


def _authors(settings: Settings) -> Iterator[LintFinding]:
    for key in _AUTHORS:
        value = settings.get(f"metadata.{key}")
        if value != "anonymous":
            yield error(
                "task-toml/author",
                settings.where(f"metadata.{key}"),
                f'{key} is {told(value)}; write {key} = "anonymous"',
            )


def _category(settings: Settings) -> Iterator[LintFinding]:
    category = settings.get("metadata.category")
    if category not in DOMAINS:
        yield error(
            "task-toml/category",
            settings.where("metadata.category"),
            f"category is {told(category)}; {_choice(category, DOMAINS)}",
        )
        return
    subcategory = settings.get("metadata.subcategory")
    if subcategory not in DOMAINS[category]:
        yield error(
            "task-toml/subcategory",
            settings.where("metadata.subcategory"),
            f"subcategory is {told(subcategory)}, which {category} does not have; "
            f"{_choice(subcategory, DOMAINS[category])}",
        )


def _choice(value: Any, known: Any) -> str:
    by_case = {name.lower(): name for name in known}
    close = get_close_matches(str(value).lower(), by_case, n=1)
    if close:
        return f"did you mean {by_case[close[0]]!r}?"
    return f"write one of {', '.join(known)}"


def _lists(settings: Settings) -> Iterator[LintFinding]:
    tags = settings.get("metadata.tags")
    if not _is_list_of_text(tags) or not 3 <= len(set(tags)) <= 6 or len(set(tags)) != len(tags):
        yield error(
            "task-toml/tags",
            settings.where("metadata.tags"),
            "tags must be three to six different words of this task",
        )
    languages = settings.get("metadata.languages")
    known = {language.lower() for language in LANGUAGES}
    if not _is_list_of_text(languages) or not languages:
        yield error(
            "task-toml/languages",
            settings.where("metadata.languages"),
            "languages must be a list of the languages that the agent works in",
        )
    elif others := [language for language in languages if language.lower() not in known]:
        yield error(
            "task-toml/languages",
            settings.where("metadata.languages"),
            f"languages has {', '.join(map(told, others))}; known are {', '.join(LANGUAGES)}",
        )


def _several_containers(settings: Settings, services: int) -> Iterator[LintFinding]:
    key = "metadata.is_multi_container"
    value = settings.get(key)
    if value is not None and not isinstance(value, bool):
        yield error(
            "task-toml/multi-container",
            settings.where(key),
            f"is_multi_container is {told(value)}; write true, or leave it out",
        )
    elif services > 1 and not value:
        yield error(
            "task-toml/multi-container",
            settings.where(key),
            f"environment/docker-compose.yaml has {services} services; write "
            "is_multi_container = true",
        )
    elif value and services == 1:
        yield error(
            "task-toml/multi-container",
            settings.where(key),
            "is_multi_container is true, and there is one container; leave the key out",
        )
    elif value is False:
        yield warning(
            "task-toml/multi-container",
            settings.where(key),
            "is_multi_container is for tasks of several containers; leave it out",
        )


def _is_list_of_text(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
