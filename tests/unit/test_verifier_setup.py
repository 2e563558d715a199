"""A verifier that could not set itself up is told from one that found the work wanting."""

from __future__ import annotations

import pytest

from rackbench_tasks.verifier_setup import setup_fault

APT = """\
Ign:1 http://mirror.example/debian bookworm InRelease
Err:1 http://mirror.example/debian bookworm InRelease
  Temporary failure resolving 'mirror.example'
Reading package lists...
W: Failed to fetch http://mirror.example/debian/dists/bookworm/InRelease  Temporary failure resolving
W: Some index files failed to download. They have been ignored, or old ones used instead.
Reading package lists...
Building dependency tree...
E: Unable to locate package curl
"""
NO_UV = APT + (
    "/tests/test.sh: line 5: curl: command not found\n"
    "/tests/test.sh: line 6: /root/.local/bin/env: No such file or directory\n"
    "/tests/test.sh: line 8: uvx: command not found\n"
)
PIP = """\
WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError(\
'<HTTPSConnection>: Failed to establish a new connection: [Errno -3] Temporary failure in name \
resolution')': /simple/pytest/
ERROR: Could not find a version that satisfies the requirement pytest==8.4.1 (from versions: none)
ERROR: No matching distribution found for pytest==8.4.1
"""
OLD_UV = """\
error: Failed to fetch: `https://mirror.example/simple/pytest/`
  Caused by: Request failed after 3 retries
  Caused by: client error (Connect)
  Caused by: dns error
  Caused by: failed to lookup address information: Temporary failure in name resolution
"""
NEW_UV = """\
Using CPython 3.13.0
Creating virtual environment at: .v
Activate with: source .v/bin/activate
error: Request failed after 3 retries in 10.0s
  cause: Failed to fetch: https://mirror.example/simple/pytest/
  cause: dns error
  cause: failed to lookup address information: Temporary failure in name resolution
error: Failed to spawn: pytest
  cause: No such file or directory (os error 2)
"""
UV_OFFLINE = """\
  × No solution found when resolving tool dependencies:
  ╰─▶ Because pytest was not found in the cache and you require pytest==8.4.1,
      we can conclude that your requirements are unsatisfiable.
"""
NO_PANDAS = """\
  × No solution found when resolving dependencies:
  ╰─▶ Because pandas was not found in the provided package locations and you require
      pandas==2.3.2, we can conclude that your requirements are unsatisfiable.
"""
UNLOADED = """\
============================= test session starts ==============================
collected 0 items / 1 error

==================================== ERRORS ====================================
____________________ ERROR collecting tests/test_outputs.py ____________________
E   ModuleNotFoundError: No module named 'pandas'
=========================== short test summary info ============================
ERROR ../tests/test_outputs.py
!!!!!!!!!!!!!!!!!!!! Interrupted: 1 error during collection !!!!!!!!!!!!!!!!!!!!
=============================== 1 error in 0.12s ===============================
"""
NO_PLUGIN = """\
ERROR: usage: __main__.py [options] [file_or_dir] [file_or_dir] [...]
__main__.py: error: unrecognized arguments: --ctrf /logs/verifier/ctrf.json
  inifile: None
  rootdir: /tests
"""
NO_VENV_PIP = """\
error: externally-managed-environment

  × This environment is externally managed
note: If you believe this is a mistake, please contact your Python installation.
hint: See PEP 668 for the detailed specification.
"""
FAULTS = {
    "apt, then set -e": (APT, "E: Unable to locate package curl"),
    "no curl, so no uv": (NO_UV, "E: Unable to locate package curl"),
    "pip, then no pytest": (PIP + "/tests/test.sh: line 3: pytest: command not found\n", "pytest"),
    "pip, then no module": (PIP + "/usr/local/bin/python: No module named pytest\n", "pytest"),
    "pip alone": (PIP, "pytest==8.4.1"),
    "an old uv": (OLD_UV, "Failed to fetch"),
    "a new uv": (NEW_UV, "Request failed"),
    "uv offline": (UV_OFFLINE, "No solution found"),
    "another shell": ("/tests/run-tests.sh: 7: uvx: not found\n", "uvx: not found"),
    "env": ("/usr/bin/env: ‘uv’: No such file or directory\n", "uv"),
    "a plugin": (NO_PLUGIN, "--ctrf"),
    "pip refuses": (NO_VENV_PIP, "externally-managed"),
    "a verdict after it": (APT + "\n❌ Tests failed\n", "curl"),
    "colours": ("\x1b[31m" + PIP.replace("\n", "\r\n"), "pytest"),
    "tests that need what was not had": (NO_PANDAS + UNLOADED, "pandas"),
    "plain python": (
        "Traceback (most recent call last):\n    import pytest\n"  # noqa: ISC004
        "ModuleNotFoundError: No module named 'pytest'\n",
        "pytest",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_set_up_that_failed_is_named(name: str) -> None:
    output, said = FAULTS[name]
    fault = setup_fault(output, {})
    assert fault is not None
    assert said in fault
    assert "\n" not in fault


FAILED = """\
FF                                                                       [100%]
=================================== FAILURES ===================================
----------------------------- Captured stdout call -----------------------------
{inside}
=========================== short test summary info ============================
FAILED ../tests/test_outputs.py::test_one - AssertionError
{end}
"""
RAN = {
    "pytest": "=================== 2 failed, 1 warning in 0.12s ===================",
    "pytest -q": "2 failed in 0.12s",
    "a long run": "============ 1 failed, 3 passed in 61.20s (0:01:01) ============",
}


@pytest.mark.parametrize("inside", [NO_UV, PIP, OLD_UV, NEW_UV, UV_OFFLINE, NO_PLUGIN])
@pytest.mark.parametrize("end", RAN)
def test_what_an_agents_program_prints_while_tests_run_is_no_fault(inside: str, end: str) -> None:
    assert setup_fault(FAILED.format(inside=inside, end=RAN[end]), {}) is None
    assert setup_fault(inside + FAILED.format(inside="", end=RAN[end]), {}) is None


@pytest.mark.parametrize(
    "sign",
    [
        "Ran 3 tests in 0.004s\n\nFAILED (failures=1)",
        "test result: FAILED. 1 passed; 1 failed; 0 ignored",
        "--- FAIL: TestTotals (0.00s)\nFAIL\nexit status 1",
        "ok 1 - starts\nnot ok 2 - answers",
        "Tests:       1 failed, 4 passed, 5 total",
        "  3 passing (12ms)\n  1 failing",
        "[INFO] x\nTests run: 4, Failures: 1, Errors: 0",
        "collected 3 items\n\n../tests/test_outputs.py ",
        "../tests/test_outputs.py::test_one FAILED                    [ 50%]",
    ],
)
def test_a_sign_of_any_test_ends_the_look(sign: str) -> None:
    assert setup_fault(f"{NO_UV}{sign}\n", {}) is None


def test_results_of_tests_end_the_look() -> None:
    assert setup_fault(NO_UV, {"test_one": "failed"}) is None


def test_a_file_that_could_not_be_loaded_is_no_test() -> None:
    fault = setup_fault(NO_PANDAS + UNLOADED, {"../tests/test_outputs.py": "error"})
    assert fault == "the tests import pandas, which could not be installed"


@pytest.mark.parametrize(
    "output",
    [
        "",
        "wrong: expected 4, found 5\n",
        # Where a check goes on to say what it found, an installer that failed was not needed.
        f"{APT}wrong: expected 4, found 5\n",
        f"{APT}Traceback (most recent call last):\n  File \"/tests/check.py\", line 3\nKeyError: 'a'\n",
        "Test 1: FAIL\nE: Unable to locate package jq\nTest 2: FAIL\n",
        # The agent's own module is missing, which nobody tried to install.
        UNLOADED,
        NO_PANDAS + UNLOADED.replace("pandas", "solution"),
        NO_PANDAS + UNLOADED.replace("1 error in", "1 failed, 1 error in"),
        # One line that any program may print.
        "curl: (6) Could not resolve host: api.example\n",
        "socket.gaierror: [Errno -3] Temporary failure in name resolution\n",
        "app.py: error: unrecognized arguments: --timeout 5\n",
        "sh: 1: jq: not found\n",
    ],
)
def test_what_may_be_the_agents_doing_is_no_fault(output: str) -> None:
    assert setup_fault(output, {}) is None


def test_a_script_is_a_witness_for_the_programs_that_it_runs() -> None:
    output = "curl: (6) Could not resolve host: installer.example\n"
    script = "set -euo pipefail\ncurl -LsSf https://installer.example/uv/install.sh | sh\n"
    assert "installer.example" in (setup_fault(output, {}, script=script) or "")
    assert setup_fault(output, {}, script="# no curl here\npython3 /tests/check.py\n") is None


def test_long_lines_and_control_characters_are_bounded() -> None:
    fault = setup_fault("E: Unable to locate package \x07" + "x" * 10_000, {})
    assert fault is not None
    assert len(fault) < 300
    assert fault.isprintable()


def test_a_long_output_is_read_in_a_moment() -> None:
    output = "=" * 300_000 + "\n" + "1 failed, " * 50_000 + "\n" + "a: " * 100_000 + "\n" + PIP
    assert setup_fault(output, {}) is not None
