"""Suggests the next command: to decide what a plan waits for, to answer a request, or to retry failed steps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ipc.events import ApprovalRequestEvent, Event, PlanDecisionEvent, QuestionEvent
from planner.plan.model import Decision
from planner.plan.status import StepStatus
from planner.plan.step_limits import MOST
from planner.state.outcome import causes_of
from planner.state.state import BUDGET_REASON, OWN_LIMITS, StepState
from vibe.core.messages import Outcome
from vibe.front.event_text import step_of
from vibe.system.plain_text import one_line, some_of

PERMIT = "--approve edits (or --auto-approve)"
"""Flags that allow steps to do what no person was there to approve."""
SHOWN_STEPS = 5
QUESTION_LENGTH = 400
ID_LENGTH = 8
_LIMITS = {"budget": "max_tokens", "turns": "max_turns", "timeout": "timeout_seconds"}
"""The limits by the reasons of the steps that meet them."""


def try_again(plan_id: str, steps: Sequence[StepState], outcome: Outcome | None, *, in_chat: bool = False) -> list[str]:
    """Return the commands that help a failed run with this outcome: to raise the limits it met, and to retry steps.

    ``steps`` are all of the plan's. ``in_chat`` returns slash commands; in a conversation, retrying a step also resumes
    its plan.
    """
    causes = causes_of(steps)
    is_cut_off = any(step.status is StepStatus.PENDING and step.reason == BUDGET_REASON for step in steps)
    is_out_of_time = is_cut_off or (outcome is Outcome.LIMIT and not causes)  # a look at the plan finds no reason
    raised, again, doubled = {"--max-seconds S": [""]} if is_out_of_time else dict[str, list[str]](), list[str](), ""
    for step in causes:
        if limit := _limit_met_again(step):
            raised.setdefault(limit, []).append(step.id)
        else:
            again.append(step.pattern or step.id)
            doubled = " (the retry gets twice the default limits)" if step.reason in OWN_LIMITS else doubled
    edit, resume = (f"/plan {word}" if in_chat else f"vibe plan {word} {plan_id}" for word in ("edit", "resume"))
    lines = [
        f"raise the plan's budget with: {edit}{'' if in_chat else f' {limit}'}, then {resume}"
        if limit.startswith("--")
        else f"raise {limit} of {some_of(step_ids, SHOWN_STEPS)} with: {edit}, then {resume}"
        for limit, step_ids in raised.items()
    ]
    return [*lines, _retry(plan_id, again, outcome, in_chat=in_chat) + doubled] if again else lines


def _limit_met_again(step: StepState) -> str:
    """Return the limit that ended a step and would end a retry too: a field of it, or the flag of the plan's budget."""
    field = _LIMITS.get(step.reason or "", "")
    if field == "max_tokens" and "max_price" in step.detail:
        field = "max_price"
    if field and step.any_model:
        return "--max-price USD" if field == "max_price" else "--max-tokens N"
    is_own = field and getattr(step.outline.order, field, None) is not None
    return field if is_own or 2**step.exhausted > MOST else ""


def _retry(plan_id: str, failed: Sequence[str], outcome: Outcome | None, *, in_chat: bool) -> str:
    step, is_blocked = failed[0] if len(set(failed)) == 1 else "STEP", outcome is Outcome.BLOCKED
    if in_chat:
        allowing = ", after /approvals edits (or all)" if is_blocked else ""
        return f"try again with: /retry {step}{allowing}, or go on without it: /skip {step}"
    allowed = f" {PERMIT}" if is_blocked else ""
    return f"try again with: vibe plan retry {plan_id} {step}, then vibe plan resume {plan_id}{allowed}"


def decide_command(plan_id: str, decision: Decision, *, in_chat: bool = False) -> str:
    """Return the command that takes a decision, with a placeholder for the option."""
    if in_chat:
        return f"/plan decide {decision.id} {'OPTION,...' if decision.multi_select else 'OPTION'}"
    return f"vibe plan decide {plan_id} {decision.id} {'OPTION...' if decision.multi_select else 'OPTION'}"


def decision_lines(plan_id: str, decisions: Sequence[Decision], *, in_chat: bool = False) -> Iterator[str]:
    """Yield each decision for people: the question, the options, and the command that takes it."""
    for decision in decisions:
        width = max(len(option.id) for option in decision.options)
        yield f"decision {decision.id}: {one_line(decision.question, QUESTION_LENGTH)}"
        for option in decision.options:
            described = f": {option.description}" if option.description else ""
            yield f"  {option.id:<{width}}  {one_line(option.label + described, QUESTION_LENGTH)}"
        yield f"  decide with: {decide_command(plan_id, decision, in_chat=in_chat)}"


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
