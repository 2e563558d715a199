"""Eight copies of the smallest task there is, so that what is measured is the runner."""

from __future__ import annotations

import shutil
from pathlib import Path

COUNT = 8
_TOML = """\
schema_version = "1.4"
{top}
[task]
name = "bench/{name}"
description = "write a greeting"

[agent]
timeout_sec = 60.0

[verifier]
timeout_sec = 60.0
{verifier}

[environment]
cpus = 1
memory_mb = 512
network_mode = "{network}"
workdir = "/app"
build_timeout_sec = 300.0
"""
_TEST = """\
#!/bin/sh
if [ "$(cat /app/hello.txt 2>/dev/null)" = "Hello, world!" ]; then
  echo 1 >/logs/verifier/reward.txt
else
  echo 0 >/logs/verifier/reward.txt
fi
"""
VERIFIER_DOCKERFILE = "FROM rackbench/base:1\nWORKDIR /app\nCOPY . /tests\n"
SOLVE = "#!/bin/sh\necho 'Hello, world!' >/app/hello.txt\n"


def write_tasks(folder: Path, *, network: str, separate: bool = False) -> Path:
    """Write the tasks anew, with a verifier in the agent's container or in one of its own.

    Harbor on Docker has no network mode that needs no image from a registry but `public`; ours
    seals. So each gets the tasks it can run, alike but for that line.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for number in range(COUNT):
        name = f"hello-{number}"
        task = folder / name
        for part in ("environment", "tests", "solution"):
            (task / part).mkdir(parents=True)
        (task / "task.toml").write_text(
            _TOML.format(
                name=name,
                network=network,
                top='artifacts = ["/app/hello.txt"]' if separate else "",
                verifier='environment_mode = "separate"' if separate else "",
            )
        )
        if separate:
            (task / "tests" / "Dockerfile").write_text(VERIFIER_DOCKERFILE)
        (task / "instruction.md").write_text("Write Hello, world! to /app/hello.txt.\n")
        (task / "environment" / "Dockerfile").write_text("FROM rackbench/base:1\nWORKDIR /app\n")
        (task / "tests" / "test.sh").write_text(_TEST)
        (task / "solution" / "solve.sh").write_text(SOLVE)
        for script in (task / "tests" / "test.sh", task / "solution" / "solve.sh"):
            script.chmod(0o755)
    return folder


TEST = _TEST
