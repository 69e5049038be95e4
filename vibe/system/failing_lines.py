"""Finds the lines of a command's output that say what went wrong.

It knows how test runners, compilers and interpreters write them.
"""

from __future__ import annotations

import re

LINE_LENGTH = 300
"""The most characters of a line."""
PART_LINES = 30
"""The most lines of a part."""
PART_CHARACTERS = 4_000
"""The most characters of a part."""
BEFORE = 1
"""The number of lines to show before the first one with an error, for context."""

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


def failing_line(output: str) -> str:
    """Return the first line that names an error, or else the last line. Empty if there is no output."""
    lines = _lines(output)
    at = _first_failure(lines)
    return (lines[-1] if at is None else lines[at]).strip()[:LINE_LENGTH] if lines else ""


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
