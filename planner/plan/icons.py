"""One character for each status of a step, and a word for why a plan is paused, the same wherever a plan is shown."""

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

_READY = frozenset({"reset", "decided", "revised", "rewound", "changed"})
"""Reasons of a pause after which a command has changed the plan: nothing keeps it from being resumed."""
_WORDS = {"SIGINT": "Ctrl-C", "decision": "waits for a decision"}


def paused_text(reason: str | None) -> str:
    """Return how a paused plan stands."""
    if reason in _READY:
        return "ready to resume"
    return f"paused ({_WORDS.get(reason, reason)})" if reason else "paused"
