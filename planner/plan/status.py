"""Statuses of a plan and its steps, their signs, and the tables of legal transitions between them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class StepStatus(StrEnum):
    """Status of a step. COMPLETED, FAILED, SKIPPED and CANCELLED are final."""

    PENDING = "pending"
    BLOCKED = "blocked"
    """A dependency is not done."""
    NEEDS_DECISION = "needs_decision"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """True if nothing but a person's retry or a revision changes it any more."""
        return self in FINAL_STATUSES


class PlanStatus(StrEnum):
    """Status of a whole plan."""

    IDLE = "idle"
    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL_STATUSES = frozenset({StepStatus.COMPLETED, StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.CANCELLED})

STEP_TRANSITIONS: Mapping[StepStatus, frozenset[StepStatus]] = MappingProxyType({
    StepStatus.PENDING: frozenset({
        StepStatus.BLOCKED,
        StepStatus.NEEDS_DECISION,
        StepStatus.IN_PROGRESS,
        StepStatus.FAILED,  # no better plan found, or an answer given before a sudden end says so
        StepStatus.SKIPPED,
        StepStatus.CANCELLED,
    }),
    StepStatus.BLOCKED: frozenset({
        StepStatus.PENDING,
        StepStatus.NEEDS_DECISION,
        StepStatus.IN_PROGRESS,
        StepStatus.SKIPPED,
        StepStatus.CANCELLED,
    }),
    StepStatus.NEEDS_DECISION: frozenset({
        StepStatus.PENDING,
        StepStatus.BLOCKED,
        StepStatus.IN_PROGRESS,
        StepStatus.FAILED,  # it had failed before, and that is how it was to stay
        StepStatus.SKIPPED,
        StepStatus.CANCELLED,
    }),
    StepStatus.IN_PROGRESS: frozenset({
        StepStatus.PENDING,  # interrupted, or waiting for its next attempt or a better plan
        StepStatus.NEEDS_DECISION,  # it failed or was cut off, and a person must say what becomes of it
        StepStatus.COMPLETED,
        StepStatus.FAILED,
        StepStatus.SKIPPED,  # a person chose to do without it
        StepStatus.CANCELLED,
    }),
    StepStatus.COMPLETED: frozenset(),
    StepStatus.FAILED: frozenset({StepStatus.PENDING, StepStatus.SKIPPED}),  # revised, or a person wants it so
    StepStatus.SKIPPED: frozenset({StepStatus.PENDING}),  # a person has it done after all
    StepStatus.CANCELLED: frozenset({StepStatus.PENDING, StepStatus.SKIPPED}),  # likewise
})

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
