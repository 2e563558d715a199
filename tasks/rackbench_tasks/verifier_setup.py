"""Whether a verifier failed before it tested anything, told from what it printed.

Verifiers install what they test with. Where that fails, nothing is known of the agent's work, and
the reward that is left behind says nothing either. The look is a careful one: an agent's program
may print the very same lines, so that any sign of a test that ran ends it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_SHOWN_CHARACTERS = 200
_LINE_CHARACTERS = 1000
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r(?=\n)")
_COUNT = r"\d+ (?:failed|passed|skipped|deselected|xfailed|xpassed|warnings?|errors?|rerun)"
_PYTEST_END = re.compile(rf"^=* ?({_COUNT}(?:, {_COUNT})*) in [\d.]+s", re.MULTILINE)
_TESTS_RAN = re.compile(
    r"^collected [1-9]\d* items?"  # pytest
    r"|^(?:PASSED|FAILED|SKIPPED|XFAIL|XPASS) \S+"
    r"|^\S+::\S+.* (?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b"
    r"|^\S+\.py [.FEsxX]+(?:\s+\[ *\d+%\])?$"
    r"|^Ran [1-9]\d* tests? in "  # unittest
    r"|^test result: |^test \S+ \.\.\. (?:ok|FAILED)"  # cargo
    r"|^\s*--- (?:PASS|FAIL|SKIP): |^(?:ok|FAIL)\s+\S+\s+[\d.]+s\b"  # go
    r"|^(?:not )?ok \d+\b"  # TAP
    r"|^Tests:\s+\d+|^Tests run: \d+|^\s*\d+ (?:passing|failing)\b|^\d+% tests passed",
    re.MULTILINE,
)
_RUNNER = r"(?:pytest(?:-[\w-]+)?|py\.test|uvx?)"
_SHELL = r"^(?:\S+: )?(?:line )?(?:\d+: )?"

# The program that runs the tests was not to be had: nothing can have been tested.
_NO_RUNNER = re.compile(
    rf"{_SHELL}{_RUNNER}: (?:command )?not found$"
    rf"|^(?:\S*/)?env: [‘'`]?{_RUNNER}[’'`]?: No such file or directory$"
    r"|^\S*python[\d.]*: No module named (?:pytest|uv)\b"
    r"|^(?:E +)?ModuleNotFoundError: No module named 'pytest(?:_\w+)?'$"
    r"|^error: Failed to spawn: `?pytest`?$"
    rf"|^ERROR: (?:No matching distribution found for|Could not find .* requirement) {_RUNNER}\b"
    rf"|Because {_RUNNER}(?:[=<>~! ]\S*)? (?:was|were) not found in\b"
    rf"|Because there (?:is|are) no versions? of {_RUNNER}\b"
    rf"|Failed to fetch: `?\S+/simple/{_RUNNER}/`?$"
    r"|No solution found when resolving tool dependencies"
    rf"|Because only {_RUNNER}\S* (?:is|are) available"
    r"|^(?:pytest|py\.test|__main__\.py): error: unrecognized arguments: --(?:ctrf|timeout)\b"
)
# An installer's own last words: what they mean depends on what came after them.
_INSTALLER = re.compile(
    r"^E: (?:Unable to locate package|Package .* has no installation candidate|Unable to fetch"
    r"|Failed to fetch|Version .* was not found|Couldn't find any package|Sub-process .* returned)"
    r"|^ERROR: (?:No matching distribution found|Could not find a version"
    r"|Could not install packages due to an OSError)"
    r"|^error: externally-managed-environment$"
    r"|^error: (?:Failed to fetch|Failed to download|Request failed after|No interpreter found)"
    r"|No solution found when resolving"
    r"|^npm (?:ERR!|error) (?:code|network) (?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT)"
    rf"|{_SHELL}(?:pip3?|python3?|curl|wget|npm|npx|apt-get): (?:command )?not found$"
    r"|/(?:\.local/bin/env|\.cargo/env|bin/activate): No such file or directory$"
    r"|cannot open \S+/(?:env|activate): No such file"
)
# Words of programs that an agent's own may use as well: they need a second witness.
_NETWORK = re.compile(
    r"^curl: \((?:5|6|7|28|35|56|60|77)\) "
    r"|^wget: unable to resolve|^Resolving \S+ .*failed: |^ERROR: cannot verify \S+ certificate"
    r"|^fatal: unable to access '.*': (?:Could not resolve|Failed to connect|SSL)"
    r"|^(?:socket\.gaierror|urllib\.error\.URLError|ssl\.SSL\w*Error): "
    r"|^E?r*r*o*r*:? ?dial tcp: lookup \S+"
)
_NOISE = re.compile(
    r"^\s|^$|^(?:Reading|Building|Get|Hit|Ign|Err|W|N|E)\b.*[:.]|^\[?notice|^hint: |^warning: "
    r"|^WARNING: |: line \d+: |^\S+: \d+: |^cat: |^note: |^Installing\b|^Cloning into"
    r"|(?i:^\W*(?:(?:some |the )?tests? failed|verification failed|reward\W+[\d.]+)\W*$)"
)
_MISSING_MODULE = re.compile(r"No module named '(\w+)")
_NOT_INSTALLED = re.compile(
    r"^ERROR: No matching distribution found for ([\w.-]+)"
    r"|Because ([\w.-]+)\S* (?:was|were) not found in"
    r"|Failed to fetch: `?\S+/simple/([\w.-]+)/`?$",
    re.MULTILINE,
)
# Packages whose modules have other names.
_MODULES = {
    "pyyaml": "yaml",
    "pillow": "pil",
    "scikit-learn": "sklearn",
    "scikit-image": "skimage",
    "opencv-python": "cv2",
    "beautifulsoup4": "bs4",
    "python-dateutil": "dateutil",
}


def setup_fault(output: str, tests: Mapping[str, object], *, script: str = "") -> str | None:
    """Why a verifier's own set-up failed, as it says itself; None where it did not, or any test ran.

    `tests` are results by test, none where none are known; a whole file is no test. `script` is the text of the verifier's
    own script: programs that it names itself are believed on their own word.
    """
    # No line that tells anything is long, and the patterns need a bound.
    lines = [line[:_LINE_CHARACTERS] for line in _ESCAPES.sub("", output).splitlines()]
    text = "\n".join(lines)
    # A file that could not be loaded is reported like a test.
    ran = any(not name.endswith(".py") for name in tests)
    if ran or _TESTS_RAN.search(text):
        return None
    ends = _PYTEST_END.findall(text)
    if ends:
        return _uncollected(text, ends)
    symptoms = list(_symptoms(lines, script))
    if not symptoms:
        return None
    decisive = next((at for at in symptoms if _NO_RUNNER.search(lines[at])), None)
    if decisive is None and not _ends_with_noise(lines[symptoms[-1] + 1 :]):
        return None
    return _told(lines[symptoms[0]])


def _symptoms(lines: Sequence[str], script: str) -> Iterator[int]:
    """Where the set-up failed, by line."""
    sure = [at for at, line in enumerate(lines) if _NO_RUNNER.search(line)]
    sure += [at for at, line in enumerate(lines) if _INSTALLER.search(line)]
    network = [at for at, line in enumerate(lines) if _NETWORK.search(line)]
    trusted = [at for at in network if sure or _names(script, lines[at])]
    yield from sorted({*sure, *trusted})


def _names(script: str, line: str) -> bool:
    """Whether a script itself runs the program that a line is from."""
    program = {"curl": "curl", "wget": "wget", "Resolving": "wget", "fatal": "git"}
    name = program.get(re.split(r"[:\s]", line, maxsplit=1)[0])
    return bool(name and re.search(rf"(?m)^[^#\n]*\b{name}\b", script))


def _ends_with_noise(lines: Sequence[str]) -> bool:
    """Whether nothing but an ending came after a failure: no output of a check."""
    return all(_NOISE.search(line) for line in lines)


def _uncollected(text: str, ends: Sequence[str]) -> str | None:
    """Tests that could not even be loaded, for want of a package that could not be installed."""
    if any(word in end for end in ends for word in ("passed", "failed", "skipped")):
        return None
    wanted = {name.lower() for name in _MISSING_MODULE.findall(text)}
    for names in _NOT_INSTALLED.findall(text):
        package = next(name for name in names if name).lower()
        if _MODULES.get(package, package.replace("-", "_")) in wanted:
            return _told(f"the tests import {package}, which could not be installed")
    return None


def _told(line: str) -> str:
    shown = "".join(char if char.isprintable() else "?" for char in line.strip())
    return shown[:_SHOWN_CHARACTERS]
