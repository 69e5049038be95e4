"""Statuses of a plan and its steps, their signs, and the tables of legal transitions between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
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

_OPEN = frozenset(StepStatus) - {StepStatus.COMPLETED, StepStatus.FAILED}
STEP_TRANSITIONS: Mapping[StepStatus, frozenset[StepStatus]] = MappingProxyType({
    # failed: no better plan found, or an answer given before a sudden end says so; both: its items have ended
    StepStatus.PENDING: _OPEN - {StepStatus.PENDING} | {StepStatus.FAILED, StepStatus.COMPLETED},
    StepStatus.BLOCKED: _OPEN - {StepStatus.BLOCKED},
    # failed: it had failed before, and that is how it was to stay
    StepStatus.NEEDS_DECISION: _OPEN - {StepStatus.NEEDS_DECISION} | {StepStatus.FAILED},
    # open again: interrupted, or waiting for its next attempt, a better plan or a person's word; skipped by a person
    StepStatus.IN_PROGRESS: frozenset(StepStatus) - {StepStatus.IN_PROGRESS, StepStatus.BLOCKED},
    StepStatus.COMPLETED: frozenset({StepStatus.PENDING}),  # a person has it, or what it depends on, done again
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

LEFT = "left"
"""Reason of a pause as the person left."""
_WORDS = {"SIGINT": "Ctrl-C", "decision": "waits for a decision", LEFT: "when you left"}


def items_text(statuses: Iterable[str]) -> str:
    """Return how the steps for the items of a list stand: ``34/120  2 failed  8 running``."""
    counts = Counter(statuses)
    failed, running = counts[StepStatus.FAILED], counts[StepStatus.IN_PROGRESS]
    said = f"{counts[StepStatus.COMPLETED]}/{counts.total()}"
    return said + f"  {failed} failed" * bool(failed) + f"  {running} running" * bool(running)


def paused_text(reason: str | None) -> str:
    """Return how a paused plan stands."""
    if reason in _READY:
        return "ready to resume"
    return f"paused ({_WORDS.get(reason, reason)})" if reason else "paused"
