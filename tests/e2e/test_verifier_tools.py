"""A verifier that installs its tools from the internet, in a house without one."""

from __future__ import annotations

import json

import pytest
from program import Program

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

FETCHES_ITS_TOOLS = """\
#!/bin/bash
curl -LsSf https://get.example/uv/install.sh | sh
source $HOME/.local/bin/env
uvx -w pytest==8.4.1 pytest -rA /tests/test_outputs.py
if [ $? -eq 0 ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
"""
TEST = "def test_answer():\n    assert open('/app/answer').read() == '42\\n'\n"


def test_lent_tools_make_it_work_and_without_them_it_is_void_not_zero(program: Program) -> None:
    task = program.write_task("fetches", test=FETCHES_ITS_TOOLS)
    (task / "tests" / "test_outputs.py").write_text(TEST)
    warmed = program.call("task", "warm", "tasks", "--to", "tools", "--json")
    assert json.loads(warmed.stdout)
    file = program.write_run(arms=["oracle", "nop"], retries=0, void_threshold=1.0)
    program.call("run", file)
    for result in program.final().values():
        assert (result["outcome"], result["reason"], result["reward"]) == ("void", "verifier", None)
        assert "its set-up failed" in result["detail"]

    lent = program.folder / "lent.yaml"
    lent.write_text(file.read_text() + "verifier_tools: tools\nresults: with-tools\n")
    done = program.call("run", lent, "--json")
    arms = {arm["arm"]: arm for arm in json.loads(done.stdout)["arms"]}
    assert (arms["oracle"]["solved"], arms["oracle"]["counted"]) == (1, 1)
    assert (arms["nop"]["solved"], arms["nop"]["counted"]) == (0, 1)
    (result,) = program.folder.glob("with-tools/*/trials/fetches/oracle/0/attempt-01/result.json")
    assert json.loads(result.read_text())["tests"] == {
        "../tests/test_outputs.py::test_answer": "passed"
    }
    (plan,) = program.folder.glob("with-tools/*/plan.json")
    assert json.loads(plan.read_text())["verifier_tools"].startswith("sha256:")
