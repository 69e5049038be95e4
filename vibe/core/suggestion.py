"""The known names most like one that was misspelled, and the one wording of "did you mean"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

SIMILAR = 0.6
"""Names that are less alike (1: equal) are not suggested."""


def closest(name: str, known: Iterable[str], *, most: int = 1, cutoff: float = SIMILAR) -> list[str]:
    """Return at most so many of the known names that are like ``name``, the most similar first."""
    import difflib  # noqa: PLC0415  only for a misspelling

    return difflib.get_close_matches(name, list(known), n=most, cutoff=cutoff)


def did_you_mean(names: Sequence[str], otherwise: str = "") -> str:
    """Return the question for the names that may have been meant; without any, ``otherwise``."""
    return f"did you mean {' or '.join(map(repr, names))}?" if names else otherwise
