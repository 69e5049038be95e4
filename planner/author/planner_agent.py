"""PlannerAgent reads a repository and writes a plan for a goal, or operations that change a plan."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from importlib import resources
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from anyio import to_thread
from msgspec import Struct, field, structs

from ipc.events import PlannedCommand, PromptEndedEvent, PromptStartedEvent, WarningEvent
from ipc.sink import TaggingSink
from planner.author.output_repair import RepairedPlan, json_in
from planner.author.revision_policy import policy_problems, with_inheritance
from planner.author.structured_output import Offer, PlanOffer, RevisionOffer, small_plan_schema
from planner.plan.loader import LoadedPlan
from planner.plan.model import Plan, Step, StepStatus
from planner.plan.operations import Operation, RevisionInvalidError, operation_text
from planner.plan.revision import Proposal, ProviderRefused, RevisionRequest, revise
from planner.plan_state import PlanState, PlanStep
from planner.state.changes import fixed_steps
from planner.state.state import State
from subagents.agent.run_context import AgentContext
from subagents.agent.subagent import ReaderLimits, ReadOnlyAgent
from subagents.executor import KeptBy, KeptWork
from vibe.core.agent_loop import ActResult
from vibe.core.messages import Outcome
from vibe.core.modes import MODE_CATALOG
from vibe.system.errors import UsageError, VibeError
from vibe.system.plain_text import beginning

MAX_CONTEXT = 8_000
MAX_STEP = 6_000
MAX_RESULT = 8_000
MAX_OTHERS = 20_000
MAX_PLAN = 60_000
"""The most characters, in a prompt, of a whole plan; like the limits above, with a note if text was cut."""

ATTENDED = (
    "If the goal can be read in ways that lead to different plans, and the repository does not settle it, ask the "
    "user: once, everything in one call of ask_user_question, before you plan. Do not ask what you can find out."
)
HEADLESS = (
    "No user can be asked. If the goal can be read in several ways, take the most likely one and say so in `context`, "
    'in a line that begins with "Assumption:".'
)
IN_PLACE = "Touch only the failing step, steps you add for it, and the edges of what waits for it."
WHOLE_PLAN = "The step was revised before and failed again: you may change other open steps as well, if that is needed."
REDRAFT = (
    "Hand in the whole plan with that changed, and what follows from it; the rest stays as it is, ids included. A step "
    "keeps by its id what is not yours to write, such as its model."
)
KEPT = """\
It worked in a copy of the project of its own. Nothing of that is in the project: it was not merged, and the next \
attempt does not find it. It is on the branch {branch}, and you can read it, and nothing else of it, in \
{folder!r}. It changed
{changed}"""
NO_NEW_COMMANDS = "Use no `command` or `verify` line that the plan does not have: no user is there to accept it."


def planner_prompt(name: str) -> str:
    """Return the system prompt for one kind of planning; reads a file of the program."""
    return resources.files("planner.author.prompts").joinpath(f"{name}.md").read_text(encoding="utf-8")


def goal_prompt(goal: str, *, attended: bool) -> str:
    """Return the message that asks for a plan for a goal."""
    modes = "\n".join(
        f"- `{mode.value}` ({known.title}): {known.planner_guidance}" for mode, known in MODE_CATALOG.items()
    )
    doubt = ATTENDED if attended else HEADLESS
    return f"# Goal\n{goal}\n\n# Modes of steps\n{modes}\n\n# If the goal is ambiguous\n{doubt}"


def redraft_prompt(plan: Plan, document: str, sentence: str, *, attended: bool) -> str:
    """Return the message that asks for the next version of a proposed plan; ``document`` is the proposal as JSON."""
    return "\n\n".join((
        goal_prompt(plan.goal, attended=attended),
        f"# The plan as it is proposed\n{document}",
        f"# What the user wants changed about it\n{sentence}",
        REDRAFT,
    ))


def change_prompt(plan: Plan, statuses: Mapping[str, str], open_steps: Collection[str], sentence: str) -> str:
    """Return the message that asks for the user's change to a plan that has begun."""
    fixed = _lines(statuses, [step for step in plan.steps if step.id not in open_steps])
    can_change = [
        f"({statuses.get(step.id, 'pending')}) {_step_text(step)}" for step in plan.steps if step.id in open_steps
    ]
    return "\n\n".join((
        f"# What the user wants changed\n{sentence}",
        *_whole(plan),
        *_section("Steps that run or have ended: they stay as they are", beginning(fixed, MAX_OTHERS)),
        *_section("Steps you may change", beginning("\n".join(can_change) or "none", MAX_PLAN)),
    ))


def revision_prompt(request: RevisionRequest, *, in_place: bool, new_commands: bool) -> str:
    """Return the message that asks for a revision after a step failed."""
    plan = request.plan
    failed = next(step for step in plan.steps if step.id == request.failed_step_id)
    near = _neighbours(plan, failed)
    far = [step for step in plan.steps if step.id != failed.id and step not in near]
    rules = [IN_PLACE if in_place else WHOLE_PLAN, *(() if new_commands else (NO_NEW_COMMANDS,))]
    return "\n\n".join((
        *_whole(plan),
        *_section("The step that failed", _step_text(failed)),
        *_section("What came of it", "\n".join(_result_lines(request))),
        *_section("Where its work is", _kept_text(request.kept) if request.kept is not None else ""),
        *_section("Steps right before and after it", _lines(request.statuses, near)),
        *_section("The other steps", beginning(_lines(request.statuses, far), MAX_OTHERS)),
        *_section("What you may change", "\n".join(rules)),
        *_section("What was wrong with an earlier revision", "\n".join(request.problems)),
    ))


def _whole(plan: Plan) -> list[str]:
    return [f"# Goal of the whole plan\n{plan.goal}", *_section("Context", beginning(plan.context, MAX_CONTEXT))]


def _section(title: str, text: str) -> list[str]:
    """Return the section of a prompt as a list, which is empty if the text is blank."""
    return [f"# {title}\n{text}"] if text else []


def _neighbours(plan: Plan, failed: Step) -> list[Step]:
    before = {edge.step for edge in failed.dependencies}
    return [step for step in plan.steps if step.id in before or any(e.step == failed.id for e in step.dependencies)]


def _step_text(step: Step) -> str:
    document = step.model_dump(mode="json", exclude_unset=True)
    return beginning(json.dumps(document, indent=1, ensure_ascii=False), MAX_STEP)


def _lines(statuses: Mapping[str, str], steps: Iterable[Step]) -> str:
    return "\n".join(_line(statuses, step) for step in steps)


def _line(statuses: Mapping[str, str], step: Step) -> str:
    after = ", ".join(f"{e.step} {e.on}" if e.on != "completed" else e.step for e in step.dependencies)
    status = statuses.get(step.id, "pending")
    return f"- {step.id} ({step.mode.value}, {status}): {step.title}" + (f" [after {after}]" if after else "")


def _result_lines(request: RevisionRequest) -> Iterator[str]:
    result = request.result
    yield f"Outcome: {result.outcome.value}" + (f" ({result.reason})" if result.reason else "")
    if result.detail:
        yield beginning(result.detail, MAX_RESULT)
    if result.summary:
        yield f"Its last words or output:\n{beginning(result.summary, MAX_RESULT)}"
    if result.files_changed:
        yield "Files it changed: " + beginning(", ".join(result.files_changed), 1_000)


def _kept_text(kept: KeptWork) -> str:
    changed = "\n".join(f"- {path!r}" for path in kept.changed)
    return beginning(KEPT.format(branch=kept.branch, folder=str(kept.folder), changed=changed), MAX_RESULT)


SHOWN_CHARACTERS = 300
"""The most characters shown of what a planner said instead of planning."""


async def planned(
    reader: ReadOnlyAgent, orders: Literal["plan", "revise", "change"], prompt: str, offer: Offer
) -> ActResult:
    """Run a reader that ends with an offer, under the system prompt of that name. The result holds any failure."""
    text = await to_thread.run_sync(planner_prompt, orders)
    acted = await reader.read(text, prompt, offer, offer)
    if not offer.accepted and not offer.given_up and (value := json_in(acted.text)) is not None:
        await to_thread.run_sync(offer.offer, value)
    if offer.accepted:  # denied reads on the way are listed, and don't spoil the work
        return structs.replace(acted, outcome=Outcome.COMPLETED, reason=None, detail="")
    if offer.given_up or (offer.last_problem and acted.reason in {"loop", "output"}):
        tries = f"{offer.refusals} {'try' if offer.refusals == 1 else 'tries'}"
        detail = f"{offer.last_problem} (after {tries})"
        return structs.replace(acted, outcome=Outcome.FAILED, reason="output", detail=detail)
    if acted.reason == "output" and acted.text.strip():  # most likely a refusal, which the user should read
        return structs.replace(acted, detail=f"{acted.detail}; it said: {acted.text.strip()[:SHOWN_CHARACTERS]}")
    return acted


CALLER = "planner"
"""The planner's name in replays and logs."""

PlanningLimits = ReaderLimits


class Draft(Struct, frozen=True, kw_only=True):
    """The result of planning; ``plan`` is None if planning failed, and ``acted`` says why."""

    acted: ActResult
    plan: RepairedPlan | None = None


class ProposedChange(Struct, frozen=True, kw_only=True):
    """A proposed revision of a plan that has begun. It changes nothing until the user accepts it.

    ``operations`` are for ``vibe.app.plan.commands.revise`` or a run's ``PlanControl``. There are none if nothing is to
    change; ``reason``, the planner's, may then say why. ``revised`` is the plan after them, and ``commands`` are lines
    that no step ran before. ``acted`` says what went wrong, and what the planning took.
    """

    acted: ActResult
    operations: tuple[Operation, ...] = ()
    reason: str = ""
    revised: LoadedPlan | None = None
    commands: tuple[PlannedCommand, ...] = ()

    @property
    def diff(self) -> tuple[str, ...]:
        """The changes, one line for each operation."""
        return tuple(operation_text(operation) for operation in self.operations)


class PlannerAgent(Struct, eq=False):
    """Turns goals into plans and revises plans. It has only tools that read, whatever the configuration says.

    ``context`` is that of the run's agents: its account pays, its sink gets the events, and its user, if any, is asked
    at most once for each plan. With ``new_commands`` a revision may add command lines that the user has not read.
    ``folder`` gets the conversations of revisions as ``STEP.AGENT_ID.jsonl``; with None they are not saved.
    ``kept_by`` opens the work of a failed step that lies outside the workspace.
    """

    context: AgentContext
    limits: PlanningLimits = PlanningLimits()
    new_commands: bool = False
    folder: Path | None = None
    kept_by: KeptBy = lambda _: nullcontext()
    _revised: Counter[str] = field(default_factory=Counter[str])
    _state: PlanState | None = None
    _reader: ReadOnlyAgent | None = None

    async def plan(self, goal: str, *, piped: str = "") -> Draft:
        """Write a plan for the goal, to which ``piped`` input is appended. The draft holds any failure of the work.

        Raises:
            UsageError: the model is not available.
        """
        reader = ReadOnlyAgent(CALLER, self.context, self.limits)
        offer = PlanOffer(goal, {"model": reader.model.key}, schema=_schema_for(reader))
        return await self._draft(reader, goal_prompt(goal + piped, attended=self._is_attended), offer)

    async def redraft(self, proposal: Plan, sentence: str) -> Draft:
        """Write the next version of a proposed plan, changed as the user says. The draft holds any failure of the work.

        Raises:
            UsageError: no change is named, the plan is too long for a prompt, or the model is not available.
        """
        sentence = _checked_sentence(sentence)
        document = proposal.escaped().model_dump(mode="json", exclude_unset=True)
        text = json.dumps(document, indent=1, ensure_ascii=False)
        if len(text) > MAX_PLAN:
            problem = f"the plan has {len(text):,} characters; the planner reads at most {MAX_PLAN:,}: edit it by hand"
            raise UsageError(problem)
        reader = ReadOnlyAgent(CALLER, self.context, self.limits)
        metadata = {**proposal.metadata, "model": reader.model.key}
        offer = PlanOffer(proposal.goal, metadata, document, _schema_for(reader))
        prompt = redraft_prompt(proposal, text, sentence, attended=self._is_attended)
        return await self._draft(reader, prompt, offer)

    def steer(self, text: str) -> bool:
        """Send the model a message while it writes a plan; return False if it can't receive one now."""
        return self._reader is not None and self._reader.steer(text)

    @property
    def _is_attended(self) -> bool:
        return self.context.user_input is not None

    async def _draft(self, reader: ReadOnlyAgent, prompt: str, offer: PlanOffer) -> Draft:
        """Have a plan written, announced as a prompt of its own, with a warning for each repair."""
        context, prompt_id = self.context, uuid4().hex
        sink, clock = context.sink, context.run.clock
        sink.publish(PromptStartedEvent(prompt_id=prompt_id))
        self._reader, began = reader, clock()
        acted = ActResult(outcome=Outcome.INTERRUPTED, reason="stopped")
        try:
            acted = await planned(reader, "plan", prompt, offer)
        finally:
            event = PromptEndedEvent(
                prompt_id=prompt_id,
                outcome=acted.outcome.value,
                reason=acted.reason,
                detail=acted.detail,
                usage=reader.conversation.usage.for_events(),
                cost_usd=reader.conversation.cost_usd,
                turns=reader.conversation.turns,
                duration_s=clock() - began,
            )
            sink.publish(event)
        plan = offer.plan if offer.accepted else None
        for repair in plan.repairs if plan else ():
            sink.publish(WarningEvent(code="plan.repaired", message=repair))
        return Draft(acted=acted, plan=plan)

    async def change(self, plan: Plan, state: State, sentence: str) -> ProposedChange:
        """Find the operations for a change that the user wants in a plan that has begun; changes nothing itself.

        Raises:
            UsageError: no change is named, or the model is not available.
        """
        sentence, fixed = _checked_sentence(sentence), fixed_steps(state)
        statuses = {step_id: step.status.value for step_id, step in state.steps.items()}
        revised: list[LoadedPlan] = []

        def check(operations: Sequence[Operation]) -> tuple[Operation, ...]:
            if operations:
                revised[:] = [revise(plan, operations, fixed=fixed)]
            return tuple(operations)

        offer = RevisionOffer(check)
        reader = ReadOnlyAgent(CALLER, self.context, self.limits)
        prompt = change_prompt(plan, statuses, [step.id for step in plan.steps if step.id not in fixed], sentence)
        acted = await planned(reader, "change", prompt, offer)
        if not offer.accepted or not offer.operations:
            return ProposedChange(acted=acted, reason=offer.reason)
        return ProposedChange(acted=acted, operations=offer.operations, reason=offer.reason, revised=revised[0])

    async def start_plan(self, goal: str) -> PlanState:
        """Write a plan for the goal and start it; the caller fetches its steps, does them and reports.

        Raises:
            VibeError: planning brought no plan.
        """
        draft = await self.plan(goal)
        if draft.plan is None:
            raise VibeError(f"no plan: {draft.acted.detail or draft.acted.reason or 'the planner gave no reason'}")
        self._state = PlanState(draft.plan.loaded.plan)
        return self._state

    @property
    def state(self) -> PlanState:
        """The plan that ``start_plan`` began.

        Raises:
            UsageError: no plan was started.
        """
        if self._state is None:
            raise UsageError("no plan was started: await start_plan(goal) first")
        return self._state

    def get_runnable_steps(self) -> list[PlanStep]:
        """See ``PlanState.get_runnable_steps``."""
        return self.state.get_runnable_steps()

    def update_step_status(self, step_id: str, status: StepStatus | str) -> None:
        """See ``PlanState.update_step_status``."""
        self.state.update_step_status(step_id, status)

    def decide(self, decision_id: str, selections: Sequence[str]) -> None:
        """See ``PlanState.decide``."""
        self.state.decide(decision_id, selections)

    async def revise(self, request: RevisionRequest) -> Proposal | None:
        """Return the operations that revise a plan after a step failed; see ``Reviser``.

        It changes only the failed step and those that wait for it, and others too once a revised step has failed again.
        A step that acts outside the workspace is never repeated automatically, so there is no better plan for it.
        """
        failed = next(step for step in request.plan.steps if step.id == request.failed_step_id)
        if failed.side_effects:
            return None
        if request.problems:
            self._revised[failed.id] -= 1  # the last answer could not be applied, so it does not count
        in_place = self._revised[failed.id] <= 0
        async with self.kept_by(failed.id) as kept:
            return await self._revise(structs.replace(request, kept=kept), failed, in_place=in_place)

    async def _revise(self, request: RevisionRequest, failed: Step, *, in_place: bool) -> Proposal | None:
        """Ask a reader, announced as an agent of the failed step, for a revision."""
        offer = RevisionOffer(lambda operations: self._checked(request, operations, in_place=in_place))
        agent_id = uuid4().hex
        sink = TaggingSink(self.context.sink, subagent_id=agent_id, subagent_step_id=failed.id)
        workspace = self.context.workspace
        if request.kept is not None:
            workspace = workspace.granting([request.kept.folder], write=False)
        context = structs.replace(self.context, sink=sink, user_input=None, workspace=workspace)
        reader = ReadOnlyAgent(CALLER, context, self.limits)
        if self.folder is not None:
            await to_thread.run_sync(reader.keep, self.folder, f"{failed.id}.{agent_id}.jsonl")
        reader.begin(f"Revise the plan after {failed.title}", offer.name)
        prompt = revision_prompt(request, in_place=in_place, new_commands=self.new_commands)
        acted = await planned(reader, "revise", prompt, offer)
        reader.finish(acted)
        if acted.error is not None and acted.error.halts:
            raise ProviderRefused(acted.detail, acted.outcome)
        if offer.accepted and offer.operations:
            self._revised[failed.id] += 1
            return Proposal(operations=offer.operations, reason=offer.reason)
        why = offer.reason or acted.detail or acted.reason or "the planner gave no reason"
        sink.publish(WarningEvent(code="plan.not_revised", message=f"no better plan found: {why}"))
        return Proposal(operations=(), reason=why)

    def _checked(
        self, request: RevisionRequest, operations: Sequence[Operation], *, in_place: bool
    ) -> tuple[Operation, ...]:
        """Return the operations as they will be carried out.

        Raises:
            RevisionInvalidError: they don't fit the plan, or are not for a model to decide.
        """
        failed = next(step for step in request.plan.steps if step.id == request.failed_step_id)
        bound = with_inheritance(operations, failed)
        if not bound:
            return ()
        revised, lines = request.check(bound).plan, self.new_commands
        problems = policy_problems(request.plan, revised, bound, failed.id, in_place=in_place, new_commands=lines)
        if problems:
            raise RevisionInvalidError(problems)
        return bound


def _schema_for(reader: ReadOnlyAgent) -> dict[str, Any] | None:
    """Return the small plan schema for models that write a plan at once, else None for the usual one."""
    return small_plan_schema() if reader.model.plans_at_once else None


def _checked_sentence(sentence: str) -> str:
    """Return the sentence without blanks around it.

    Raises:
        UsageError: it is blank.
    """
    if not sentence.strip():
        raise UsageError("no change requested: say in a sentence what to change")
    return sentence.strip()
