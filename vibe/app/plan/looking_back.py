"""Reads earlier runs from their journals: the plans of a resumed conversation, and the work of models in a folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, chain, groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct, field

from ipc import events as e
from ipc.errors import IpcError
from ipc.journal import recorded_events
from ipc.registry import Registry
from planner.plan.status import PlanStatus
from planner.store.errors import BrokenPlanError
from planner.store.folder import PlanFolder, find_plan, plans_in
from vibe.app.conversation.session import ids_of
from vibe.app.engine.host import Host
from vibe.core.config.paths import VibePaths
from vibe.view.plan_view import PlanView
from vibe.view.view import View, apply

LOOKED_AT: Final = 200
"""The number of newest plans of a home among which those of a conversation are looked for."""
MOST_PLANS: Final = 20
"""The most plans of a conversation that are read, newest first."""
MOST_BYTES: Final = 16_000_000
"""The most bytes of the journals of a plan's runs together. Of larger plans only the facts are read."""
LOST: Final = "its process ended"
"""The reason for a pause that no process wrote down."""

_MODEL_EVENTS: Final = (b'{"type":"model.ended"', b'{"type":"usage"')
_Passing: TypeAlias = e.AssistantDeltaEvent | e.ReasoningDeltaEvent | e.ToolArgumentsEvent | e.ToolStreamEvent


class ModelUse(Struct):
    """The work of a model in a folder: answers, their cost (USD.

    None if unknown), and the waits for first tokens (seconds).
    """

    answers: int = 0
    cost_usd: float | None = 0.0
    waits: list[float] = field(default_factory=list[float])


def models_used(registry: Registry, workspace: Path) -> dict[str, ModelUse]:
    """Return the work of models in a folder by their keys, as far as it is recorded. Reads files."""
    entries = [*registry.running(), *registry.ended()]
    paths = [Path(entry.journal) for entry in entries if entry.info.cwd == str(workspace)]
    found: dict[str, ModelUse] = {}
    with suppress(OSError, IpcError):
        for event in chain.from_iterable(recorded_events(path, 1, _MODEL_EVENTS) for path in _newest(paths)):
            if isinstance(event, e.ModelEndedEvent) and event.status == "ok":
                use = found.setdefault(event.model, ModelUse())
                use.answers += 1
                use.waits += [] if event.first_token_s is None else [event.first_token_s]
            elif isinstance(event, e.UsageEvent):
                use = found.setdefault(event.model, ModelUse())
                known = use.cost_usd is not None and event.cost_usd is not None
                use.cost_usd = (use.cost_usd or 0.0) + (event.cost_usd or 0.0) if known else None
    return found


def _newest(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield journals until they would be too much to read at once."""
    left = MOST_BYTES
    for path in paths:
        left -= path.stat().st_size
        if left < 0:
            return
        yield path


class PastPlan(Struct, frozen=True):
    """A plan of a conversation, and the index of the message before which it was begun (None if unknown)."""

    view: PlanView
    place: int | None


def plans_of_session(host: Host, session_id: str, *, is_summarised: bool) -> list[PastPlan]:
    """Return the plans of a conversation as ``plans_of`` does, including those from before a summary. Reads files."""
    ids = set(ids_of(VibePaths(host.home), session_id))
    return plans_of(Registry(host.home, host.runtime_dir), ids, newer=session_id if is_summarised else "")


def plans_of(registry: Registry, sessions: Collection[str], newer: str = "") -> list[PastPlan]:
    """Return the plans that were begun in a conversation and that no process works on, oldest first. Reads files.

    ``sessions`` are the ids that the conversation had. If ``newer`` is not empty, plans of all other sessions were
    begun before the first message that is left.
    """
    found: list[PastPlan] = []
    for folder in plans_in(registry.home, None, LOOKED_AT):
        with suppress(BrokenPlanError):
            settings = folder.settings()
            if settings.session in sessions and folder.holder() is None:
                plan = _read_back(folder, registry)
                place = settings.messages if newer in {"", settings.session} else 0
                found += [] if plan is None else [PastPlan(plan, place)]
        if len(found) == MOST_PLANS:
            break
    return sorted(found, key=lambda plan: plan.view.started_at or 0.0)


def past_plan(host: Host, plan_id: str) -> PlanView | None:
    """Return the plan with this id at rest, with what its earlier runs did; None if it never began. Reads files.

    Raises:
        UsageError, BrokenPlanError: there is no such plan, or it can't be read.
    """
    return _read_back(find_plan(host.home, plan_id), Registry(host.home, host.runtime_dir))


def _read_back(folder: PlanFolder, registry: Registry) -> PlanView | None:
    """Return a plan at rest, as someone who watched it from its beginning would see it; None if it never began."""
    view, plan_id = View(), folder.plan_id
    for event in _in_order(folder.journal().facts, _events_of(plan_id, registry)):
        apply(view, event)
    plan = view.plans.get(plan_id)
    if plan is None or plan.started_at is None:
        return None
    for step in plan.steps.values():
        if step.work is None and step.state.result is not None:  # the events of its run are gone
            step.add_files(step.state.result.files_changed)
    if plan.state.status is PlanStatus.ACTIVE:
        at = plan.state.updated
        apply(view, e.PlanEditedEvent(ts=at, plan_id=plan_id))
        apply(view, e.PlanPausedEvent(ts=at, plan_id=plan_id, reason=LOST))
    return plan


def _in_order(facts: Sequence[e.Fact], events: Iterable[e.Event]) -> list[e.Event]:
    """Return the facts of a plan's journal and the events of its runs, in the order in which they came about.

    Facts in the journal have no source. Those that were announced are also among the events, with more in them. The
    journal gives the order: times don't, because clocks are set.
    """
    places: dict[tuple[type, float], int] = {(type(fact), fact.ts): place for place, fact in enumerate(facts)}
    placed: list[tuple[int, e.Event]] = []
    for _, events_of_run in groupby(events, attrgetter("source")):
        run = list(events_of_run)
        found = [places.get((type(event), event.ts), 0) for event in run]
        found[0] = next(filter(None, found), 0)  # what comes before the first fact of a run goes with it
        placed += zip(accumulate(found, max), run, strict=True)
    announced = {(type(event), event.ts) for _, event in placed}
    placed += [(place, fact) for place, fact in enumerate(facts) if (type(fact), fact.ts) not in announced]
    return [event for _, event in sorted(placed, key=itemgetter(0))]


def _events_of(plan_id: str, registry: Registry) -> Iterator[e.Event]:
    """Yield the events that the runs of a plan published, as far as they are recorded."""
    paths = [Path(entry.journal) for entry in registry.ended() if entry.info.plan_id == plan_id]
    with suppress(OSError, IpcError):
        if sum(path.stat().st_size for path in paths) <= MOST_BYTES:
            events = chain.from_iterable(map(recorded_events, paths))
            yield from (event for event in events if event.plan_id == plan_id and not isinstance(event, _Passing))
