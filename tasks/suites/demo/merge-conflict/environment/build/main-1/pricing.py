"""What a cart costs. All amounts are cents."""

FREE_SHIPPING_CENTS = 5000


def net_price(item):
    """What a line of the cart costs."""
    return item["unit_cents"] * item["quantity"]


def total(items, *, shipping_cents=490):
    """What the customer pays, with shipping below the amount from which it is free."""
    lines = sum(net_price(item) for item in items)
    if not items or lines >= FREE_SHIPPING_CENTS:
        return lines
    return lines + shipping_cents
