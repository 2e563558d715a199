"""Scripts are read, or refused with one clear line."""

import pytest

from rackbench_harnesses.testing import ScriptError, load_script

GOOD = """
model: kimi
context_tokens: 1000
token_seconds: 0.5
conversations:
  - when: hello
    turns:
      - call: {name: bash, arguments: {command: ls}}
      - {status: 503, times: 1}
      - say: done
  - turns: [{hang: true}]
"""


@pytest.fixture
def script_file(tmp_path):
    def write(text):
        path = tmp_path / "script.yaml"
        path.write_text(text)
        return path

    return write


def test_a_script_is_read(script_file):
    script = load_script(script_file(GOOD))
    assert (script.model, script.context_tokens) == ("kimi", 1000)
    assert script.conversations[0].turns[0].tool_calls[0].arguments == {"command": "ls"}


def turn(text):
    return f"conversations: [{{turns: [{text}]}}]"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a", "expected keys and values"),
        ("a: [", "not YAML"),
        ("model: x", "'conversations' is missing"),
        ("conversations: []", "conversations"),
        ("convesations: []", "did you mean 'conversations'"),
        (turn("{}"), "needs one of"),
        (turn("{sya: x}"), "did you mean 'say'"),
        (turn("{status: 200}"), "status"),
        (turn("{hang: true, cut: 1}"), "one way"),
        (turn("{say: x, times: 1}"), "counts a fault"),
        (turn("{status: 500, times: 1}"), "must answer"),
        (turn("{call: {name: a}, calls: [{name: b}]}"), "not both"),
    ],
)
def test_a_bad_script_is_one_clear_line(script_file, text, said):
    with pytest.raises(ScriptError) as caught:
        load_script(script_file(text))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_script_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_script(tmp_path / "none.yaml")
