import unittest

from towns.paris import weather


class Weather(unittest.TestCase):
    def test_it_is_told(self):
        self.assertEqual(weather(), "Paris: sunny")
