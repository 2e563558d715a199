import unittest

import receipt


class SummaryTest(unittest.TestCase):
    def test_the_discount_is_shown(self):
        items = [{"name": "lamp", "unit_cents": 10000, "quantity": 1}]
        self.assertEqual(
            receipt.summary(items, coupon=10), "1 items, 90.00 EUR (you saved 10.00 EUR)"
        )
