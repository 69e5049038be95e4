"""Views of runs for the overview's tests, made from events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.pilot import Pilot

from ipc import events as e
from ipc.events import Event, StepOutline
from vibe.view.view import View, apply

WHO: dict[str, Any] = {"plan_id": "plan", "subagent_id": "agent", "subagent_step_id": "slugify"}
HOSTILE = "\x1b[2J[red]boo[/red]\u202e\x07\nsecond [@click=app.quit]line[/]"


def outline(step_id: str, *above: str, title: str = "", mode: str = "code", status: str = "pending") -> StepOutline:
    return StepOutline(id=step_id, title=title or step_id.title(), mode=mode, depends_on=above, status=status)


def moved(step_id: str, status: str, previous: str = "pending", **fields: Any) -> e.PlanStepUpdateEvent:
    return e.PlanStepUpdateEvent(plan_id="plan", step_id=step_id, title="T", status=status, previous=previous, **fields)


def view_of(*events: Event) -> View:
    view = View()
    for event in events:
        apply(view, event)
    return view


def give(view: View, *events: Event) -> frozenset[tuple[str, ...]]:
    """Apply events, and return the keys of what they changed."""
    return frozenset(key for event in events for key in apply(view, event))


SURVEYED: tuple[Event, ...] = (
    e.PlanStartedEvent(
        plan_id="plan",
        goal="Give textkit two functions.",
        steps=(
            outline("survey", title="Learn how textkit is built", mode="research"),
            outline("slugify", "survey", title="Write slugify()"),
            outline("shorten", "survey", title="Write shorten()"),
            outline("test", "slugify", "shorten", title="Run all tests", mode="test"),
        ),
        ts=1000.0,
    ),
    moved("survey", "completed", duration_s=4.25, ts=1004.25),
    moved("slugify", "in_progress", ts=1080.0),
    e.SubAgentStartedEvent(title="", mode="code", model="m", tools=(), max_tokens=50_000, max_turns=9, **WHO),
    e.UsageEvent(model="m", prompt_tokens=40_000, completion_tokens=1_000, cost_usd=0.12, **WHO),
    e.ToolCallEvent(tool_call_id="1", tool="bash", arguments={}, summary="bash pytest -q", **WHO),
)
"""A plan of four steps, of which one is done and one is running."""

TALKED: tuple[Event, ...] = (
    e.ConversationConfiguredEvent(
        conversation_id="chat", session_id="chat", agent="default", model="large", thinking="high", approvals="ask"
    ),
    e.ModelStartedEvent(session_id="chat", message_id="1", model="large", context_tokens=34_000, context_limit=100_000),
    e.ModelEndedEvent(session_id="chat", message_id="1", model="large", status="ok"),
    e.UsageEvent(session_id="chat", model="large", prompt_tokens=30_000, completion_tokens=4_000, cost_usd=0.05),
)
"""A conversation at rest."""


async def until(pilot: Pilot[Any], holds: Callable[[], bool]) -> None:
    """Wait until the condition holds, for two seconds at most."""
    for _ in range(200):
        if holds():
            return
        await pilot.pause(0.01)
    raise AssertionError("it did not come to hold")
