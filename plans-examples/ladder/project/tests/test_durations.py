import unittest

from durations import seconds


class Seconds(unittest.TestCase):
    def test_one_unit(self):
        self.assertEqual(seconds("45s"), 45)

    def test_several(self):
        self.assertEqual(seconds("1h30m"), 5400)
