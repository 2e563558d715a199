"""Tasks of every shape, run for real: several containers, several stages, a verifier apart."""

from __future__ import annotations

import http.server
import ipaddress
import json
import re
import signal
import threading

import docker
import pytest
from program import Program

pytestmark = pytest.mark.docker

TOML = """\
schema_version = "1.4"
{top}
[task]
name = "test/{name}"
[agent]
timeout_sec = 60
{agent}
[verifier]
timeout_sec = 60
{verifier}
[environment]
cpus = 1
memory_mb = 256
network_mode = "{network}"
{environment}
"""
DOCKERFILE = "FROM rackbench/base:1\nWORKDIR /app\n"
ANSWER_IS_42 = """\
#!/bin/sh
[ "$(cat /app/answer 2>/dev/null)" = 42 ] && r=1 || r=0
echo $r >/logs/verifier/reward.txt
"""
# Serves what lies in a folder, and takes what is put.
SERVER = """\
import http.server, pathlib

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"the word is swordfish")

    def do_POST(self):
        said = self.rfile.read(int(self.headers["Content-Length"]))
        pathlib.Path("/state").mkdir(exist_ok=True)
        pathlib.Path("/state/said").write_bytes(said)
        self.send_response(204)
        self.end_headers()

http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
"""
COMPOSE = """\
services:
  main:
    depends_on:
      api: {condition: service_healthy}
  api:
    build: {context: api}
    healthcheck:
      test: ["CMD", "python3", "-c", "import urllib.request as u; u.urlopen('http://localhost:8080')"]
      interval: 300ms
      retries: 20
    volumes: ["state:/state"]
volumes:
  state:
"""
ASK = "import urllib.request as u; print(u.urlopen('http://api:8080', timeout=9).read().decode())"
TELL = "import urllib.request as u; u.urlopen('http://api:8080', data=b'swordfish', timeout=9)"


def toml(name: str, *, network: str = "no-network", **parts: str) -> str:
    blank = dict.fromkeys(("top", "agent", "verifier", "environment"), "")
    own_name = re.sub(r"[^A-Za-z0-9-]+", "-", name).strip("-")
    return TOML.format(name=own_name, network=network, **(blank | parts))


def compose_task(program: Program, name: str) -> None:
    program.write_files(
        name,
        {
            "task.toml": toml(name),
            "instruction.md": "Ask http://api:8080 for the word, and write it to /app/word.\n",
            "environment/Dockerfile": DOCKERFILE,
            "environment/docker-compose.yaml": COMPOSE,
            "environment/api/Dockerfile": 'FROM rackbench/base:1\nCOPY server.py /\nCMD ["python3", "/server.py"]\n',
            "environment/api/server.py": SERVER,
            "tests/test.sh": "grep -q swordfish /app/word && r=1 || r=0\n"
            f'python3 -c "{ASK}" || r=0\necho $r >/logs/verifier/reward.txt\n',
            "solution/solve.sh": f'python3 -c "{ASK}" >/app/word\n',
        },
    )


def nothing_of_compose_left(api: docker.APIClient, run_id: str) -> None:
    label = {"label": f"rackbench.run={run_id}"}
    assert api.containers(all=True, filters=label) == []
    assert api.networks(filters=label) == []
    assert not api.volumes(filters=label)["Volumes"]


def test_a_sidecar_is_healthy_before_the_agent_starts_and_gone_after(
    program: Program, docker_api: docker.APIClient
) -> None:
    compose_task(program, "ask-the-api")
    program.call("run", program.write_run(arms=["oracle", "nop"]))
    final = program.final()
    assert final["ask-the-api/oracle"]["reward"] == 1.0, final["ask-the-api/oracle"]["detail"]
    assert final["ask-the-api/nop"]["reward"] == 0.0
    nothing_of_compose_left(docker_api, program.run_folder().name)


@pytest.mark.slow
def test_forty_projects_at_once_share_few_networks(
    program: Program, docker_api: docker.APIClient
) -> None:
    for number in range(40):
        compose_task(program, f"Ask the API ({number})")
    program.call("run", program.write_run(slots=40, sandbox={"memory_mb": 256}))
    final = program.final()
    assert len(final) == 40
    assert {result["outcome"] for result in final.values()} == {"solved"}, [
        result["detail"] for result in final.values()
    ]
    nothing_of_compose_left(docker_api, program.run_folder().name)


def test_what_a_project_may_not_ask_for_makes_it_unsupported_with_the_reason(
    program: Program,
) -> None:
    compose_task(program, "privileged")
    program.write_files(
        "privileged",
        {
            "environment/docker-compose.yaml": COMPOSE.replace(
                "  api:\n", "  api:\n    privileged: true\n"
            )
        },
    )
    compose_task(program, "socket")
    program.write_files(
        "socket",
        {
            "environment/docker-compose.yaml": COMPOSE.replace(
                '["state:/state"]', '["/var/run/docker.sock:/var/run/docker.sock"]'
            )
        },
    )
    program.call("run", program.write_run(), check=None)
    final = program.final()
    for task, why in (("privileged", "privileged"), ("socket", "docker.sock")):
        result = final[f"{task}/oracle"]
        assert (result["outcome"], result["reason"]) == ("unsupported", "compose")
        assert why in result["detail"]


def test_a_sidecar_that_never_gets_healthy_is_void_with_its_last_words(program: Program) -> None:
    compose_task(program, "sick")
    program.write_files("sick", {"environment/api/server.py": "raise SystemExit('no config')\n"})
    program.call("run", program.write_run(retries=0), check=1)
    result = program.final()["sick/oracle"]
    assert (result["outcome"], result["reason"]) == ("void", "sandbox")
    assert "api" in result["detail"]


def test_what_a_killed_runner_leaves_of_a_project_is_cleaned_up(
    program: Program, docker_api: docker.APIClient
) -> None:
    compose_task(program, "interrupted")
    program.write_files("interrupted", {"solution/solve.sh": "sleep 300\n"})
    process = program.start("run", program.write_run())
    program.wait_for(
        lambda: any(
            '"agent"' in events.read_text()
            for events in program.folder.glob("runs/*/trials/*/*/*/*/events.jsonl")
        )
    )
    run_id = program.run_folder().name
    label = {"label": f"rackbench.run={run_id}"}
    process.kill()
    process.wait()
    assert len(docker_api.containers(filters=label)) == 2
    program.call("clean")
    nothing_of_compose_left(docker_api, run_id)


def test_ctrl_c_takes_a_project_down(program: Program, docker_api: docker.APIClient) -> None:
    compose_task(program, "stopped")
    program.write_files("stopped", {"solution/solve.sh": "sleep 300\n"})
    process = program.start("run", program.write_run())
    program.wait_for(lambda: program.attempts_begun() == 1)
    label = {"label": f"rackbench.run={program.run_folder().name}"}
    program.wait_for(lambda: docker_api.containers(filters=label))
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    nothing_of_compose_left(docker_api, program.run_folder().name)


def separate_task(program: Program, name: str, **changes: str) -> None:
    program.write_files(
        name,
        {
            "task.toml": toml(
                name,
                top='artifacts = ["/app/out"]',
                verifier='environment_mode = "separate"',
            ),
            "instruction.md": "Write 42 to /app/out/answer.\n",
            "environment/Dockerfile": DOCKERFILE,
            "tests/Dockerfile": "FROM rackbench/base:1\nWORKDIR /app\nCOPY . /tests\n"
            "RUN mkdir -p /app/out && echo stale >/app/out/stale\n",
            "tests/test.sh": "#!/bin/sh\n"
            '[ "$(cat /app/out/answer 2>/dev/null)" = 42 ] && r=1 || r=0\n'
            "[ -e /app/out/stale ] && r=0\n"
            "[ -e /app/not-an-artifact ] && r=0\n"
            '[ "$(stat -c %u /app/out/answer 2>/dev/null)" = 0 ] || r=0\n'
            "echo $r >/logs/verifier/reward.txt\n",
            "solution/solve.sh": "mkdir -p /app/out; echo 42 >/app/out/answer\n"
            "ln -s answer /app/out/inside; ln -s /etc/passwd /app/out/outside\n"
            "touch /app/not-an-artifact\n"
            "python3 -c 'import http.server as h; "
            "h.test(h.SimpleHTTPRequestHandler, port=8765)' >/dev/null 2>&1 &\n",
        }
        | changes,
    )


def test_a_verifier_apart_sees_the_artifacts_and_nothing_else(program: Program) -> None:
    separate_task(program, "apart")
    program.call("run", program.write_run(arms=["oracle", "nop"]))
    final = program.final()
    assert final["apart/oracle"]["reward"] == 1.0, final["apart/oracle"]
    assert final["apart/nop"]["reward"] == 0.0
    assert final["apart/nop"]["outcome"] == "unsolved"
    assert any("/app/out: missing" in note for note in final["apart/nop"]["notes"])
    attempt = final["apart/oracle"]["path"].parent
    assert (attempt / "artifacts/app/out/answer").read_text() == "42\n"
    rows = json.loads((attempt / "artifacts/manifest.json").read_text())
    (row,) = (row for row in rows if row["source"] == "/app/out")
    assert row["left_out"] == ["/app/out/outside"]


def test_a_reward_that_the_agent_wrote_never_reaches_a_verifier_apart(program: Program) -> None:
    separate_task(
        program,
        "forged",
        **{
            "solution/solve.sh": "mkdir -p /logs/verifier /app/out\n"
            "echo 1 >/logs/verifier/reward.txt; ln -s /logs/verifier /app/out/answer\n"
        },
    )
    program.call("run", program.write_run())
    assert program.final()["forged/oracle"]["reward"] == 0.0


def test_artifacts_and_hooks_of_a_sidecar_are_judged_apart(program: Program) -> None:
    name = "graded-by-the-sidecar"
    compose_task(program, name)
    program.write_files(
        name,
        {
            "task.toml": toml(
                name,
                top='artifacts = [{source = "/state/snapshot", service = "api", exclude = ["*.tmp"]}]',
                verifier='environment_mode = "separate"\n[[verifier.collect]]\nservice = "api"\n'
                'command = "mkdir -p /state/snapshot; cp /state/said /state/snapshot/said; '
                'touch /state/snapshot/x.tmp"',
            ),
            "tests/Dockerfile": "FROM rackbench/base:1\nCOPY . /tests\n",
            "tests/test.sh": "#!/bin/sh\ngrep -q swordfish /state/snapshot/said && r=1 || r=0\n"
            "[ -e /state/snapshot/x.tmp ] && r=0\necho $r >/logs/verifier/reward.txt\n",
            "solution/solve.sh": f'python3 -c "{TELL}"\n',
        },
    )
    program.call("run", program.write_run(arms=["oracle", "nop"]))
    final = program.final()
    assert final[f"{name}/oracle"]["reward"] == 1.0, final[f"{name}/oracle"]
    assert final[f"{name}/nop"]["reward"] == 0.0


def staged_task(program: Program, name: str, *, first_solution: str, strategy: str) -> None:
    steps = "".join(
        f'[[steps]]\nname = "{step}"\n{least}[steps.agent]\ntimeout_sec = 30\n'
        "[steps.verifier]\ntimeout_sec = 30\n"
        for step, least in (("first", "min_reward = 0.75\n"), ("second", ""))
    )
    score = "#!/bin/sh\ncat /app/{0} >/logs/verifier/reward.txt 2>/dev/null || echo 0 >/logs/verifier/reward.txt\n"
    program.write_files(
        name,
        {
            "task.toml": toml(name, top=f'multi_step_reward_strategy = "{strategy}"') + steps,
            "environment/Dockerfile": DOCKERFILE,
            "steps/first/instruction.md": "Write 1 to /app/one.\n",
            "steps/first/tests/test.sh": score.format("one"),
            "steps/first/solution/solve.sh": first_solution,
            "steps/second/instruction.md": "Write 1 to /app/two.\n",
            "steps/second/workdir/given": "a file of the second step\n",
            "steps/second/workdir/setup.sh": "cp given copied\n",
            "steps/second/tests/test.sh": score.format("two"),
            "steps/second/solution/solve.sh": "[ ! -e /tests ] && [ -e copied ] && echo 1 >/app/two\n",
        },
    )


def test_two_stages_are_worked_on_one_after_the_other(program: Program) -> None:
    staged_task(program, "both", first_solution="echo 1 >/app/one\n", strategy="mean")
    program.call("run", program.write_run())
    result = program.final()["both/oracle"]
    assert (result["outcome"], result["reward"]) == ("solved", 1.0)
    assert [(stage["name"], stage["reward"]) for stage in result["stages"]] == [
        ("first", 1.0),
        ("second", 1.0),
    ]


@pytest.mark.parametrize(("strategy", "reward"), [("mean", 0.25), ("final", 0.0)])
def test_below_its_minimum_the_rest_is_not_begun_and_counts_nothing(
    program: Program, strategy: str, reward: float
) -> None:
    staged_task(program, "stops", first_solution="echo 0.5 >/app/one\n", strategy=strategy)
    program.call("run", program.write_run())
    result = program.final()["stops/oracle"]
    assert (result["outcome"], result["reward"]) == ("unsolved", reward)
    assert [(stage["name"], stage["reward"]) for stage in result["stages"]] == [
        ("first", 0.5),
        ("second", None),
    ]


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        pass


def test_an_allow_list_opens_what_is_on_it_and_counts_what_is_not(
    program: Program, docker_api: docker.APIClient
) -> None:
    ipam = docker_api.inspect_network("bridge")["IPAM"]["Config"][0]
    host = ipam.get("Gateway") or str(next(ipaddress.ip_network(ipam["Subnet"]).hosts()))
    name = "listed"
    with http.server.ThreadingHTTPServer((host, 0), Hello) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://{host}:{server.server_port}"
        ask = "import urllib.request as u; print(u.urlopen('{}', timeout=20).read())"
        program.write_files(
            name,
            {
                "task.toml": toml(
                    name, agent=f'network_mode = "allowlist"\nallowed_hosts = ["{host}"]'
                ),
                "instruction.md": f"Ask {url}.\n",
                "environment/Dockerfile": DOCKERFILE,
                "tests/test.sh": "#!/bin/sh\ngrep -q hello /app/first && r=1 || r=0\n"
                "[ -e /app/second ] && r=0\n"
                f'python3 -c "{ask.format(url)}" && r=0\n'
                "echo $r >/logs/verifier/reward.txt\n",
                "solution/solve.sh": f'python3 -c "{ask.format(url)}" >/app/first\n'
                f'python3 -c "{ask.format("http://example.invalid/x")}" >/tmp/x && mv /tmp/x /app/second\n'
                "exit 0\n",
            },
        )
        program.call("run", program.write_run())
        server.shutdown()
    result = program.final()[f"{name}/oracle"]
    assert result["reward"] == 1.0, result
    assert "refused by the allow-list: 1 times example.invalid:80" in result["notes"]


@pytest.mark.parametrize("in_verifier", [True, False])
def test_a_phase_has_its_own_network(program: Program, in_verifier: bool) -> None:
    """Of two phases one leads out; the other finds no way."""
    name = "phases"
    ends = ("public", "no-network") if in_verifier else ("no-network", "public")
    program.write_files(
        name,
        {
            "task.toml": toml(
                name,
                network=ends[1],
                agent=f'network_mode = "{ends[1]}"',
                verifier=f'network_mode = "{ends[0]}"',
            ),
            "instruction.md": "Look at the routes.\n",
            "environment/Dockerfile": DOCKERFILE,
            "tests/test.sh": "#!/bin/sh\ncp /app/routes /logs/verifier/agent\n"
            "cat /proc/net/route >/logs/verifier/own\necho 1 >/logs/verifier/reward.txt\n",
            "solution/solve.sh": "cat /proc/net/route >/app/routes\n",
        },
    )
    program.call("run", program.write_run())
    folder = program.final()[f"{name}/oracle"]["path"].parent / "verifier"
    routes = {each: len((folder / each).read_text().splitlines()) - 1 for each in ("agent", "own")}
    assert (routes["own"] > 0, routes["agent"] > 0) == (in_verifier, not in_verifier)


def test_the_run_may_seal_what_a_task_leaves_open(program: Program) -> None:
    name = "open"
    program.write_files(
        name,
        {
            "task.toml": toml(name, network="public"),
            "instruction.md": "Look at the routes.\n",
            "environment/Dockerfile": DOCKERFILE,
            "tests/test.sh": "#!/bin/sh\n[ $(wc -l </proc/net/route) = 1 ] && r=1 || r=0\n"
            "echo $r >/logs/verifier/reward.txt\n",
            "solution/solve.sh": "true\n",
        },
    )
    file = program.write_run()
    program.call("run", file, "-s", "sandbox.network=sealed")
    assert program.final()[f"{name}/oracle"]["reward"] == 1.0
