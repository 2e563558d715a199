"""Both the shipped database and one with other rows survive the migration with everything in it."""

import importlib.util
import shutil
import sqlite3
import subprocess
from decimal import Decimal
from pathlib import Path

import pytest

TESTS = Path("/tests")
MIGRATION = Path("/app/migrations/0002_cents_and_states.sql")
SHIPPED_SEED, OTHER_SEED = 20260301, 7

spec = importlib.util.spec_from_file_location("fill", TESTS / "fill.py")
fill = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fill)


def before(seed):
    """A database of schema 1, in memory."""
    database = sqlite3.connect(":memory:")
    database.execute("PRAGMA foreign_keys = ON")
    database.executescript((TESTS / "0001_first.sql").read_text())
    fill.fill(database, seed)
    return database


@pytest.fixture(scope="module", params=["shipped", "other"])
def pair(request, tmp_path_factory):
    """The database before, and a connection to it after the migration."""
    folder = tmp_path_factory.mktemp(request.param)
    path = folder / "shop.db"
    if request.param == "shipped":
        old = before(SHIPPED_SEED)
        with sqlite3.connect("file:/app/data/shop.db?mode=ro", uri=True, timeout=5) as shipped:
            copy = sqlite3.connect(path)
            shipped.backup(copy)
            copy.close()
    else:
        old = before(OTHER_SEED)
        run_migrations(folder, path, old)
    new = sqlite3.connect(path)
    new.execute("PRAGMA foreign_keys = ON")
    yield old, new
    new.close()


def run_migrations(folder, path, old):
    """Apply the migration with our own copy of the runner, twice."""
    assert MIGRATION.is_file(), f"there is no {MIGRATION}"
    (folder / "bin").mkdir()
    (folder / "migrations").mkdir()
    shutil.copy(TESTS / "migrate.txt", folder / "bin" / "migrate")
    shutil.copy(TESTS / "0001_first.sql", folder / "migrations" / "0001_first.sql")
    (folder / "migrations" / MIGRATION.name).write_bytes(MIGRATION.read_bytes())
    copy = sqlite3.connect(path)
    old.backup(copy)
    copy.executescript(
        "CREATE TABLE schema_migrations (number INTEGER PRIMARY KEY);"
        "INSERT INTO schema_migrations VALUES (1);"
    )
    copy.close()
    for _ in range(2):
        done = subprocess.run(
            ["/usr/bin/python3", "-I", "-B", folder / "bin" / "migrate", path],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]


def rows(database, sql):
    return database.execute(sql).fetchall()


def cents(euros):
    return int((Decimal(repr(euros)) * 100).quantize(Decimal(1)))


def state(text):
    text = (text or "").strip().lower() or "open"
    return "cancelled" if text == "canceled" else text


def test_it_is_taken_down(pair):
    _, new = pair
    assert rows(new, "SELECT number FROM schema_migrations ORDER BY 1") == [(1,), (2,)]


@pytest.mark.parametrize("table", ["customers", "shipments"])
def test_other_tables_are_as_they_were(pair, table):
    old, new = pair
    every = f"SELECT * FROM {table} ORDER BY id"
    assert rows(new, every) == rows(old, every)


def test_orders(pair):
    old, new = pair
    wanted = [
        (number, customer, cents(total), state(status), note, placed)
        for number, customer, total, status, note, placed in rows(
            old,
            "SELECT id, customer_id, total, status, note, placed_at FROM orders ORDER BY id",
        )
    ]
    found = rows(
        new,
        "SELECT id, customer_id, total_cents, status, note, placed_at FROM orders ORDER BY id",
    )
    assert found == wanted
    assert rows(new, "SELECT DISTINCT typeof(total_cents) FROM orders") == [("integer",)]


def test_items(pair):
    old, new = pair
    wanted = [
        (*first, cents(price))
        for *first, price in rows(
            old, "SELECT id, order_id, sku, quantity, price FROM order_items ORDER BY id"
        )
    ]
    found = rows(
        new, "SELECT id, order_id, sku, quantity, price_cents FROM order_items ORDER BY id"
    )
    assert found == wanted
    assert rows(new, "SELECT DISTINCT typeof(price_cents) FROM order_items") == [("integer",)]


def test_columns(pair):
    _, new = pair
    columns = {
        table: {name: (kind, bool(strict)) for _, name, kind, strict, *_ in rows(new, pragma)}
        for table, pragma in (
            ("orders", "PRAGMA table_info(orders)"),
            ("order_items", "PRAGMA table_info(order_items)"),
        )
    }
    assert set(columns["orders"]) == {
        "id", "customer_id", "total_cents", "status", "note", "placed_at",
    }  # fmt: skip
    assert set(columns["order_items"]) == {"id", "order_id", "sku", "quantity", "price_cents"}
    assert columns["orders"]["total_cents"] == ("INTEGER", True)
    assert columns["orders"]["status"][1]
    assert columns["orders"]["placed_at"] == ("TEXT", True)
    assert columns["orders"]["customer_id"] == ("INTEGER", True)
    assert columns["order_items"]["price_cents"] == ("INTEGER", True)
    assert columns["order_items"]["order_id"] == ("INTEGER", True)
    assert columns["order_items"]["sku"] == ("TEXT", True)
    assert columns["order_items"]["quantity"] == ("INTEGER", True)


def test_tables_and_indexes(pair):
    old, new = pair
    names = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    tables = {name for (name,) in rows(new, names)} - {"schema_migrations"}
    assert tables == {name for (name,) in rows(old, names)}
    for table in ("customers", "orders", "order_items", "shipments"):
        assert indexes(new, table) == indexes(old, table), table


def indexes(database, table):
    """Which columns are indexed, under which name, and whether they are unique."""
    found = set()
    for _, name, unique, origin, _ in rows(database, f"PRAGMA index_list({table})"):
        columns = tuple(row[2] for row in rows(database, f'PRAGMA index_info("{name}")'))
        found.add((name if origin == "c" else origin, bool(unique), columns))
    return found


def test_foreign_keys(pair):
    old, new = pair
    for table in ("orders", "order_items", "shipments"):
        keys = [
            {row[2:7] for row in rows(database, f"PRAGMA foreign_key_list({table})")}
            for database in pair
        ]
        assert keys[0] == keys[1], table
    assert rows(new, "PRAGMA foreign_key_check") == []
    assert rows(new, "PRAGMA integrity_check") == [("ok",)]


@pytest.fixture
def trial(pair):
    """The database after, in a transaction that is undone."""
    _, new = pair
    new.execute("BEGIN")
    yield new
    new.rollback()


ORDER = "INSERT INTO orders (customer_id, total_cents, placed_at) VALUES (3, 100, '2026-12-01')"


def test_deleting_an_order(trial):
    ((number,),) = rows(trial, "SELECT min(order_id) FROM order_items")
    trial.execute("INSERT INTO shipments VALUES (9999, ?, 'van')", (number,))
    trial.execute("DELETE FROM orders WHERE id = ?", (number,))
    assert rows(trial, f"SELECT * FROM order_items WHERE order_id = {number}") == []
    assert rows(trial, "SELECT order_id FROM shipments WHERE id = 9999") == [(None,)]


def test_customers_with_orders_stay(trial):
    with pytest.raises(sqlite3.IntegrityError):
        trial.execute("DELETE FROM customers WHERE id IN (SELECT customer_id FROM orders)")


def test_the_next_order_number(trial):
    assert trial.execute(ORDER).lastrowid == 301


def test_order_numbers_are_never_used_twice(trial):
    number = trial.execute(ORDER).lastrowid
    trial.execute("DELETE FROM orders WHERE id = ?", (number,))
    assert trial.execute(ORDER).lastrowid == number + 1


def test_a_new_order_is_open(trial):
    number = trial.execute(ORDER).lastrowid
    assert rows(trial, f"SELECT status FROM orders WHERE id = {number}") == [("open",)]


@pytest.mark.parametrize("status", ["open", "paid", "cancelled"])
def test_states_that_exist(trial, status):
    trial.execute("UPDATE orders SET status = ? WHERE id = 1", (status,))


@pytest.mark.parametrize("status", ["canceled", "PAID", "", " paid", "shipped", None])
def test_states_that_do_not(trial, status):
    with pytest.raises(sqlite3.IntegrityError):
        trial.execute("UPDATE orders SET status = ? WHERE id = 1", (status,))


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE orders SET total_cents = NULL WHERE id = 1",
        "UPDATE order_items SET price_cents = NULL",
        "UPDATE order_items SET order_id = 999999",
        "UPDATE shipments SET order_id = 999999",
    ],
)
def test_what_the_database_refuses(trial, sql):
    with pytest.raises(sqlite3.IntegrityError):
        trial.execute(sql)


def test_the_runner_and_the_first_migration_are_unchanged():
    assert Path("/app/bin/migrate").read_bytes() == (TESTS / "migrate.txt").read_bytes()
    first = Path("/app/migrations/0001_first.sql").read_bytes()
    assert first == (TESTS / "0001_first.sql").read_bytes()
