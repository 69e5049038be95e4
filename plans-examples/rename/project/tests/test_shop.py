import unittest

from shop import price


class Price(unittest.TestCase):
    def test_the_prices_are_added(self):
        self.assertEqual(price(basket={"tea": 300, "salt": 90}), 390)
