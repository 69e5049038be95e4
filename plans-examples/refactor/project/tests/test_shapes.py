import unittest

import shapes


class Areas(unittest.TestCase):
    def test_circle(self):
        self.assertAlmostEqual(shapes.circle_area(1), 3.14159, places=4)
        self.assertAlmostEqual(shapes.circle_outline(1), 6.28318, places=4)

    def test_square(self):
        self.assertEqual(shapes.square_area(3), 9)
        self.assertEqual(shapes.square_outline(3), 12)
