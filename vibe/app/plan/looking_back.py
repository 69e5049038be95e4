"""Plans of a conversation that is resumed: read back from their journals and those of all runs that worked on them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

from ipc.codec import decode_event
from ipc.errors import IpcError
from ipc.events import (
    AssistantDeltaEvent,
    Event,
    Fact,
    PlanEditedEvent,
    PlanPausedEvent,
    ReasoningDeltaEvent,
    ToolArgumentsEvent,
    ToolStreamEvent,
)
from ipc.journal import JournalReader
from ipc.registry import Registry
from planner.plan.status import PlanStatus
from planner.store.errors import BrokenPlanError
from planner.store.folder import PlanFolder, plans_in
from vibe.view.plan_view import PlanView
from vibe.view.view import View, apply

LOOKED_AT: Final = 200
"""The newest plans of a home, among which those of a conversation are looked for."""
MOST_PLANS: Final = 20
"""Of a conversation, the newest."""
MOST_BYTES: Final = 16_000_000
"""Of the journals of a plan's runs together; of the largest plans only the facts are read."""
LOST: Final = "its process ended"
"""Reason of a pause that no process wrote down."""

_Passing: TypeAlias = AssistantDeltaEvent | ReasoningDeltaEvent | ToolArgumentsEvent | ToolStreamEvent


def plans_of(registry: Registry, sessions: Collection[str]) -> list[PlanView]:
    """Return the plans that were begun in a conversation and that no process works on, the oldest first; reads files.

    ``sessions`` are the ids that the conversation had.
    """
    found: list[PlanView] = []
    for folder in plans_in(registry.home, None, LOOKED_AT):
        with suppress(BrokenPlanError):
            if folder.settings().session in sessions and folder.holder() is None:
                found += filter(None, (_read_back(folder, registry),))
        if len(found) == MOST_PLANS:
            break
    return sorted(found, key=lambda plan: plan.started_at or 0.0)


def _read_back(folder: PlanFolder, registry: Registry) -> PlanView | None:
    """Return a plan as all who watched it from its beginning would see it, at rest; None: it never began."""
    view, plan_id = View(), folder.plan_id
    events = list(_events_of(plan_id, registry))
    # The journal's facts have no source; those that were announced are among the events, with more in them.
    known = {(type(event), event.ts) for event in events if isinstance(event, Fact)}
    unknown = [fact for fact in folder.journal().facts if (type(fact), fact.ts) not in known]
    for event in sorted((*unknown, *events), key=lambda event: event.ts):
        apply(view, event)
    plan = view.plans.get(plan_id)
    if plan is None or plan.started_at is None:
        return None
    for step in plan.steps.values():
        if step.work is None and step.state.result is not None:  # the run that announced it is forgotten
            step.changed(step.state.result.files_changed)
    if plan.state.status is PlanStatus.ACTIVE:
        at = plan.state.updated
        apply(view, PlanEditedEvent(ts=at, plan_id=plan_id))
        apply(view, PlanPausedEvent(ts=at, plan_id=plan_id, reason=LOST))
    return plan


def _events_of(plan_id: str, registry: Registry) -> Iterator[Event]:
    """Yield what the runs of a plan announced, as far as it is kept."""
    paths = [Path(entry.journal) for entry in registry.ended() if entry.info.plan_id == plan_id]
    with suppress(OSError, IpcError):
        if sum(path.stat().st_size for path in paths) <= MOST_BYTES:
            told = filter(None, map(decode_event, chain.from_iterable(map(_bodies, paths))))
            yield from (event for event in told if event.plan_id == plan_id and not isinstance(event, _Passing))


def _bodies(journal: Path) -> Iterator[bytes]:
    with closing(JournalReader(journal)) as reader:
        yield from (body for _, body in chain.from_iterable(iter(reader.read_batch, [])))
