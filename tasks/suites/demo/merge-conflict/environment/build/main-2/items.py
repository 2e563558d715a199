"""Items as they come from the form: `name;quantity;price`."""


def parse_item(text):
    name, quantity, price = text.split(";")
    if int(quantity) < 1:
        raise ValueError(f"a quantity is 1 or more: {quantity!r}")
    return {
        "name": name.strip(),
        "quantity": int(quantity),
        "unit_cents": int(price),
    }
