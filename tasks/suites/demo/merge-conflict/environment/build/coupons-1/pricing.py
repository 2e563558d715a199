"""What a cart costs. All amounts are cents."""

BULK_QUANTITY = 10
BULK_PERCENT = 10


def percent_of(cents, percent):
    """A share of an amount; half a cent is rounded up."""
    return (cents * percent + 50) // 100


def line_total(item):
    """What a line of the cart costs, with the bulk discount."""
    full = item["unit_cents"] * item["quantity"]
    if item["quantity"] >= BULK_QUANTITY:
        return full - percent_of(full, BULK_PERCENT)
    return full


def total(items):
    """What the customer pays."""
    return sum(line_total(item) for item in items)
