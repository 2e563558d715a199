import unittest

import pricing


def item(cents, quantity=1):
    return {"name": "thing", "unit_cents": cents, "quantity": quantity}


class PricingTest(unittest.TestCase):
    def test_an_empty_cart_costs_nothing(self):
        self.assertEqual(pricing.total([]), 0)

    def test_lines_are_added(self):
        self.assertEqual(pricing.total([item(4000, 2), item(300)]), 8300)

    def test_ten_pieces_are_cheaper(self):
        self.assertEqual(pricing.line_total(item(1000, 9)), 9000)
        self.assertEqual(pricing.line_total(item(1000, 10)), 9000)
