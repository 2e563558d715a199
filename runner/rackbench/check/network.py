"""The verifier works without a network, or the task says what it needs."""

from __future__ import annotations

import re

from rackbench.check.case import Case, Check, Seen
from rackbench.check.finding import CheckName, Finding, Level
from rackbench.check.reference import PLAIN, plain_reference
from rackbench.check.variant import Variant, sealed
from rackbench_harnesses.oracle import Oracle
from rackbench_tasks import Task

_SEALED = "oracle-sealed"
_HOSTS = (
    re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/@\s'\"]*@)?([A-Za-z0-9.-]+\.[A-Za-z]{2,})"),
    re.compile(r"(?:resolve host|resolving|host=|resolve|lookup)[:\s]*'?([A-Za-z0-9.-]+\.[A-Za-z]{2,})"),
)  # fmt: skip
_TOOLS = re.compile(
    r"(?:^|[\s;&|(`])(curl|wget|apt-get|apt|apk|pip3?|uvx?|npm|npx|yarn|pnpm|cargo|go get|gem|git clone)"
    r"(?=[\s:])",
    re.MULTILINE,
)
_SCRIPT_SUFFIXES = (".sh", ".py")


def _variants(task: Task) -> list[Variant]:
    without = sealed(task)
    if without is None:
        return []
    words = ("the network is taken away before the tests",)
    made = Variant(_SEALED, Oracle({}), without, {"varied": list(words)}, words)
    return [*plain_reference(task), made]


def _judge(case: Case) -> list[Finding]:
    seen, plain = case.attempts.get(_SEALED), case.attempts.get(PLAIN)
    if seen is None or seen.solved or plain is None or not plain.solved:
        return []
    needs = _needed(case.task, seen)
    shown = f" (tried: {', '.join(needs)})" if needs else ""
    evidence = seen.evidence()
    said = case.allowances.needs_network
    if said:
        text = f"the verifier needs the network, as the task says: {', '.join(said)}{shown}"
        return [Finding(CheckName.SEALED, Level.WARNING, text, evidence)]
    text = (
        f"the verifier needs the network{shown}: {seen.words()} without one. Install what it needs "
        "into its image, lend it (`rackbench task warm`), or name it in [metadata.check] "
        "needs_network"
    )
    return [Finding(CheckName.SEALED, Level.ERROR, text, evidence)]


def _needed(task: Task, seen: Seen) -> list[str]:
    """Hosts out of the tests' output, and tools out of their scripts, as far as they show."""
    output = seen.verifier_output()
    hosts = {host for pattern in _HOSTS for host in pattern.findall(output)}
    scripts = "\n".join(
        path.read_text(errors="replace")
        for stage in task.stages
        for folder in stage.verifier.tests
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in _SCRIPT_SUFFIXES
    )
    hosts |= {host for host in _HOSTS[0].findall(scripts) if host != "localhost"}
    return sorted(hosts) + sorted(set(_TOOLS.findall(scripts)) | set(_TOOLS.findall(output)))


CHECK = Check(CheckName.SEALED, _variants, _judge)
