"""The reference of a Terminal-Bench 1 task: a script, or a list of what is typed."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from pydantic import TypeAdapter, ValidationError

from rackbench_tasks.files import read_text
from rackbench_tasks.findings import Findings
from rackbench_tasks.formats.folder import script_bytes
from rackbench_tasks.formats.terminal_bench_1_schema import RawKeystrokes
from rackbench_tasks.model import Solution
from rackbench_tasks.problem import TaskError, located_problems

_SCRIPT = "solution.sh"
_TYPED = "solution.yaml"
_ENTRIES = TypeAdapter(list[RawKeystrokes])
_KEY = re.compile(
    r"(?:[CMS]-)+\S+|\^?\[?[A-Za-z]?|Enter|Escape|Tab|BSpace|Space|Up|Down|Left|Right|Home|End"
    r"|PageUp|PageDown|DC|IC|F\d{1,2}"
)


def solution_of(folder: Path, findings: Findings) -> Solution | None:
    """The reference that proves a task solvable, where the folder has one that can be replayed."""
    script = folder / _SCRIPT
    if script.is_file():
        content = script_bytes(script, folder, findings)
        return Solution(files={_SCRIPT: content}, script=_SCRIPT)
    if not (folder / _TYPED).is_file():
        return None
    lines = _lines(folder / _TYPED, findings)
    if lines is None:
        return None
    text = "#!/bin/bash\n" + "".join(f"{line}\n" for line in lines)
    return Solution(files={_SCRIPT: text.encode()}, script=_SCRIPT)


def _lines(path: Path, findings: Findings) -> list[str] | None:
    """The commands of a list of keystrokes, where each one is a line of a shell."""
    try:
        entries = _ENTRIES.validate_python(yaml.safe_load(read_text(path)))
    except ValidationError as error:
        findings.problems.extend(f"{path}: {text}" for _, text in located_problems(error))
        return None
    except yaml.YAMLError as error:
        findings.problems.append(f"{path}: is not YAML: {error}")
        return None
    except TaskError as error:
        findings.problems.extend(error.problems)
        return None
    for number, entry in enumerate(entries, start=1):
        if _types_into_a_program(entry, is_last=number == len(entries)):
            findings.warning(
                f"{_TYPED} types into a running program (entry {number}: {entry.command!r}), "
                "which no script can do; the task has no reference to run"
            )
            return None
    return [entry.command.rstrip("\n") for entry in entries]


def _types_into_a_program(entry: RawKeystrokes, *, is_last: bool) -> bool:
    command = entry.command.strip()
    if _KEY.fullmatch(command) or not (entry.append_enter or entry.command.endswith("\n")):
        return True
    # What is typed next goes to whatever still runs, which is a shell only if this has ended.
    return entry.block is False and not is_last and not command.endswith("&")
