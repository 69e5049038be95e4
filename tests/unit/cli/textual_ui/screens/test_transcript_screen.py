"""An agent or a step opened: its log goes on, keys act on the step, and what is typed reaches the agent."""

from __future__ import annotations

from typing import Any, cast

import pytest
from textual.app import App
from textual.events import Key
from textual.widgets import Input, Static

from ipc import events as e
from tests.unit.cli.textual_ui.overview.views import HOSTILE, SURVEYED, TALKED, WHO, give, moved, until, view_of
from vibe.cli.textual_ui.controllers.app_controller import Chat
from vibe.cli.textual_ui.screens.transcript_screen import TranscriptLog, TranscriptScreen
from vibe.view.view import View

HELPER: dict[str, Any] = {"plan_id": "plan", "subagent_id": "helper", "subagent_step_id": "slugify"}


class OpeningApp(App[None]):
    def __init__(self, view: View, **what: Any) -> None:
        super().__init__()
        self.view = view
        self.wished: list[tuple[str, ...]] = []
        self.opened = TranscriptScreen(view, cast("Chat", self), None, **what)

    def tell_agent(self, *wish: str) -> None:
        self.wished.append(("steer", *wish))

    def act_on_step(self, *wish: str) -> None:
        self.wished.append(wish)

    async def on_mount(self) -> None:
        await self.push_screen(self.opened)

    def see(self, *events: e.Event) -> None:
        self.opened.present(self.view, give(self.view, *events))

    @property
    def said(self) -> list[str]:
        return [entry.title or entry.text for entry in self.opened.query_one(TranscriptLog).entries]

    def line(self, name: str, number: int = 0) -> str:
        return self.opened.query_one(name, Static).render_line(number).text.strip()


async def test_a_step_shows_its_agent_as_it_goes_on() -> None:
    app = OpeningApp(view_of(*SURVEYED), step=("plan", "slugify"))
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: app.said == ["bash pytest -q"])
        assert app.line(".head") == "▸ ◆ slugify: Write slugify()"
        assert app.line(".head", 1) == "in progress · m · 41k tok · bash pytest -q"
        app.see(e.ToolResultEvent(tool_call_id="1", tool="bash", status="ok", content="3 passed", **WHO))
        app.see(e.AssistantEvent(message_id="m", text="done", **WHO))
        await until(pilot, lambda: app.said == ["bash pytest -q", "done"])
        await until(pilot, lambda: app.line(".head", 1).endswith("has answered"))


async def test_left_and_right_choose_among_the_agents_of_a_step() -> None:
    view = view_of(*SURVEYED, e.UserMessageEvent(text="help me", **HELPER))
    app = OpeningApp(view, step=("plan", "slugify"))
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: app.said == ["help me"])
        await pilot.press("left")
        assert app.said == ["bash pytest -q"]
        await until(pilot, lambda: "agent 1/2" in app.line(".head", 1))
        await pilot.press("right")
        assert app.said == ["help me"]
        assert "agent" in app.line(".keys")


async def test_keys_stop_skip_and_repeat_the_step() -> None:
    app = OpeningApp(view_of(*SURVEYED), step=("plan", "slugify"))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("x", "k", "r")
        assert app.wished == [("cancel", "plan", "slugify"), ("skip", "plan", "slugify"), ("retry", "plan", "slugify")]


async def test_what_is_typed_reaches_the_agent_and_acts_on_nothing() -> None:
    app = OpeningApp(view_of(*SURVEYED), step=("plan", "slugify"))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("s", "x", "k", "left", "r", "enter")
        assert app.wished == [("steer", "agent", "xrk")]
        assert app.opened.query_one(Input).value == ""
        await pilot.press("enter")
        assert len(app.wished) == 1


async def test_keys_that_come_at_once_after_s_are_said_and_act_on_nothing() -> None:
    app = OpeningApp(view_of(*SURVEYED), step=("plan", "slugify"))
    async with app.run_test(size=(120, 36)) as pilot:
        for key in ("s", "r", "x", "k", "s", "enter"):
            app.post_message(Key(key, key if len(key) == 1 else "\r"))
        await until(pilot, lambda: bool(app.wished))
        assert app.wished == [("steer", "agent", "rxks")]


async def test_escape_leads_from_the_line_to_the_log_and_back() -> None:
    app = OpeningApp(view_of(*SURVEYED), step=("plan", "slugify"))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("s")
        assert isinstance(app.focused, Input)
        await pilot.press("escape")
        assert isinstance(app.focused, TranscriptLog)
        await pilot.press("escape")
        assert app.screen is not app.opened


async def test_an_agent_that_works_on_no_step_can_be_opened_and_not_skipped() -> None:
    app = OpeningApp(view_of(*TALKED, e.UserMessageEvent(session_id="chat", text="go")), agent_id="chat")
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: app.said == ["go"])
        await until(pilot, lambda: app.line(".head") == "default")
        assert app.line(".head", 1).startswith("default · large · 34% context · 34k tok")
        await pilot.press("k")
        assert not app.wished
        assert "skip" not in app.line(".keys")


async def test_a_step_that_has_no_agent_yet_shows_the_first_that_comes() -> None:
    app = OpeningApp(view_of(*SURVEYED), step=("plan", "shorten"))
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: "nothing here yet" in app.line(".head", 1))
        app.see(
            moved("shorten", "in_progress", ts=1081.0),
            e.UserMessageEvent(text="go", plan_id="plan", subagent_id="new", subagent_step_id="shorten"),
        )
        await until(pilot, lambda: app.said == ["go"])


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_it_fits_every_screen_and_shows_nothing_that_moves_a_cursor(size: tuple[int, int]) -> None:
    view = view_of(
        *SURVEYED,
        e.UserMessageEvent(text=HOSTILE, **WHO),
        e.ToolCallEvent(tool_call_id="2", tool="bash", arguments={}, summary=HOSTILE * 20, **WHO),
    )
    app = OpeningApp(view, step=("plan", "slugify"))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: len(app.said) == 3)
        await until(pilot, lambda: "[red]boo[/red]" in app.line(".head", 1))
        assert app.opened.query_one(".keys").region.bottom == size[1]
        shown = app.line(".head", 1) + app.line(".keys") + "".join(app.said)
        assert not {"\x1b", "\u202e", "\x07"} & set(shown)
