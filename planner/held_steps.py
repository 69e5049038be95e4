"""Steps that wait for something other than their dependencies: a retry, an answer about their last attempt, a revision."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Why: TypeAlias = tuple[str | None, str]
"""A stable word and a sentence for people."""


@dataclass(slots=True)
class HeldSteps:
    """Who waits for what. ``answers`` were given before this run and have not had their effect yet.

    ``asking`` has the id of the decision each step waits for; ``begun`` steps do not run and their attempt was begun:
    they are in the hands of nobody, but must not go on as if the plan were still the same after a revision.
    """

    answers: dict[str, tuple[str, ...]]
    retrying: set[str] = field(default_factory=set[str])
    revising: set[str] = field(default_factory=set[str])
    asking: dict[str, str] = field(default_factory=dict[str, str])
    begun: set[str] = field(default_factory=set[str])
    _whys: dict[str, Why] = field(default_factory=dict[str, Why])

    def __contains__(self, step_id: str) -> bool:
        return step_id in self.retrying or step_id in self.asking or step_id in self.revising

    @property
    def comes_by_itself(self) -> bool:
        """Whether something will happen without anybody's doing."""
        return bool(self.retrying or self.revising)

    def ask(self, step_id: str, decision_id: str, why: Why) -> tuple[str, ...] | None:
        """Let a step wait for an answer; returns it if it was given before."""
        self.asking[step_id] = decision_id
        self._whys[step_id] = why
        return self.answers.pop(decision_id, None)

    def revise(self, step_id: str, why: Why) -> None:
        """Let a step wait for a better plan."""
        self.revising.add(step_id)
        self._whys[step_id] = why

    def let_go(self, step_id: str) -> Why:
        """A step waits for neither an answer nor a plan any more; returns why it did."""
        self.asking.pop(step_id, None)
        self.revising.discard(step_id)
        return self._whys.pop(step_id, (None, ""))

    def was_begun(self, step_id: str) -> bool:
        """Whether there is an attempt that is not over for good."""
        return step_id in self.begun or step_id in self.asking or step_id in self.revising

    def clear(self) -> None:
        """Nobody waits any more."""
        for waiting in (self.retrying, self.revising, self.asking, self.begun, self._whys):
            waiting.clear()

    def keep_only(self, steps: Collection[str] | Mapping[str, object]) -> None:
        """Forget all others: they are no steps of the plan any more."""
        for waiting in (self.retrying, self.revising, self.begun):
            waiting.intersection_update(steps)
        for known in (self.asking, self._whys):
            for step_id in known.keys() - set(steps):
                del known[step_id]
