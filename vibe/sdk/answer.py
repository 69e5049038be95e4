"""The results of work: ``Answer`` for a prompt, ``PlanResult`` for a plan, and ``NotCompleted`` if it fell short."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vibe.core.messages import Denial, Usage
from vibe.sdk.options import in_parameters
from vibe.system.errors import VibeError

if TYPE_CHECKING:  # the model of plans takes longer to import than everything else here
    from planner.plan.model import Decision
    from planner.state.state import StepState
    from vibe.app.engine.result_record import RunRecord

Value_co = TypeVar("Value_co", covariant=True)


@dataclass(frozen=True, kw_only=True)
class Answer(Generic[Value_co]):
    """The end of a prompt.

    ``text`` is the agent's last answer, and ``output`` the value that was asked for. ``outcome`` is ``completed``,
    ``failed``, ``limit``, ``blocked`` or ``interrupted``. Unless it is ``completed``, ``reason`` is a stable word for
    why and ``detail`` a sentence. ``usage`` and ``cost_usd`` count all agents that worked on the prompt, and ``turns``
    only the main one. ``cost_usd`` is None if it is unknown. ``record`` is the document that ``--output json`` prints.
    """

    text: str
    output: Value_co
    outcome: str
    reason: str | None
    detail: str
    session_id: str
    usage: Usage
    cost_usd: float | None
    turns: int
    duration_s: float
    files_changed: tuple[str, ...]
    denied: tuple[Denial, ...]
    record: dict[str, Any] = field(repr=False)


def common_fields(record: RunRecord) -> dict[str, Any]:
    """Return the fields that all results share, from a run's record, with its messages worded in parameters."""
    same = {name: getattr(record, name) for name in ("reason", "usage", "cost_usd", "duration_s")}
    detail, warnings = in_parameters(record.detail), list(map(in_parameters, record.warnings))
    document = record.as_document() | {"detail": detail, "warnings": warnings}
    return {"outcome": record.outcome.value, "detail": detail, "record": document, **same}


def answer_of(record: RunRecord, turns: int, output: Any = None, files_changed: tuple[str, ...] = ()) -> Answer[Any]:
    """Return the answer that a run's record describes."""
    same = dict[str, Any](session_id=record.session_id, denied=tuple(record.denied), **common_fields(record))
    return Answer(text=record.result, turns=turns, output=output, files_changed=files_changed, **same)


@dataclass(frozen=True, kw_only=True)
class PlanResult:
    """The end of a plan's run.

    ``status`` is that of the plan: ``completed``, ``failed``, ``paused`` or ``cancelled``. ``outcome``, ``reason`` and
    ``detail`` are as in ``Answer``. ``steps`` holds every step by its id, and ``open_decisions`` what a paused plan
    waits for. ``record`` is the document that ``--output json`` prints.
    """

    plan_id: str
    status: str
    outcome: str
    reason: str | None
    detail: str
    steps: Mapping[str, StepState] = field(repr=False)
    open_decisions: tuple[Decision, ...]
    usage: Usage
    cost_usd: float | None
    duration_s: float
    record: dict[str, Any] = field(repr=False)


class NotCompleted(VibeError):
    """Raised when the work did not complete.

    ``result`` says how far it came: an ``Answer`` for a prompt, a ``PlanResult`` for a plan.
    """

    def __init__(self, result: Any) -> None:
        super().__init__(f"{result.outcome}: {result.detail or result.reason or 'no reason is known'}")
        self.result = result
