"""The merge is a merge, and the tree that was committed does what both branches did."""

import json
import re
import subprocess

import pytest

SHOP = "/app/shop"
MAIN = "ed974f787cb89b18a9042025a22b35dcceb6321f"
COUPONS = "85f85d5143b242cbef8dcc2ffd97afa1a23af640"

TESTS = {
    "test_a_coupon_takes_half_at_most",
    "test_a_coupon_takes_its_share",
    "test_an_empty_cart_costs_nothing",
    "test_large_orders_do_not",
    "test_lines_are_added",
    "test_one_line_for_each_item",
    "test_prices_with_a_point",
    "test_quantities_below_one_are_refused",
    "test_small_orders_pay_shipping",
    "test_ten_pieces_are_cheaper",
    "test_the_discount_is_shown",
    "test_whole_cents",
}

CHANGES = [
    "- Receipts end with the number of items.",
    "- Orders below 50 euros pay 4.90 for shipping.",
    "- Receipts list their lines.",
    "- Quantities below 1 are refused.",
    "- Ten pieces or more of one thing are 10 % cheaper.",
    "- Coupons take up to 50 % off.",
    "- Prices may be written with a point.",
]


def item(cents, quantity=1, name="thing"):
    return {"name": name, "unit_cents": cents, "quantity": quantity}


def call(module, function, *arguments, **keywords):
    return [module, function, list(arguments), keywords]


CALLS = {
    "empty cart": (call("pricing", "total", []), 0),
    "empty cart with a coupon": (call("pricing", "total", [], coupon=20), 0),
    "a small order": (call("pricing", "total", [item(4999)]), 5489),
    "a large order": (call("pricing", "total", [item(5000)]), 5000),
    "other shipping": (call("pricing", "total", [item(100)], shipping_cents=1000), 1100),
    "nine pieces": (call("pricing", "line_total", item(1000, 9)), 9000),
    "ten pieces": (call("pricing", "line_total", item(1000, 10)), 9000),
    "half a cent": (call("pricing", "line_total", item(1, 15)), 13),
    "the bulk discount decides on shipping": (call("pricing", "total", [item(550, 10)]), 5440),
    "the coupon decides on shipping": (call("pricing", "total", [item(6000)], coupon=20), 5290),
    "a coupon does not lower shipping": (call("pricing", "total", [item(1000)], coupon=50), 990),
    "a coupon, shipping still free": (call("pricing", "total", [item(10000)], coupon=50), 5000),
    "a coupon of 80 %": (call("pricing", "total", [item(20000)], coupon=80), 10000),
    "bulk first, then the coupon": (
        call("pricing", "total", [item(1000, 10), item(999)], coupon=15, shipping_cents=0),
        8499,
    ),
    "discount": (call("pricing", "discount", [item(1000, 10)], 10), 900),
    "no discount": (call("pricing", "discount", [item(1000, 10)], None), 0),
    "lines": (
        call("receipt", "lines", [item(250, 3, "pen"), item(1000, 10, "lamp")]),
        ["3 x pen: 7.50", "10 x lamp: 90.00"],
    ),
    "summary": (call("receipt", "summary", [item(250, 3)]), "1 items, 12.40 EUR"),
    "summary with a coupon": (
        call("receipt", "summary", [item(6000)], coupon=20),
        "1 items, 52.90 EUR (you saved 12.00 EUR)",
    ),
    "whole cents": (call("items", "parse_item", "pen; 3 ;250"), item(250, 3, "pen")),
    "a point": (call("items", "parse_item", "pen;3; 4.20 "), item(420, 3, "pen")),
    "one decimal": (call("items", "parse_item", "pen;3;4.2"), "raises ValueError"),
    "quantity 0": (call("items", "parse_item", "pen;0;4.20"), "raises ValueError"),
    "quantity -3": (call("items", "parse_item", "pen;-3;250"), "raises ValueError"),
}


def run(*command, **more):
    return subprocess.run(
        command, capture_output=True, text=True, timeout=20, check=False, **more
    )


def git(*arguments):
    """Ask git without the settings of anybody, and without hooks or watchers of the repository."""
    done = run(
        "/usr/bin/git", "-C", SHOP,
        "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
        *arguments,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_REPLACE_OBJECTS": "1",
        },
    )  # fmt: skip
    assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stderr[-1000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """What is committed on main, in a folder of its own."""
    folder = tmp_path_factory.mktemp("tree")
    packed = folder.parent / "main.tar"
    git("archive", "--format=tar", f"--output={packed}", "refs/heads/main")
    assert run("/usr/bin/tar", "-xf", packed, "-C", folder).returncode == 0
    return folder


@pytest.fixture(scope="module")
def answers(tree):
    done = run(
        "/usr/bin/python3", "-I", "-B", "/tests/probe.py", tree,
        input=json.dumps([asked for asked, _ in CALLS.values()]),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(CALLS, json.loads(done.stdout), strict=True))


def test_main_is_checked_out():
    assert git("symbolic-ref", "HEAD").strip() == "refs/heads/main"


def test_it_is_a_merge_of_both_tips():
    merges = git("rev-list", "--first-parent", "--parents", "refs/heads/main").splitlines()
    assert [MAIN, COUPONS] in [line.split()[1:] for line in merges]


def test_nothing_is_left_over():
    assert git("status", "--porcelain") == ""
    for name in ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REBASE_HEAD"):
        path = git("rev-parse", "--git-path", name).strip()
        assert run("/usr/bin/test", "-e", path, cwd=SHOP).returncode == 1, name


@pytest.mark.parametrize("name", CALLS)
def test_behaviour(answers, name):
    assert answers[name] == CALLS[name][1]


def test_the_projects_own_tests(tree):
    done = run(
        "/usr/bin/python3", "-B", "-m", "unittest", "discover", "-v", "-s", "tests", cwd=tree
    )
    assert done.returncode == 0, done.stderr[-2000:]
    passed = set(re.findall(r"^(\w+) \(.*?\).* ok$", done.stderr, re.MULTILINE))
    assert passed >= TESTS


def test_the_old_name_is_gone(tree):
    for path in tree.rglob("*.py"):
        assert "net_price" not in path.read_text(errors="replace"), path.name


def test_the_changelog(tree):
    lines = (tree / "CHANGELOG.md").read_text().splitlines()
    assert sorted(line for line in lines if line.startswith("-")) == sorted(CHANGES)
    assert [line for line in lines if line and not line.startswith("-")] == [
        "# Changes",
        "## Unreleased",
    ]


def test_no_conflict_marks(tree):
    for path in tree.rglob("*"):
        if path.is_file():
            marks = re.findall(r"^(?:<{7}|={7}|>{7}|\|{7})(?: |$)", path.read_text(), re.MULTILINE)
            assert not marks, path.name
