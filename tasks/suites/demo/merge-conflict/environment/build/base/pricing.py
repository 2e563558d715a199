"""What a cart costs. All amounts are cents."""


def net_price(item):
    """What a line of the cart costs."""
    return item["unit_cents"] * item["quantity"]


def total(items):
    """What the customer pays."""
    return sum(net_price(item) for item in items)
