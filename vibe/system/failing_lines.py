"""Finds the lines of a command's output that say what went wrong.

It knows how test runners, compilers and interpreters write them.
"""

from __future__ import annotations

import re
from itertools import pairwise

LINE_LENGTH = 300
"""The most characters of a line."""
PART_LINES = 30
"""The most lines of a part."""
PART_CHARACTERS = 4_000
"""The most characters of a part."""
BEFORE = 1
"""The number of lines to show before the first one with an error, for context."""

_REASONS = tuple(
    re.compile(pattern, re.IGNORECASE | re.VERBOSE)
    for pattern in (
        r"^E\s{2,}\S",  # pytest, below the source that it shows
        r"""^not\s+ok\b | \berror\b\s*(?:\[|:(?!\ \S+\ \([\w.]+\)$)|TS\d) | ^\d+:\d+\s+error\b |
        ^(?:\w+\.)*(?:\w+error|\w*exception)\b(?:\ \[\w+\])?\s*(?::|$|at\b) | ^(?-i:[A-Z]{1,4}\d{3,4})\s | ^panic: |
        \bassertion\b.*\bfailed\b | ^(?:[→]\ expected|expect\() | ^failure/error: | ^failed\ asserting""",
        r"^\S*\.\w+:\d+(?::\d+)?:\s+(?!note|\w*warning|in\b)\S | ^would\ reformat:",
    )
)
"""They match a line that says what is wrong, the surest first; the name of a test that failed does not."""
_FAILURE = re.compile(
    r"""(?ix) ^\s*(?:not\s+ok\b|[✗✘✖\u00d7●]\s|fail(?:ed|ure)?\b|E\s{2,}\S|fatal\b|panic\b|---\s+fail) |
    \berror\b\s*(?:\[|:|TS\d) | \b\w*(?:error|exception|panic|assertion)\w*\b\s*: | \bassertion\b.*\bfailed\b |
    \b(?:failed|failure|failures|panicked|unhandled|undefined\ reference|cannot\ find|no\ such\ file|not\ found)\b |
    \bcommand\ not\ found\b | \b(?:permission\ denied|segmentation\ fault|core\ dumped|killed)\b"""
)
_HARMLESS = re.compile(
    r"""(?ix) ^\s*(?:ok\b|[✓✔√]|pass(?:ed)?\b) | \bPASSED\b | \.\.\.\s*ok\b | ^\W*$ | ^\s*traceback\b |
    \b(?:0|no)\s+(?:tests?\s+)?(?:errors?|failures?|failed|failing)\b | \b(?:errors?|fail(?:ures|ed)?)\s*[:=]?\s*0\b |
    ^\W*(?:failures|errors)\W*$ | \berrors?\b\s*:\s*$"""
)
_QUOTES = re.compile(r'\s+File ".+", line \d')
"""Begins a line of Python's before one with the source it is about, which may speak of errors, too."""


def failing_line(output: str) -> str:
    """Return the line that says best what went wrong, or else the last one. Empty if there is no output."""
    lines = _lines(output)
    starts = [line.strip()[:LINE_LENGTH] for before, line in pairwise(["", *lines]) if not _QUOTES.match(before)]
    told = (line for signs in (*_REASONS, _FAILURE) for line in starts if signs.search(line))
    return next((line for line in told if not _HARMLESS.search(line)), lines[-1].strip()[:LINE_LENGTH] if lines else "")


def failing_part(output: str) -> str:
    """Return the part of the output from the first error on, cut to a readable length, or else its last lines."""
    lines = _lines(output)
    at = _first_failure(lines)
    chosen = lines[-PART_LINES:] if at is None else lines[max(0, at - BEFORE) :][:PART_LINES]
    return "\n".join(line[:LINE_LENGTH] for line in chosen)[:PART_CHARACTERS]


def _first_failure(lines: list[str]) -> int | None:
    return next(
        (n for n, line in enumerate(lines) if _FAILURE.search(line[:1000]) and not _HARMLESS.search(line[:1000])), None
    )


def _lines(output: str) -> list[str]:
    return [line.rstrip() for line in output.splitlines() if line.strip()]
