"""One character for each status of a step, the same wherever a plan is shown."""

from __future__ import annotations

MARKS = {
    "completed": "✓",
    "failed": "✗",
    "skipped": "-",
    "cancelled": "×",  # noqa: RUF001  a cross is meant
    "in_progress": "▸",
    "needs_decision": "?",
    "blocked": "·",
    "pending": "·",
}

REUSED_MARK = "↺"
"""Of a completed step that another plan did."""
