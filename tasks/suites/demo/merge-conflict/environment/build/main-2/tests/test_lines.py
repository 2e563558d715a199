import unittest

import receipt


class LinesTest(unittest.TestCase):
    def test_one_line_for_each_item(self):
        items = [
            {"name": "pen", "unit_cents": 250, "quantity": 3},
            {"name": "lamp", "unit_cents": 8000, "quantity": 1},
        ]
        self.assertEqual(receipt.lines(items), ["3 x pen: 7.50", "1 x lamp: 80.00"])
