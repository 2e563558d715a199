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

    def test_a_coupon_takes_its_share(self):
        self.assertEqual(pricing.total([item(10000)], coupon=20), 8000)

    def test_a_coupon_takes_half_at_most(self):
        self.assertEqual(pricing.total([item(20000)], coupon=80), 10000)
