"""Prices in cents."""


def with_discount(cents, percent):
    """The price after a discount, rounded half up to whole cents."""
    return int(cents * (1 - percent / 100))
