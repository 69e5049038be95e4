"""What a plan had spent before this run: from its journal, and from conversations whose process was killed."""

from __future__ import annotations

from pathlib import Path

from planner.model import Plan
from planner.plan_folder import PlanFolder
from planner.replay import AttemptKey, RestoredPlan, Spending, total_of
from subagents.local import subagents_name, transcript_name
from subagents.spawner import earlier_subagents
from subagents.subagent import total_usage
from vibe.core.messages import Usage
from vibe.core.session.transcript import Transcript, TranscriptError

NOTHING = Spending(Usage(), 0.0)


def earlier_spending(plan: Plan, restored: RestoredPlan, folder: PlanFolder) -> Spending:
    """The sum over all attempts of earlier runs; reads files.

    The journal has an attempt's spending once the attempt has ended. One that was cut off, or that goes on, has it in
    its conversation, where every answer carries its own.
    """
    spent: dict[AttemptKey, Spending] = dict(restored.spent)
    for step in plan.steps:
        was = restored.steps.get(step.id)
        if was is None or step.command is not None:
            continue
        for attempt in range(1, was.attempt + 1):
            recorded = spent.get((step.id, attempt), NOTHING)
            is_open = attempt == was.attempt and not was.status.is_final
            if is_open or not recorded.usage.calls:
                said = _said(folder.step_folder(step.id), attempt)
                spent[step.id, attempt] = said if said.usage.calls > recorded.usage.calls else recorded
    return total_of(spent.values())


def _said(step_folder: Path, attempt: int) -> Spending:
    """What an attempt's conversation took, and those of the subagents it started."""
    try:
        conversation = Transcript.peek(step_folder / transcript_name(attempt))
    except TranscriptError:
        return NOTHING  # the step that needs the conversation reports it
    usage, cost_usd = total_usage(earlier_subagents(step_folder / subagents_name(attempt), ""))
    unknown = conversation.cost_usd is None or cost_usd is None
    return Spending(conversation.usage + usage, None if unknown else (conversation.cost_usd or 0.0) + (cost_usd or 0.0))
