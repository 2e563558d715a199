import unittest
from pathlib import Path


class Done(unittest.TestCase):
    def test_done(self) -> None:
        self.assertTrue(Path("/app/done").exists())
