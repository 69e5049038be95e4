"""Suggests the next command: to decide what a plan waits for, to answer a request, or to retry failed steps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ipc.events import ApprovalRequestEvent, Event, PlanDecisionEvent, QuestionEvent
from planner.plan.for_each import pattern_named
from planner.plan.model import Decision
from vibe.core.messages import Outcome
from vibe.front.event_text import one_line, step_of

PERMIT = "--approve edits (or --auto-approve)"
"""Flags that allow steps to do what no person was there to approve."""
QUESTION_LENGTH = 400
ID_LENGTH = 8


def try_again(plan_id: str, failed: Sequence[str], outcome: Outcome | None, *, in_chat: bool = False) -> list[str]:
    """Return the commands that retry the failed steps of a run with this outcome; empty if none failed.

    ``in_chat`` returns slash commands; in a conversation, retrying a step also resumes its plan.
    """
    edit = f"vibe plan edit {plan_id}"
    more = f"raise the plan's budget with: {edit} --max-tokens N (or --max-price, --max-seconds)"
    if not failed:
        return [more] if outcome is Outcome.LIMIT else []
    chosen = [step_id for step_id in failed if pattern_named(step_id) not in failed]  # a list tries its items again
    step = chosen[0] if len(chosen) == 1 else "STEP"
    allowed = f" {PERMIT}" if outcome is Outcome.BLOCKED else ""
    again = f"try again with: vibe plan retry {plan_id} {step}, then vibe plan resume {plan_id}{allowed}"
    if in_chat:
        allowing = ", after /approvals edits (or all)" if outcome is Outcome.BLOCKED else ""
        edit, more = "/plan edit", "raise the plan's budget with: /plan edit"
        again = f"try again with: /retry {step}{allowing}, or go on without it: /skip {step}"
    if outcome is not Outcome.LIMIT:
        return [again]
    return [f"{again} (the retry gets twice the default limits; raise those of a step's own with: {edit})", more]


def decide_command(plan_id: str, decision: Decision, *, in_chat: bool = False) -> str:
    """Return the command that takes a decision, with a placeholder for the option."""
    if in_chat:
        return f"/plan decide {decision.id} {'OPTION,...' if decision.multi_select else 'OPTION'}"
    return f"vibe plan decide {plan_id} {decision.id} {'OPTION...' if decision.multi_select else 'OPTION'}"


def decision_lines(plan_id: str, decisions: Sequence[Decision], *, in_chat: bool = False) -> list[str]:
    """Return each decision for people: the question, the options, and the command that takes it."""
    lines: list[str] = []
    for decision in decisions:
        width = max(len(option.id) for option in decision.options)
        lines.append(f"decision {decision.id}: {one_line(decision.question, QUESTION_LENGTH)}")
        for option in decision.options:
            described = f": {option.description}" if option.description else ""
            lines.append(f"  {option.id:<{width}}  {one_line(option.label + described, QUESTION_LENGTH)}")
        lines.append(f"  decide with: {decide_command(plan_id, decision, in_chat=in_chat)}")
    return lines


def decision_documents(plan_id: str, decisions: Sequence[Decision]) -> list[dict[str, Any]]:
    """Return each decision as data, with the command that takes it."""
    return [
        {**decision.model_dump(mode="json"), "command": decide_command(plan_id, decision)} for decision in decisions
    ]


def hint(event: Event) -> str:
    """Return how to answer a newly opened decision or request from another terminal, or ``""`` for any other event."""
    match event:
        case PlanDecisionEvent(selections=(), by=""):
            return f"  decide with: vibe plan decide {event.plan_id} {one_line(event.decision_id)} OPTION\n"
        case ApprovalRequestEvent():
            call = one_line(f"{event.tool} {json.dumps(event.arguments, ensure_ascii=False)}", QUESTION_LENGTH)
            answer = f"vibe plan approve {event.plan_id} {event.request_id[:ID_LENGTH]}"
            return f"{step_of(event)}asks: {call}\n  answer with: {answer} [--deny]\n"
        case QuestionEvent():
            asked = one_line(" / ".join(str(each.get("question")) for each in event.questions), QUESTION_LENGTH)
            answer = f"vibe events answer {event.plan_id or event.source} {event.request_id[:ID_LENGTH]}"
            return f"{step_of(event)}asks you: {asked}\n  answer with: {answer} ANSWER\n"
        case _:
            return ""
