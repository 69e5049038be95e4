import unittest

from towns.oslo import weather


class Weather(unittest.TestCase):
    def test_it_is_told(self):
        self.assertEqual(weather(), "Oslo: sunny")
