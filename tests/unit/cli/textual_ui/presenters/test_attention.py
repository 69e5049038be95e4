"""A person who looks elsewhere is called when something waits or long work has ended, and at no other time."""

from __future__ import annotations

from typing import Any

from ipc import events as e
from tests.unit.cli.textual_ui.overview.views import SURVEYED, TALKED, WHO, give, view_of
from vibe.cli.textual_ui.app import Attention
from vibe.view.view import View

ASKED = e.ApprovalRequestEvent(request_id="r", tool_call_id="1", tool="bash", arguments={}, rule="ask", **WHO)


def prompted(started: float, ended: float) -> tuple[e.Event, e.Event]:
    chat: dict[str, Any] = {"conversation_id": "chat", "session_id": "chat", "prompt_id": "p"}
    return (
        e.PromptStartedEvent(ts=started, **chat),
        e.PromptEndedEvent(ts=ended, outcome="completed", **chat),
    )


def called(view: View, *events: e.Event) -> list[str]:
    """Return the signs that call a person while these events happen one by one."""
    signs: list[str] = []
    attention = Attention(signs.append, after=20.0)
    attention.present(view, frozenset())
    for event in events:
        attention.present(view, give(view, event))
    return signs


def test_a_request_that_waits_calls_once_however_long_it_waits() -> None:
    view = view_of(*SURVEYED)
    assert called(view, ASKED, e.WarningEvent(code="x", message="y")) == ["vibe waits for you"]


def test_an_answer_calls_only_if_it_took_long() -> None:
    view = view_of(*TALKED)
    assert called(view, *prompted(2_000.0, 2_019.0)) == []
    assert called(view, *prompted(3_000.0, 3_021.0)) == ["vibe answered"]


def test_the_end_of_a_plan_calls_with_how_it_ended() -> None:
    end = e.PlanCompletedEvent(plan_id="plan", status="failed", outcome="failed", duration_s=95.0, counts={}, ts=1095.0)
    assert called(view_of(*SURVEYED), end) == ["vibe: plan failed"]
