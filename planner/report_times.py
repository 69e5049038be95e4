"""When steps ran, on a clock that stands still while no process has the plan: from a journal's records; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.model import StepStatus
from planner.records import AttemptEnded, CommandAttached, JournalRecord, ProcessAttached, StepMoved
from planner.report import SpanReport

CUT = "cut"
OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """``active_seconds`` from the first record to the last; ``breaks`` where a process took over from another."""

    spans: Mapping[str, tuple[SpanReport, ...]]
    active_seconds: float
    breaks: tuple[float, ...]


def times_of(records: Sequence[JournalRecord], *, is_running: bool) -> Times:
    """Read the records; a step that is left running is OPEN if its process lives, else CUT."""
    clock = _Clock()
    for record in records:
        clock.take(record)
    clock.close_all(OPEN if is_running else CUT)
    return Times(
        spans={step_id: tuple(spans) for step_id, spans in clock.spans.items()},
        active_seconds=clock.now,
        breaks=tuple(clock.breaks),
    )


class _Clock:
    """``now``: seconds of the plan's own time at the latest record."""

    def __init__(self) -> None:
        self.spans: dict[str, list[SpanReport]] = {}
        self.breaks: list[float] = []
        self.now = 0.0
        self._latest: float | None = None
        """When the latest record was written; None: nobody runs the plan."""
        self._attached = False
        self._open: dict[str, tuple[float, int]] = {}

    def take(self, record: JournalRecord) -> None:
        if self._latest is not None and not isinstance(record, ProcessAttached | CommandAttached):
            self.now += max(0.0, record.at - self._latest)  # a wall clock may be put back
            self._latest = record.at
        match record:
            case ProcessAttached(at=at):
                self.close_all(CUT)
                if self._attached:
                    self.breaks.append(self.now)
                self._latest, self._attached = at, True
            case CommandAttached():
                self.close_all(CUT)
                self._latest = None
            case AttemptEnded(step_id=step_id, result=result):
                self._close(step_id, result.outcome.value)
            case StepMoved(status=StepStatus.IN_PROGRESS, step_id=step_id, attempt=attempt):
                self._open[step_id] = (self.now, attempt)
            case StepMoved(step_id=step_id, status=status):
                self._close(step_id, status.value)
            case _:
                pass

    def close_all(self, ended: str) -> None:
        for step_id in list(self._open):
            self._close(step_id, ended)

    def _close(self, step_id: str, ended: str) -> None:
        if step_id in self._open:
            start, attempt = self._open.pop(step_id)
            span = SpanReport(start=round(start, 3), end=round(self.now, 3), attempt=attempt, ended=ended)
            self.spans.setdefault(step_id, []).append(span)
