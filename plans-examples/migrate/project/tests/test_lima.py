import unittest

from towns.lima import weather


class Weather(unittest.TestCase):
    def test_it_is_told(self):
        self.assertEqual(weather(), "Lima: sunny")
