"""Proposes a plan by a model or by the conversation's agent, lets a person revise it, and runs it once accepted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from anyio import CancelScope, to_thread

from planner.author.output_repair import RepairedPlan
from planner.author.structured_output import PlanOffer, plan_in, plan_schema
from planner.plan.loader import LoadedPlan
from planner.store.folder import ApprovalSetting, PlanRunOptions
from vibe.app.conversation.conversation import Conversation
from vibe.app.plan.author import Planning, PlanningRequest, planning
from vibe.app.plan.drafting import DraftVersion, PlanDraft
from vibe.app.plan.library import WATCHED_SLOWED
from vibe.app.plan.run import open_plan
from vibe.core.messages import UserMessage
from vibe.core.schemas import table_of
from vibe.core.told_files import split_files
from vibe.core.tools.base import BaseTool, BaseToolState, TextResult, ToolClass, ToolError, UnaskedConfig
from vibe.core.tools.hand_in import PROPOSE_PLAN, HandInArgs
from vibe.core.tools.permissions import ApprovalMode
from vibe.front.slash.command import Talk
from vibe.front.slash.plan_talk import PlanVerdict, VerdictKind
from vibe.system.errors import UsageError, VibeError, error_as
from vibe.system.files import put_new_file, typed_path
from vibe.system.plain_text import one_line

REASON_LENGTH = 400
SETTINGS = {
    ApprovalMode.ASK: ApprovalSetting.ASK,
    ApprovalMode.EDITS: ApprovalSetting.EDITS,
    ApprovalMode.ALL: ApprovalSetting.AUTO,
}


def propose(talk: Talk, goal: str, document: LoadedPlan | None = None, wish: str = "") -> None:
    """Start planning for a goal, or proposing ``document``, beside the conversation.

    If there is a ``wish``, the document is first revised accordingly.

    Raises:
        UsageError: a plan is proposed or runs already.
    """
    talk.plans.take()
    if document is None:
        talk.plans.begun(goal)
    talk.begin(_carry_out, talk, partial(_drafted, talk, goal, document, wish))


def go_on(talk: Talk, plan: str | Callable[[], Awaitable[LoadedPlan]]) -> None:
    """Start to resume the plan with this id, or to run another plan, beside the conversation.

    Raises:
        UsageError: a plan is proposed or runs already.
    """
    talk.plans.take()
    talk.begin(_carry_out, talk, plan)


async def save(talk: Talk, content: bytes, name: str) -> None:
    """Write a new file; the name is relative to the conversation's folder.

    Raises:
        UsageError: the file already exists or can't be written.
    """
    path = await to_thread.run_sync(_write, content, talk.opening.workdir, name)
    talk.say(f"written to {path}")


def _write(content: bytes, folder: Path, name: str) -> Path:
    try:
        path = typed_path(folder, name)
        put_new_file(path, content)
    except FileExistsError:
        raise UsageError(f"{name} already exists: delete it, or choose another name") from None
    except OSError as error:
        raise UsageError(f"{name} can't be written ({error}): choose another name") from error
    return path


async def _carry_out(talk: Talk, plan: str | LoadedPlan | Callable[[], Awaitable[LoadedPlan | None]]) -> None:
    """Run a plan, resume the plan with an id, or run a plan once it is accepted; then let another be proposed."""
    try:
        accepted = plan if isinstance(plan, str | LoadedPlan) else await plan()
        if accepted is not None:
            await _run(talk, accepted)
    finally:
        talk.plans.is_taken = False


def _planning(talk: Talk, goal: str, wanted_by: str) -> AbstractAsyncContextManager[Planning]:
    opening = talk.conversation.setup.opening
    request = PlanningRequest(
        subject=goal, workdir=opening.workdir, model=opening.model, trust=opening.trust, wanted_by=wanted_by
    )
    return planning(request, talk.runtime.host, talk.seat.listeners, talk.seat.user_input)


async def _drafted(talk: Talk, goal: str, document: LoadedPlan | None, wish: str) -> LoadedPlan | None:
    """Return the accepted plan, or None if none was accepted."""
    async with _planning(talk, goal, "/plan") as run:
        draft = talk.plans.draft = run.draft(goal)
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
    """Return the accepted version of the draft, or None if the person drops or postpones it.

    With ``auto_run``, the first version is accepted unasked.
    """
    if talk.conversation.setup.engine.config.planner.auto_run:
        return draft.loaded
    verdict = await _verdict(talk, draft, (VerdictKind.RUN, VerdictKind.DROP, VerdictKind.LATER))
    if verdict.kind is VerdictKind.DROP:
        talk.plans.dropped = draft.loaded
        talk.say("dropped · /plan undo")
    return draft.loaded if verdict.kind is VerdictKind.RUN else None


async def _verdict(talk: Talk, draft: PlanDraft, ends: Collection[VerdictKind]) -> PlanVerdict:
    """Have the person judge each version and apply the verdict, until it is one of ``ends``."""
    while (verdict := await _said(talk, draft)).kind not in ends:
        await _change(talk, draft, verdict)
    return verdict


async def _said(talk: Talk, draft: PlanDraft) -> PlanVerdict:
    """Return the person's verdict on the latest version, or a comment that someone else sends first."""
    comments: list[str] = []
    asking = CancelScope()

    def comment(text: str, by: str) -> None:
        talk.say(f"{by}: {text}")
        comments.append(text)
        asking.cancel()

    draft.commented, verdict = comment, None
    try:
        with asking:
            verdict = await talk.plans.accept(draft)
    finally:
        draft.commented = None
    # A person who comments is told that the comment is read.
    return PlanVerdict(VerdictKind.REVISE, "\n\n".join(comments)) if verdict is None or comments else verdict


async def _change(talk: Talk, draft: PlanDraft, verdict: PlanVerdict) -> None:
    try:
        if verdict.kind is VerdictKind.SAVE:
            await save(talk, draft.loaded.source_bytes, verdict.text)
        elif verdict.kind is VerdictKind.EDIT:
            draft.text = verdict.text
            async with kept_if_wrong(talk, verdict.text):
                await draft.replace(verdict.text)
        else:
            await _plan(talk, draft, partial(draft.revise, verdict.text))
    except UsageError as error:  # the plan is unchanged, and the question stays open
        talk.say(f"{error}", "error")


@asynccontextmanager
async def kept_if_wrong(talk: Talk, text: str) -> AsyncGenerator[None]:
    """Keep the text of an edited plan in a file, and say where, if a UsageError in the block says what is wrong."""
    try:
        yield
    except UsageError as error:
        kept = (await to_thread.run_sync(talk.runtime.host.new_folder, "vibe-plan-")) / "plan.json"
        await to_thread.run_sync(partial(kept.write_text, text, encoding="utf-8"))
        raise UsageError(f"{error}\nnothing was changed; what you wrote is in {kept}") from error


async def _plan(talk: Talk, draft: PlanDraft, work: Callable[[], Awaitable[DraftVersion | None]]) -> None:
    """Have the model write the next version; if it writes none, say why."""
    before = draft.acted
    if await talk.plans.until_interrupted(work) is not None:
        return
    if draft.acted is None:
        draft.acted = before
        problem = "stopped planning" + (": the plan is unchanged" if draft.versions else "")
    else:
        problem = f"no plan: {one_line(draft.acted.detail or draft.acted.outcome.value, REASON_LENGTH)}"
    if not talk.plans.shows_planning:
        talk.say(problem)


async def _run(talk: Talk, plan: LoadedPlan | str) -> None:
    """Run a plan, or resume one by its id, until it ends or pauses."""
    plans, opening = talk.plans, talk.conversation.setup.opening
    is_sample = isinstance(plan, LoadedPlan) and plan.plan.sample is not None
    options = PlanRunOptions(
        workdir=opening.workdir,
        plan_folder=Path(plan.where).parent if isinstance(plan, LoadedPlan) and is_sample else opening.workdir,
        approvals=SETTINGS[talk.conversation.approvals.mode],
        model=opening.model if isinstance(plan, LoadedPlan) and not is_sample else None,
        trust=opening.trust,
        accepted=True,
        session=talk.conversation.session_id,
        messages=len(talk.conversation.messages),
        slowed=WATCHED_SLOWED,
    )
    if isinstance(plan, str) and plans.resumes is not None:
        await plans.resumes(plan)
    session = await open_plan(plan, options, talk.runtime.host, plans.audience())
    with plans.at_work(session):
        plans.ended(await session.run())


LONGEST_GOAL = 300
REPLIES = MappingProxyType({
    VerdictKind.RUN: (
        "accepted\nThe user accepted the plan. It runs now, beside this conversation, and its own agents do the work: "
        "do nothing of it yourself. Say so in a sentence and end your turn."
    ),
    VerdictKind.REVISE: (
        "to be changed: {text}\nThe user wants this changed. Change it and what follows from it, and propose the whole "
        "plan again."
    ),
    VerdictKind.DROP: (
        "dropped\nThe user dropped the plan: nothing of it runs. Do not propose it again unless they ask for it. Say "
        "in a sentence how you would go on without a plan, and end your turn."
    ),
    VerdictKind.LATER: (
        "to be changed\nThe user will say in their next message what to change. End your turn now, and propose the "
        "plan again then."
    ),
})
"""A person's answers as the agent that proposed the plan reads them; people see the first line too."""


def proposing(talk: Talk) -> ToolClass:
    """Return the tool with which the agent of a talk's conversation proposes plans to the person."""
    return type("ProposePlan", (ProposePlan,), {"talk": talk, "__module__": __name__})


class ProposePlan(BaseTool[HandInArgs, TextResult, UnaskedConfig, BaseToolState]):
    """Lets the person of a talk answer a plan, which then runs there."""

    description: ClassVar[str] = (
        "Propose a plan: other agents carry out its steps, side by side where they can. The user reads it and accepts "
        "it, says what to change, or drops it; nothing runs before. Use it only where the work is large: several "
        "parts that do not depend on one another, each more than an edit or two. Do small work, and work whose parts "
        "build on one another, yourself. First read what the plan depends on. A step's agent sees goal, context, its "
        "own prompt and what its direct dependencies report, nothing else: name files, constraints and what done "
        "means. Steps that may run side by side write different files; say in `writes` which. Give a step that "
        "changes something a `verify` command that fails when the work is wrong, one that the project uses."
    )
    read_only: ClassVar[bool] = True
    interactive: ClassVar[bool] = True
    talk: ClassVar[Talk]

    async def run(self, args: HandInArgs) -> TextResult:
        """Let the person answer the plan.

        Raises:
            ToolError: it is no valid plan (all problems are listed), or another plan is already proposed or running.
        """
        with error_as(VibeError, lambda error: ToolError(f"{PROPOSE_PLAN}: {error}")):
            return TextResult(text=await _proposed(self.talk, args.value))

    @classmethod
    def get_parameters(cls) -> dict[str, Any]:
        """Return the schema of a plan with its goal, as a planner hands it in."""
        return PlanOffer("", {}, schema=plan_schema(with_goal=True)).tool_class().get_parameters()

    def summarize(self, args: HandInArgs) -> str:
        """Return the tool's name and the plan's goal."""
        return self.named(str(table_of(plan_in(args.value)).get("goal", "")))


async def _proposed(talk: Talk, value: Any) -> str:
    """Let the person answer a plan of their agent, start it if they accept it, and return the words for the agent.

    Raises:
        UsageError: it is no valid plan, or another plan is already proposed or running.
    """
    plans, conversation = talk.plans, talk.conversation
    offer = PlanOffer(
        _asked_for(conversation), {"model": conversation.setup.model.key}, schema=plan_schema(with_goal=True)
    )
    offer.tries = None
    problem = await to_thread.run_sync(offer.offer, value)
    if offer.plan is None:
        raise UsageError(f"no plan yet, mend this and propose it again: {problem}")
    plans.take()
    is_accepted = False
    try:
        verdict, draft = await _answered(talk, offer.plan)
        is_accepted = verdict.kind is VerdictKind.RUN
    finally:
        plans.is_taken = is_accepted
    plans.revised = draft.versions if verdict.kind in {VerdictKind.REVISE, VerdictKind.LATER} else []
    if is_accepted:
        talk.begin(_carry_out, talk, draft.loaded)
    return REPLIES[verdict.kind].format(text=verdict.text)


async def _answered(talk: Talk, plan: RepairedPlan) -> tuple[PlanVerdict, PlanDraft]:
    """Return the person's verdict on a plan, with its draft, which includes the versions they wanted changed."""
    goal = plan.loaded.plan.goal
    async with _planning(talk, goal, PROPOSE_PLAN) as run:
        draft = run.draft(goal)
        draft.versions.extend(talk.plans.revised)
        await draft.replace(plan.loaded, plan.repairs)
        verdict = await _verdict(talk, draft, REPLIES)
        run.end(draft)
        return verdict, draft
    raise AssertionError("nothing in there is swallowed")  # only the type checker needs this


def _asked_for(conversation: Conversation) -> str:
    """Return the last prompt on one line, to be the goal of a plan that names none."""
    prompts = (message.content for message in reversed(conversation.messages) if isinstance(message, UserMessage))
    return one_line(split_files(next(prompts, ""))[0], LONGEST_GOAL)
