"""Receipts as text."""

import pricing


def euros(cents):
    return f"{cents // 100}.{cents % 100:02d}"


def title(number):
    return f"Receipt no. {number}"


def lines(items):
    """The lines of a receipt, one for each item."""
    return [
        f"{item['quantity']} x {item['name']}: {euros(pricing.net_price(item))}" for item in items
    ]


def footer():
    return "Thank you."


def summary(items):
    """The last line of a receipt."""
    return f"{len(items)} items, {euros(pricing.total(items))} EUR"
