"""Readiness of steps: dependencies, what they must have come to, and decisions.

A dependency *holds* if it ended as the edge wants it (``on``), or was skipped. If it ended otherwise, an edge that
wants success keeps its step waiting (somebody may yet retry the dependency), and an edge that wants failure can never
hold any more, so its step is skipped. A step is also skipped if all its dependencies were, or if a decision it names
in ``when`` fell otherwise. A dependency that failed with ``on_failure: continue`` counts as completed, and as failed
too: whoever waits for the failure is there because of it. One that somebody cancelled counts as failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from planner.plan.diagnostics import DecisionInvalidError, listed
from planner.plan.model import Plan, Step, StepStatus
from planner.state.decisions import check_selections, plan_decision

COMPLETED = "completed"
"""What an edge wants of its dependency if it says nothing else."""


_NONE: Final = frozenset[str]()


class StepReadiness(Enum):
    """Readiness of a step that has not run yet."""

    WAIT = "wait"
    ASK = "ask"
    RUN = "run"
    SKIP = "skip"


class _Edge(Enum):
    HOLDS = "holds"
    SKIPPED = "skipped"
    STRANDS = "strands"
    NEVER = "never"


RUN: Final = StepReadiness.RUN
_HOLDS, _SKIPPED, _STRANDS, _NEVER = _Edge  # an enum's member takes ten times as long to find in Python 3.11


@dataclass(slots=True)
class _Gate:
    """``waiting``: dependencies that are not final; ``live``: those that ended and were not skipped.

    ``never`` says why the step can't run any more, as long as it might it is blank.
    """

    waiting: int
    depends: bool
    live: int = 0
    stranded: bool = False
    never: str = ""
    undecided: frozenset[str] = _NONE


class Readiness:
    """Keeps count for every step; each edge is looked at once, when the step it comes from ends."""

    def __init__(self, plan: Plan, decisions: Mapping[str, tuple[str, ...]]) -> None:
        self._continues = frozenset(step.id for step in plan.steps if step.on_failure == "continue")
        self._dependants: dict[str, list[str]] = {step.id: [] for step in plan.steps}
        self._on: dict[tuple[str, str], str] = {}
        """What edges, by step and dependant, want that do not just want success: a large plan has few of them."""
        self._gates: dict[str, _Gate] = {}
        self._asked_by: dict[str, list[Step]] = {}
        self._decisions = {decision.id: decision for decision in plan.decisions}
        self._taken: dict[str, frozenset[str]] = {}
        for step in plan.steps:
            edges = step.dependencies
            gate = self._gates[step.id] = _Gate(waiting=len(edges), depends=bool(edges))
            for edge in edges:
                self._dependants[edge.step].append(step.id)
                if edge.on != COMPLETED:
                    self._on[edge.step, step.id] = edge.on
            gate.undecided = _decisions_of(step)
            for decision_id in gate.undecided:
                self._asked_by.setdefault(decision_id, []).append(step)
        for decision_id, selections in decisions.items():
            self.decide(decision_id, selections)

    def verdict(self, step_id: str) -> StepReadiness:
        """Return what is to become of the step, as things stand."""
        gate = self._gates[step_id]
        if gate.never:
            return StepReadiness.SKIP
        if gate.waiting or gate.stranded:
            return StepReadiness.WAIT
        if gate.depends and not gate.live:
            return StepReadiness.SKIP
        return StepReadiness.ASK if gate.undecided else RUN

    def why_skipped(self, step_id: str) -> str:
        """Return why the verdict on a step is to skip it, for people."""
        return self._gates[step_id].never or "everything it depends on was skipped"

    def is_stranded(self, step_id: str) -> bool:
        """Return whether a dependency ended in a way that keeps the step waiting for good."""
        return self._gates[step_id].stranded

    def waits_for_steps(self, step_id: str) -> bool:
        """Return whether a dependency is not final yet."""
        return self._gates[step_id].waiting > 0

    def undecided(self, step_id: str) -> list[str]:
        """The decisions the step still needs, in one order."""
        return sorted(self._gates[step_id].undecided)

    def settle(self, step_id: str, status: StepStatus, *, waived: bool = False) -> list[str]:
        """A step became final; returns the steps whose verdict may have changed."""
        dependants = self._dependants[step_id]
        if not dependants:
            return []
        continues = step_id in self._continues
        usual = _HOLDS if waived else _edge(status, COMPLETED, continues=continues)
        changed: list[str] = []
        for dependant in dependants:
            gate = self._gates[dependant]
            gate.waiting -= 1
            edge = usual
            if self._on and not waived:
                edge = _edge(status, self._on.get((step_id, dependant), COMPLETED), continues=continues)
            if edge is not _SKIPPED:
                gate.live += 1
            if edge is _STRANDS:
                gate.stranded = True
            elif edge is _NEVER:
                gate.never = f"step {step_id!r} did not fail"
            if not gate.waiting or gate.never:
                changed.append(dependant)
        return changed

    def decide(self, decision_id: str, selections: Iterable[str]) -> list[str]:
        """A decision fell; returns the steps whose verdict may have changed. A second answer changes nothing.

        Raises:
            DecisionInvalidError: there is no such decision, or it does not offer this.
        """
        chosen = self._checked(decision_id, tuple(selections))
        if decision_id in self._taken:
            return []
        self._taken[decision_id] = chosen
        steps = self._asked_by.get(decision_id, [])
        for step in steps:
            gate = self._gates[step.id]
            gate.undecided -= {decision_id}
            wanted = (step.when or {}).get(decision_id)
            if wanted is not None and chosen.isdisjoint(wanted):
                gate.never = f"you chose {listed(selections)} for {decision_id!r}"
        return [step.id for step in steps]

    def _checked(self, decision_id: str, selections: tuple[str, ...]) -> frozenset[str]:
        decision = self._decisions.get(decision_id)
        if decision is None:
            raise DecisionInvalidError(
                decision_id, f"the plan has no such decision; its decisions: {listed(self._decisions)}"
            )
        check_selections(plan_decision(decision), selections)
        return frozenset(selections)


def _decisions_of(step: Step) -> frozenset[str]:
    if not step.when and step.decision is None:
        return _NONE
    needed = frozenset(step.when or ())
    return needed if step.decision is None else needed | {step.decision}


def _edge(status: StepStatus, on: str, *, continues: bool) -> _Edge:
    if status is StepStatus.SKIPPED:
        return _SKIPPED
    if on == "finished":
        return _HOLDS
    failed = status is not StepStatus.COMPLETED
    if on == "failed":
        return _HOLDS if failed else _NEVER
    if not failed or continues:
        return _HOLDS
    return _STRANDS
