"""The working line: shown while something works, gone in the frame in which that ends, and still while at rest."""

from __future__ import annotations

from typing import Any

from textual.app import App, ComposeResult
from textual.content import Content

from ipc import events as e
from ipc.events import Event
from tests.unit.cli.textual_ui.overview.views import SURVEYED, TALKED, give, until, view_of
from vibe.cli.textual_ui.overview.ticker import WorkingLine, work_in
from vibe.view.view import View

OF_CHAT: dict[str, Any] = {"session_id": "chat"}
PROMPT = e.PromptStartedEvent(prompt_id="p", conversation_id="chat", ts=100.0, **OF_CHAT)
ENDED = e.PromptEndedEvent(prompt_id="p", conversation_id="chat", outcome="completed", ts=110.0, **OF_CHAT)
CALLED = e.ToolCallEvent(tool_call_id="1", tool="bash", arguments={}, summary="bash make", ts=101.0, **OF_CHAT)


class CountingLine(WorkingLine):
    drawn = 0

    def render(self) -> Content:
        self.drawn += 1
        return super().render()


class LineApp(App[None]):
    now = 122.0

    def compose(self) -> ComposeResult:
        yield CountingLine(clock=lambda: self.now)

    @property
    def line(self) -> CountingLine:
        return self.query_one(CountingLine)

    def see(self, view: View, *events: Event) -> None:
        self.line.present(view, give(view, *events))


async def test_it_is_there_while_the_agent_works_and_goes_with_the_end_of_the_turn() -> None:
    app = LineApp()
    async with app.run_test(size=(80, 10)) as pilot:
        view = view_of(*TALKED)
        app.see(view)
        assert not app.line.display
        app.see(view, PROMPT, CALLED)
        await until(pilot, lambda: bool(app.line.size.height))
        assert "bash · no output for 21 s" in app.line.render_line(0).text
        assert app.line.refresher.every
        app.see(view, ENDED)
        assert not app.line.display, "at once, not with the next beat"
        assert not app.line.refresher.every


async def test_its_seconds_count_by_themselves_and_at_rest_it_is_never_drawn() -> None:
    app = LineApp()
    async with app.run_test(size=(80, 10)) as pilot:
        view = view_of(*TALKED)
        app.see(view, PROMPT, CALLED)
        await until(pilot, lambda: "for 21 s" in app.line.render_line(0).text)
        app.now = 125.0
        await until(pilot, lambda: "for 24 s" in app.line.render_line(0).text)
        app.see(view, ENDED)
        await pilot.pause()
        before = app.line.drawn
        await pilot.pause(0.4)
        assert app.line.drawn == before


async def test_without_motion_it_is_drawn_once_a_second() -> None:
    app = LineApp()
    app.animation_level = "none"
    async with app.run_test(size=(80, 10)) as pilot:
        app.see(view_of(*TALKED), PROMPT, CALLED)
        await until(pilot, lambda: "for 21 s" in app.line.render_line(0).text)
        before = app.line.drawn
        await pilot.pause(0.6)
        assert app.line.drawn <= before + 1
        app.now = 125.0
        await until(pilot, lambda: "for 24 s" in app.line.render_line(0).text)


def test_who_plans_is_told_too_and_who_works_on_a_plan_is_not() -> None:
    view = view_of(
        *TALKED,
        e.SessionStartedEvent(workspace="/x", model="m", agent="planner", version="1", source="run", session_id="run"),
        e.ModelStartedEvent(
            message_id="1", model="m", context_tokens=1, context_limit=9, source="run", session_id="run", ts=100.0
        ),
    )
    work = work_in(view, "chat")
    assert work is not None
    assert work.words == "planning · waiting for m"
    assert work_in(view_of(*SURVEYED), "") is None
    assert work_in(View(), "") is None
