"""Task folders in Harbor's format, each version and each oddity: what comes out, value by value."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rackbench_tasks import (
    AgentPhase,
    Artifact,
    Build,
    CollectHook,
    Compose,
    Environment,
    Healthcheck,
    Network,
    NetworkMode,
    RewardStrategy,
    Solution,
    Stage,
    Task,
    VerifierPhase,
    task_digest,
)
from rackbench_tasks.formats.harbor import Harbor

GOLDEN = Path(__file__).parents[1] / "data" / "tasks" / "harbor"
MIB = 1024 * 1024
INSTRUCTION = "Create the empty file /app/done.\n"
SEALED = Network(NetworkMode.NO_NETWORK)


def load(folder: Path, **host_env: str) -> Task:
    task = Harbor().load(folder, strict=False, host_env=host_env)
    assert (task.folder, task.digest) == (folder, task_digest(folder))
    return task


def warnings_of(task: Task) -> list[str]:
    return [
        line.replace(f"{task.folder}/", "").replace(f"{task.folder}", ".") for line in task.warnings
    ]


def built(folder: Path, **more: object) -> Environment:
    return replace(Environment(build=Build(folder / "environment")), **more)  # type: ignore[arg-type]


def usual(folder: Path, **verifier: object) -> Stage:
    """What a folder without any surprise holds."""
    return Stage(
        instruction=INSTRUCTION,
        agent=AgentPhase(),
        verifier=replace(VerifierPhase(tests=(folder / "tests",)), **verifier),  # type: ignore[arg-type]
        solution=Solution(folder=folder / "solution"),
    )


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "1.3", "1.4"])
def test_each_version(version: str) -> None:
    folder = GOLDEN / f"schema-{version}"
    task = load(folder)
    assert (task.id, task.name) == (f"golden/schema-{version}", f"schema-{version}")
    assert task.environment == built(
        folder, cpus=1.0, memory_bytes=256 * MIB, storage_bytes=512 * MIB
    )
    stage = usual(folder, timeout_seconds=30.0)
    assert task.stages == (replace(stage, agent=AgentPhase(120.0)),)
    assert (task.needs, task.warnings) == ((), ())


def test_version_2_is_read_with_a_warning() -> None:
    folder = GOLDEN / "version-2.0"
    task = load(folder)
    assert task.environment == built(folder, cpus=2.0, memory_bytes=256 * MIB, network=SEALED)
    assert task.stages == (replace(usual(folder), agent=AgentPhase(120.0)),)
    assert task.metadata == {"number_of_milestones": 1}
    assert warnings_of(task) == [
        "task.toml:1: 'version' \"2.0\" is none of Harbor's; it is read as 1.4"
    ]


def test_a_separate_verifier_with_a_dockerfile_of_its_own() -> None:
    folder = GOLDEN / "separate-own-dockerfile"
    task = load(folder)
    (stage,) = task.stages
    assert stage.verifier == VerifierPhase(
        command=("/bin/sh", "/tests/test.sh"),
        timeout_seconds=45.0,
        user="root",
        separate=True,
        environment=Environment(
            build=Build(folder / "tests"),
            cpus=1.5,
            memory_bytes=128 * MIB,
            storage_bytes=512 * MIB,
            network=SEALED,
        ),
    )
    assert stage.artifacts == (
        Artifact("/app/done"),
        Artifact("/app/log", "log", ("*.tmp", "cache")),
    )
    assert task.needs == ("separate-verifier",)


def test_a_separate_verifier_with_an_image_of_its_own() -> None:
    task = load(GOLDEN / "separate-own-image")
    (stage,) = task.stages
    image = "rackbench/base:1"
    assert task.environment == Environment(docker_image=image, memory_bytes=256 * MIB)
    assert stage.verifier == VerifierPhase(
        separate=True,
        environment=Environment(docker_image=image, cpus=1.0, memory_bytes=256 * MIB),
    )


def test_a_separate_verifier_in_the_agents_image() -> None:
    folder = GOLDEN / "separate-agents-image"
    task = load(folder)
    assert task.environment == built(folder, memory_bytes=256 * MIB, env={"MODE": "work"})
    (stage,) = task.stages
    assert stage.verifier == VerifierPhase(
        tests=(folder / "tests",),
        env={"STRICT": "1"},
        separate=True,
        environment=task.environment,
    )


def test_artifacts_and_hooks_of_a_sidecar() -> None:
    folder = GOLDEN / "collect-from-sidecar"
    task = load(folder)
    context = folder / "environment"
    compose = Compose(context / "docker-compose.yaml", "main", {"CONTEXT_DIR": str(context)})
    assert task.environment == built(folder, compose=compose)
    (stage,) = task.stages
    assert stage.artifacts == (
        Artifact("/app/done"),
        Artifact("/data/snapshot.json", service="ledger"),
    )
    assert stage.verifier.collect == (
        CollectHook("sync"),
        CollectHook("cp /data/live.json /data/snapshot.json", "ledger", 5.0, "root"),
    )
    assert task.needs == ("compose", "separate-verifier", "collect-hooks")


def test_steps_take_over_from_their_task() -> None:
    folder = GOLDEN / "steps-mean"
    task = load(folder)
    first, second = task.stages
    steps = folder / "steps"
    assert first == Stage(
        instruction="First.\n",
        agent=AgentPhase(50.0, "root", SEALED),
        verifier=VerifierPhase(
            tests=(folder / "tests", steps / "02_first" / "tests"),
            timeout_seconds=10.0,
            env={"LEVEL": "step", "WHO": "all"},
            user="nobody",
            collect=(CollectHook("echo all"), CollectHook("echo first")),
        ),
        name="02_first",
        solution=Solution(folder=steps / "02_first" / "solution"),
        artifacts=(Artifact("/app/all"), Artifact("/app/more"), Artifact("/app/first")),
        workdir=steps / "02_first" / "workdir",
        healthcheck=Healthcheck("test -d /app", interval_seconds=1.0, retries=2),
        min_reward={"reward": 0.5},
    )
    assert second == Stage(
        instruction="Second.\n",
        agent=AgentPhase(100.0, "root"),
        verifier=VerifierPhase(
            tests=(folder / "tests", steps / "01_second" / "tests"),
            timeout_seconds=20.0,
            env={"LEVEL": "task", "WHO": "all"},
            collect=(CollectHook("echo all"),),
        ),
        name="01_second",
        solution=Solution(folder=folder / "solution"),
        artifacts=(Artifact("/app/all"), Artifact("/app/more")),
        min_reward={"reward": 1.0, "quality": 0.25},
    )
    assert task.reward_strategy is RewardStrategy.MEAN
    assert task.needs == ("multi-step", "collect-hooks", "phase-network")


def test_steps_may_be_judged_in_different_places() -> None:
    folder = GOLDEN / "steps-final"
    task = load(folder)
    shared, own_judge, own_image = (stage.verifier for stage in task.stages)
    assert task.reward_strategy is RewardStrategy.FINAL
    assert [stage.name for stage in task.stages] == ["shared judge", "own-judge", "own-image"]
    assert shared == VerifierPhase(tests=(folder / "steps" / "shared judge" / "tests",))
    assert own_judge == VerifierPhase(
        separate=True,
        environment=Environment(docker_image="rackbench/base:1", cpus=2.0, memory_bytes=64 * MIB),
    )
    assert own_image == VerifierPhase(
        command=("/bin/sh", "/tests/test.sh"),
        separate=True,
        environment=Environment(
            build=Build(folder / "steps" / "own-image" / "tests"),
            cpus=2.0,
            memory_bytes=32 * MIB,
        ),
    )


def test_a_sidecar_needs_compose() -> None:
    folder = GOLDEN / "compose-healthy-sidecar"
    task = load(folder, GOLDEN_REGION="north", OTHER="unused")
    context = folder / "environment"
    assert task.environment == Environment(
        build=Build(context, "agent.Dockerfile", {"LEVEL": "3"}, "work"),
        cpus=0.5,
        memory_bytes=300 * MIB,
        env={"TOKEN": "none"},
        healthcheck=Healthcheck(
            "getent hosts store", interval_seconds=0.5, start_period_seconds=2.0
        ),
        compose=Compose(
            context / "docker-compose.yaml",
            "main",
            {
                "GOLDEN_REGION": "north",
                "CPUS": "0.5",
                "MEMORY": "300M",
                "MAIN_IMAGE_NAME": "rackbench-main",
                "HOST_VERIFIER_LOGS_PATH": "/logs/verifier",
                "ENV_VERIFIER_LOGS_PATH": "/logs/verifier",
            },
        ),
    )
    assert task.needs == ("compose",)
    assert warnings_of(task) == [
        ".: docker-compose.yaml hands $GOLDEN_REGION of this machine to the sandbox"
    ]


def test_a_compose_file_that_says_nothing_of_its_own_needs_no_compose() -> None:
    folder = GOLDEN / "compose-template-only"
    task = load(folder)
    assert task.environment == built(
        folder,
        memory_bytes=300 * MIB,
        env={"TEST_DIR": "/tests", "MODE": "task"},
        network=SEALED,
    )
    assert task.needs == ()


def test_phases_with_networks_of_their_own() -> None:
    folder = GOLDEN / "networks"
    task = load(folder)
    hosts = ("mirror.example.org", "*.example.net", "10.0.0.0/8")
    assert task.environment == built(folder, network=Network(NetworkMode.ALLOWLIST, hosts))
    (stage,) = task.stages
    assert stage.agent.network == SEALED
    assert stage.verifier.network == Network(NetworkMode.PUBLIC)
    assert task.needs == ("allowlist", "phase-network")


def test_servers_and_skills_for_harnesses() -> None:
    task = load(GOLDEN / "mcp-and-skills")
    search, files = task.environment.mcp_servers
    assert search == {
        "name": "search",
        "transport": "streamable-http",
        "url": "http://search:8000/mcp",
        "args": (),
        "headers": {"Authorization": "Bearer ${SEARCH_KEY}"},
    }
    assert (files["command"], files["args"]) == ("npx", ("files-server", "/app"))
    assert (task.environment.skills_dir, task.needs) == ("/app/skills", ("mcp", "skills"))


def test_old_spellings() -> None:
    folder = GOLDEN / "old-spellings"
    task = load(folder)
    assert task.environment == built(folder, memory_bytes=1024 * MIB, storage_bytes=512 * MIB)
    assert task.stages == (usual(folder),)
    assert [line.split(";")[0] for line in warnings_of(task)] == [
        'task.toml:9: \'environment.os\' "Ubuntu 24.04" is read as "linux"',
        "task.toml:2: unknown key 'name' is ignored",
        "task.toml:3: unknown key 'tags' is ignored",
    ]


def test_a_verifier_that_is_one_command() -> None:
    folder = GOLDEN / "command-verifier"
    task = load(folder)
    assert task.environment == Environment(
        docker_image="rackbench/base:1", cpus=1.0, memory_bytes=256 * MIB
    )
    (stage,) = task.stages
    assert (stage.agent, stage.solution) == (AgentPhase(300.0), None)
    assert (stage.verifier.tests, stage.verifier.timeout_seconds) == ((), 60.0)
    assert stage.verifier.command[:2] == ("bash", "-c")
    assert "\ntest -f /app/done\n" in stage.verifier.command[2]
    assert [line.split(";")[0] for line in warnings_of(task)] == [
        "task.toml:13: 'verifier.command' is none of Harbor's keys",
        "task.toml:14: 'verifier.timeout_seconds' is read as 'verifier.timeout_sec'",
        "task.toml:7: 'environment.image' is read as 'environment.docker_image'",
        "task.toml:10: 'environment.timeout_seconds' is read as 'agent.timeout_sec'",
    ]


def test_steps_that_say_their_folder_or_an_id() -> None:
    task = load(GOLDEN / "steps-by-folder")
    assert [(stage.name, stage.instruction) for stage in task.stages] == [
        ("1_begin", "Begin.\n"),
        ("2_end", "End.\n"),
    ]
    assert [stage.agent.timeout_seconds for stage in task.stages] == [30.0, None]
    assert "task.toml:12: unknown key 'steps.1.depends_on' is ignored" in "\n".join(
        warnings_of(task)
    )


def test_windows_line_ends() -> None:
    folder = GOLDEN / "windows-line-ends"
    task = load(folder)
    (stage,) = task.stages
    assert (stage.instruction, stage.agent) == ("First line.\nSecond line.\n", AgentPhase(60.0))
    assert stage.verifier == VerifierPhase(tests=(folder / "tests",))
    assert warnings_of(task) == [
        ".: tests/test.sh has Windows line ends; it is run with Unix ones",
        ".: solution/solve.sh has Windows line ends; it is run with Unix ones",
    ]


def test_byte_order_marks() -> None:
    (stage,) = load(GOLDEN / "byte-order-marks").stages
    assert (stage.instruction, stage.agent) == ("Do it.\n", AgentPhase(60.0))


def test_a_script_that_does_not_say_what_runs_it_is_run_by_bash() -> None:
    (stage,) = load(GOLDEN / "no-shebang").stages
    assert stage.verifier.command == ("bash", "/tests/test.sh")


def test_names_that_are_not_safe() -> None:
    task = load(GOLDEN / "Upper Case (copy 2)")
    assert (task.id, task.name) == ("Upper-Case-copy-2", "Upper-Case-copy-2")


def test_links_inside_a_task() -> None:
    assert load(GOLDEN / "links-inside").warnings == ()
