"""The verifier's image, and the script that judges."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from rackbench_tasks.dockerfile import Dockerfile
from rackbench_tasks.vendor_lint.bundle import Bundle, code_lines
from rackbench_tasks.vendor_lint.finding import LintFinding, error, warning
from rackbench_tasks.vendor_lint.image_paths import copies, made_paths, script_of
from rackbench_tasks.vendor_lint.recipe import recipe_rules

FILE = "tests/Dockerfile"
SCRIPT = "tests/test.sh"
_AREA = "verifier"
_NEEDED = ("test.sh", "test_outputs.py", "test_manifest.json")
# Of every base: an artifact right below one of these has its place.
_EVERYWHERE = frozenset(
    {"/", "/bin", "/etc", "/home", "/lib", "/media", "/mnt", "/opt", "/root", "/run", "/srv"}
    | {"/tmp", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/share"}  # noqa: S108  # names, not files
    | {"/var", "/var/cache", "/var/lib", "/var/log", "/var/tmp", "/usr/local/lib"}  # noqa: S108
)
_ERREXIT = re.compile(r"^\s*set\s+(?:.*\s)?(?:-[a-zA-Z]*e[a-zA-Z]*\b|-o\s+errexit)")
_ERREXIT_SHEBANG = re.compile(r"^#!.*\s-[a-z]*e")
_ZERO = re.compile(r"\b(?:echo|printf)\s+(?:-n\s+)?['\"]?0(?:\.0)?(?:\\n)?['\"]?\s*>\s*\S")
_JUDGING = re.compile(r"\b(pytest|python[\d.]*|uv|uvx|node|go)\b")
_EXIT = re.compile(r"(?:^|[;&|{(]|\bthen\b|\belse\b)\s*exit\s+(\S+)")
_REWARD = re.compile(r"\b(?:echo|printf)\s+(?:-n\s+)?(\S+)\s*>\s*\S*reward")
_FETCH = re.compile(
    r"\b(pip3? install|uv pip install|uvx|npm (?:install|ci)|curl|wget|git clone|apt-get|apk add"
    r"|go get|go mod download|cargo install)\b"
)
_IDENTITY = re.compile(r"EVAL_IS_ORACLE|(?<![\w/])/(?:oracle|solution)\b")
_OPEN_LOGS = re.compile(r"chmod\s+(?:-R\s+)?(?:0?777|[augo]*[ao]\+\w*w\w*)\s+.*/logs")


def verifier_image(bundle: Bundle, artifacts: Sequence[str]) -> Iterator[LintFinding]:
    """That it holds the tests, and a place for every artifact."""
    yield from recipe_rules(bundle, FILE, _AREA)
    dockerfile = bundle.dockerfile(FILE)
    if dockerfile is None:
        return
    there = [name for name in _NEEDED if (bundle.folder / "tests" / name).is_file()]
    missing = [name for name in there if not _is_copied(dockerfile, name)]
    if missing:
        yield error(
            f"{_AREA}/tests-not-copied",
            FILE,
            f"does not copy {', '.join(missing)} to /tests; nothing is put there later, and the "
            "verifier would find no test.sh; write COPY . /tests/",
        )
    made = {path for _, path in made_paths(dockerfile)}
    scripts = "\n".join(script_of(one) for one in dockerfile.instructions if one.name == "RUN")
    for artifact in artifacts:
        parent = posixpath.dirname(artifact.rstrip("/")) or "/"
        if parent in _EVERYWHERE or parent in scripts:
            continue
        if not any(path == parent or path.startswith(f"{parent}/") for path in made):
            yield error(
                f"{_AREA}/parent-missing",
                FILE,
                f"makes no {parent}, into which the artifact {artifact} is put back; it fails "
                f"with «could not find {parent}»; write RUN mkdir -p {parent}",
            )


def _is_copied(dockerfile: Dockerfile, name: str) -> bool:
    for instruction, sources, target in copies(dockerfile):
        if instruction.flag("from") is not None:
            continue
        for source in map(posixpath.normpath, sources):
            whole = target if source == "." else None
            if posixpath.basename(source) in (name, "*", "*.*", f"*.{name.rpartition('.')[2]}"):
                whole = target
            if whole in ("/tests", f"/tests/{name}"):
                return True
    return False


def verifier_script(bundle: Bundle) -> Iterator[LintFinding]:
    """That test.sh always leaves a reward, and lets tests be chosen."""
    text = bundle.text(SCRIPT)
    if text is None:
        return
    lines = list(code_lines(text))
    yield from _errexit(text, lines)
    yield from _reward(lines)
    yield from _exits(lines)
    yield from _selection(bundle, text)
    for number, line in lines:
        where = f"{SCRIPT}:{number}"
        if match := _FETCH.search(line):
            yield error(
                f"{_AREA}/fetches",
                where,
                f"runs {match[1]}; nothing may be fetched while judging; put it into {FILE}",
            )
        if _IDENTITY.search(line):
            yield error(
                f"{_AREA}/tells-oracle-apart",
                where,
                "looks at who is being judged; the reference and the agent must be judged alike; "
                "delete it",
            )
        if _OPEN_LOGS.search(line):
            yield error(
                f"{_AREA}/log-folder-open",
                where,
                "lets everybody write below /logs, and so the agent's code its own reward; "
                "write chmod 0755 /logs/verifier",
            )
    if "--ctrf" not in text:
        yield error(
            f"{_AREA}/no-ctrf",
            SCRIPT,
            "asks pytest for no CTRF report, without which nobody sees which test failed; "
            "add --ctrf /logs/verifier/ctrf.json",
        )
    if not re.search(r"chmod\s+0?755\s+\S*logs/verifier", text):
        yield warning(
            f"{_AREA}/log-folder-mode",
            SCRIPT,
            "does not set the mode of /logs/verifier; write chmod 0755 /logs/verifier, so that "
            "the agent's code, run as nobody, cannot write there",
        )


def _errexit(text: str, lines: Sequence[tuple[int, str]]) -> Iterator[LintFinding]:
    shebang = [(1, text.partition("\n")[0])] if _ERREXIT_SHEBANG.match(text) else []
    for number, _ in [*shebang, *((n, line) for n, line in lines if _ERREXIT.match(line))]:
        yield error(
            f"{_AREA}/set-e",
            f"{SCRIPT}:{number}",
            "ends at the first failure, before the reward is written; leave -e out",
        )


def _reward(lines: Sequence[tuple[int, str]]) -> Iterator[LintFinding]:
    zero = next((number for number, line in lines if _ZERO.search(line)), None)
    judging = next((number for number, line in lines if _JUDGING.search(line)), None)
    if zero is None or (judging is not None and judging < zero):
        yield error(
            f"{_AREA}/zero-first",
            f"{SCRIPT}:{judging or 1}",
            "does not write 0 before it begins to judge, and leaves no reward where it breaks; "
            "write echo 0 > /logs/verifier/reward.txt first",
        )
    for number, line in lines:
        match = _REWARD.search(line)
        if match and match[1].strip("'\"").replace("\\n", "") not in ("0", "1"):
            yield error(
                f"{_AREA}/reward-not-binary",
                f"{SCRIPT}:{number}",
                f"writes {match[1]} as the reward; only 0 and 1 are allowed",
            )


def _exits(lines: Sequence[tuple[int, str]]) -> Iterator[LintFinding]:
    for number, line in lines:
        for match in _EXIT.finditer(line):
            if match[1].rstrip(";})") != "0":
                yield error(
                    f"{_AREA}/exit-code",
                    f"{SCRIPT}:{number}",
                    f"ends with {match[1]}; the reward says how it went, and any other exit code "
                    "looks like a broken verifier; write exit 0",
                )
    if lines and lines[-1][1].strip() != "exit 0":
        yield error(
            f"{_AREA}/exit-code",
            f"{SCRIPT}:{lines[-1][0]}",
            "does not end with exit 0; the reward says how it went; add that line",
        )


def _selection(bundle: Bundle, text: str) -> Iterator[LintFinding]:
    others = [bundle.text(path) or "" for path in bundle.files("tests") if path.endswith(".py")]
    if not any("TBENCH_TEST_ID" in one for one in (text, *others)):
        yield error(
            f"{_AREA}/test-id",
            SCRIPT,
            "does not obey TBENCH_TEST_ID; unset it means all tests, else the ids of the manifest "
            "that it lists with commas, and an unknown id a reward of 0",
        )
        return
    if re.search(r"^\s*set\s+-\w*u", text, re.MULTILINE) and "TBENCH_TEST_ID" in text:
        first = re.search(r"TBENCH_TEST_ID\b(?!=)", text)
        if first and "${TBENCH_TEST_ID:-" not in text and "${TBENCH_TEST_ID-" not in text:
            yield error(
                f"{_AREA}/test-id-unset",
                f"{SCRIPT}:{text.count(chr(10), 0, first.start()) + 1}",
                "reads TBENCH_TEST_ID under set -u, and breaks off where it is unset; "
                'write TBENCH_TEST_ID="${TBENCH_TEST_ID:-}"',
            )
    if not any("test_manifest.json" in one for one in (text, *others)):
        yield error(
            f"{_AREA}/test-id-unchecked",
            SCRIPT,
            "does not look TBENCH_TEST_ID up in test_manifest.json, and so cannot refuse an "
            "unknown id",
        )
