"""Compose files of tasks: what a container without compose can take over, and in which lines."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rackbench_tasks import Build
from rackbench_tasks.findings import Findings
from rackbench_tasks.formats.compose_file import host_variables, read_compose
from rackbench_tasks.formats.compose_service import Service, filled, read_service
from rackbench_tasks.formats.lines import toml_lines, yaml_lines

VARIABLES = {"NAME": "value", "EMPTY": "", "DIR": "/tests"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$NAME and ${NAME}", "value and value"),
        ("$$NAME ${NONE} $NONE", "$NAME  "),
        ("${NONE:-a} ${NONE-b} ${EMPTY:-c} ${EMPTY-d}", "a b c "),
        ("${NAME:+e} ${EMPTY:+f} ${EMPTY+g} ${NONE+h}", "e  g "),
        ("${NAME:?needed} ${NONE?needed}", "value "),
        ("$ {NAME} 5$ ${", "$ {NAME} 5$ ${"),
    ],
)
def test_variables_are_filled_in_as_compose_does(text: str, expected: str) -> None:
    assert filled(text, VARIABLES) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{image: 'a:1', command: sleep infinity, tty: true, ports: ['1:2']}", {"image": "a:1"}),
        ("{image: '${NAME}:2'}", {}),
        ("{image: 'a:${NAME}'}", {"image": "a:value"}),
        ("{environment: [A=1, 'B=$DIR', C=]}", {"env": {"A": "1", "B": "/tests", "C": ""}}),
        ("{environment: {A: 1, B: true, C: x=y}}", {"env": {"A": "1", "B": "true", "C": "x=y"}}),
        ("{working_dir: /app, network_mode: none}", {"workdir": "/app", "no_network": True}),
        ("{cpus: 1.5, mem_limit: 512m}", {"cpus": 1.5, "memory_bytes": 512 * 1024**2}),
        ("{cpus: '${CPUS}', mem_limit: '${MEMORY}'}", {}),
        (
            "{deploy: {resources: {limits: {cpus: '2', memory: 1G}, reservations: {cpus: 1}}}}",
            {"cpus": 2.0, "memory_bytes": 1024**3},
        ),
        ("{volumes: ['${HOST_AGENT_LOGS_PATH}:/logs', '$T_BENCH_TASK_LOGS_PATH:/logs']}", {}),
        ("{volumes: [{type: bind, source: '${HOST_ARTIFACTS_PATH}', target: /x}]}", {}),
        *(
            (f"{{command: {command}}}", {})
            for command in (
                "sleep infinity",
                "[sleep, infinity]",
                "tail -f /dev/null",
                "[sh, -c, sleep infinity]",
                "[/bin/bash, -c, 'sleep  infinity']",
                "bash -lc 'tail -f /dev/null'",
                "sleep 86400",
            )
        ),
    ],
)
def test_what_a_plain_container_takes_over(
    tmp_path: Path, written: str, expected: dict[str, object]
) -> None:
    assert read_service(yaml.safe_load(written), tmp_path, VARIABLES) == Service(**expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "build"),
    [
        (".", {}),
        ("inner", {"context": "inner"}),
        ("{dockerfile: other.Dockerfile}", {"dockerfile": "other.Dockerfile"}),
        ("{context: ./inner, target: last}", {"context": "inner", "target": "last"}),
        ("{context: ., args: {A: 1, B: $NAME}}", {"args": {"A": "1", "B": "value"}}),
    ],
)
def test_builds(tmp_path: Path, written: str, build: dict[str, object]) -> None:
    (tmp_path / "inner").mkdir()
    service = read_service({"build": yaml.safe_load(written)}, tmp_path, VARIABLES)
    more = build | {"context": tmp_path / str(build.get("context", "."))}
    assert (service.build, service.beyond) == (Build(**more), [])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "written",
    [
        *("{command: 'service start && sleep infinity'}", "{command: sleep 5}"),
        *("{build: nowhere}", "{build: 'https://example.org/x.git'}", "{build: {args: [A]}}"),
        *("{build: {context: ., network: host}}", "{build: 5}", "{image: 5}"),
        *("{environment: [HOME]}", "{environment: {HOME: null}}", "{working_dir: app}"),
        *("{volumes: ['./data:/data']}", "{volumes: {a: b}}", "{network_mode: host}"),
        *("{cpus: some}", "{mem_limit: much}", "{deploy: {replicas: 2}}", "{deploy: 5}"),
        "{deploy: {resources: {reservations: {devices: [{capabilities: [gpu]}]}}}}",
        *("{depends_on: [x]}", "{privileged: true}", "{entrypoint: /start}", "{user: me}"),
        *("{healthcheck: {test: 'true'}}", "{shm_size: 2gb}", "{platform: linux/amd64}"),
    ],
)
def test_what_needs_compose(tmp_path: Path, written: str) -> None:
    (reason,) = read_service(yaml.safe_load(written), tmp_path, VARIABLES).beyond
    assert reason.startswith("the service's '")


def test_other_services_and_other_keys_need_compose(tmp_path: Path) -> None:
    path = tmp_path / "docker-compose.yaml"
    path.write_text(
        "version: '3'\nname: x\nx-mine: 5\nvolumes: {data: null}\nnetworks: {}\n"
        "services: {main: {image: a}, other: {image: b}}\n"
    )
    file = read_compose(path)
    assert file.service("main", {}).beyond == ["services beside it: other", "the key 'volumes'"]


def test_only_variables_that_a_file_names_are_taken_from_the_host(tmp_path: Path) -> None:
    path = tmp_path / "docker-compose.yaml"
    path.write_text(
        "# $COMMENTED\nservices:\n  main:\n    image: $KNOWN\n"
        "    environment: ['A=${TOKEN:-x}', 'B=$$LITERAL', '${COMPOSE_PROJECT_NAME}=1']\n"
    )
    host = dict.fromkeys(("COMMENTED", "TOKEN", "LITERAL", "OTHER", "COMPOSE_PROJECT_NAME"), "s")
    findings = Findings("task")
    variables = host_variables(read_compose(path), {"KNOWN": "k"}, host, findings)
    assert variables == {"TOKEN": "s", "KNOWN": "k"}
    assert findings.warnings == [
        "task: docker-compose.yaml hands $TOKEN of this machine to the sandbox"
    ]


def test_lines_of_toml() -> None:
    text = (
        "a = 1  # x = 2\n"
        "\n"
        "[t]\n"
        "'b.c' = '''\n"
        "[not.a.table]\n"
        "d = 4\n"
        "'''\n"
        "e.f = [\n"
        "  {g = 1},\n"
        "]\n"
        "[[s]]\n"
        "h = 1\n"
        "[s.u]\n"
        "h = 2\n"
        "[[s]]\n"
        "[[s.v]]\n"
        "h = 3\n"
        "[[s.v]]\n"
        "h = 4"
    )
    assert toml_lines(text) == {
        "a": 1,
        "t": 3,
        "t.b.c": 4,
        "t.e": 8,
        "t.e.f": 8,
        "t.e.f.0": 8,
        "t.e.f.0.g": 8,
        "s.0": 11,
        "s.0.h": 12,
        "s.0.u": 13,
        "s.0.u.h": 14,
        "s.1": 15,
        "s.1.v.0": 16,
        "s.1.v.0.h": 17,
        "s.1.v.1": 18,
        "s.1.v.1.h": 19,
    }


def test_lines_of_yaml() -> None:
    text = "# x\na: 1\nb:\n  - c: |\n      d: 5\n    e: {f: 1}\n  - &g [h]\ni: *g\n"
    assert yaml_lines(text) == {
        "a": 2,
        "b": 3,
        "b.0": 4,
        "b.0.c": 4,
        "b.0.e": 6,
        "b.0.e.f": 6,
        "b.1": 7,
        "b.1.0": 7,
        "i": 8,
    }
    assert yaml_lines("") == {}
    assert yaml_lines("a: &a [*a]\n") == {"a": 1, "a.0": 1}


@settings(deadline=None)
@given(st.text("$${}:-+?AB_ a", max_size=30))
def test_any_text_can_be_filled_in(text: str) -> None:
    assert "$" in text or filled(text, VARIABLES) == text
