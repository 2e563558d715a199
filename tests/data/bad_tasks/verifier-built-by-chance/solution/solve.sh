#!/bin/bash
set -euo pipefail

cat >/app/price.py <<'END'
"""Prices in cents."""


def with_discount(cents, percent):
    """The price after a discount, rounded half up to whole cents."""
    hundredths_of_a_cent = cents * (100 - percent)
    return (hundredths_of_a_cent + 50) // 100
END
