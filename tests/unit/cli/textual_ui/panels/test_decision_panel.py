"""A plan's decision on the screen, and requests of a run in another process."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from ipc.commands import Approve, Decide
from ipc.events import ApprovalRequestEvent, PlanDecisionEvent
from tests.unit.cli.textual_ui.panels.stage import stage
from vibe.cli.textual_ui.panels.request_queue import RequestReply
from vibe.view.agent_view import RequestView


def decision(**fields: Any) -> PlanDecisionEvent:
    """Return a decision between two stores."""
    known: dict[str, Any] = {
        "decision_id": "store",
        "question": "Which store?",
        "options": ("sql", "files"),
        "labels": ("SQLite", "Plain files"),
        "descriptions": ("one file", ""),
        "plan_id": "p1",
        "ts": 1_000.0,
    }
    return PlanDecisionEvent(**{**known, **fields})


async def test_a_number_decides() -> None:
    async with stage() as on:
        await on.ask(on.queue.decider, decision())
        assert on.lines == ["Decision  Which store?  store", "▸ 1 SQLite   one file", "  2 Plain files"]
        assert [each.id for each in on.queue.pending] == ["p1:store"]
        await on.press("2")
        assert on.answers == [("files",)]


async def test_several_may_be_chosen_and_esc_puts_it_off() -> None:
    async with stage() as on:
        await on.ask(on.queue.decider, decision(multi_select=True))
        await on.press("enter")
        assert "Pick at least one" in on.screen
        await on.press("1", "2", "enter")
        on.app.clock.now += 1
        await on.ask(on.queue.decider, decision())
        await on.press("escape")
        assert on.app.bottom.shown is on.app.prompt
        assert on.answers == [("sql", "files")]
        on.app.clock.now += 1
        await on.press("ctrl+n", "2")
        assert on.answers == [("sql", "files"), ("files",)]


async def test_the_time_left_is_counted_and_the_default_is_under_the_cursor() -> None:
    async with stage() as on:
        await on.ask(on.queue.decider, decision(default=("files",), timeout_seconds=75.0))
        assert on.lines[1:] == ["in 1:15: choosing Plain files", "  1 SQLite   one file", "▸ 2 Plain files*"]
        on.app.clock.now += 70
        await on.until(lambda: "in 0:05: choosing Plain files" in on.lines)
        await on.press("enter")
        assert on.answers == [("files",)]


@pytest.mark.parametrize("problem", ["", "somebody else said no"])
async def test_a_request_of_another_process_is_answered_here(problem: str) -> None:
    event = ApprovalRequestEvent(
        request_id="r9", tool_call_id="c", tool="bash", arguments={"command": "make"}, rule="permission", covers=("x",)
    )
    sent: list[RequestReply] = []
    may_answer = anyio.Event()

    async def answer(reply: RequestReply) -> str:
        sent.append(reply)
        await may_answer.wait()
        return problem

    async with stage() as on:
        view = RequestView(id="r9", kind="approval", event=event, agent_id=None, plan_id=None, key=("requests", "r9"))
        on.queue.add_remote(view, answer)
        on.queue.add_remote(view, answer)
        await on.settle()
        assert "make" in on.screen
        await on.press("2", "2")
        assert sent == [Approve(request_id="r9", allow=True, scope="session")]
        may_answer.set()
        await on.settle()
        assert len(on.queue.pending) == (1 if problem else 0)
        assert ("somebody else said no" in on.screen) == bool(problem)

        on.queue.withdraw("r9")
        await on.settle()
        assert on.app.bottom.shown is on.app.prompt


async def test_a_decision_of_another_process_is_answered_here() -> None:
    sent: list[RequestReply] = []

    async def answer(reply: RequestReply) -> str:
        sent.append(reply)
        return ""

    async with stage() as on:
        view = RequestView(
            id="p1:store", kind="decision", event=decision(), agent_id=None, plan_id="p1", key=("requests", "p1:store")
        )
        on.queue.add_remote(view, answer)
        await on.settle()
        await on.press("1")
        assert sent == [Decide(decision_id="store", selections=("sql",))]
        assert on.queue.pending == ()
