import unittest

from parser import parse


class ParseTest(unittest.TestCase):
    def test_one_field(self):
        self.assertEqual(parse("size = 3"), {"size": 3})

    def test_a_trailing_semicolon_adds_nothing(self):
        self.assertEqual(parse("size = 3;"), {"size": 3})


if __name__ == "__main__":
    unittest.main()
