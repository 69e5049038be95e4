import unittest

from greet import greeting


class Greeting(unittest.TestCase):
    def test_formal(self):
        self.assertEqual(greeting("Ada", "Lovelace"), "Good day, Lovelace.")

    def test_plain(self):
        self.assertEqual(greeting("Ada"), "Hello, Ada!")
