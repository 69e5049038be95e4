"""Summaries of a view: since some moment, and at the end of a plan."""

from __future__ import annotations

from msgspec import structs

from ipc import events as e
from tests.unit.cli.textual_ui.overview.views import HOSTILE, SURVEYED, TALKED, WHO, give, moved, view_of
from vibe.cli.textual_ui.overview.summaries import away_summary, next_lines, snapshot
from vibe.view.view import View

ASKED = e.ApprovalRequestEvent(request_id="r", tool_call_id="1", tool="bash", arguments={}, rule="ask", **WHO)


def ended(view: View, status: str, outcome: str) -> list[str]:
    end = e.PlanCompletedEvent(plan_id="plan", status=status, outcome=outcome, duration_s=1.0, counts={}, ts=1095.0)
    give(view, end)
    return next_lines(view.plans["plan"])


def test_nothing_happened_while_away() -> None:
    view = view_of(*TALKED, *SURVEYED)
    assert not away_summary(snapshot(view), view)


def test_what_happened_while_away_is_told_in_a_line() -> None:
    view = view_of(*TALKED, *SURVEYED)
    before = snapshot(view)
    spent = e.UsageEvent(model="m", prompt_tokens=11_000, completion_tokens=1_000, cost_usd=0.31, **WHO)
    give(view, spent, moved("slugify", "completed", "in_progress"), moved("shorten", "failed", reason="verify"), ASKED)
    assert away_summary(before, view) == (
        "while you were away: 1 step completed · 1 step failed (shorten) · 1 waits for you · 12k tok · $0.31"
    )


def test_an_answer_that_came_while_away_is_told() -> None:
    prompt = e.PromptStartedEvent(prompt_id="p", conversation_id="chat", session_id="chat")
    view = view_of(*TALKED, prompt)
    before = snapshot(view)
    give(view, e.PromptEndedEvent(prompt_id="p", conversation_id="chat", session_id="chat", outcome="completed"))
    assert away_summary(before, view) == "while you were away: the agent answered"


def test_the_end_of_a_plan_while_away_is_told() -> None:
    view = view_of(*SURVEYED)
    before = snapshot(view)
    ended(view, "failed", "failed")
    assert away_summary(before, view) == "while you were away: the plan failed"


def test_a_plan_that_completed_goes_on_with_nothing() -> None:
    view = view_of(*SURVEYED, *(moved(step, "completed") for step in ("slugify", "shorten", "test")))
    assert ended(view, "completed", "completed") == []


def test_a_plan_that_failed_says_how_to_go_on() -> None:
    view = view_of(*SURVEYED, moved("slugify", "failed", "in_progress", reason=HOSTILE), moved("test", "skipped"))
    assert ended(view, "failed", "failed") == [
        "try again with: vibe plan retry plan slugify, then vibe plan resume plan",
    ]


def test_a_plan_whose_budget_is_used_up_says_what_to_raise() -> None:
    failed = moved("slugify", "failed", "in_progress", reason="budget")
    view = view_of(*SURVEYED, structs.replace(failed, work=e.WorkDone(any_model=True)), moved("test", "skipped"))
    assert ended(view, "failed", "limit") == [
        "raise the plan's budget with: vibe plan edit plan --max-tokens N, then vibe plan resume plan",
    ]


def test_a_plan_that_is_paused_says_what_it_waits_for() -> None:
    view = view_of(
        *SURVEYED,
        e.PlanDecisionEvent(plan_id="plan", decision_id="db", question="Which one?", options=("a", "b")),
        e.PlanPausedEvent(plan_id="plan", reason="decision", ts=1095.0),
    )
    assert next_lines(view.plans["plan"]) == [
        "decision db: Which one? (decide with: vibe plan decide plan db OPTION)",
        "continue with: vibe plan resume plan",
    ]
