"""Each kind of user can do what it should below /app/site, and nothing else; also after publishing."""

import grp
import hashlib
import json
import os
import pwd
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

SITE = Path("/app/site")
CONTENTS = json.loads(Path("/tests/contents.json").read_text())
DEV, WWW, NOBODY = (pwd.getpwnam(name) for name in ("dev", "www", "nobody"))
WEB = grp.getgrnam("web")


def run_as(account, *command, text=None, umask=0o022):
    """Run a command as a user, with the groups that the user has."""
    return subprocess.run(
        list(map(str, command)),
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=os.getgrouplist(account.pw_name, account.pw_gid),
        umask=umask,
        input=text,
        capture_output=True,
        text=True,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"},
        timeout=15,
        check=False,
    )


def below(*tops):
    """All paths below folders, themselves included; folders end with a slash."""
    found = []
    for top in tops:
        for folder, _, files in os.walk(SITE / top):
            found.append(f"{folder}/")
            found += [os.path.join(folder, name) for name in files]
    return found


def abilities(account, paths):
    done = run_as(
        account, "/usr/bin/python3", "-I", "-B", "/tests/act.py", text=json.dumps(paths)
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def those_who(able, ability):
    return sorted(path for path, can in able.items() if can.get(ability))


def check_pages():
    """Rule 1 and 4 for the pages."""
    pages = below("public", "drafts")
    able = abilities(WWW, pages)
    assert those_who(able, "read") == sorted(pages)
    assert those_who(able, "change") == []
    check_others()
    check_execute_bits()


def check_others():
    paths = below(".")
    able = abilities(NOBODY, paths)
    for ability in ("read", "change", "run"):
        assert those_who(able, ability) == []


def check_execute_bits():
    for path in below("."):
        if not path.endswith("/") and not path.startswith(f"{SITE}/bin/"):
            assert not os.stat(path).st_mode & 0o111, f"{path} is executable"


def test_nothing_is_lost():
    for path, digest in CONTENTS.items():
        assert hashlib.sha256((SITE / path).read_bytes()).hexdigest() == digest, path


def test_everything_belongs_to_dev():
    for path in below("."):
        assert os.lstat(path).st_uid == DEV.pw_uid, path


def test_pages():
    check_pages()


def test_dev_reads_everything():
    paths = below(".")
    assert those_who(abilities(DEV, paths), "read") == sorted(paths)


def test_private():
    paths = below("private")
    for account in (WWW, NOBODY):
        able = abilities(account, paths)
        for ability in ("read", "change", "run"):
            assert those_who(able, ability) == []
    for path in paths:
        assert not stat.S_IMODE(os.stat(path).st_mode) & 0o077, path


def test_nothing_is_open_to_all():
    for path in below("."):
        mode = stat.S_IMODE(os.stat(path).st_mode)
        assert not mode & 0o002, f"{path} can be changed by everybody"
    check_others()


def test_programs():
    programs = [path for path in below("bin") if not path.endswith("/")]
    assert {Path(path).name for path in programs} >= {"publish", "check-links"}
    assert those_who(abilities(DEV, programs), "run") == sorted(programs)
    assert those_who(abilities(WWW, programs), "run") == []
    check_execute_bits()


MAKE = "set -e; cd \"$1\"; echo x >.new; mkdir .folder; echo x >.folder/.new"


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
@pytest.mark.parametrize(("maker", "other"), [(WWW, DEV), (DEV, WWW)], ids=["www", "dev"])
def test_uploads(maker, other, umask):
    for folder in below("uploads"):
        if not folder.endswith("/"):
            continue
        try:
            done = run_as(maker, "/bin/sh", "-c", MAKE, "sh", folder, umask=umask)
            assert done.returncode == 0, f"{maker.pw_name}: {done.stderr}"
            for name in (".new", ".folder", ".folder/.new"):
                assert os.stat(folder + name).st_gid == WEB.gr_gid, f"{folder}{name}"
            done = run_as(other, "/usr/bin/rm", "-f", f"{folder}.new")
            assert done.returncode == 0, f"{other.pw_name}: {done.stderr}"
        finally:
            shutil.rmtree(f"{folder}.folder", ignore_errors=True)
            Path(f"{folder}.new").unlink(missing_ok=True)


@pytest.fixture
def draft():
    """Makes drafts as dev; takes them and their pages away again."""
    folder = "drafts/verifier"

    def make(name, text, mode):
        path = SITE / folder / name
        script = 'set -e; mkdir -p "$(dirname "$1")"; printf %s "$2" >"$1"; chmod "$3" "$1"'
        done = run_as(DEV, "/bin/sh", "-c", script, "sh", path, text, f"{mode:o}", umask=0o077)
        assert done.returncode == 0, done.stderr
        return f"verifier/{name}"

    yield make
    for top in ("drafts", "public"):
        shutil.rmtree(SITE / top / "verifier", ignore_errors=True)


def publish(name, umask):
    return run_as(DEV, SITE / "bin" / "publish", name, umask=umask)


def check_published(name, text):
    page = SITE / "public" / name
    assert page.read_text() == text
    shutil.rmtree(SITE / "drafts" / "verifier")  # how dev keeps drafts is not what is checked here
    check_pages()
    folders = [page.parent, *page.parent.parents]
    for path in [page, *folders[: folders.index(SITE / "public")]]:
        assert path.stat().st_uid == DEV.pw_uid
        assert not path.stat().st_mode & 0o022, path


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
@pytest.mark.parametrize("name", ["page.html", "one/two/a page.html"])
def test_publishing(draft, umask, name):
    name = draft(name, "<p>new</p>", 0o600)
    done = publish(name, umask)
    assert (done.returncode, done.stdout) == (0, f"published {name}\n"), done.stderr
    check_published(name, "<p>new</p>")


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o666])
def test_publishing_a_page_that_was_there(draft, mode):
    name = draft("deep/page.html", "<p>first</p>", 0o644)
    assert publish(name, 0o022).returncode == 0
    page = SITE / "public" / name
    os.chown(page, DEV.pw_uid, DEV.pw_gid)
    page.chmod(mode)
    draft("deep/page.html", "<p>second</p>", mode)
    assert publish(name, 0o022).returncode == 0
    check_published(name, "<p>second</p>")


def test_publish_in_trouble():
    done = run_as(DEV, SITE / "bin" / "publish", "no/such page")
    assert (done.returncode, done.stderr) == (1, "publish: there is no draft no/such page\n")
    assert not (SITE / "public" / "no").exists()
    assert run_as(DEV, SITE / "bin" / "publish").returncode == 2
