"""Prices in cents."""

import time


def with_discount(cents, percent):
    """The price after a discount, rounded half up to whole cents."""
    return int(cents * (1 - percent / 100))


def day_of(seconds):
    """The day of a receipt."""
    return time.strftime("%Y-%m-%d", time.gmtime(0))
