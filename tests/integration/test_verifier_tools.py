"""Verifiers that install what they test with, in sandboxes without any network."""

from __future__ import annotations

import platform
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import docker
import pytest

from rackbench.errors import PrerequisiteError
from rackbench.sandbox.container import Container, container
from rackbench.sandbox.creation import ContainerSpec
from rackbench.verifier_tools import (
    AT,
    VerifierTools,
    Warmed,
    load_tools,
    offer,
    warm_tools,
    withdraw,
)
from rackbench_harnesses.ports import Command
from rackbench_tasks import load_suite
from rackbench_tasks.verifier_setup import setup_fault

pytestmark = [pytest.mark.anyio, pytest.mark.docker, pytest.mark.timeout(900)]

PYTHON = platform.python_version()
SCRIPTS = {
    "uvx": """\
#!/bin/bash
apt-get update
apt-get install -y curl
curl -LsSf https://installer.example/uv/0.9.7/install.sh | sh
source $HOME/.local/bin/env
uvx \\
  --with pytest==8.4.1 \\
  --with pytest-json-ctrf==0.3.5 \\
  pytest --ctrf /tmp/ctrf.json /tests/test_outputs.py -rA
""",
    "uv-venv": """\
#!/bin/bash
cd /tmp
apt-get install -y curl
curl -LsSf https://installer.example/uv/install.sh | sh
source $HOME/.local/bin/env
set -e
uv venv .tbench-testing
source .tbench-testing/bin/activate
uv pip install pytest==8.4.1
uv run pytest $TEST_DIR/test_outputs.py -rA
""",
    "uv-add": """\
#!/bin/sh
set -e
cd /tmp
wget -q https://installer.example/uv/0.7.13/install.sh
sh install.sh
. "$HOME/.local/bin/env"
uv init --bare checks
cd checks
uv add pytest==8.4.1
uv run pytest /tests/test_outputs.py -rA
""",
    "pip": """\
#!/bin/bash
apt-get update -qq && apt-get install -y -qq curl python3-pip > /dev/null 2>&1 || true
pip3 install --break-system-packages -q pytest==8.4.1 pytest-json-ctrf==0.3.5
python3 -m pytest --ctrf /tmp/ctrf.json /tests/test_outputs.py -rA
""",
    "apt": """\
#!/bin/bash
set -e
apt-get update
apt-get install -y --no-install-recommends curl ca-certificates python3
python3 -m pytest /tests/test_outputs.py -rA
""",
    "lent-python": f"""\
#!/bin/bash
set -e
curl -LsSf https://installer.example/uv/install.sh -o /tmp/install.sh
UV_INSTALL_DIR=/tmp/uv-here sh /tmp/install.sh
/tmp/uv-here/uvx -p {PYTHON} --with pytest==8.4.1 pytest /tests/test_outputs.py -rA
""",
}
TEST = b"""\
import ctypes, hashlib, sqlite3, ssl, sys

def test_outputs():
    print("python", sys.version)
"""
IMPOSSIBLE = "#!/bin/sh\npip install pytest==0.0.99\napt-get install -y jq=1.6-2.1\nnpm ci\n"


def write_task(folder: Path, script: str) -> None:
    for name, content in {
        "task.toml": 'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\n',
        "instruction.md": "Do it.\n",
        "environment/Dockerfile": "FROM rackbench/base:1\n",
        "tests/test.sh": script,
        "tests/test_outputs.py": TEST.decode(),
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def warm(folder: Path, scripts: dict[str, str], tasks: Path) -> tuple[Warmed, list[str]]:
    for name, script in scripts.items():
        write_task(tasks / name, script)
    said: list[str] = []
    suite = load_suite(tasks, strict=True, host_env={})
    prefix = Path(sys.base_prefix)
    return warm_tools(suite, folder, pythons=[prefix], report=said.append), said


@pytest.fixture(scope="module")
def warmed(tmp_path_factory: pytest.TempPathFactory) -> Warmed:
    folder = tmp_path_factory.mktemp("verifier-tools")
    return warm(folder, SCRIPTS, tmp_path_factory.mktemp("tasks"))[0]


@pytest.fixture
def tools(warmed: Warmed) -> VerifierTools:
    return load_tools(warmed.folder)


@pytest.fixture
def lent(tmp_path: Path) -> Iterator[Path]:
    """The folder of an attempt that a sandbox has mounted from its start."""
    folder = tmp_path / "lent"
    folder.mkdir()
    yield folder
    withdraw(folder)


@asynccontextmanager
async def sealed(api: docker.APIClient, image: str, lent: Path) -> AsyncIterator[Container]:
    spec = ContainerSpec(
        image=image,
        labels={"rackbench.test": "1"},
        cpus=2,
        memory_bytes=1024**3,
        processes=200,
        read_only_mounts={AT: lent},
    )
    async with container(api, spec, on_teardown_error=print) as started:
        yield started


async def verify(sandbox: Container, script: str, *, user: str = "0") -> tuple[int | None, str]:
    files = {"/tests/test.sh": script.encode(), "/tests/test_outputs.py": TEST}
    await sandbox.upload(files, mode=0o755)
    env = {"HOME": f"/tmp/home-{user}", "TEST_DIR": "/tests"}
    argv = ["sh", "-c", "/tests/test.sh 2>&1"]
    run = [f"{AT}/run", *argv] if sandbox.phase_env else argv
    done = await sandbox.run(Command(run, env=env, user=user, timeout_seconds=240))
    return done.exit_code, done.text


@pytest.mark.parametrize(
    ("name", "user"), [*((name, "0") for name in SCRIPTS), ("uvx", "nobody"), ("uv-add", "nobody")]
)
async def test_typical_scripts_run_with_the_tools(
    name: str,
    user: str,
    docker_api: docker.APIClient,
    base_image: str,
    tools: VerifierTools,
    lent: Path,
) -> None:
    async with sealed(docker_api, base_image, lent) as sandbox:
        offer(tools, lent)
        sandbox.phase_env = tools.env
        code, output = await verify(sandbox, SCRIPTS[name], user=user)
    assert (code, "1 passed" in output) == (0, True), output
    assert setup_fault(output, {}) is None
    if name == "lent-python":
        assert f"python {PYTHON}" in output


@pytest.mark.parametrize("name", SCRIPTS)
async def test_without_the_tools_their_set_up_is_at_fault(
    name: str, docker_api: docker.APIClient, base_image: str, lent: Path
) -> None:
    async with sealed(docker_api, base_image, lent) as sandbox:
        code, output = await verify(sandbox, SCRIPTS[name])
    assert code != 0
    assert setup_fault(output, {}, script=SCRIPTS[name]), output


async def test_the_tools_come_and_go_and_cannot_be_written(
    docker_api: docker.APIClient, base_image: str, tools: VerifierTools, lent: Path
) -> None:
    before = (tools.folder / "run").read_bytes()
    attack = (
        f"echo x >>{AT}/run; rm -f {AT}/run; chmod 777 {AT}/run; touch {AT}/new; "
        f"mount -o remount,rw {AT}; ln {AT}/run /tmp/run; cat {AT}/run"
    )
    async with sealed(docker_api, base_image, lent) as sandbox:
        seen = await sandbox.run(Command(["sh", "-c", f"ls -A {AT}; touch {AT}/early"]))
        assert (seen.text, seen.exit_code) == ("", 1)
        offer(tools, lent)
        seen = await sandbox.run(Command(["sh", "-c", attack], user="0"))
        assert seen.stdout.endswith(before)
        withdraw(lent)
        seen = await sandbox.run(Command(["ls", "-A", AT]))
        assert seen.text == ""
    assert (tools.folder / "run").read_bytes() == before
    assert load_tools(tools.folder) == tools


async def test_stand_ins_leave_everything_else_to_the_real_programs(
    docker_api: docker.APIClient, base_image: str, tools: VerifierTools, lent: Path
) -> None:
    fake = b'#!/bin/sh\necho "real $0 $*"\n'
    script = """\
#!/bin/sh
cd /tmp
curl -s http://127.0.0.1:80/health
curl -LsSf https://any.example/uv/0.4.2/install.sh | sh >/dev/null; ls "$HOME/.cargo"
wget -qO- http://127.0.0.1/uv/readme
wget -qO here.sh https://any.example/uv/install.sh && head -1 here.sh
curl -LsSfo there.sh https://any.example/uv/install.sh && head -1 there.sh
apt-get remove -y python3
apt-get install -y git python3 no-such-thing
apt-get install -y git
"""
    async with sealed(docker_api, base_image, lent) as sandbox:
        programs = {f"/usr/bin/{name}": fake for name in ("curl", "wget", "apt-get")}
        await sandbox.upload(programs, mode=0o755)
        offer(tools, lent)
        sandbox.phase_env = tools.env
        _, output = await verify(sandbox, script)
    assert output.splitlines() == [
        "real /usr/bin/curl -s http://127.0.0.1:80/health",
        "bin",
        "env",
        "env.fish",
        "real /usr/bin/wget -qO- http://127.0.0.1/uv/readme",
        "#!/bin/sh",
        "#!/bin/sh",
        "real /usr/bin/apt-get remove -y python3",
        "real /usr/bin/apt-get install -y git python3 no-such-thing",
        "apt-get install git: there already, or stood in for (verifier tools)",
    ]


async def test_an_image_without_curl_gets_this_machines(
    docker_api: docker.APIClient, base_image: str, tools: VerifierTools, lent: Path
) -> None:
    script = """\
#!/bin/sh
cd /tests && python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 &
for second in 1 2 3 4 5 6 7 8 9; do
  curl -sf http://localhost:8123/test_outputs.py && exit
  sleep 1
done
"""
    async with sealed(docker_api, base_image, lent) as sandbox:
        offer(tools, lent)
        sandbox.phase_env = tools.env
        code, output = await verify(sandbox, script)
    assert (code, output) == (0, TEST.decode())


def test_warming_again_fetches_nothing_and_changes_nothing(warmed: Warmed, tmp_path: Path) -> None:
    again, said = warm(warmed.folder, SCRIPTS, tmp_path / "tasks")
    assert said == []
    assert again == warmed
    assert warmed.missing == ()
    assert PYTHON in warmed.pythons


def test_what_cannot_be_had_is_told_with_the_task_that_asks(warmed: Warmed, tmp_path: Path) -> None:
    again, said = warm(warmed.folder, {"impossible": IMPOSSIBLE}, tmp_path / "tasks")
    assert [(missing.what, missing.tasks) for missing in again.missing] == [
        ("pytest==0.0.99", ("impossible",))
    ]
    assert [(note.what, note.tasks) for note in again.notes] == [
        ("jq=1.6-2.1", ("impossible",)),
        ("npm ci", ("impossible",)),
    ]
    assert len(said) == 3  # for each Python that an unknown image may have
    assert load_tools(warmed.folder).digest == warmed.digest


def test_a_folder_that_is_not_whole_is_refused_with_the_command_that_mends_it(
    tmp_path: Path, tools: VerifierTools
) -> None:
    with pytest.raises(PrerequisiteError, match=r"is not there; run: rackbench task warm SUITE"):
        load_tools(tmp_path / "none")
    offer(tools, tmp_path)
    assert load_tools(tmp_path).digest == tools.digest
    (tmp_path / "uv" / "uvx").unlink()
    with pytest.raises(PrerequisiteError, match=r"1 files are missing.*uvx.*rackbench task warm"):
        load_tools(tmp_path)


def test_a_folder_that_is_no_python_is_refused(tmp_path: Path) -> None:
    write_task(tmp_path / "tasks" / "one", SCRIPTS["apt"])
    suite = load_suite(tmp_path / "tasks", strict=True, host_env={})
    with pytest.raises(PrerequisiteError, match=r"no bin/python3"):
        warm_tools(suite, tmp_path / "tools", pythons=[tmp_path], report=print)
    with pytest.raises(PrerequisiteError, match=r"virtual environment"):
        warm_tools(suite, tmp_path / "tools", pythons=[Path(sys.prefix)], report=print)
