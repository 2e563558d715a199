"""Receipts as text."""

import pricing


def euros(cents):
    return f"{cents // 100}.{cents % 100:02d}"


def title(number):
    return f"Receipt no. {number}"


def footer():
    return "Thank you."


def summary(items):
    """The last line of a receipt."""
    return f"{len(items)} items, {euros(pricing.total(items))} EUR"
