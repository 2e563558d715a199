"""What a cart costs. All amounts are cents."""

FREE_SHIPPING_CENTS = 5000
BULK_QUANTITY = 10
BULK_PERCENT = 10
COUPON_LIMIT_PERCENT = 50


def percent_of(cents, percent):
    """A share of an amount; half a cent is rounded up."""
    return (cents * percent + 50) // 100


def line_total(item):
    """What a line of the cart costs, with the bulk discount."""
    full = item["unit_cents"] * item["quantity"]
    if item["quantity"] >= BULK_QUANTITY:
        return full - percent_of(full, BULK_PERCENT)
    return full


def discount(items, coupon):
    """What a coupon takes off the lines of a cart."""
    lines = sum(line_total(item) for item in items)
    return percent_of(lines, min(coupon or 0, COUPON_LIMIT_PERCENT))


def total(items, *, coupon=None, shipping_cents=490):
    """What the customer pays, with shipping below the amount from which it is free."""
    goods = sum(line_total(item) for item in items) - discount(items, coupon)
    if not items or goods >= FREE_SHIPPING_CENTS:
        return goods
    return goods + shipping_cents
