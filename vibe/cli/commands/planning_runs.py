"""Runs of ``vibe plan new`` and ``vibe plan edit --ask``, in which a model plans until it is done or a signal comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import anyio.to_thread
from anyio import CancelScope

from ipc.sink import EventSink
from planner.plan.loader import LoadedPlan
from planner.store.folder import PlanFolder
from vibe.app.engine.host import Host
from vibe.app.engine.piped import outputs_of, with_piped
from vibe.app.engine.result_record import RunRecord
from vibe.app.plan.author import PlanningRequest, planning
from vibe.app.plan.change_proposal import ProposedChange
from vibe.app.plan.drafting import PlanDraft
from vibe.cli.signals import handled_signals
from vibe.core.outcome import Outcome
from vibe.core.tools.questions import UserInput


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPlan:
    """Result of writing a plan. ``plan`` is None if there is none; ``notes`` are what to know before it runs."""

    record: RunRecord
    plan: LoadedPlan | None = None
    notes: tuple[str, ...] = ()


async def new_plan(
    request: PlanningRequest,
    base: LoadedPlan | None,
    host: Host,
    listeners: Sequence[EventSink],
    user_input: UserInput | None,
) -> NewPlan:
    """Have a plan written for a goal, or one changed as a sentence says; a signal ends that.

    Raises:
        UsageError, EnvironmentFailure, ipc.errors.IpcError: as ``planning``.
    """
    scope = CancelScope()
    async with (
        handled_signals(host, lambda _which, _count: scope.cancel()) as signals,
        planning(request, host, listeners, user_input) as run,
    ):
        draft = run.draft(request.subject)
        outputs = outputs_of(host.home, run.session_id)
        draft.piped = await anyio.to_thread.run_sync(with_piped, "", request.piped, outputs)
        draft.context = replace(run.context, workspace=run.context.workspace.granting([outputs], write=False))
        with scope:
            await _write(draft, base, request.subject + draft.piped)
        record = run.end(draft.acted, draft.versions[-1].repairs if draft.versions else (), signals.exit_code)
        if record.outcome is not Outcome.COMPLETED:
            return NewPlan(record=record)
        return NewPlan(record=record, plan=draft.loaded, notes=draft.notes)


async def _write(draft: PlanDraft, base: LoadedPlan | None, sentence: str) -> None:
    if base is None:
        await draft.write()
    else:
        await draft.replace(base)
        await draft.revise(sentence)


async def proposed(
    request: PlanningRequest, folder: PlanFolder, host: Host, listeners: Sequence[EventSink]
) -> tuple[RunRecord, ProposedChange | None]:
    """Have a change proposed; None: there is none, and the record says why. A signal ends that.

    Raises:
        UsageError, EnvironmentFailure, ipc.errors.IpcError: as ``planning`` and ``propose_change``.
    """
    scope = CancelScope()
    change: ProposedChange | None = None
    async with (
        handled_signals(host, lambda _which, _count: scope.cancel()) as signals,
        planning(request, host, listeners) as run,
    ):
        with scope:
            change = await run.propose_change(folder, request.subject)
        record = run.end(change.acted if change else None, (), signals.exit_code)
    return record, change if record.outcome is Outcome.COMPLETED else None
