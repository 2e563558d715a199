"""The digest that Harbor's datasets give of a task: of the files that it publishes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from rackbench_tasks.problem import TaskError
from rackbench_tasks.sources.ignore_rules import IgnoreRules, ignore_rules

_FILES = ("task.toml", "instruction.md", "README.md", "trajectory.json")
_FOLDERS = ("environment", "tests", "solution", "steps")
_IGNORED = ("__pycache__/", "*.pyc", ".DS_Store", "*.swp", "*.swo", "*~")
_OWN_RULES = ".harborignore"
_WITH_OWN_RULES = ignore_rules(("/tests/", "/solution/", "/steps/*/tests/", "/steps/*/solution/"))


def harbor_digest(folder: Path) -> str:
    """`sha256:…` as Harbor computes it: paths and contents, no modes, no links as links.

    Raises TaskError where a file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        for path in sorted(_published(folder)):
            with (folder / path).open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{path}\0{content}\n".encode())
    except OSError as error:
        raise TaskError(f"{error.filename}: cannot be read: {error.strerror}") from error
    return f"sha256:{digest.hexdigest()}"


def _published(folder: Path) -> Iterator[str]:
    rules = folder / ".gitignore"
    lines = _lines(rules) if rules.exists() else _IGNORED
    ignored = ignore_rules(lines)
    own = _OwnRules(folder)
    for path in _all_files(folder, own):
        if not ignored.verdict(path):
            yield path


def _all_files(folder: Path, own: _OwnRules) -> Iterator[str]:
    yield from (name for name in _FILES if (folder / name).exists())
    waiting = [name for name in _FOLDERS if (folder / name).is_dir()]
    waiting = [name for name in waiting if not own.leaves_out(name, is_folder=True)]
    while waiting:
        below = waiting.pop()
        for entry in (folder / below).iterdir():
            path = f"{below}/{entry.name}"
            if own.leaves_out(path, is_folder=entry.is_dir()):
                continue
            if entry.is_dir() and not entry.is_symlink():
                waiting.append(path)
            elif entry.is_file():
                yield path


class _OwnRules:
    """`.harborignore` in the folders that have it read; each holds for what lies below it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, IgnoreRules | None] = {}

    def leaves_out(self, path: str, *, is_folder: bool) -> bool:
        """Whether a path, or what it links to inside the task, is not published."""
        if self._matches(path, is_folder=is_folder):
            return True
        top = self._folder.resolve()
        real = (top / path).resolve()
        if real == top / path or not real.is_relative_to(top):
            return False
        return self._matches(real.relative_to(top).as_posix(), is_folder=real.is_dir())

    def _matches(self, path: str, *, is_folder: bool) -> bool:
        parts = path.split("/")
        if parts[-1] == _OWN_RULES:
            return True
        scopes: list[tuple[str, IgnoreRules]] = []
        for at in range(1, len(parts) + 1):
            above, current = "/".join(parts[: at - 1]), "/".join(parts[:at])
            if rules := self._rules_of(above):
                scopes.append((above + "/", rules))
            end = "/" if is_folder or at < len(parts) else ""
            verdict: bool | None = None
            for scope, known in scopes:
                found = known.verdict(current.removeprefix(scope) + end)
                verdict = verdict if found is None else found
            if verdict:
                return True
        return False

    def _rules_of(self, folder: str) -> IgnoreRules | None:
        if folder not in self._read:
            file = self._folder / folder / _OWN_RULES
            is_read = bool(_WITH_OWN_RULES.verdict(folder + "/")) and file.is_file()
            # As in git, a lone slash means nothing here, though Harbor's .gitignore takes it as all.
            lines = [line for line in _lines(file) if line.strip() != "/"] if is_read else []
            self._read[folder] = ignore_rules(lines) if is_read else None
        return self._read[folder]


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
