"""The statuses of a plan and its steps, with the legal transitions between step statuses and marks to show them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType


class StepStatus(StrEnum):
    """The status of a step. COMPLETED, FAILED, SKIPPED and CANCELLED are final."""

    PENDING = "pending"
    BLOCKED = "blocked"
    """It waits for a dependency."""
    NEEDS_DECISION = "needs_decision"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """True if only a person or a revision can still change it."""
        return self in FINAL_STATUSES


class PlanStatus(StrEnum):
    """The status of a whole plan."""

    IDLE = "idle"
    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN_STATUSES = frozenset({PlanStatus.IDLE, PlanStatus.ACTIVE, PlanStatus.PAUSED})
"""Statuses of a plan that has not ended, so that it can be resumed."""
FINAL_STATUSES = frozenset({StepStatus.COMPLETED, StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.CANCELLED})

_OPEN = frozenset(StepStatus) - {StepStatus.COMPLETED, StepStatus.FAILED}
STEP_TRANSITIONS: Mapping[StepStatus, frozenset[StepStatus]] = MappingProxyType({
    # FAILED: no better plan was found, or an answer from before a crash says so.
    # FAILED or COMPLETED: the items of its list have ended.
    StepStatus.PENDING: _OPEN - {StepStatus.PENDING} | {StepStatus.FAILED, StepStatus.COMPLETED},
    StepStatus.BLOCKED: _OPEN - {StepStatus.BLOCKED},
    # FAILED: its last attempt had failed, and the answer lets that stand.
    StepStatus.NEEDS_DECISION: _OPEN - {StepStatus.NEEDS_DECISION} | {StepStatus.FAILED},
    # Open again: interrupted, or waiting for its next attempt, a better plan or an answer. SKIPPED: by a person.
    StepStatus.IN_PROGRESS: frozenset(StepStatus) - {StepStatus.IN_PROGRESS, StepStatus.BLOCKED},
    StepStatus.COMPLETED: frozenset({StepStatus.PENDING}),  # a person retries it or one of its dependencies
    StepStatus.FAILED: frozenset({StepStatus.PENDING, StepStatus.SKIPPED}),  # by a revision or a person
    StepStatus.SKIPPED: frozenset({StepStatus.PENDING}),  # a person retries it
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
"""The mark of a completed step whose result comes from another plan."""

_OF_ITEM = re.compile(r"\$\{(?:item|index)(?:\.(?:[^}]*\.)?([^}.]*))?\}")

_READY = frozenset({"reset", "decided", "revised", "rewound", "changed"})
"""Reasons of a pause that a command to a resting plan recorded: it is ready to be resumed."""

LEFT = "left"
"""Reason of a pause because the person left."""
_WORDS = {
    "SIGINT": "Ctrl-C",
    "decision": "waits for a decision",
    LEFT: "when you left",
    "exit_code": "a command failed",
    "verify": "a check failed",
    "blocked": "something was not allowed",
    "limit": "at a limit",
    "cancelled": "a step was cancelled",
    "budget": "the budget is used up",
    "timeout": "out of time",
    "items": "too many items failed",
}


def items_text(statuses: Iterable[str]) -> str:
    """Return the progress of a list's items in words: ``34/120  2 failed  8 running``."""
    counts = Counter(statuses)
    failed, running = counts[StepStatus.FAILED], counts[StepStatus.IN_PROGRESS]
    text = f"{counts[StepStatus.COMPLETED]}/{counts.total()}"
    return text + f"  {failed} failed" * bool(failed) + f"  {running} running" * bool(running)


def readable_title(title: str) -> str:
    """Return a step's title as people read it; ``${item.path}`` in the title of a list step becomes ``each path``."""
    return _OF_ITEM.sub(lambda field: f"each {field[1] or 'item'}", title)


def reason_text(reason: str | None) -> str:
    """Return words for a reason or an outcome; blank for None."""
    return _WORDS.get(reason or "", (reason or "").replace("_", " "))


def status_text(status: str, reason: str | None) -> str:
    """Return words for a plan's status and its reason."""
    if reason in _READY and status == PlanStatus.PAUSED:
        return "ready to resume"
    return f"{status} ({reason_text(reason)})" if reason and reason != status else status
