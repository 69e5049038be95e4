"""The change a call makes to a text file: a unified diff of bounded length, made in bounded time."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import unified_diff

CONTEXT = 3
MOST_COMPARED = 4_000_000
"""Pairs of lines: beyond them a diff is not worth its time."""
MOST_LINES = 400
MOST_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class FileDiff:
    """A change to a text: the diff, empty where too much changes to be compared, and how many lines come and go."""

    text: str = ""
    added: int = 0
    removed: int = 0


def file_diff(name: str, before: str, after: str) -> FileDiff:
    """The change from ``before`` to ``after``, its lines counted; see ``FileDiff``."""
    old, new = (text.replace("\r\n", "\n").split("\n") for text in (before, after))
    start = _same(old, new)
    end = _same(old[start:][::-1], new[start:][::-1])
    gone, come = len(old) - start - end, len(new) - start - end
    if gone * come > MOST_COMPARED:
        return FileDiff("", come, gone)
    left = max(start - CONTEXT, 0)
    right = max(end - CONTEXT, 0)
    lines = unified_diff(old[left : len(old) - right], new[left : len(new) - right], name, name, n=CONTEXT, lineterm="")
    shown = [_moved(line, left) if line.startswith("@@") else line for line in lines]
    first = [line[:1] for line in shown[2:]]  # after the names of the files
    return FileDiff(_bounded(shown), first.count("+"), first.count("-"))


def _same(one: list[str], other: list[str]) -> int:
    """Return how many lines both begin with."""
    shorter = min(len(one), len(other))
    return next((index for index in range(shorter) if one[index] != other[index]), shorter)


def _moved(header: str, by: int) -> str:
    """The head of a hunk whose lines stand ``by`` lines further down."""
    marks, old, new, end = header.split(" ")
    return " ".join((marks, _range(old, by), _range(new, by), end))


def _range(text: str, by: int) -> str:
    start, comma, count = text[1:].partition(",")
    return f"{text[0]}{int(start) + by}{comma}{count}"


def _bounded(lines: list[str]) -> str:
    kept: list[str] = []
    room = MOST_CHARACTERS
    for line in lines[:MOST_LINES]:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    left = len(lines) - len(kept)
    return "\n".join([*kept, *([f"… {left} more lines"] if left else [])])
