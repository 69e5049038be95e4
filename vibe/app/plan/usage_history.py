"""Spending of a plan before this run: from its journal, and from conversations whose process was killed."""

from __future__ import annotations

from pathlib import Path

from planner.author.planner_agent import CALLER
from planner.plan.model import Plan
from planner.state.state import AttemptKey, RemovedStep, State
from planner.store.folder import PlanFolder
from subagents.step.local_executor import attempt_spending
from subagents.step_result import AgentUsage
from vibe.core.messages import Spending, Spent, total_of
from vibe.core.session.transcript import Transcript, TranscriptError

NOTHING = Spending()


def removed_from(plan: Plan, state: State, folder: PlanFolder) -> list[tuple[RemovedStep, Spending]]:
    """Return the steps that revisions removed from ``plan``, with their spending; reads files if there are any."""
    gone = state.gone()
    spent = spending_by_attempt(plan, state, folder) if gone else {}
    return [(step, total_of(taken for (step_id, _), taken in spent.items() if step_id == step.id)) for step in gone]


def earlier_spending(plan: Plan, state: State, folder: PlanFolder) -> Spending:
    """Return the spending of all attempts and revisions of earlier runs; reads files."""
    revisions = (agent for _, agent in revision_agents(folder))
    return total_of([*spending_by_attempt(plan, state, folder).values(), *revisions])


def revisions_folder(folder: PlanFolder) -> Path:
    """Return the folder of the conversations in which the plan was revised."""
    return folder.path / "planner"


def revision_agents(folder: PlanFolder) -> list[tuple[str, AgentUsage]]:
    """Return failed steps, each with the agent that revised the plan and its usage; reads files."""
    found: list[tuple[str, AgentUsage]] = []
    for path in sorted(revisions_folder(folder).glob("*.jsonl")):
        step_id, _, agent_id = path.stem.partition(".")
        try:
            said = Transcript.peek(path)
        except TranscriptError:
            continue  # it is never resumed
        found.append((
            step_id,
            AgentUsage(agent_id=agent_id, agent=CALLER, usage=said.usage, cost_usd=said.cost_usd),
        ))
    return found


def spending_by_attempt(plan: Plan, state: State, folder: PlanFolder) -> dict[AttemptKey, Spent]:
    """Return the spending of each attempt so far, those of removed steps included; reads files.

    The journal has an attempt's spending once the attempt has ended. Until then, or if it was cut off, it is in the
    attempt's conversation, where every answer carries its own.
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
