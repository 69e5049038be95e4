"""Where every step of a run stands, and the only way it moves on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from planner.instructions import MoveStep
from planner.model import STEP_TRANSITIONS, StepStatus
from planner.problems import IllegalTransitionError


class StepTable:
    """Status and attempt of each step, in the plan's order, and how many steps have each status."""

    def __init__(self, step_ids: Iterable[str]) -> None:
        self._statuses = dict.fromkeys(step_ids, StepStatus.PENDING)
        self._attempts = dict.fromkeys(self._statuses, 1)
        self._counts = Counter({StepStatus.PENDING: len(self._statuses)})

    @property
    def statuses(self) -> Mapping[str, StepStatus]:
        """All of them; a view."""
        return self._statuses

    def attempt(self, step_id: str) -> int:
        """The attempt that runs, has ended or comes next."""
        return self._attempts[step_id]

    def set_attempt(self, step_id: str, attempt: int) -> None:
        """Say which attempt it is now."""
        self._attempts[step_id] = attempt

    def count(self, status: StepStatus) -> int:
        """How many steps have this status."""
        return self._counts[status]

    def counts(self) -> dict[str, int]:
        """How many steps have each status; those no step has are left out."""
        return {status.value: self._counts[status] for status in StepStatus if self._counts[status]}

    def open_steps(self) -> list[str]:
        """The steps that are not final."""
        return [step_id for step_id, status in self._statuses.items() if not status.is_final]

    def set(self, step_id: str, status: StepStatus) -> None:
        """Take a status over from elsewhere: no transition of this run."""
        self._counts[self._statuses[step_id]] -= 1
        self._counts[status] += 1
        self._statuses[step_id] = status

    def move(self, step_id: str, status: StepStatus, reason: str | None = None, detail: str = "") -> MoveStep:
        """Change a step's status.

        Raises:
            IllegalTransitionError: the table of transitions has no such change.
        """
        previous = self._statuses[step_id]
        if status not in STEP_TRANSITIONS[previous]:
            raise IllegalTransitionError(f"step {step_id!r}", previous, status)
        counts = self._counts
        counts[previous] -= 1
        counts[status] += 1
        self._statuses[step_id] = status
        return MoveStep(step_id, previous, status, reason, detail, self._attempts[step_id])

    def replace(self, step_ids: Iterable[str]) -> None:
        """Have these steps from now on: those that were there stay as they are, others are new."""
        self._statuses = {step_id: self._statuses.get(step_id, StepStatus.PENDING) for step_id in step_ids}
        self._attempts = {step_id: self._attempts.get(step_id, 1) for step_id in self._statuses}
        self._counts = Counter(self._statuses.values())
