import unittest

from items import parse_item


class ParseTest(unittest.TestCase):
    def test_whole_cents(self):
        self.assertEqual(
            parse_item(" pen ; 3 ; 250"), {"name": "pen", "quantity": 3, "unit_cents": 250}
        )
