"""The decisions a run waits for: announced as they open, taken by a person, a flag or the clock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from planner.chronicle import Chronicle
from planner.decisions import attempt_of, step_decision
from planner.instructions import DecisionTaken
from planner.model import Decision, Plan, Step, StepStatus
from planner.problems import listed
from planner.replay import StepReason
from planner.timers import Timer, Timers


class OpenDecisions:
    """Knows the plan's own decisions and those about attempts that were put.

    ``on_timeout`` is called with a decision when its time is over.
    """

    def __init__(
        self, plan: Plan, chronicle: Chronicle, timers: Timers, on_timeout: Callable[[Decision], None]
    ) -> None:
        self._known = {decision.id: decision for decision in plan.decisions}
        self._own = frozenset(self._known)
        self._chronicle = chronicle
        self._timers = timers
        self._on_timeout = on_timeout
        self._open: set[str] = set()
        self._deadlines: dict[str, Timer] = {}
        """Open decisions that a timer will take."""
        self._decided: set[str] = set()

    def taken_before(self, decision_ids: Iterable[str]) -> None:
        """These were taken in an earlier run."""
        self._decided.update(decision_ids)

    def take_flag(self, taken: DecisionTaken) -> None:
        """Take one of the plan's decisions as the command line says, unless it was taken before."""
        if taken.decision_id in self._own - self._decided:
            self.take(taken)

    def put(self, decision_id: str, steps: Mapping[str, Step], reasons: Mapping[str, StepReason]) -> None:
        """Steps wait for it; one about an attempt tells how that ended, by ``reasons``."""
        about = attempt_of(decision_id)
        if about is None:
            self._open_up(self._known[decision_id])
            return
        why = reasons.get(about[1], StepReason())
        self._open_up(step_decision(steps[about[1]], decision_id, reason=why.reason, detail=why.detail))

    def _open_up(self, decision: Decision) -> None:
        self._known[decision.id] = decision
        self._decided.discard(decision.id)  # an attempt can be cut off, and asked about, more than once
        self._open.add(decision.id)
        self._chronicle.decision_opened(decision)
        if decision.timeout_seconds:
            due = self._timers.after(decision.timeout_seconds, lambda: self._run_out(decision))
            self._deadlines[decision.id] = due

    def refusal_of(self, decision_id: str) -> str | None:
        """Why no answer can be taken, as a sentence; None: one can."""
        if decision_id not in self._known:
            left = listed(name for name in self._known if name not in self._decided)
            return f"{decision_id!r} is no decision of this plan: the answer changes nothing; open decisions: {left}"
        if decision_id in self._decided:
            return f"{decision_id!r} was taken already: the answer changes nothing"
        return None

    def take(self, taken: DecisionTaken) -> None:
        """It fell."""
        self._decided.add(taken.decision_id)
        self._open.discard(taken.decision_id)
        if (deadline := self._deadlines.pop(taken.decision_id, None)) is not None:
            deadline.cancel()  # no clock ends the wait for other decisions
        self._chronicle.decided(self._known[taken.decision_id], taken)

    def drop(self, step_ids: Iterable[str]) -> None:
        """Nobody waits any more for what was asked about attempts at these steps."""
        gone = tuple(f":{step_id}:" for step_id in step_ids)
        self._open = {name for name in self._open if not any(mark in name for mark in gone)}

    def need_a_person(self, needed: Collection[str]) -> bool:
        """Whether steps wait for decisions, of the plan's own the ``needed``, and no clock will take one."""
        waiting = {name for name in self._open if name in needed or attempt_of(name) is not None}
        return bool(waiting) and waiting.isdisjoint(self._deadlines)

    def _run_out(self, decision: Decision) -> None:
        del self._deadlines[decision.id]
        self._on_timeout(decision)


def default_of(decision: Decision) -> DecisionTaken | None:
    """What a decision comes to that nobody has taken in time; None: it has no default."""
    default = decision.default
    if default is None:
        return None
    return DecisionTaken(decision.id, (default,) if isinstance(default, str) else tuple(default), "timeout")


def needed_decisions(steps: Iterable[Step], statuses: Mapping[str, StepStatus]) -> set[str]:
    """The plan's decisions that a step still needs: those that did may have been skipped or revised away."""
    waiting = [step for step in steps if statuses.get(step.id) is StepStatus.NEEDS_DECISION]
    return {name for step in waiting for name in (step.decision, *(step.when or ())) if name is not None}
