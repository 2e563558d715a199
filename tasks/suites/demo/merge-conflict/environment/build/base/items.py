"""Items as they come from the form: `name;quantity;price`."""


def parse_item(text):
    name, quantity, price = text.split(";")
    return {
        "name": name.strip(),
        "quantity": int(quantity),
        "unit_cents": int(price),
    }
