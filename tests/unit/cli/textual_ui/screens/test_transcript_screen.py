"""An open agent: its log continues, keys act on its step, and typed text reaches it."""

from __future__ import annotations

from typing import Any

import pytest
from textual.events import Key
from textual.widgets import Input, Static

from ipc import events as e
from tests.unit.cli.textual_ui.overview.views import HOSTILE, SURVEYED, WHO, moved, until, view_of
from tests.unit.cli.textual_ui.screens.agents_app import AgentsApp
from tests.unit.cli.textual_ui.screens.test_fleet_screen import ASKED
from vibe.cli.textual_ui.log.chat_log import ChatLog
from vibe.cli.textual_ui.panels.panel_frame import GRACE_SECONDS, PanelFrame
from vibe.view.view import View

HELPER: dict[str, Any] = {"plan_id": "plan", "subagent_id": "helper", "subagent_step_id": "slugify"}


class OpeningApp(AgentsApp):
    def __init__(self, view: View, tile_id: str = "plan/slugify") -> None:
        super().__init__(view, tile_id)

    @property
    def said(self) -> list[str]:
        return [entry.title or entry.text for entry in self.opened.query_one(ChatLog).entries]

    def line(self, name: str, number: int = 0) -> str:
        return self.opened.query_one(name, Static).render_line(number).text.strip()


async def test_a_step_shows_its_agent_as_it_goes_on() -> None:
    app = OpeningApp(view_of(*SURVEYED))
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: app.said == ["bash pytest -q"])
        assert app.line(".head")[1:].startswith(" slugify  Write slugify()")
        assert app.line(".head").endswith("12 s · 41k tok")
        app.see(e.ToolResultEvent(tool_call_id="1", tool="bash", status="ok", content="3 passed", **WHO))
        app.see(e.AssistantEvent(message_id="m", text="done", **WHO))
        await until(pilot, lambda: app.said == ["bash pytest -q", "done"])
        await until(pilot, lambda: app.line(".head", 1) == "m · answered")


async def test_left_and_right_lead_through_all_agents_in_the_order_of_the_fleet() -> None:
    new: dict[str, Any] = {"plan_id": "plan", "subagent_id": "new", "subagent_step_id": "shorten"}
    view = view_of(
        *SURVEYED,
        e.UserMessageEvent(text="once more", **HELPER),
        moved("shorten", "in_progress", ts=1081.0),
        e.UserMessageEvent(text="shorten", **new),
    )
    app = OpeningApp(view)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: app.said == ["once more"])
        await until(pilot, lambda: "agent 2 of 2" in app.line(".head", 1))
        seen: list[str] = []
        for key in ("left", "right", "right", "right"):
            await pilot.press(key)
            seen += app.said
        assert seen == ["bash pytest -q", "once more", "shorten", "bash pytest -q"]
        assert "agent" in app.line(".keys")


async def test_keys_stop_skip_and_repeat_the_step() -> None:
    app = OpeningApp(view_of(*SURVEYED))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("x", "k", "r")
        assert app.wished == [("/cancel slugify",), ("/skip slugify",), ("/retry slugify",)]


@pytest.mark.parametrize("talk", ["t", "s"])
async def test_what_is_typed_reaches_the_agent_and_acts_on_nothing(talk: str) -> None:
    app = OpeningApp(view_of(*SURVEYED))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press(talk, "x", "k", "left", "r", "enter")
        assert app.wished == [("tell", "agent", "xrk")]
        assert app.opened.query_one(Input).value == ""
        assert isinstance(app.focused, ChatLog)


async def test_keys_that_come_at_once_after_s_are_said_and_act_on_nothing() -> None:
    app = OpeningApp(view_of(*SURVEYED))
    async with app.run_test(size=(120, 36)) as pilot:
        for key in ("s", "r", "x", "k", "s", "enter"):
            app.post_message(Key(key, key if len(key) == 1 else "\r"))
        await until(pilot, lambda: bool(app.wished))
        assert app.wished == [("tell", "agent", "rxks")]


async def test_escape_leads_from_the_line_to_the_log_and_back() -> None:
    app = OpeningApp(view_of(*SURVEYED))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("t")
        assert isinstance(app.focused, Input)
        await pilot.press("escape")
        assert isinstance(app.focused, ChatLog)
        await pilot.press("escape")
        assert app.screen is not app.opened


async def test_what_its_agent_asks_is_answered_there() -> None:
    app = OpeningApp(view_of(*SURVEYED, ASKED))
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: bool(app.opened.query(PanelFrame)))
        await pilot.pause(GRACE_SECONDS + 0.1)
        await pilot.press("y")
        await until(pilot, lambda: bool(app.replies))
        assert app.wished == []


async def test_an_agent_that_works_on_no_step_can_be_opened_and_not_skipped() -> None:
    start = e.SubAgentStartedEvent(
        title="look around",
        mode="",
        model="large",
        tools=(),
        max_tokens=1,
        max_turns=1,
        subagent_id="sub",
        parent_id="x",
    )
    app = OpeningApp(view_of(*SURVEYED, start, e.UserMessageEvent(text="go", subagent_id="sub")), "sub")
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: app.said == ["go"])
        await until(pilot, lambda: "look around" in app.line(".head"))
        assert app.line(".head", 1) == "large · waiting for large"
        await pilot.press("k")
        assert not app.wished
        assert "skip" not in app.line(".keys")


async def test_a_step_that_has_no_agent_yet_shows_the_first_that_comes() -> None:
    app = OpeningApp(view_of(*SURVEYED, moved("shorten", "in_progress", ts=1081.0)), "plan/shorten")
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: "nothing here yet" in app.line(".head", 1))
        app.see(e.UserMessageEvent(text="go", plan_id="plan", subagent_id="new", subagent_step_id="shorten"))
        await until(pilot, lambda: app.said == ["go"])


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_it_fits_every_screen_and_shows_nothing_that_moves_a_cursor(size: tuple[int, int]) -> None:
    view = view_of(
        *SURVEYED,
        e.UserMessageEvent(text=HOSTILE, **WHO),
        e.ToolCallEvent(tool_call_id="2", tool="bash", arguments={}, summary=HOSTILE * 20, ts=1090.0, **WHO),
    )
    app = OpeningApp(view)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: len(app.said) == 3)
        await until(pilot, lambda: "[red]boo[/red]" in app.line(".head", 1))
        assert app.opened.query_one(".keys").region.bottom == size[1]
        shown = app.line(".head", 1) + app.line(".keys") + "".join(app.said)
        assert not {"\x1b", "\u202e", "\x07"} & set(shown)
