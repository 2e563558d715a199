"""What is installed where: found in a moment, made step by step, never half."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rackbench.engine_install.environment import Build, chosen_build, make_environment
from rackbench.engine_install.model import MODEL_NAME, make_model, model_recipe
from rackbench.engine_install.stage import stage

_RECORD = "installation.json"
_RECORD_SCHEMA = 1

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Installation:
    """An engine that has answered, and weights that it can serve."""

    python: Path
    """Interpreter of the engine's environment."""
    vllm: Path
    """The program `vllm`."""
    model: Path
    """Folder of the small model's weights."""
    template: Path
    """Chat template with tools for the small model."""
    version: str
    """Of the engine; ends in `+cpu` where it runs without a GPU."""

    def is_whole(self) -> bool:
        """Whether the files that it names are there."""
        files = (self.python, self.vllm, self.model / "config.json", self.template)
        return all(path.is_file() for path in files)


def default_home() -> Path:
    """Where the engine lives unless told otherwise."""
    own = os.environ.get("RACKBENCH_CACHE")
    if own:
        return Path(own).expanduser() / "engine"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "rackbench" / "engine"


def find(home: Path) -> Installation | None:
    """The installation in a folder; None where there is none, or only a part of one."""
    found = _read(home)
    return found[0] if found else None


def install(home: Path, *, report: Report) -> Installation:
    """Install engine and model, or what is missing of them.

    Raises PrerequisiteError.
    """
    build = chosen_build()
    recipe = _recipe(build)
    if whole := _current(home, recipe):
        return whole
    home.mkdir(parents=True, exist_ok=True)
    with _alone(home, report=report):
        if whole := _current(home, recipe):
            return whole
        (home / _RECORD).unlink(missing_ok=True)
        environment = home / "environment"
        with stage(environment, build.recipe()) as missing:
            if missing:
                make_environment(environment, build, report=report)
        python = environment / "bin" / "python"
        models = home / "models"
        with stage(models, model_recipe()) as missing:
            if missing:
                make_model(models, python=python, report=report)
        installed = Installation(
            python=python,
            vllm=environment / "bin" / "vllm",
            model=models / MODEL_NAME,
            template=models / f"{MODEL_NAME}-tools.jinja",
            version=build.version,
        )
        _write(home, installed, recipe)
    report(f"the engine is installed in {home}")
    return installed


def _recipe(build: Build) -> str:
    return f"{build.recipe()} {model_recipe()}"


def _current(home: Path, recipe: str) -> Installation | None:
    found = _read(home)
    return found[0] if found and found[1] == recipe else None


def _read(home: Path) -> tuple[Installation, str] | None:
    """The installation and its recipe."""
    try:
        record = json.loads((home / _RECORD).read_text())
        if record["schema_version"] != _RECORD_SCHEMA:
            return None
        installed = Installation(
            python=Path(record["python"]),
            vllm=Path(record["vllm"]),
            model=Path(record["model"]),
            template=Path(record["template"]),
            version=str(record["version"]),
        )
        recipe = str(record["recipe"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (installed, recipe) if installed.is_whole() else None


def _write(home: Path, installed: Installation, recipe: str) -> None:
    fields = {name: str(value) for name, value in asdict(installed).items()}
    record = {"schema_version": _RECORD_SCHEMA, **fields, "recipe": recipe}
    unfinished = home / f".{_RECORD}.{os.getpid()}"
    with unfinished.open("w") as file:
        json.dump(record, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(home / _RECORD)


@contextmanager
def _alone(home: Path, *, report: Report) -> Iterator[None]:
    """One installer per home at a time; the others wait and then find it done."""
    with (home / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another installation into {home}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
