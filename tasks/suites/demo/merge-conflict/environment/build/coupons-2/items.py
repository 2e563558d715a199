"""Items as they come from the form: `name;quantity;price`."""


def parse_item(text):
    name, quantity, price = text.split(";")
    return {
        "name": name.strip(),
        "quantity": int(quantity),
        "unit_cents": cents(price.strip()),
    }


def cents(text):
    """`4.20` is 420 cents; without a point the price is in cents already."""
    if "." not in text:
        return int(text)
    whole, part = text.split(".")
    if len(part) != 2:
        raise ValueError(f"a price has two decimals: {text!r}")
    return int(whole) * 100 + int(part)
