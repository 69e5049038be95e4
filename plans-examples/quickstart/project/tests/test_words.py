import unittest

from textkit.words import count_words


class CountWords(unittest.TestCase):
    def test_case_does_not_matter(self):
        self.assertEqual(count_words("Tea tea TEA")["tea"], 3)

    def test_no_text_has_no_words(self):
        self.assertEqual(count_words(""), {})


if __name__ == "__main__":
    unittest.main()
