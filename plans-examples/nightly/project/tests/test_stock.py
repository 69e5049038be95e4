import unittest

from stock import left


class Left(unittest.TestCase):
    def test_what_was_not_sold_is_all_there(self):
        self.assertEqual(left({"tea": 3, "salt": 1}, {"tea": 1}), {"tea": 2, "salt": 1})
