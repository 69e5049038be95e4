"""Answer: the end of a prompt as a program gets it; NotCompleted, raised where the work did not complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vibe.core.messages import Denial, Usage
from vibe.sdk.options import in_parameters
from vibe.system.errors import VibeError

if TYPE_CHECKING:  # a plan's model takes longer to load than all else here
    from planner.plan.model import Decision
    from planner.state.state import StepState
    from vibe.app.engine.result_record import RunRecord

Value_co = TypeVar("Value_co", covariant=True)


@dataclass(frozen=True, kw_only=True)
class Answer(Generic[Value_co]):
    """The end of a prompt: ``text`` is the agent's last answer, ``output`` the value that was asked for.

    ``outcome`` is ``completed``, ``failed``, ``limit``, ``blocked`` or ``interrupted``; where it is not the first,
    ``reason`` is a stable word and ``detail`` a sentence for why. ``usage`` and ``cost_usd`` (None: unknown) are of all
    agents that worked on it, ``turns`` of the main one. ``record`` is the document of ``--output json``.
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


def told(record: RunRecord) -> dict[str, Any]:
    """Return what every result tells of a record, in the words of parameters."""
    same = {name: getattr(record, name) for name in ("reason", "usage", "cost_usd", "duration_s")}
    detail, warnings = in_parameters(record.detail), list(map(in_parameters, record.warnings))
    document = record.as_document() | {"detail": detail, "warnings": warnings}
    return {"outcome": record.outcome.value, "detail": detail, "record": document, **same}


def answer_of(record: RunRecord, turns: int, output: Any = None, files_changed: tuple[str, ...] = ()) -> Answer[Any]:
    """Return the answer of which there is a record."""
    own: dict[str, Any] = {"text": record.result, "session_id": record.session_id}
    made = {"turns": turns, "output": output, "files_changed": files_changed, "denied": tuple(record.denied)}
    return Answer(**own, **made, **told(record))


@dataclass(frozen=True, kw_only=True)
class PlanResult:
    """The end of a plan's run. ``status`` is the plan's: ``completed``, ``failed``, ``paused`` or ``cancelled``.

    ``outcome``, ``reason`` and ``detail`` as in ``Answer``. ``steps`` are all by their ids; ``open_decisions`` are what
    a paused plan waits for. ``record`` is the document of ``--output json``.
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
    """The work did not complete. ``result`` says how far it came: an ``Answer``, or a plan's ``PlanResult``."""

    def __init__(self, result: Any) -> None:
        super().__init__(f"{result.outcome}: {result.detail or result.reason or 'no reason is known'}")
        self.result = result
