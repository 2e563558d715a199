"""What counts, what does not, and what is never believed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import LOOP, RIGHT_ANSWER, SCRIPTED, SUBMIT, Program, bash

pytestmark = pytest.mark.docker

NO_REWARD = "#!/bin/sh\nexit 0\n"
HANGING = "#!/bin/sh\necho 1 >/logs/verifier/reward.txt\nsleep 300\n"
HALF = "#!/bin/sh\necho 0.5 >/logs/verifier/reward.txt\n"


def test_oracle_solves_and_nop_does_not(program: Program) -> None:
    program.write_task("one")
    file = program.write_run(arms=["oracle", "nop"])
    done = program.call("run", file, "--json")
    summary = json.loads(done.stdout)
    arms = {arm["arm"]: arm for arm in summary["arms"]}
    assert (arms["oracle"]["solved"], arms["oracle"]["counted"]) == (1, 1)
    assert (arms["nop"]["solved"], arms["nop"]["counted"]) == (0, 1)
    final = program.final()
    assert (final["one/oracle"]["outcome"], final["one/oracle"]["reward"]) == ("solved", 1.0)
    assert (final["one/nop"]["reason"], final["one/nop"]["reward"]) == ("wrong", 0.0)


def test_voids_leave_the_rate_and_stand_in_the_bracket(program: Program) -> None:
    program.write_task("passes")
    program.write_task("no-reward", test=NO_REWARD)
    program.write_task("hangs", test=HANGING, verifier_seconds=2)
    file = program.write_run(retries=0)
    done = program.call("run", file, "--json", check=1)
    (arm,) = json.loads(done.stdout)["arms"]
    assert (arm["solved"], arm["counted"], arm["void"]) == (1, 1, 2)
    assert arm["bracket"] == pytest.approx([1 / 3, 1.0])
    final = program.final()
    for task in ("no-reward", "hangs"):
        assert (final[f"{task}/oracle"]["outcome"], final[f"{task}/oracle"]["reason"]) == (
            "void",
            "verifier",
        )
        assert final[f"{task}/oracle"]["reward"] is None
    assert "timed out after 2 s" in final["hangs/oracle"]["detail"]
    shown = program.call("show").stdout
    assert "0.33" in shown
    assert "1.00" in shown
    assert "no-reward" in shown
    assert "hangs" in shown


def test_voids_earn_new_attempts_up_to_the_limit_and_all_are_kept(program: Program) -> None:
    program.write_task("no-reward", test=NO_REWARD)
    program.call("run", program.write_run(retries=2), check=1)
    results = program.results()
    assert [result["attempt"] for result in results] == [1, 2, 3]
    assert {result["reason"] for result in results} == {"verifier"}
    program.call("resume", check=1)
    assert len(program.results()) == 3


def test_half_a_reward_is_kept_and_the_run_file_decides(program: Program) -> None:
    program.write_task("half", test=HALF)
    file = program.write_run()
    program.call("run", file)
    assert program.final()["half/oracle"]["reward"] == 0.5
    assert program.final()["half/oracle"]["outcome"] == "unsolved"
    done = program.call("run", file, "-s", "solved_at=0.5", "-s", "results=other", "--json")
    assert json.loads(done.stdout)["arms"][0]["solved"] == 1


def test_an_answer_after_the_limit_is_not_solved(program: Program) -> None:
    slow = "(sleep 3; echo 42 >/app/answer) & sleep 2.5; echo 42 >/app/answer"
    late_test = RIGHT_ANSWER.replace("#!/bin/sh\n", "#!/bin/sh\nsleep 3\n")
    program.write_task("slow", test=late_test, agent_seconds=1.5)
    program.write_script({"turns": [bash(slow), SUBMIT]})
    file = program.write_run(arms=[LOOP], endpoints=SCRIPTED)
    program.call("run", file)
    result = program.final()["slow/loop-model"]
    assert (result["outcome"], result["reason"]) == ("unsolved", "agent_timeout")
    assert result["reward"] == 0.0


def test_what_was_achieved_before_a_limit_counts(program: Program) -> None:
    program.write_task("quick", agent_seconds=2)
    program.write_script({"turns": [bash("echo 42 >/app/answer; sleep 60")]})
    program.call("run", program.write_run(arms=[LOOP], endpoints=SCRIPTED))
    result = program.final()["quick/loop-model"]
    assert (result["outcome"], result["reward"]) == ("solved", 1.0)


def test_a_service_that_the_tests_need_stays(program: Program) -> None:
    serve = "cd /app; setsid python3 -m http.server 8099 >/dev/null 2>&1 & sleep 1"
    test = (
        "#!/bin/sh\npython3 -c \"import urllib.request as u; u.urlopen('http://127.0.0.1:8099')\""
        " && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt\n"
    )
    program.write_task("service", test=test)
    program.write_script({"turns": [bash(serve), SUBMIT]})
    program.call("run", program.write_run(arms=[LOOP], endpoints=SCRIPTED))
    result = program.final()["service/loop-model"]
    assert result["outcome"] == "solved"
    assert result["notes"] == ["1 processes of the agent ran during the tests"]


@pytest.mark.parametrize(
    "forge",
    [
        "mkdir -p /logs/verifier; echo 1 >/logs/verifier/reward.txt",
        "rm -rf /logs/verifier; ln -s /app /logs/verifier; echo 1 >/app/reward.txt",
        "mkdir -p /tests; printf '#!/bin/sh\\necho 1 >/logs/verifier/reward.txt' >/tests/test.sh",
        "(while :; do echo 1 >/logs/verifier/reward.txt; sleep 0.1; done) >/dev/null 2>&1 & exit",
    ],
)
def test_a_forged_reward_is_not_read(program: Program, forge: str) -> None:
    program.write_task("forged")
    program.write_script({"turns": [bash(forge), SUBMIT]})
    program.call("run", program.write_run(arms=[LOOP], endpoints=SCRIPTED), check=None)
    result = program.final()["forged/loop-model"]
    assert result["outcome"] != "solved"


def test_a_sandbox_whose_tools_lie_is_called_tampered(program: Program) -> None:
    liar = "printf '#!/bin/sh\\nexit 0\\n' >/bin/rm; echo 1 >/logs/verifier/reward.txt"
    program.write_task("liar")
    program.write_script({"turns": [bash(liar), SUBMIT]})
    program.call("run", program.write_run(arms=[LOOP], endpoints=SCRIPTED))
    result = program.final()["liar/loop-model"]
    assert (result["outcome"], result["reason"]) == ("unsolved", "tampered")


def test_a_model_that_never_answers_makes_no_failure(program: Program) -> None:
    program.write_task("one", agent_seconds=120)
    program.write_script({"turns": [{"status": 503}]})
    program.call("run", program.write_run(arms=[LOOP], endpoints=SCRIPTED, retries=0), check=1)
    result = program.final()["one/loop-model"]
    assert (result["outcome"], result["reason"]) == ("void", "endpoint")


def test_a_task_that_cannot_run_here_is_listed(program: Program) -> None:
    task = program.write_task("huge") / "task.toml"
    task.write_text(task.read_text().replace("memory_mb = 256", "memory_mb = 99000000"))
    program.write_task("fine")
    program.call("run", program.write_run())
    final = program.final()
    assert (final["huge/oracle"]["outcome"], final["huge/oracle"]["reason"]) == (
        "unsupported",
        "resources",
    )
    assert final["fine/oracle"]["outcome"] == "solved"


def test_a_build_that_fails_is_void_with_its_last_words(program: Program) -> None:
    task = program.write_task("broken")
    (task / "environment" / "Dockerfile").write_text(
        "FROM rackbench/base:1\nRUN echo why; exit 3\n"
    )
    program.call("run", program.write_run(retries=0), check=1)
    result = program.final()["broken/oracle"]
    assert (result["outcome"], result["reason"]) == ("void", "build")
    assert "why" in result["detail"]


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_steps_tokens_and_the_trajectory_are_measured(program: Program) -> None:
    program.write_task("one")
    turns = [
        {"reasoning": "think", "say": "first", **bash("echo seen; seq 100000")},
        {"calls": [{"name": "bash", "raw_arguments": "{broken"}]},
        bash("echo 42 >/app/answer"),
        SUBMIT,
    ]
    program.write_script({"turns": turns})
    program.call("run", program.write_run(arms=[LOOP], endpoints=SCRIPTED))
    result = program.final()["one/loop-model"]
    assert result["outcome"] == "solved"
    usage = result["usage"]
    assert (usage["calls"], usage["steps"], usage["failed_calls"]) == (4, 4, 0)
    assert result["notes"] == []
    assert usage["prompt_tokens"] > 0
    assert usage["completion_tokens"] > 0
    assert usage["ttft_seconds_median"] is not None
    folder = result["path"].parent
    steps = [json.loads(line) for line in lines_of(folder / "agent" / "steps.jsonl")]
    assert [step["number"] for step in steps] == [1, 2, 3, 4]
    assert steps[0]["reasoning"] == "think"
    seen = steps[0]["tool_calls"][0]["observation"]
    assert seen.startswith("seen\n1\n2\n")
    assert "/tmp/step-1-output.txt" in seen
    assert "99999\n100000\n[exit code 0]" in seen
    assert "not a JSON object" in steps[1]["tool_calls"][0]["observation"]
    calls = [json.loads(line) for line in lines_of(folder / "calls.jsonl")]
    assert [call["number"] for call in calls] == [1, 2, 3, 4]
    atif = json.loads((folder / "agent" / "trajectory.json").read_text())
    assert atif["schema_version"].startswith("ATIF-v1.")
    assert len(atif["steps"]) == 5
