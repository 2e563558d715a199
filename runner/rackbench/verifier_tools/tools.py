"""A tool folder that is whole, and how a verifier is told of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rackbench.errors import PrerequisiteError
from rackbench.verifier_tools.index import INDEX_NAME, damaged, read_index

AT = "/opt/rackbench-verifier-tools"
"""Where a sandbox sees the tools, read-only, while its verifier works."""

_ENV = {
    "UV_OFFLINE": "1",
    "UV_FIND_LINKS": f"{AT}/wheels",
    "UV_CONFIG_FILE": f"{AT}/lib/uv.toml",
    "UV_PYTHON_INSTALL_DIR": f"{AT}/pythons",
    "UV_PYTHON_DOWNLOADS": "never",
    # As it is online where nothing was downloaded yet: the image's own Python goes first.
    "UV_PYTHON_PREFERENCE": "system",
    "UV_CACHE_DIR": "/tmp/rackbench-uv-cache",  # noqa: S108  # of the sandbox, which has no other
    "UV_LINK_MODE": "copy",
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": f"{AT}/wheels",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}


@dataclass(frozen=True, slots=True)
class VerifierTools:
    """What `rackbench task warm` made, to be lent to verifiers."""

    folder: Path
    digest: str
    """`sha256:…` over everything in it; belongs into the record of an attempt."""
    files: tuple[str, ...] = field(repr=False)
    """Paths below the folder."""
    env: Mapping[str, str] = field(default_factory=lambda: dict(_ENV), repr=False)
    """For every command of the verifier phase, over the image's and the task's own."""

    def command(self, argv: Sequence[str]) -> list[str]:
        """A verifier's command with the stand-ins first on its PATH, whatever the image's is."""
        return [f"{AT}/run", *argv]


def default_folder() -> Path:
    """Where the tools are unless told otherwise."""
    own = os.environ.get("RACKBENCH_CACHE")
    if own:
        return Path(own).expanduser() / "verifier-tools"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "rackbench" / "verifier-tools"


def load_tools(folder: Path) -> VerifierTools:
    """The tools in a folder, seen to be whole by the sizes of their files.

    Raises PrerequisiteError with the command that mends it.
    """
    mend = f"run: rackbench task warm SUITE --to {folder}"
    index = read_index(folder)
    if index is None:
        state = "cannot be read" if (folder / INDEX_NAME).exists() else "is not there"
        raise PrerequisiteError(f"no verifier tools in {folder}: {INDEX_NAME} {state}; {mend}")
    if broken := damaged(folder, index):
        shown = ", ".join(broken[:3])
        raise PrerequisiteError(
            f"the verifier tools in {folder} are not whole: {len(broken)} files are missing or "
            f"changed ({shown}); {mend}"
        )
    return VerifierTools(folder.absolute(), index.digest, tuple(index.files))
