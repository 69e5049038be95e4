"""The place of a text that looks most like what was searched for, found in bounded time."""

from __future__ import annotations

import heapq
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from functools import lru_cache
from itertools import islice

BUDGET_SECONDS = 0.5
CANDIDATES = 12
COMPARED_CHARACTERS = 2_000
COMPARED_LINES = 120
LEAST_SIMILAR = 0.9
LOOKED_AT = 1_000_000
"""Characters: in a longer text nothing is looked for that only looks the same."""
DIFF_CHARACTERS = 4_000


SHOWN_DIFFERENCES = 5
LOOKS = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u2032\u00b4`", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    **dict(zip("\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0455\u0458", "aeopcyxisj", strict=True)),
    **dict(zip("\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425", "ABEKMHOPCTX", strict=True)),
}
"""Characters that look like an ASCII one; ``_look`` knows spaces, invisible and full-width ones besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosePlace:
    """Lines of a text that look like what was searched for; ``start`` counts from 0."""

    start: int
    lines: list[str]
    wanted: list[str]

    def described(self) -> str:
        """A diff from what was searched for, on new lines; characters that look alike are named."""
        wanted = self.wanted[:COMPARED_LINES]
        only_spaces = "".join("".join(self.wanted).split()) == "".join("".join(self.lines).split())
        diff = unified_diff(wanted, self.lines, "SEARCH", f"file, from line {self.start + 1}", lineterm="", n=2)
        shown = "\n".join(line[:300] for line in diff)[:DIFF_CHARACTERS]
        alike = "".join(f"\n{line}" for line in islice(self._look_alikes(), SHOWN_DIFFERENCES))
        return f"The closest place{' (only white space differs)' if only_spaces else ''}:\n{shown}{alike}"

    def _look_alikes(self) -> Iterator[str]:
        for number, (there, here) in enumerate(zip(self.lines, self.wanted, strict=False), start=self.start + 1):
            if (there.isascii() and here.isascii()) or max(len(there), len(here)) > COMPARED_CHARACTERS:
                continue
            part = _part_like(there, here)
            for tag, a, b, c, d in SequenceMatcher(None, here, part, autojunk=False).get_opcodes():
                if tag != "equal" and _look(here[a:b]) == _look(part[c:d]):
                    yield f"line {number}: the file has {_named(part[c:d])} where SEARCH has {_named(here[a:b])}"


def closest_place(text: str, search: str, least_similar: float = LEAST_SIMILAR) -> ClosePlace | None:
    """The lines of ``text`` that look most like ``search``; None where nothing looks like it."""
    lines, wanted = text.split("\n"), search.split("\n")
    looks = _look(text) if search.strip() and len(text) <= LOOKED_AT else ""
    at = looks.find(_look(search)) if looks else -1
    start, ratio = looks.count("\n", 0, max(at, 0)), 1.0
    if at < 0:
        start, ratio = _closest(lines, wanted, time.monotonic() + BUDGET_SECONDS)
    place = ClosePlace(start=start, lines=lines[start : start + len(wanted)][:COMPARED_LINES], wanted=wanted)
    only_spaces = "".join(search.split()) == "".join("".join(place.lines).split())
    return place if ratio >= least_similar or only_spaces else None


def find_equal(text: str, search: str) -> list[tuple[int, int]]:
    """Where text stands that Unicode calls equal to ``search``, composed or decomposed: from and to."""
    if text.isascii():
        return []
    flat, wanted = (unicodedata.normalize("NFD", one) for one in (text, search))
    found: list[tuple[int, int]] = []
    at = flat.find(wanted)
    while at >= 0:
        start, end = _position(text, flat, at), _position(text, flat, at + len(wanted))
        if start is not None and end is not None:
            found.append((start, end))
        at = flat.find(wanted, at + len(wanted))
    return found


def _position(text: str, flat: str, at: int) -> int | None:
    """A place in a decomposed text in the text itself; None if it lies within a character."""
    line = flat.count("\n", 0, at)
    left = at - (flat.rfind("\n", 0, at) + 1)
    position = 0
    for _ in range(line):
        position = text.index("\n", position) + 1
    while left > 0:
        left -= len(unicodedata.normalize("NFD", text[position]))
        position += 1
    following = text[position : position + 1]
    inside = following and (unicodedata.combining(following) or "\u1160" <= following <= "\u11ff")  # of a syllable
    return None if left or inside else position


def _look(text: str) -> str:
    """A text with one character for all that look like it, and without those that can't be seen."""
    return text if text.isascii() else "".join(map(_look_of, unicodedata.normalize("NFKC", text)))


def _part_like(line: str, wanted: str) -> str:
    """The part of a line that looks like ``wanted``; all of it where none does."""
    look = _look(wanted)
    starts = (start for start in range(len(line)) if _look(line[start:]).startswith(look))
    start = next(starts, -1)
    ends = (end for end in range(start, len(line) + 1) if _look(line[start:end]) == look)
    return line if start < 0 else line[start : next(ends, None)]


@lru_cache(maxsize=4096)
def _look_of(character: str) -> str:
    kind = unicodedata.category(character)
    if kind == "Cf":
        return ""
    return " " if kind == "Zs" else LOOKS.get(character, character)


def _named(text: str) -> str:
    names = [f"U+{ord(one):04X} {unicodedata.name(one, '')}".rstrip() for one in text[:SHOWN_DIFFERENCES]]
    return " and ".join(names) or "nothing"


def _closest(lines: list[str], wanted: list[str], deadline: float) -> tuple[int, float]:
    """The first line of the window that looks most like ``wanted``, and how much (0 to 1)."""
    target = "\n".join(wanted)[:COMPARED_CHARACTERS]
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(target)
    best = (0, 0.0)
    for start in _candidates(lines, wanted, deadline):
        matcher.set_seq1("\n".join(lines[start : start + len(wanted)])[:COMPARED_CHARACTERS])
        if matcher.real_quick_ratio() > best[1] and matcher.quick_ratio() > best[1]:
            best = max(best, (start, matcher.ratio()), key=lambda found: found[1])
        if time.monotonic() > deadline:
            break
    return best


def _candidates(lines: list[str], wanted: list[str], deadline: float) -> list[int]:
    """Windows that share most lines with ``wanted``; where none does, those around the line most like its first."""
    scores = _shared_lines(lines, wanted)
    best = heapq.nlargest(CANDIDATES, range(len(scores)), key=lambda start: (scores[start], -start))
    shared = [start for start in best if scores[start]]
    return shared or _around_similar_lines(lines, wanted, deadline)


def _shared_lines(lines: list[str], wanted: list[str]) -> list[int]:
    """For every window as long as ``wanted``: how many of its lines it has, white space aside."""
    left = Counter(key for line in wanted if (key := line.strip()))
    stripped = [line.strip() for line in lines]
    score = 0
    scores: list[int] = []
    for end, key in enumerate(stripped):
        if key in left:
            score += left[key] > 0
            left[key] -= 1
        gone = end - len(wanted)
        if gone >= 0 and stripped[gone] in left:
            left[stripped[gone]] += 1
            score -= left[stripped[gone]] > 0
        if end >= len(wanted) - 1:
            scores.append(score)
    return scores or [score]


def _around_similar_lines(lines: list[str], wanted: list[str], deadline: float) -> list[int]:
    anchor = next((index for index, line in enumerate(wanted) if line.strip()), 0)
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted[anchor].strip()[:COMPARED_CHARACTERS])
    found: list[tuple[float, int]] = []
    least = 0.3
    for index, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:COMPARED_CHARACTERS])
        if matcher.real_quick_ratio() > least and matcher.quick_ratio() > least:
            ratio = matcher.ratio()
            found.append((ratio, max(index - anchor, 0)))
            least = max(least, ratio * 0.8)
        if index % 64 == 0 and time.monotonic() > deadline - BUDGET_SECONDS / 3:
            break
    return [start for _, start in heapq.nlargest(CANDIDATES, found)]
