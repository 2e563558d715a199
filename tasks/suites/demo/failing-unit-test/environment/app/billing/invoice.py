"""Invoice lines and their totals. The rules are in docs/rounding.md."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One line of an invoice; figures are decimal strings as they come from the order form."""

    description: str
    quantity: int
    unit_price: str
    vat_percent: str
    discount_percent: str = "0"


def line_net(line: Line) -> float:
    """What a line costs before VAT."""
    full = line.quantity * float(line.unit_price)
    return round(full - full * float(line.discount_percent) / 100, 2)


def line_vat(line: Line) -> float:
    """The VAT of a line."""
    return round(line_net(line) * float(line.vat_percent) / 100, 2)


def totals(lines: Iterable[Line]) -> dict[str, str]:
    """Net, VAT and gross of an invoice, each as a string with two decimals."""
    net = vat = 0.0
    for line in lines:
        net += line_net(line)
        vat += line_vat(line)
    return {"net": f"{net:.2f}", "vat": f"{vat:.2f}", "gross": f"{net + vat:.2f}"}
