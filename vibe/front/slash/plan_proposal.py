"""Has a plan written, changed as often as the person wants, and run once they say yes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from anyio import to_thread

from planner.plan.loader import LoadedPlan, read_plan_file
from planner.store.folder import ApprovalSetting, PlanRunOptions
from vibe.app.plan.author import PlanningRequest, planning
from vibe.app.plan.drafting import DraftVersion, PlanDraft
from vibe.app.plan.quickstart import quickstart_file
from vibe.app.plan.run import open_plan
from vibe.core.tools.permissions import ApprovalMode
from vibe.front.event_text import one_line
from vibe.front.slash.command import Talk
from vibe.front.slash.plan_talk import PlanVerdict, VerdictKind
from vibe.system.errors import UsageError

REASON_LENGTH = 400
SETTINGS = {
    ApprovalMode.ASK: ApprovalSetting.ASK,
    ApprovalMode.EDITS: ApprovalSetting.EDITS,
    ApprovalMode.ALL: ApprovalSetting.AUTO,
}


def propose(talk: Talk, goal: str, document: LoadedPlan | None = None, wish: str = "") -> None:
    """Begin to plan for a goal, beside the conversation, or to ask about a document, changed first as a ``wish`` says.

    Raises:
        UsageError: a plan is proposed or runs already.
    """
    talk.plans.take()
    if document is None:
        talk.plans.begun(goal)
    talk.begin(_carry_out, talk, partial(_drafted, talk, goal, document, wish))


def go_on(talk: Talk, plan_id: str) -> None:
    """Begin to go on with a plan, beside the conversation.

    Raises:
        UsageError: a plan is proposed or runs already.
    """
    talk.plans.take()
    talk.begin(_carry_out, talk, plan_id)


def demonstrate(talk: Talk) -> None:
    """Begin to run the built-in demonstration, beside the conversation; a script serves as its model.

    Raises:
        UsageError: a plan is proposed or runs already.
    """
    talk.plans.take()
    talk.begin(_carry_out, talk, partial(to_thread.run_sync, _demonstration))


def _demonstration() -> LoadedPlan:
    return read_plan_file(quickstart_file())


async def save(talk: Talk, loaded: LoadedPlan, name: str) -> None:
    """Write the document of a plan to a new file, named as from the conversation's folder.

    Raises:
        UsageError: the file is there already, or can't be written.
    """
    path = await to_thread.run_sync(_write, loaded, talk.opening.workdir, name)
    talk.say(f"written to {path}")


def _write(loaded: LoadedPlan, folder: Path, name: str) -> Path:
    try:
        path = folder / Path(name).expanduser()
        with path.open("xb") as file:
            file.write(loaded.source_bytes)
    except FileExistsError:
        raise UsageError(f"{name} already exists: delete it, or choose another name") from None
    except (OSError, RuntimeError) as error:
        raise UsageError(f"{name} can't be written ({error}): choose another name") from error
    return path


async def _carry_out(talk: Talk, plan: str | Callable[[], Awaitable[LoadedPlan | None]]) -> None:
    """Run the plan of an id, or one once it is accepted; another may be proposed afterwards."""
    try:
        accepted = plan if isinstance(plan, str) else await plan()
        if accepted is not None:
            await _run(talk, accepted)
    finally:
        talk.plans.is_taken = False


async def _drafted(talk: Talk, goal: str, document: LoadedPlan | None, wish: str) -> LoadedPlan | None:
    """Return the plan that was accepted; None: none was."""
    opening = talk.conversation.setup.opening
    request = PlanningRequest(
        subject=goal, workdir=opening.workdir, model=opening.model, trust=opening.trust, wanted_by="/plan"
    )
    async with planning(request, talk.runtime.host, talk.seat.listeners, talk.seat.user_input) as run:
        draft = run.draft(goal)
        if document is not None:
            await draft.replace(document)
            if wish:
                await _change(talk, draft, PlanVerdict(VerdictKind.REVISE, wish))
        else:
            await _plan(talk, draft, draft.write)
        accepted = await _accepted(talk, draft) if draft.versions else None
        run.end(draft)
        return accepted


async def _accepted(talk: Talk, draft: PlanDraft) -> LoadedPlan | None:
    """Have each version looked at until one is accepted; None: it was dropped. With ``auto_run``, the first one is."""
    if talk.conversation.setup.engine.config.planner.auto_run:
        return draft.loaded
    while True:
        verdict = await talk.plans.accept(draft)
        if verdict.kind is VerdictKind.RUN:
            return draft.loaded
        if verdict.kind is VerdictKind.DROP:
            talk.say("the plan is dropped")
            return None
        if verdict.kind is VerdictKind.LATER:
            return None
        await _change(talk, draft, verdict)


async def _change(talk: Talk, draft: PlanDraft, verdict: PlanVerdict) -> None:
    try:
        if verdict.kind is VerdictKind.SAVE:
            await save(talk, draft.loaded, verdict.text)
        elif verdict.kind is VerdictKind.EDIT:
            await draft.replace(verdict.text)
        else:
            await _plan(talk, draft, partial(draft.revise, verdict.text))
    except UsageError as error:  # it stays as it is, and the question open
        talk.say(f"vibe: {error}")


async def _plan(talk: Talk, draft: PlanDraft, work: Callable[[], Awaitable[DraftVersion | None]]) -> None:
    """Have the model write the next version; why there is none is said."""
    before = draft.acted
    if await talk.plans.until_interrupted(work) is not None:
        return
    if draft.acted is None:
        draft.acted = before
        talk.say("planning was stopped" + (": the plan is unchanged" if draft.versions else ""))
    else:
        talk.say(f"no plan: {one_line(draft.acted.detail or draft.acted.outcome.value, REASON_LENGTH)}")


async def _run(talk: Talk, plan: LoadedPlan | str) -> None:
    """Run a plan, or go on with one by its id, until it ends or pauses."""
    plans, opening = talk.plans, talk.conversation.setup.opening
    is_sample = isinstance(plan, LoadedPlan) and plan.plan.sample is not None
    options = PlanRunOptions(
        workdir=opening.workdir,
        plan_folder=Path(plan.where).parent if isinstance(plan, LoadedPlan) and is_sample else opening.workdir,
        approvals=SETTINGS[talk.conversation.approvals.mode],
        model=opening.model if isinstance(plan, LoadedPlan) and not is_sample else None,
        trust=opening.trust,
        accepted=True,
    )
    session = await open_plan(plan, options, talk.runtime.host, plans.audience())
    with plans.at_work(session):
        plans.ended(await session.run())
