"""The spending of a plan before this run, and of earlier plans, by which a new plan's spending is estimated."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct, json

from ipc.errors import INVALID_JSON
from ipc.events import Event, PlanExpectation, UsageEvent
from planner.author.planner_agent import CALLER
from planner.plan.expectation import COMMAND, Measurement, expect
from planner.plan.model import Plan, Step
from planner.plan.status import StepStatus
from planner.state.schedule import outline_of
from planner.state.state import AttemptKey, RemovedStep, State, StepState
from planner.store.errors import BrokenPlanError
from planner.store.folder import JOURNAL_FILE, PlanFolder, plans_in
from subagents.step.local_executor import attempt_spending
from subagents.step_result import AgentUsage
from vibe.app.plan.preflight import StepParts, check_model
from vibe.core.config.paths import VibePaths
from vibe.core.messages import Spending, Spent, Usage, total_of
from vibe.core.session.folder import Transcript, TranscriptError
from vibe.system.errors import VibeError
from vibe.system.files import append_rotating, text_of

NOTHING = Spending()
MOST_PLANNING: Final = 4_000_000
"""The most bytes of each of the two files that record what planning took."""


def removed_steps(state: State, folder: PlanFolder) -> list[tuple[RemovedStep, Spending]]:
    """Return the steps that revisions removed from a plan, with their spending. Reads files if any were."""
    gone = state.removed_for_good()
    spent = spending_by_attempt(state, folder) if gone else {}
    return [(step, total_of(taken for (step_id, _), taken in spent.items() if step_id == step.id)) for step in gone]


def earlier_spending(state: State, folder: PlanFolder) -> Spending:
    """Return the spending of all attempts and revisions of earlier runs. Reads files."""
    revisions = (agent for _, agent in revision_agents(folder))
    return total_of([*spending_by_attempt(state, folder).values(), *revisions])


def revisions_folder(folder: PlanFolder) -> Path:
    """Return the folder of the conversations in which the plan was revised."""
    return folder.path / "planner"


def revision_agents(folder: PlanFolder) -> Iterator[tuple[str, AgentUsage]]:
    """Yield the failed steps, each with the agent that revised the plan and its usage. Reads files."""
    for path in sorted(revisions_folder(folder).glob("*.jsonl")):
        step_id, _, agent_id = path.stem.partition(".")
        with suppress(TranscriptError):  # a damaged one does no harm, since it is never resumed
            talk = Transcript.peek(path)
            yield step_id, AgentUsage(agent_id=agent_id, agent=CALLER, usage=talk.usage, cost_usd=talk.cost_usd)


class PlanningSpent(Struct, frozen=True):
    """The spending of one call (in older runs: of all) to write or change a plan, which ended ``at`` unix seconds."""

    at: float
    model: str
    project: str
    spent: Spending


class PlanningLog(Struct, frozen=True):
    """An event sink that records what each call of a planning run took, since the run may be killed.

    Failures of the disk are ignored.
    """

    home: Path
    model: str
    project: str

    def publish(self, event: Event) -> None:
        """Record the event if it reports usage."""
        if isinstance(event, UsageEvent):
            usage = Usage(event.prompt_tokens, event.completion_tokens, event.cached_tokens, calls=1)
            took = PlanningSpent(event.ts, self.model, self.project, Spending(usage, event.cost_usd))
            with suppress(OSError):
                append_rotating(VibePaths(self.home).planning_log, json.encode(took) + b"\n", MOST_PLANNING)


def earlier_planning(home: Path) -> Iterator[PlanningSpent]:
    """Yield what planning runs took, as far as it is recorded. Damaged lines are left out. Reads files."""
    log = VibePaths(home).planning_log
    for line in [line for path in (log.with_name(f"{log.name}.1"), log) for line in text_of(path).splitlines()]:
        with suppress(*INVALID_JSON):
            yield json.decode(line.encode("utf-8", "surrogateescape"), type=PlanningSpent)


def spending_by_attempt(state: State, folder: PlanFolder) -> dict[AttemptKey, Spent]:
    """Return the spending of each attempt so far, including those of removed steps. Reads files.

    The journal has an attempt's spending once the attempt has ended. Until then, or if it was cut off, it is in the
    attempt's conversation, where every answer carries its own.
    """
    spent = state.spent()
    every = (*(gone.step for gone in state.removed), *state.steps.values())
    agents = {step.id: step for step in every if step.outline.order is None or step.outline.order.command is None}
    for step_id, was in agents.items():
        for attempt in range(1, was.begun + 1):
            recorded = spent.get((step_id, attempt), NOTHING)
            is_open = attempt == was.begun and not was.status.is_final
            if is_open or not recorded.usage.calls:
                spending = attempt_spending(folder.step_folder(step_id), attempt)
                spent[step_id, attempt] = spending if spending.usage.calls > recorded.usage.calls else recorded
    return spent


MOST_PLANS: Final = 24
"""The most earlier plans of a home that are read, newest first."""
MOST_BYTES: Final = 2_000_000
"""The most bytes of their journals together."""


def expectation(
    place: tuple[Path, Path],
    parts: StepParts,
    default_model: str | None,
    plan: Plan,
    at_once: int,
    done: Collection[str] = (),
) -> PlanExpectation | None:
    """Return what a resolved plan will take, judged by earlier plans, without steps that are ``done``. Reads files.

    ``place`` is the home and the workspace. Returns None if too little is known.
    """
    steps = [step for step in plan.steps if step.id not in done]
    try:
        kinds = {step.id: _kind(step, parts, default_model) for step in steps}
    except VibeError:  # the model of a step is not available
        return None
    return expect([outline_of(step) for step in steps], kinds, _earlier_steps(*place), at_once)


def _kind(step: Step, parts: StepParts, default_model: str | None) -> tuple[str, str]:
    if step.command is not None:
        return (COMMAND, step.command)
    return (step.mode.value, check_model(step, parts, default_model, priced=False).name)


def _earlier_steps(home: Path, workspace: Path) -> Iterator[Measurement]:
    """Yield the completed steps of earlier plans of a home that recorded what they took. Reads files."""
    left = MOST_BYTES
    for folder in plans_in(home, None, MOST_PLANS):
        with suppress(BrokenPlanError, OSError):
            left -= (folder.path / JOURNAL_FILE).stat().st_size
            if left < 0:
                return
            here = folder.settings().workspace == str(workspace)
            yield from filter(None, (_measured(step, here=here) for step in folder.state().steps.values()))


def _measured(step: StepState, *, here: bool) -> Measurement | None:
    result, order = step.result, step.outline.order
    if step.status is not StepStatus.COMPLETED or not step.attempts or result is None or order is None:
        return None
    if not (order.command or result.model):
        return None  # recorded by an earlier version
    spent = total_of(attempt.result for attempt in step.attempts)
    return Measurement(
        kind=(COMMAND, order.command) if order.command is not None else (step.outline.mode, result.model),
        seconds=max(0.0, sum(attempt.seconds - attempt.result.waited_s for attempt in step.attempts)),
        tokens=spent.usage.total_tokens,
        cost_usd=spent.cost_usd,
        here=here,
    )
