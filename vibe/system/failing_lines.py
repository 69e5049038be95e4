"""Finds the lines of a command's output that say what went wrong.

It knows how test runners, compilers and interpreters write them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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
    _, at = min(_failures(lines), default=(0, -1))
    return lines[at].strip()[:LINE_LENGTH] if lines else ""


def failing_part(output: str) -> str:
    """Return the part of the output from the first error on, cut to a readable length, or else its last lines."""
    lines = _lines(output)
    first = min((at for _, at in _failures(lines)), default=len(lines) - PART_LINES + BEFORE)
    chosen = lines[max(0, first - BEFORE) :][:PART_LINES]
    return "\n".join(line[:LINE_LENGTH] for line in chosen)[:PART_CHARACTERS]


def _failures(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the index of each line that names an error, after that of the signs that match it, the surest first."""
    for at, line in enumerate(lines):
        start = line.strip()[:LINE_LENGTH]
        sure = next((n for n, signs in enumerate((*_REASONS, _FAILURE)) if signs.search(start)), None)
        if sure is not None and not _HARMLESS.search(start) and not (at and _QUOTES.match(lines[at - 1])):
            yield sure, at


def _lines(output: str) -> list[str]:
    return [line.rstrip() for line in output.splitlines() if line.strip()]
