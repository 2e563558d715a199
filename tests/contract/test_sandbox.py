"""What every sandbox must do, on a real Docker daemon, with both ways of ending processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import docker
import pytest

from rackbench.sandbox.container import Container, container
from rackbench.sandbox.creation import ContainerSpec
from rackbench.sandbox.processes import now_ticks
from rackbench_harnesses.ports import Command, SandboxError

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

# Four ways to outlive a shell: a new session, a double fork, a child, the shell itself.
STUBBORN = "setsid nohup sleep 321 & (sleep 321 & sleep 321) & sleep 321"


@pytest.fixture(params=["host", "inside"])
async def sandbox(
    request: pytest.FixtureRequest, docker_api: docker.APIClient, base_image: str
) -> AsyncIterator[Container]:
    spec = ContainerSpec(
        image=base_image,
        labels={"rackbench.test": "1"},
        cpus=1,
        memory_bytes=256 * 1024 * 1024,
        processes=100,
        env={"FROM_TASK": "yes"},
        workdir="/srv",
        kill_from_inside=request.param == "inside",
    )
    errors: list[str] = []
    async with container(docker_api, spec, on_teardown_error=errors.append) as started:
        yield started
    assert errors == []
    left = docker_api.containers(all=True, filters={"id": started.id})
    assert left == []


async def sleepers(sandbox: Container) -> int:
    # The pattern must not find the shell that looks for it.
    done = await sandbox.run(Command(["sh", "-c", "ps -eo args | grep -c '^[s]leep 321'; true"]))
    return int(done.text)


async def test_streams_exit_codes_and_bytes_are_kept_apart(sandbox: Container) -> None:
    done = await sandbox.run(Command(["sh", "-c", r"printf '\000\377out'; printf err >&2; exit 7"]))
    assert (done.exit_code, done.stdout, done.stderr) == (7, b"\x00\xffout", b"err")
    assert not done.timed_out


@pytest.mark.parametrize("code", [0, 1, 126, 127, 137, 143, 255])
async def test_exit_codes_pass(sandbox: Container, code: int) -> None:
    done = await sandbox.run(Command(["sh", "-c", f"exit {code}"]))
    assert done.exit_code == code


async def test_a_program_that_is_missing_is_told_by_its_exit_code(sandbox: Container) -> None:
    done = await sandbox.run(Command(["no-such-program"]))
    assert done.exit_code in (126, 127)


async def test_stdin_environment_user_and_folder(sandbox: Container) -> None:
    script = "cat; echo; echo $FROM_TASK $MINE; id -un; pwd"
    done = await sandbox.run(
        Command(["sh", "-c", script], stdin=b"in", env={"MINE": "ok"}, user="nobody", cwd="/tmp")
    )
    assert done.text.splitlines() == ["in", "yes ok", "nobody", "/tmp"]
    done = await sandbox.run(Command(["pwd"]))
    assert done.text == "/srv\n"


async def test_large_stdin_arrives_whole(sandbox: Container) -> None:
    done = await sandbox.run(Command(["wc", "-c"], stdin=b"x" * 3_000_000))
    assert done.text.strip() == "3000000"


async def test_a_command_that_reads_nothing_gets_an_end_of_file(sandbox: Container) -> None:
    done = await sandbox.run(Command(["cat"], timeout_seconds=20))
    assert (done.exit_code, done.stdout) == (0, b"")


async def test_output_is_bounded_and_the_rest_counted(sandbox: Container) -> None:
    done = await sandbox.run(
        Command(["sh", "-c", "head -c 5000000 /dev/zero"], output_limit_bytes=1000)
    )
    assert (len(done.stdout), done.stdout_dropped_bytes) == (1000, 4_999_000)


async def test_early_output_is_never_lost(sandbox: Container) -> None:
    for number in range(30):
        done = await sandbox.run(Command(["echo", str(number)]))
        assert done.text == f"{number}\n"


async def test_a_time_limit_ends_the_whole_tree(sandbox: Container) -> None:
    done = await sandbox.run(Command(["sh", "-c", STUBBORN], timeout_seconds=1))
    assert done.timed_out
    assert done.exit_code is None
    assert await sleepers(sandbox) == 0


async def test_output_before_a_time_limit_is_kept(sandbox: Container) -> None:
    done = await sandbox.run(Command(["sh", "-c", "echo early; sleep 60"], timeout_seconds=1))
    assert (done.text, done.timed_out) == ("early\n", True)


async def test_cancelling_the_caller_ends_the_tree(sandbox: Container) -> None:
    with anyio.move_on_after(1):
        await sandbox.run(Command(["sh", "-c", STUBBORN]))
    assert await sleepers(sandbox) == 0


async def test_a_service_outlives_its_command_and_later_time_limits(sandbox: Container) -> None:
    since = now_ticks()
    assert await sandbox.count_since(since) == 0
    await sandbox.run(Command(["sh", "-c", "sleep 321 >/dev/null 2>&1 &"]))
    await anyio.sleep(0.1)
    assert await sandbox.count_since(since) == 1
    await sandbox.run(Command(["sleep", "60"], timeout_seconds=0.5))
    assert await sleepers(sandbox) == 1
    assert await sandbox.kill_since(0) >= 1
    assert await sleepers(sandbox) == 0


async def test_a_forking_swarm_is_ended(sandbox: Container) -> None:
    swarm = "f() { sleep 0.01; f & }; f; f; f; sleep 321"
    done = await sandbox.run(Command(["bash", "-c", swarm], timeout_seconds=1))
    assert done.timed_out
    await anyio.sleep(0.3)
    assert await sleepers(sandbox) == 0
    done = await sandbox.run(Command(["sh", "-c", "ps -eo args | grep -c '^bash'; true"]))
    assert done.text.strip() == "0"


async def test_limits_of_memory_and_processes_hold(sandbox: Container) -> None:
    before = sandbox.oom_kills()
    hungry = "x = bytearray(10**9)"
    done = await sandbox.run(Command(["python3", "-c", hungry]))
    assert done.exit_code == 137
    assert sandbox.oom_kills() == before + 1
    many = "for i in $(seq 200); do sleep 5 & done; wait"
    done = await sandbox.run(Command(["bash", "-c", many], timeout_seconds=20))
    assert b"fork" in done.stderr.lower() or b"resource" in done.stderr.lower()


async def test_there_is_no_network_and_no_extra_privilege(sandbox: Container) -> None:
    done = await sandbox.run(Command(["cat", "/proc/net/dev"]))
    names = [line.split(":")[0].strip() for line in done.text.splitlines()[2:]]
    assert [
        name for name in names if not name.startswith(("lo", "tunl", "sit", "ip6", "gre"))
    ] == []
    done = await sandbox.run(Command(["grep", "NoNewPrivs", "/proc/self/status"]))
    assert done.text.split() == ["NoNewPrivs:", "1"]


async def test_zombies_are_reaped(sandbox: Container) -> None:
    await sandbox.run(Command(["sh", "-c", "for i in 1 2 3 4 5; do (true &) ; done"]))
    await anyio.sleep(0.2)
    done = await sandbox.run(Command(["sh", "-c", "ps -eo stat | grep -c '^Z'; true"]))
    assert done.text.strip() == "0"


async def test_files_go_in_and_come_out(sandbox: Container, tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    (folder / "deep").mkdir(parents=True)
    (folder / "test.sh").write_text("#!/bin/sh\necho ran\n")
    (folder / "deep" / "data").write_bytes(b"\x00\xff")
    await sandbox.upload_folder(folder, "/tests")
    await sandbox.upload({"/etc/made/a.txt": b"A", "/b.txt": b"B"})
    done = await sandbox.run(Command(["sh", "-c", "/tests/test.sh; cat /etc/made/a.txt /b.txt"]))
    assert done.text == "ran\nAB"
    assert await sandbox.download("/tests", limit_bytes=10_000_000) == {
        "test.sh": b"#!/bin/sh\necho ran\n",
        "deep/data": b"\x00\xff",
    }


async def test_hostile_files_are_left_out_and_large_ones_refused(sandbox: Container) -> None:
    script = "mkdir /out; cd /out; ln -s /etc/passwd link; mkfifo pipe; echo fine >file"
    await sandbox.run(Command(["sh", "-c", script]))
    seen = await sandbox.listing("/out", limit_bytes=1_000_000)
    assert seen is not None
    assert (dict(seen.files), sorted(seen.others), seen.is_folder) == (
        {"file": b"fine\n"},
        ["link", "pipe"],
        True,
    )
    await sandbox.run(Command(["sh", "-c", "head -c 3000000 /dev/zero >/out/large"]))
    with pytest.raises(SandboxError, match="larger than 1,000,000 bytes"):
        await sandbox.download("/out", limit_bytes=1_000_000)
    assert await sandbox.listing("/nothing-here", limit_bytes=1000) is None
    with pytest.raises(SandboxError, match="there is no /nothing-here"):
        await sandbox.download("/nothing-here", limit_bytes=1000)


async def test_what_was_written_is_measured(sandbox: Container) -> None:
    await sandbox.run(Command(["sh", "-c", "head -c 20000000 /dev/zero >/large; sync"]))
    assert await sandbox.written_bytes() >= 20_000_000


async def test_a_dead_container_is_an_error_not_an_exit_code(
    sandbox: Container, docker_api: docker.APIClient
) -> None:
    async def kill_soon() -> None:
        await anyio.sleep(0.5)
        await anyio.to_thread.run_sync(lambda: docker_api.kill(sandbox.id))

    async with anyio.create_task_group() as beside:
        beside.start_soon(kill_soon)
        with pytest.raises(SandboxError):
            await sandbox.run(Command(["sleep", "30"]))
    with pytest.raises(SandboxError):
        await sandbox.run(Command(["true"]))


async def test_an_image_that_is_not_there_is_a_sandbox_error(docker_api: docker.APIClient) -> None:
    spec = ContainerSpec(image="rackbench/absent:1", labels={}, cpus=1, memory_bytes=2**28)
    with pytest.raises(SandboxError, match="rackbench/absent:1"):
        async with container(docker_api, spec, on_teardown_error=print):
            pass


async def test_root_keeps_its_powers_beside_an_agent_that_is_not_root(
    docker_api: docker.APIClient, base_image: str
) -> None:
    spec = ContainerSpec(image=base_image, labels={}, cpus=1, memory_bytes=2**28, user="nobody")
    async with container(docker_api, spec, on_teardown_error=print) as sandbox:
        done = await sandbox.run(Command(["id", "-un"]))
        assert done.text == "nobody\n"
        script = "touch /file && chown daemon /file && setpriv --reuid=daemon id -un"
        done = await sandbox.run(Command(["sh", "-c", script], user="0", cwd="/"))
        assert (done.text, done.stderr) == ("daemon\n", b"")
