"""Invoice lines and their totals. The rules are in docs/rounding.md."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext

_CENT = Decimal("0.01")
_EXACT = Context(prec=60)


@dataclass(frozen=True)
class Line:
    """One line of an invoice; figures are decimal strings as they come from the order form."""

    description: str
    quantity: int
    unit_price: str
    vat_percent: str
    discount_percent: str = "0"


def line_net(line: Line) -> Decimal:
    """What a line costs before VAT."""
    share = 1 - Decimal(line.discount_percent) / 100
    return _rounded(line.quantity * Decimal(line.unit_price) * share)


def totals(lines: Iterable[Line]) -> dict[str, str]:
    """Net, VAT and gross of an invoice, each as a string with two decimals."""
    with localcontext(_EXACT):
        by_rate: dict[Decimal, Decimal] = defaultdict(Decimal)
        for line in lines:
            by_rate[Decimal(line.vat_percent)] += line_net(line)
        net = sum(by_rate.values(), Decimal())
        vat = sum((_rounded(sub * rate / 100) for rate, sub in by_rate.items()), Decimal())
        return {"net": _shown(net), "vat": _shown(vat), "gross": _shown(net + vat)}


def _rounded(amount: Decimal) -> Decimal:
    return amount.quantize(_CENT, rounding=ROUND_HALF_UP, context=_EXACT)


def _shown(amount: Decimal) -> str:
    return f"{_rounded(amount):.2f}"
