import unittest

from cart.prices import in_words, total


class Total(unittest.TestCase):
    def test_no_discount(self):
        self.assertEqual(total([250, 199]), 449)

    def test_a_fraction_of_a_cent_is_the_buyers(self):
        self.assertEqual(total([999], 10), 899)


class InWords(unittest.TestCase):
    def test_dollars_and_cents(self):
        self.assertEqual(in_words(1250), "$12.50")

    def test_a_few_cents_have_two_digits(self):
        self.assertEqual(in_words(405), "$4.05")
