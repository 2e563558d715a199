"""What a script would fetch is read from its text."""

from __future__ import annotations

import pytest

from rackbench.verifier_tools.script import Request, requirement_lines, wishes_of

FILES = {"requirements.txt": ("pytest==8.4.1", "requests")}


def requests(script: str) -> list[Request]:
    return wishes_of(script, lambda name: FILES.get(name.rsplit("/", 1)[-1], ())).requests


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("pip install pytest==8.4.1", Request(("pytest==8.4.1",))),
        ("pip3 install -q --break-system-packages a b 2>&1 | tail -5 || true", Request(("a", "b"))),
        ("python3 -m pip install 'a>=1,<2' \"b[x]~=3.0\"", Request(("a>=1,<2", "b[x]~=3.0"))),
        ("if ! pip install a >/dev/null; then exit; fi", Request(("a",))),
        ("FOO=1 timeout 60 pip install a # b", Request(("a",))),
        ("cd x && (uv pip install --system a)", Request(("a",))),
        ("uv pip install -p 3.13 a", Request(("a",), "3.13")),
        ("uv pip install a --index-url https://x.example/cpu", Request(("a",), None, "https://x.example/cpu")),
        ("pip install -r $TEST_DIR/requirements.txt", Request(("pytest==8.4.1", "requests"))),
        ("uv add a==1 b", Request(("a==1", "b"))),
        ("uvx -p 3.13 -w a==1 -w b pytest -rA /tests", Request(("a==1", "b", "pytest"), "3.13")),
        ("uvx \\\n  --with a==1 \\\n  pytest@8.4 x", Request(("a==1", "pytest==8.4"))),
        ("uvx --from 'kit==0.1.*' grade /tests", Request(("kit==0.1.*",))),
        ("uv tool run --with a pytest", Request(("a", "pytest"))),
        ("uv run --with a,b -p 3.12 pytest c", Request(("a", "b"), "3.12")),
        ("$HOME/.local/bin/uvx pytest", Request(("pytest",))),
    ],
)  # fmt: skip
def test_what_is_installed_together_is_one_request(script: str, expected: Request) -> None:
    assert requests(script) == [expected]


@pytest.mark.parametrize(
    "script",
    ["# pip install a", "echo pip install", "uv run pytest /tests", "pip list", "uv --version", ""],
)
def test_what_fetches_nothing_asks_for_nothing(script: str) -> None:
    assert requests(script) == []


def test_what_the_tools_cannot_answer_is_told() -> None:
    wishes = wishes_of(
        "apt-get update && apt-get install -y curl jq=1.6-2.1\nuv python install 3.12\n"
        "uv venv -p 3.13 .v\npip install git+https://x.example/y $DEPS\nnpm ci\npython -c 'import a\n",
        lambda _: (),
    )
    assert wishes.system_packages == ["curl", "jq=1.6-2.1"]
    assert wishes.pythons == {"3.12", "3.13"}
    assert wishes.others == ["install git+https://x.example/y", "install $DEPS", "npm ci"]
    assert wishes.requests == []


def test_a_requirements_file_is_read_line_by_line() -> None:
    text = "# top\npytest==8.4.1  # why\n-r other.txt\nrequests>=2 ; python_version > '3'\n./here\n"
    assert requirement_lines(text) == ("pytest==8.4.1", "requests>=2 ; python_version > '3'")
