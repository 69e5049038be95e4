"""The command that continues a stopped plan: a shell command in the shell, a slash command in a conversation."""

from __future__ import annotations

from typing import Any

import pytest

from ipc.events import ApprovalRequestEvent, StepOutline, WorkOrder
from planner.plan.model import Decision
from planner.plan.status import StepStatus
from planner.state.state import StepState
from vibe.core.messages import Outcome
from vibe.front.next_command import decision_lines, hint, try_again


def decision(*, several: bool) -> Decision:
    options = [{"id": "sqlite", "label": "SQLite"}, {"id": "files", "label": "Files", "description": "one a list"}]
    return Decision.model_validate({"id": "db", "question": "Which?", "options": options, "multi_select": several})


@pytest.mark.parametrize(
    ("in_chat", "several", "command"),
    [
        (False, False, "vibe plan decide p db OPTION"),
        (False, True, "vibe plan decide p db OPTION..."),
        (True, False, "/plan decide db OPTION"),
        (True, True, "/plan decide db OPTION,..."),
    ],
)
def test_an_open_decision_says_what_to_type_where_it_is_read(*, in_chat: bool, several: bool, command: str) -> None:
    assert [*decision_lines("p", [decision(several=several)], in_chat=in_chat)] == [
        "decision db: Which?",
        "  sqlite  SQLite",
        "  files   Files: one a list",
        f"  decide with: {command}",
    ]


RETRY = "try again with: vibe plan retry p {}, then vibe plan resume p"
DOUBLED = " (the retry gets twice the default limits)"
RAISE = "raise {} with: vibe plan edit p{}, then vibe plan resume p"


def failed_by(reason: str, detail: str = "", step_id: str = "a", pattern: str = "", **limits: Any) -> StepState:
    outline = StepOutline(id=step_id, title="t", mode="code", order=WorkOrder(pattern=pattern, **limits))
    return StepState(
        outline=outline, status=StepStatus.FAILED, reason=reason, detail=detail, tolerated=bool(pattern), exhausted=1
    )


def by_plan(step: StepState) -> StepState:
    step.any_model = True
    return step


PRICE = "max_price $0.05 leaves no room for a call"


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (failed_by("verify"), RETRY.format("a")),
        (failed_by("verify", PRICE, max_price=1.0), RETRY.format("a")),
        (failed_by("idle"), RETRY.format("a")),
        (by_plan(failed_by("model")), RETRY.format("a")),
        (failed_by("budget", max_price=1.0), RETRY.format("a") + DOUBLED),
        (failed_by("turns"), RETRY.format("a") + DOUBLED),
        (failed_by("turns", max_turns=2), RAISE.format("max_turns of a", "")),
        (failed_by("budget", max_tokens=2), RAISE.format("max_tokens of a", "")),
        (failed_by("budget", PRICE, max_price=0.05), RAISE.format("max_price of a", "")),
        (failed_by("timeout", timeout_seconds=2.0), RAISE.format("timeout_seconds of a", "")),
        (failed_by("timeout"), RETRY.format("a")),
        (by_plan(failed_by("budget")), RAISE.format("the plan's budget", " --max-tokens N")),
        (by_plan(failed_by("budget", PRICE)), RAISE.format("the plan's budget", " --max-price USD")),
    ],
)
def test_the_advice_leads_past_the_limit_that_was_met(step: StepState, line: str) -> None:
    assert try_again("p", [step], Outcome.LIMIT) == [line]


def test_a_limit_that_no_longer_doubles_is_to_be_raised() -> None:
    step = failed_by("turns")
    step.exhausted = 4
    assert try_again("p", [step], Outcome.LIMIT) == [RAISE.format("max_turns of a", "")]


def test_a_plan_whose_time_is_up_needs_more_time() -> None:
    step = failed_by("budget")
    step.status = StepStatus.PENDING
    raised = RAISE.format("the plan's budget", " --max-seconds S")
    assert try_again("p", [step], Outcome.LIMIT) == [raised]
    failed = failed_by("exit_code", step_id="b")
    assert try_again("p", [step, failed], Outcome.FAILED) == [raised, RETRY.format("b")]


def test_a_list_is_tried_again_or_its_items_may_use_more() -> None:
    whole = failed_by("items", step_id="fix")
    items = [failed_by("verify", step_id=f"fix-{n}", pattern="fix") for n in (1, 2)]
    assert try_again("p", [whole, *items], None) == [RETRY.format("fix")]
    items = [failed_by("turns", step_id=f"fix-{n}", pattern="fix", max_turns=1) for n in (1, 2)]
    assert try_again("p", [whole, *items], None) == [RAISE.format("max_turns of fix-1, fix-2", "")]
    assert try_again("p", [whole], None) == [RETRY.format("fix")]


def test_a_step_that_was_cancelled_can_be_tried_again_and_one_that_was_tolerated_need_not() -> None:
    cancelled, tolerated = failed_by("tui"), failed_by("verify", step_id="b")
    cancelled.status, tolerated.tolerated = StepStatus.CANCELLED, True
    assert try_again("p", [cancelled, tolerated], None) == [RETRY.format("a")]


def test_after_a_failure_a_conversation_names_its_own_commands() -> None:
    verify, turns = failed_by("verify"), failed_by("turns", step_id="b", max_turns=2)
    assert try_again("p", [verify], Outcome.FAILED, in_chat=True) == [
        "try again with: /retry a, or go on without it: /skip a"
    ]
    assert try_again("p", [verify, turns, by_plan(failed_by("budget"))], Outcome.FAILED, in_chat=True) == [
        "raise max_turns of b with: /plan edit, then /plan resume",
        "raise the plan's budget with: /plan edit, then /plan resume",
        "try again with: /retry a, or go on without it: /skip a",
    ]
    blocked = try_again("p", [failed_by("blocked")], Outcome.BLOCKED)
    assert blocked == [RETRY.format("a") + " --approve edits (or --auto-approve)"]


def test_a_request_that_nobody_here_answers_says_who_asks_for_what() -> None:
    request = ApprovalRequestEvent(
        request_id="0123456789", tool_call_id="c", tool="bash", arguments={"command": "make"}, summary="bash make",
        rule="permission", plan_id="p", subagent_id="x", subagent_step_id="receipt",
    )  # fmt: skip
    assert hint(request) == (
        '[receipt] asks: bash {"command": "make"}\n  answer with: vibe plan approve p 01234567 [--deny]\n'
    )
