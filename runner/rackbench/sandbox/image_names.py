"""Names of images: which mean the same, and what a map makes of them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from docker.auth import INDEX_NAME

_DEFAULT_HOSTS = (f"{INDEX_NAME}/", f"index.{INDEX_NAME}/")
_MAPPED = "rackbench/mapped"
_ID = re.compile(r"sha256:[0-9a-f]{64}")


class ImageMap:
    """What images are called on this machine, by the names that tasks have for them."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = {canonical(name): local for name, local in names.items()}

    def get(self, name: str) -> str | None:
        """A local name or an id; None where the name stands for itself."""
        return self._names.get(canonical(name))


def canonical(name: str) -> str:
    """One spelling for all names of one image: a digest goes before a tag, `latest` is written."""
    name = name.strip()
    if is_id(name):
        return name
    name, _, digest = name.partition("@")
    for host in _DEFAULT_HOSTS:
        name = name.removeprefix(host)
    repository, tag = split_tag(name.removeprefix("library/"))
    return f"{repository}@{digest}" if digest else f"{repository}:{tag or 'latest'}"


def split_tag(name: str) -> tuple[str, str]:
    """Repository and tag of a name without digest; a port of a host is no tag."""
    head, colon, tail = name.rpartition(":")
    return (head, tail) if colon and "/" not in tail else (name, "")


def name_of_id(image_id: str) -> tuple[str, str]:
    """Repository and tag by which an image without a name is kept and built upon here."""
    return _MAPPED, image_id.removeprefix("sha256:")[:32]


def is_id(name: str) -> bool:
    """Whether it is an image's id as the engine gives it."""
    return _ID.fullmatch(name) is not None
