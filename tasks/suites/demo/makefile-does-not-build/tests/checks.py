"""The Makefile does what was asked, and the program what its README says."""

import math
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

PROJECT = Path("/app/textstat")
TESTS = Path("/tests")
HEADERS = ("count.h", "table.h", "textstat.h")
SOURCES = ("count.c", "table.c", "main.c")


def run(*command, cwd):
    process = subprocess.Popen(
        list(map(str, command)),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        env={"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"},
    )
    try:
        out, errors = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail(f"{command} did not end")
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


def make(folder, *arguments):
    return run("/usr/bin/make", *arguments, cwd=folder)


def change(path, text):
    """Write a file so that it is newer than all that was built before."""
    time.sleep(0.02)
    path.write_text(text)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory):
    """The project as in a fresh checkout."""
    folder = tmp_path_factory.mktemp("checkout") / "textstat"
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("build", "bin", ".git"))
    return folder


@pytest.fixture(scope="session")
def made(checkout, tmp_path_factory):
    """A copy in which make has run."""
    folder = tmp_path_factory.mktemp("made") / "textstat"
    shutil.copytree(checkout, folder)
    done = make(folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


@pytest.fixture
def copy(made, tmp_path):
    """A copy of what make has made, to be changed."""
    folder = tmp_path / "textstat"
    shutil.copytree(made, folder)
    return folder


def test_a_parallel_build_of_a_fresh_checkout(checkout, tmp_path):
    folder = tmp_path / "textstat"
    shutil.copytree(checkout, folder)
    done = make(folder, "-j4")
    assert done.returncode == 0, done.stderr[-2000:]
    assert (folder / "bin" / "textstat").is_file()


def test_where_things_are(made):
    assert (made / "bin" / "textstat").is_file()
    assert list((made / "build").glob("**/*.o"))
    assert not [path for path in made.rglob("*.o") if made / "build" not in path.parents]


def test_once_more_does_nothing(copy):
    assert make(copy, "-q").returncode == 0


@pytest.mark.parametrize(
    "path", [*(f"include/{name}" for name in HEADERS), *(f"src/{name}" for name in SOURCES)]
)
def test_changes_are_noticed(copy, path):
    change(copy / path, (copy / path).read_text() + "\n")
    assert make(copy, "-q").returncode == 1
    assert make(copy).returncode == 0
    assert make(copy, "-q").returncode == 0


def test_a_new_version_arrives(copy):
    header = copy / "include" / "textstat.h"
    change(header, re.sub(r'(TEXTSTAT_VERSION\s+)"[^"]*"', r'\1"9.8"', header.read_text()))
    assert make(copy).returncode == 0
    assert run("bin/textstat", "--version", cwd=copy).stdout == "textstat 9.8\n"


# Code that is fine but for one warning: each is one that the old code gave.
WARNINGS = {
    "-Wunused-parameter": "int probe(int unused); int probe(int unused) { return 1; }",
    "-Wsign-compare": "int probe(int a); int probe(int a) { return a < sizeof a; }",
    "-Wimplicit-function-declaration": "int probe(void); int probe(void) { return probe_2(); }",
}
STANDARD = """
#if !defined __STRICT_ANSI__ || __STDC_VERSION__ != 201112L
#error "this is not C11"
#endif
"""


def test_the_standard_is_c11(copy):
    for source in SOURCES:
        path = copy / "src" / source
        change(path, path.read_text() + STANDARD)
    assert make(copy).returncode == 0


@pytest.mark.parametrize("source", SOURCES)
def test_warnings_are_errors(copy, source):
    path = copy / "src" / source
    text = path.read_text()
    for warning, code in WARNINGS.items():
        change(path, f"{text}\n{code}\n")
        assert make(copy).returncode != 0, f"{warning} is switched off"


FAILING = "#include <stdio.h>\nint main(void) { puts(\"marker of failure\"); return 3; }\n"
PASSING = "#include <stdio.h>\nint main(void) { puts(\"marker of success\"); return 0; }\n"
ENDS_EARLY = """
extern void _Exit(int);
__attribute__((constructor)) static void probe(void) { _Exit(5); }
"""


def test_check_passes_in_a_fresh_checkout(checkout, tmp_path):
    folder = tmp_path / "textstat"
    shutil.copytree(checkout, folder)
    done = make(folder, "check")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "all counts are right" in done.stdout
    assert (folder / "build" / "check_count").is_file()


def test_check_fails_when_the_program_fails(copy):
    assert make(copy, "check").returncode == 0
    change(copy / "tests" / "check_count.c", FAILING)
    done = make(copy, "check")
    assert "marker of failure" in done.stdout
    assert done.returncode != 0
    change(copy / "tests" / "check_count.c", PASSING)
    done = make(copy, "check")
    assert "marker of success" in done.stdout
    assert done.returncode == 0


def test_check_sees_changed_sources(copy):
    assert make(copy, "check").returncode == 0
    path = copy / "src" / "count.c"
    change(path, path.read_text() + ENDS_EARLY)
    assert make(copy, "check").returncode != 0


def test_clean(copy):
    make(copy, "check")
    (copy / "notes.md").write_text("mine")
    before = names(copy)
    assert make(copy, "clean").returncode == 0
    assert names(copy) == {name for name in before if name.split("/")[0] not in ("build", "bin")}
    assert make(copy).returncode == 0


def names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def wanted(name, *contents):
    """A line of the program's output, calculated anew."""
    lengths = [len(word) for content in contents for word in re.split(rb"[ \t\n\v\f\r]+", content)]
    lengths = [length for length in lengths if length]
    mean = sum(lengths) / len(lengths) if lengths else 0
    square = sum(length * length for length in lengths) / len(lengths) if lengths else 0
    return (
        f"lines={sum(content.count(10) for content in contents)} words={len(lengths)} "
        f"bytes={sum(map(len, contents))} mean={mean:.2f} "
        f"deviation={math.sqrt(max(square - mean * mean, 0)):.2f} {name}\n"
    )


CONTENTS = {
    "plain": b"The quick brown fox\njumps over\n\nthe lazy dog.\n",
    "no end of line": b"one two\tthree",
    "empty": b"",
    "bytes": bytes(range(256)) * 3,
    "blank": b" \t\n\v\f\r \n",
    "long": b"word " * 5000 + b"w" * 70000,
}


def test_the_program(made, tmp_path):
    for name, content in CONTENTS.items():
        (tmp_path / name).write_bytes(content)
    for name, content in CONTENTS.items():
        done = run(made / "bin" / "textstat", name, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, wanted(name, content))
    many = [*CONTENTS, *CONTENTS]
    done = run(made / "bin" / "textstat", *many, cwd=tmp_path)
    lines = "".join(wanted(name, CONTENTS[name]) for name in many)
    assert (done.returncode, done.stdout) == (
        0,
        lines + wanted("total", *(CONTENTS[name] for name in many)),
    )


def test_the_program_in_trouble(made, tmp_path):
    (tmp_path / "good").write_bytes(b"a b\n")
    done = run(made / "bin" / "textstat", "missing", "good", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, wanted("good", b"a b\n"))
    assert "missing" in done.stderr
    assert run(made / "bin" / "textstat", cwd=tmp_path).returncode == 2
    assert run(made / "bin" / "textstat", "--version", cwd=tmp_path).stdout == "textstat 1.4\n"


@pytest.mark.parametrize(
    ("path", "copy_of_it"),
    [("README.md", "README.txt"), ("tests/check_count.c", "check_count.c.txt")],
)
def test_what_stays(path, copy_of_it):
    assert (PROJECT / path).read_bytes() == (TESTS / copy_of_it).read_bytes()
