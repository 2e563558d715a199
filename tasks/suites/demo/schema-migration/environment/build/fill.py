"""Fill a database of schema 1 with rows: usage: fill.py DATABASE [SEED]"""

import random
import sqlite3
import sys

STATES = ["open", "paid", "PAID", " paid ", "canceled", "cancelled", "Canceled", None, "", "  ", "Open"]
NOTES = [None, "gift", "it's urgent; ring twice", "leave at the café", ""]
CARRIERS = ["north", "post", "van"]


def fill(database: sqlite3.Connection, seed: int) -> None:
    draw = random.Random(seed).random  # its sequence is the same in every version of Python

    def pick(items):
        return items[int(draw() * len(items))]

    customers = 40 + int(draw() * 20)
    for number in range(1, customers + 1):
        database.execute(
            "INSERT INTO customers VALUES (?, ?, ?)",
            (number * 3, f"Customer {number}", f"c{number}@shop.example"),
        )
    item = 0
    for order in range(1, 301):
        lines = []
        for sku in range(int(draw() * 4)):
            cents, quantity = int(draw() * 20_000) + 1, 1 + int(draw() * 3)
            lines.append((f"SKU-{sku:03d}", quantity, cents))
        sign = -1 if draw() < 0.1 else 1
        total = sign * sum(quantity * cents for _, quantity, cents in lines)
        # Some sums were made in floating point, line by line, as the old checkout did.
        summed = 0.0
        for _, quantity, cents in lines:
            summed += quantity * (cents / 100)
        euros = sign * summed if draw() < 0.5 else total / 100
        database.execute(
            "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)",
            (
                order,
                3 * (1 + int(draw() * customers)),
                euros,
                pick(STATES),
                pick(NOTES),
                f"2026-{1 + order // 28:02d}-{1 + order % 28:02d}T08:00:00Z",
            ),
        )
        for sku, quantity, cents in lines:
            item += 1 + int(draw() * 3)
            database.execute(
                "INSERT INTO order_items VALUES (?, ?, ?, ?, ?)",
                (item, order, sku, quantity, sign * cents / 100),
            )
    for shipment in range(1, 121):
        order = None if draw() < 0.1 else 1 + int(draw() * 290)
        database.execute("INSERT INTO shipments VALUES (?, ?, ?)", (shipment, order, pick(CARRIERS)))
    for order in (7, 113, 298, 299, 300):
        database.execute("DELETE FROM orders WHERE id = ?", (order,))
    database.commit()


if __name__ == "__main__":
    connection = sqlite3.connect(sys.argv[1])
    connection.execute("PRAGMA foreign_keys = ON")
    fill(connection, int(sys.argv[2]) if len(sys.argv) > 2 else 20260301)
    connection.close()
