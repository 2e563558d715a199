"""The program git: run without prompts, ended with us, its errors told whole."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from rackbench_tasks.problem import TaskError

_PROTOCOLS = ("file", "git", "http", "https", "ssh")
# Of the repository that we may have been started in, such as by a hook of it.
_OF_ANOTHER = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"),
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_SHALLOW_FILE"),
)
_SETTINGS = {
    # Files exactly as they were committed, whatever the machine's own settings are.
    "core.autocrlf": "false",
    "core.eol": "lf",
    "core.symlinks": "true",
    "core.fileMode": "true",
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "fetch.recurseSubmodules": "false",
    "submodule.recurse": "false",
    "transfer.credentialsInUrl": "allow",
    "advice.detachedHead": "false",
    # A server that goes silent ends the transfer.
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "60",
}


class GitFailure(Exception):  # noqa: N818  # callers decide whether it is an error
    """A git command that did not succeed."""

    def __init__(self, command: str, said: str) -> None:
        super().__init__(f"git {command} said: {said or 'nothing'}")
        self.said = said
        """The last lines of its error output."""


def git(arguments: Sequence[str], *, git_dir: Path | None = None, stdin: bytes = b"") -> bytes:
    """Run git and give what it wrote to its standard output.

    Raises GitFailure; TaskError where there is no git.
    """
    settings = [text for key, value in _SETTINGS.items() for text in ("-c", f"{key}={value}")]
    where = [f"--git-dir={git_dir}"] if git_dir else []
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        try:
            process = subprocess.Popen(
                ["git", *settings, *where, *arguments],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(),
                # A group of its own, so that ending it ends its ssh and http programs too.
                start_new_session=True,
            )
        except FileNotFoundError:
            raise TaskError(
                "the program git, which fetches tasks from repositories, is not there; install git"
            ) from None
        with process:
            try:
                out, errors = process.communicate()
            finally:
                if process.poll() is None:  # interrupted
                    os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        command = next(text for text in arguments if not text.startswith("-"))
        raise GitFailure(command, _last_lines(errors))
    return out


def _environment() -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if key not in _OF_ANOTHER}
    return env | {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "GCM_INTERACTIVE": "never",
        "GIT_ALLOW_PROTOCOL": ":".join(_PROTOCOLS),
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C",
    }


def _last_lines(errors: bytes) -> str:
    lines = [line.strip() for line in errors.decode(errors="replace").splitlines()]
    told = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "ssh:"))]
    return "; ".join((told or [line for line in lines if line])[-4:])


def shown_url(url: str) -> str:
    """An address without the credentials in it."""
    parts = urlsplit(url)
    if "@" not in parts.netloc or not parts.scheme:
        return url
    user, _, host = parts.netloc.rpartition("@")
    # The user of ssh is part of the address; that of http may be a token.
    kept = f"{user.partition(':')[0]}@" if parts.scheme == "ssh" else ""
    return urlunsplit(parts._replace(netloc=f"{kept}{host}"))
