"""Order of what was meant by a few typed letters: basename before path before letters with others between them."""

from __future__ import annotations

_JOINTS = frozenset("/_-. ")
_TIER = 1 << 20
_GAP = 1 << 12
_LONGEST = _GAP - 1
MIDDLE_COST = 3 * _TIER
"""Nearer are only paths whose basename begins with the query."""
PATH_COST = 5 * _TIER
"""Nearer are only paths that have the query in their basename."""
SPREAD_COST = 7 * _TIER
"""With the length of the path, the least cost of one that has the query's letters only with others between them."""
NOTHING_YET = 9 * _TIER
"""Every path that fits is nearer."""


def letters(text: str) -> int:
    """Return a set of 64 letters as bits: a text that fits ``query`` has all bits of the query's."""
    bits = 0
    for letter in set(text):
        bits |= 1 << (ord(letter) & 63)
    return bits


def cost(query: str, path: str) -> int | None:
    """Return how far a path is from the query, both in lower case; None: it lacks letters, or their order.

    In this order: the basename, its stem, its beginning, the beginning of a part of it, its middle; then the same of
    the path; then letters spread over the basename, then over the path, with few gaps. Short paths come first.
    """
    tier, gaps = _found(query, path, path.rfind("/") + 1)
    return None if tier < 0 else tier * _TIER + min(gaps, 255) * _GAP + min(len(path), _LONGEST)


def _found(query: str, path: str, base: int) -> tuple[int, int]:
    at = path.find(query, base)
    if at == base:
        rest = path[at + len(query) :]
        return (1 if rest.startswith(".") else 2) if rest else 0, 0
    if at > base:
        return 3 if path[at - 1] in _JOINTS else 4, 0
    at = path.rfind(query)
    if at >= 0:
        return 5 if at == 0 or path[at - 1] in _JOINTS else 6, 0
    for tier, start in ((7, base), (8, 0)):
        gaps = _gaps(query, path, start)
        if gaps >= 0:
            return tier, gaps
    return -1, 0


def _gaps(query: str, path: str, start: int) -> int:
    """Count the leaps to a letter that begins no part of the path; -1: a letter is missing."""
    at = start - 1
    gaps = 0
    for letter in query:
        found = path.find(letter, at + 1)
        if found < 0:
            return -1
        if found > at + 1 and path[found - 1] not in _JOINTS:
            gaps += 1
        at = found
    return gaps
