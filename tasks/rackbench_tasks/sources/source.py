"""A source of tasks as it is written in a suite file or a run file."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from rackbench_tasks.files import absolute
from rackbench_tasks.sources.git import shown_url

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://|[^/:]+:(?!//)")  # the second: user@host:path, as of ssh
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://")
_SCHEMES = ("file", "git", "http", "https", "ssh")
_BAD_REF = re.compile(r"[\s~^:?*\[\\\x00-\x1f\x7f]|\.\.|@\{|//|^[-/.]|[/.]$|\.lock$")


def _is_text(value: object) -> object:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise ValueError("text; put it into quotes, since YAML reads it as a number")  # noqa: TRY004
    return value


def _is_ref(value: str) -> str:
    name = value.removeprefix("refs/tags/").removeprefix("refs/heads/")
    if _BAD_REF.search(name):
        raise ValueError("a tag, or a full commit")
    return name


def _is_address(value: str) -> str:
    scheme = _SCHEME.match(value)
    if value.startswith("-") or "::" in value or (scheme and scheme[1] not in _SCHEMES):
        raise ValueError(f"a repository's address: {', '.join(_SCHEMES)}, host:path, or a folder")
    return value


def is_digest(value: str) -> str:
    """Check that a text is a digest as we write it."""
    if not DIGEST.fullmatch(value):
        raise ValueError("sha256: and 64 digits of 0-9a-f")
    return value


Text = Annotated[str, Field(min_length=1)]
Digest = Annotated[str, AfterValidator(is_digest)]
Ref = Annotated[Text, BeforeValidator(_is_text), AfterValidator(_is_ref)]


class Written(BaseModel):
    """What a person wrote; keys that do not exist are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Source(Written):
    """Where tasks are, and what is taken from there."""

    path: Text | None = None
    """A task, a folder of tasks, a suite file, or an archive, relative to the file that names it;
    beside `git` or `archive`: a folder or suite file inside it."""
    git: Annotated[Text, AfterValidator(_is_address)] | None = None
    """A repository's address."""
    ref: Ref | None = None
    """Of the repository: a tag, or a full commit."""
    moving: bool = False
    """True lets `ref` be a branch, and a tag point elsewhere than last time."""
    mirror: Text | None = None
    """A local copy of the repository, asked before its address is."""
    archive: Text | None = None
    """A .tar, .tar.gz, .tar.xz, .tar.bz2, .tar.zst or .zip file of tasks."""
    digest: Digest | None = None
    """`sha256:…` that the archive must have."""
    include: tuple[Text, ...] = ("*",)
    """Patterns of folder names or ids to take."""
    exclude: tuple[Text, ...] = ()
    """Patterns of folder names or ids to leave out."""

    @model_validator(mode="after")
    def _keys_fit(self) -> Source:
        if self.git and self.archive:
            raise ValueError("either `git` or `archive`")
        if not (self.path or self.git or self.archive):
            raise ValueError("one of `path`, `git` and `archive`")
        if self.git and not self.ref:
            raise ValueError("`ref` beside `git`: a tag, or a full commit")
        if not self.git and (self.ref or self.mirror or self.moving):
            raise ValueError("`git` beside `ref`, `mirror` and `moving`")
        inside = PurePosixPath(self.path or "") if self.git or self.archive else PurePosixPath()
        if inside.is_absolute() or ".." in inside.parts:
            raise ValueError("`path` inside the repository or archive, without `..`")
        if self.digest and not self.archive:
            raise ValueError("`archive` beside `digest`; tasks are pinned by `digests`")
        return self

    @property
    def label(self) -> str:
        """For people: what is named, without credentials."""
        return shown_url(self.git) if self.git else self.archive or self.path or ""

    def anchored(self, folder: Path) -> Source:
        """The same source with its local paths made absolute, relative ones from a folder."""

        def at(path: str | None) -> str | None:
            return str(absolute(folder / Path(path).expanduser())) if path else path

        is_inside = bool(self.git or self.archive)
        return self.model_copy(
            update={
                "path": self.path if is_inside else at(self.path),
                "archive": at(self.archive),
                "mirror": at(self.mirror),
                "git": self.git if self.git and _REMOTE.match(self.git) else at(self.git),
            }
        )
