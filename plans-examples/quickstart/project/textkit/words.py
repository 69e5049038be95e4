"""Counting words."""

from collections import Counter


def count_words(text: str) -> Counter:
    """How often each word occurs, whatever its case.

    >>> count_words("to be or not to be")["be"]
    2
    """
    return Counter(text.lower().split())
