"""The result record that every run prints at its end, whatever ended it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct, structs

from planner.state.state import RemovedStep, StepState
from subagents.step_result import AgentUsage
from vibe.core.messages import Denial, Outcome, Spent, Usage

SCHEMA_VERSION = 1

EXIT_CODES = {
    Outcome.COMPLETED: 0,
    Outcome.FAILED: 1,
    Outcome.LIMIT: 4,
    Outcome.BLOCKED: 5,
    Outcome.INTERRUPTED: 130,
}
ENVIRONMENT_EXIT = 3


def exit_code_of(outcome: Outcome, *, unserved: bool) -> int:
    """Return the exit code of a run that no signal ended.

    ``unserved`` means that the provider refuses the key, or that an event could not be recorded (the disk is full), so
    that the record of the work is incomplete.
    """
    return ENVIRONMENT_EXIT if unserved else EXIT_CODES[outcome]


def removed_document(removed: RemovedStep, spent: Spent) -> dict[str, Any]:
    """Return an entry of ``removed_steps``: a step that a revision removed from the plan, described as it was then.

    ``vibe plan status`` has the same entries. ``spent`` is what all attempts at the step used.
    """
    return {
        "id": removed.id,
        "title": removed.step.outline.title,
        "status": removed.status.value,
        "attempts": removed.step.begun,
        **_spent_document(spent),
        "removed_by": removed.by,
        "removed_at": removed.at,
    }


class RunRecord(Struct, frozen=True, kw_only=True):
    """One run, as it ended."""

    outcome: Outcome
    session_id: str = ""
    result: str = ""
    duration_s: float = 0.0
    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    reason: str | None = None
    """A stable word for why it did not complete."""
    detail: str = ""
    """The reason as a sentence."""
    plan_id: str | None = None
    steps: Sequence[StepState] | None = None
    removed_steps: Sequence[tuple[RemovedStep, Spent]] = ()
    """Steps that revisions removed, with their spending."""
    agents: Sequence[tuple[str | None, AgentUsage]] = ()
    """The agents, each with its step; None for an agent that worked for no step."""
    denied: Sequence[Denial] = ()
    warnings: Sequence[str] = ()
    exit_code: int = 0
    """The exit code of the process."""
    value: Any = UNSET
    """The answer, if one by a JSON Schema was wanted; None if there is none, or it is null."""

    @property
    def answer(self) -> str:
        """The answer in words, or as JSON if a value was wanted; empty if there is none."""
        if self.value is UNSET:
            return self.result
        is_there = self.outcome in {Outcome.COMPLETED, Outcome.BLOCKED}
        return json.dumps(self.value, ensure_ascii=False) if is_there else ""

    @property
    def why(self) -> str:
        """The reason for the end, in words for a person."""
        return self.detail or self.reason or "; ".join(self.warnings) or "no reason given"

    def after_signal(self, exit_code: int | None) -> RunRecord:
        """Return the record of this run if a signal with that exit code arrived meanwhile (None if none did).

        Only an interruption gets the signal's exit code, never a finished run.
        """
        is_interrupted = self.outcome is Outcome.INTERRUPTED and self.exit_code == EXIT_CODES[self.outcome]
        return self if exit_code is None or not is_interrupted else structs.replace(self, exit_code=exit_code)

    def as_document(self) -> dict[str, Any]:
        """Return the JSON document of the command line contract."""
        document: dict[str, Any] = {
            "type": "result",
            "schema_version": SCHEMA_VERSION,
            "outcome": self.outcome.value,
            "exit_code": self.exit_code,
            "reason": self.reason,
            "detail": self.detail,
            "session_id": self.session_id,
            "result": self.result,
            "agents": [
                {"agent_id": agent.agent_id, "parent_id": agent.parent_id, "step_id": step_id, **_spent_document(agent)}
                for step_id, agent in self.agents
            ],
            **_spent_document(self),
            "duration_s": round(self.duration_s, 3),
            "denied": [structs.asdict(denial) for denial in self.denied],
            "warnings": list(self.warnings),
        }
        if self.value is not UNSET:
            document["value"] = self.value
        if self.plan_id is not None:
            document["plan_id"] = self.plan_id
        if self.steps is not None:
            document["steps"] = [_step_document(step) for step in self.steps]
            document["removed_steps"] = [removed_document(step, spent) for step, spent in self.removed_steps]
        return document


def _step_document(step: StepState) -> dict[str, Any]:
    result = step.last_result
    document: dict[str, Any] = {
        "id": step.id,
        "status": step.status.value,
        "attempts": step.begun,
        "summary": result.summary,
        "reason": step.reason,
        "detail": step.detail,
        "printed": result.printed,
        "output": result.output,
        "files_changed": list(result.files_changed),
        "usage": structs.asdict(result.usage.for_events()),
        "duration_s": round(result.duration_s, 3),
    }
    optional = ("reason", "output", "detail", "printed")
    return {
        name: value for name, value in document.items() if name not in optional or (value is not None and value != "")
    }


def _spent_document(spent: Spent) -> dict[str, Any]:
    """Return usage and cost, rounded to the last digit that prices have."""
    cost_usd = None if spent.cost_usd is None else round(spent.cost_usd, 9)
    return {"usage": structs.asdict(spent.usage.for_events()), "cost_usd": cost_usd}
