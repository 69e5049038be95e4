"""Spending of a plan before this run: from its journal, and from conversations whose process was killed."""

from __future__ import annotations

from pathlib import Path

from planner.author.planner_agent import CALLER
from planner.plan.model import Plan
from planner.state.state import AttemptKey, RemovedStep, State
from planner.store.folder import PlanFolder
from subagents.step.usage_recovery import attempt_spending
from subagents.step_result import AgentUsage
from vibe.core.messages import Spending, Spent, total_of
from vibe.core.session.transcript import Transcript, TranscriptError

NOTHING = Spending()


def removed_from(plan: Plan, state: State, folder: PlanFolder) -> list[tuple[RemovedStep, Spending]]:
    """The steps that ``plan`` had before revisions took them out, and what they took; reads files if there were any."""
    gone = state.gone()
    spent = spending_by_attempt(plan, state, folder) if gone else {}
    return [(step, total_of(taken for (step_id, _), taken in spent.items() if step_id == step.id)) for step in gone]


def earlier_spending(plan: Plan, state: State, folder: PlanFolder) -> Spending:
    """The sum over all attempts and revisions of earlier runs; reads files."""
    mended = (agent for _, agent in revision_agents(folder))
    return total_of([*spending_by_attempt(plan, state, folder).values(), *mended])


def revisions_folder(folder: PlanFolder) -> Path:
    """Return where the conversations are in which a plan was mended."""
    return folder.path / "planner"


def revision_agents(folder: PlanFolder) -> list[tuple[str, AgentUsage]]:
    """Return who mended the plan, each with the step that had failed and what it took; reads files."""
    found: list[tuple[str, AgentUsage]] = []
    for path in sorted(revisions_folder(folder).glob("*.jsonl")):
        step_id, _, agent_id = path.stem.partition(".")
        try:
            said = Transcript.peek(path)
        except TranscriptError:
            continue  # nobody goes on with it
        found.append((
            step_id,
            AgentUsage(agent_id=agent_id, agent=CALLER, usage=said.usage, cost_usd=said.cost_usd),
        ))
    return found


def spending_by_attempt(plan: Plan, state: State, folder: PlanFolder) -> dict[AttemptKey, Spent]:
    """Return what each attempt took so far; reads files.

    The journal has an attempt's spending once the attempt has ended. One that was cut off, or that goes on, has it in
    its conversation, where every answer carries its own. Steps that a revision removed have spent what they have.
    """
    spent = state.spent()
    removed = {gone.id: gone.step for gone in state.removed}
    present = {step.id: state.steps[step.id] for step in plan.steps if not step.command and step.id in state.steps}
    for step_id, was in {**removed, **present}.items():
        for attempt in range(1, was.begun + 1):
            recorded = spent.get((step_id, attempt), NOTHING)
            is_open = attempt == was.begun and not was.status.is_final
            if is_open or not recorded.usage.calls:
                said = attempt_spending(folder.step_folder(step_id), attempt)
                spent[step_id, attempt] = said if said.usage.calls > recorded.usage.calls else recorded
    return spent
