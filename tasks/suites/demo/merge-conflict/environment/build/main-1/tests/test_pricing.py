import unittest

import pricing


def item(cents, quantity=1):
    return {"name": "thing", "unit_cents": cents, "quantity": quantity}


class PricingTest(unittest.TestCase):
    def test_an_empty_cart_costs_nothing(self):
        self.assertEqual(pricing.total([]), 0)

    def test_lines_are_added(self):
        self.assertEqual(pricing.total([item(4000, 2), item(300)]), 8300)

    def test_small_orders_pay_shipping(self):
        self.assertEqual(pricing.total([item(4999)]), 5489)
        self.assertEqual(pricing.total([item(100)], shipping_cents=1000), 1100)

    def test_large_orders_do_not(self):
        self.assertEqual(pricing.total([item(5000)]), 5000)
