"""The place of a text that looks most like what was searched for, found in bounded time."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from difflib import SequenceMatcher, unified_diff

BUDGET_SECONDS = 0.5
CANDIDATES = 12
COMPARED_CHARACTERS = 2_000
COMPARED_LINES = 120
LEAST_SIMILAR = 0.9
DIFF_CHARACTERS = 4_000


def describe_closest(text: str, search: str, least_similar: float = LEAST_SIMILAR) -> str:
    """A diff from the closest lines of ``text`` to ``search``, on new lines; empty if nothing looks like it."""
    lines, wanted = text.split("\n"), search.split("\n")
    deadline = time.monotonic() + BUDGET_SECONDS
    start, ratio = _closest(lines, wanted, deadline)
    there = lines[start : start + len(wanted)][:COMPARED_LINES]
    only_spaces = "".join(search.split()) == "".join("".join(there).split())
    if ratio < least_similar and not only_spaces:
        return " Nothing in the file looks like it; read the file again."
    diff = unified_diff(wanted[:COMPARED_LINES], there, "SEARCH", f"file, from line {start + 1}", lineterm="", n=2)
    shown = "\n".join(line[:300] for line in diff)[:DIFF_CHARACTERS]
    spaces = " (only white space differs)" if only_spaces else ""
    return f" The closest place{spaces}:\n{shown}"


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
