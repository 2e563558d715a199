"""Receipts as text."""

import pricing


def euros(cents):
    return f"{cents // 100}.{cents % 100:02d}"


def title(number):
    return f"Receipt no. {number}"


def footer():
    return "Thank you."


def summary(items, coupon=None):
    """The last line of a receipt."""
    line = f"{len(items)} items, {euros(pricing.total(items, coupon=coupon))} EUR"
    saved = pricing.discount(items, coupon)
    return f"{line} (you saved {euros(saved)} EUR)" if saved else line
