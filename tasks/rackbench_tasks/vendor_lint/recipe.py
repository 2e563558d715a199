"""Rules that the Dockerfiles of the agent and of the verifier share."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from rackbench_tasks.dockerfile import Dockerfile, Instruction, references
from rackbench_tasks.vendor_lint.bundle import Bundle, at
from rackbench_tasks.vendor_lint.commands import Pin, commands, installs, requirement_pin
from rackbench_tasks.vendor_lint.finding import LintFinding, error, warning
from rackbench_tasks.vendor_lint.image_paths import script_of
from rackbench_tasks.vendor_lint.taxonomy import CANONICAL_BASES

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")


def recipe_rules(bundle: Bundle, path: str, area: str) -> Iterator[LintFinding]:
    """Bases, packages and the entrypoint of a Dockerfile."""
    dockerfile = bundle.dockerfile(path)
    if dockerfile is None:
        return
    yield from _bases(dockerfile, path, area)
    for instruction in dockerfile.instructions:
        if instruction.name == "RUN":
            yield from _packages(bundle, path, area, instruction)
        elif instruction.name == "ENTRYPOINT":
            yield warning(
                f"{area}/entrypoint",
                at(path, instruction),
                "has an ENTRYPOINT; one that does not return keeps the verifier from ever "
                "writing a reward; start services otherwise",
            )


def _bases(dockerfile: Dockerfile, path: str, area: str) -> Iterator[LintFinding]:
    found = references(dockerfile, {})
    for image in found:
        if not _DIGEST.search(image.name):
            yield error(
                f"{area}/from-not-pinned",
                at(path, image.instruction),
                f"the image {image.name} has no digest, and may be another one tomorrow; "
                "write name:tag@sha256:…",
            )
        if image.instruction.flag("platform"):
            yield error(
                f"{area}/platform",
                at(path, image.instruction),
                "FROM names a platform; leave it out, so that the image can be built everywhere",
            )
    last = next((image for image in reversed(found) if image.instruction.name == "FROM"), None)
    if last and not is_canonical(last.name) and not _has_reason(dockerfile, last.instruction):
        yield warning(
            f"{area}/unknown-base",
            at(path, last.instruction),
            f"the base {last.name} is none of {', '.join(CANONICAL_BASES)}; take one of them, or "
            "write a comment above that says why not",
        )


def is_canonical(name: str) -> bool:
    """Whether an image is one of the bases that need no reason."""
    repository = re.split(r"[@:](?!.*/)", name, maxsplit=1)[0]
    folder, _, base = repository.rpartition("/")
    return base in CANONICAL_BASES and (not folder or folder.endswith("library"))


def _has_reason(dockerfile: Dockerfile, instruction: Instruction) -> bool:
    above = instruction.first - 1
    is_comment = above >= 0 and dockerfile.lines[above].lstrip().startswith("#")
    return is_comment and above not in dockerfile.directives.values()


def _packages(
    bundle: Bundle, path: str, area: str, instruction: Instruction
) -> Iterator[LintFinding]:
    where = at(path, instruction)
    for words in commands(script_of(instruction)):
        for install in installs(words):
            if install.program == "apt" and install.pin is Pin.EXACT:
                yield error(
                    f"{area}/apt-pinned",
                    where,
                    f"{install.package} pins a version of the distribution's, which is gone from "
                    f"the archive soon; write {install.package.partition('=')[0]}",
                )
            elif install.pin is Pin.FILE:
                yield from _requirements(bundle, path, area, install.package)
            elif install.program != "apt" and install.pin is Pin.NONE:
                yield error(
                    f"{area}/package-unpinned",
                    where,
                    f"{install.program} installs {install.package} in whatever version there is; "
                    "pin one exactly",
                )


def _requirements(bundle: Bundle, path: str, area: str, listed: str) -> Iterator[LintFinding]:
    folder = path.rpartition("/")[0]
    name = posixpath.basename(listed)
    found = [file for file in bundle.files(folder) if posixpath.basename(file) == name]
    for file in found[:1]:
        for number, line in enumerate((bundle.text(file) or "").splitlines(), start=1):
            requirement = line.partition(" #")[0].strip().rstrip("\\").strip()
            if not requirement or requirement.startswith(("#", "-")):
                continue
            if requirement_pin(requirement.partition(" --hash")[0]) is Pin.NONE:
                yield error(
                    f"{area}/package-unpinned",
                    f"{file}:{number}",
                    f"{requirement} has no exact version; write name==version",
                )
