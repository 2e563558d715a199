import unittest

from items import parse_item


class ParseTest(unittest.TestCase):
    def test_whole_cents(self):
        self.assertEqual(
            parse_item(" pen ; 3 ; 250"), {"name": "pen", "quantity": 3, "unit_cents": 250}
        )

    def test_prices_with_a_point(self):
        self.assertEqual(parse_item("pen;1;4.20")["unit_cents"], 420)
        with self.assertRaises(ValueError):
            parse_item("pen;1;4.2")
