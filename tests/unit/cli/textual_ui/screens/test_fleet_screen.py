"""The fleet: keys select, open, filter and act on the selected tile, and only differences are painted."""

from __future__ import annotations

import time
from typing import Any

import pytest
from textual.events import Key
from textual.geometry import Region
from textual.widgets import Input, Static

from ipc import events as e
from ipc.commands import Approve, Decide
from tests.unit.cli.textual_ui.overview.views import SURVEYED, TALKED, WHO, moved, until, view_of
from tests.unit.cli.textual_ui.screens.agents_app import AgentsApp, drawn
from tests.unit.front.test_fleet import team
from vibe.cli.textual_ui.panels.panel_frame import GRACE_SECONDS, PanelFrame
from vibe.cli.textual_ui.screens.agent_screens import FleetScreen, FleetView, TranscriptScreen
from vibe.view.view import View

ASKED = e.ApprovalRequestEvent(
    request_id="r",
    tool_call_id="1",
    tool="bash",
    arguments={"command": "make all"},
    rule="ask",
    preview=e.CommandDisplay(command="make all"),
    **WHO,
)
OPENED = e.PlanDecisionEvent(
    plan_id="plan", decision_id="d", question="CSV or JSON?", options=("a", "b"), step_id="test", ts=1084.0
)


def fleet_of(view: View) -> tuple[AgentsApp, FleetScreen]:
    app = AgentsApp(view)
    assert isinstance(app.opened, FleetScreen)
    return app, app.opened


async def test_arrows_choose_and_enter_opens_from_where_escape_comes_back_to_the_agent_that_was_looked_at_last() -> (
    None
):
    app, fleet = fleet_of(team(5))
    async with app.run_test(size=(200, 40)) as pilot:
        await until(pilot, lambda: fleet.chosen == "plan/s0")
        await pilot.press("down", "right", "up", "enter")
        await until(pilot, lambda: isinstance(app.screen, TranscriptScreen))
        assert fleet.chosen == "plan/s1"
        await pilot.press("right", "escape")
        await until(pilot, lambda: app.screen is fleet)
        assert fleet.chosen == "plan/s2"
        await pilot.press("f2")
        await until(pilot, lambda: app.screen is not fleet)


async def test_keys_that_come_before_the_first_frame_look_around_and_act_on_nothing() -> None:
    app, fleet = fleet_of(team(5))
    app.opened = FleetScreen(app.desk)
    async with app.run_test(size=(200, 40)) as pilot:
        app.push_screen(fleet)
        for key in ("x", "down", "right", "enter"):
            app.post_message(Key(key, key if len(key) == 1 else None))
        await until(pilot, lambda: isinstance(app.screen, TranscriptScreen))
        assert (fleet.chosen, app.wished) == ("plan/s4", [])


async def test_keys_act_on_the_step_of_the_chosen_tile() -> None:
    app, fleet = fleet_of(team(3))
    async with app.run_test(size=(200, 40)) as pilot:
        await until(pilot, lambda: fleet.chosen == "plan/s0")
        await pilot.press("right", "x", "k", "r", "y")
        assert app.wished == [("/cancel s1",), ("/skip s1",), ("/retry s1",)]


async def test_v_shows_the_changes_of_a_step_that_has_some() -> None:
    wrote = e.ToolResultEvent(tool_call_id="1", tool="bash", status="ok", content="", files_changed=("a.py",), **WHO)
    app, _ = fleet_of(view_of(*SURVEYED, moved("shorten", "in_progress", ts=1081.0), wrote))
    async with app.run_test(size=(200, 40)) as pilot:
        await until(pilot, lambda: "v changes" in app.opened.keys.render_line(0).text)
        await pilot.press("v", "right", "v")
        assert app.wished == [("/review plan",)]
        assert "v changes" not in app.opened.keys.render_line(0).text


async def test_what_is_typed_after_t_is_told_to_that_agent_alone_and_acts_on_nothing() -> None:
    app, fleet = fleet_of(team(3))
    async with app.run_test(size=(200, 40)) as pilot:
        await until(pilot, lambda: fleet.chosen == "plan/s0")
        for key in ("right", "t", "x", "t", "k", "enter"):
            app.post_message(Key(key, key if len(key) == 1 else "\r"))
        await until(pilot, lambda: bool(app.wished))
        assert app.wished == [("tell", "s1", "xtk")]
        await pilot.press("t", "q", "escape", "x")
        assert app.wished[1:] == [("/cancel s1",)]
        assert fleet.query_one(Input).value == ""


async def test_words_for_an_agent_that_is_gone_are_kept_and_a_failed_step_is_tried_again_with_them() -> None:
    app, fleet = fleet_of(team(2))
    gone = [
        e.SubAgentFinishedEvent(
            outcome="completed", reason=None, tokens=1, turns=1, duration_s=1.0, plan_id="plan", subagent_id=one,
            subagent_step_id=one, ts=1090.0,
        )
        for one in ("s0", "s1")
    ]  # fmt: skip
    async with app.run_test(size=(200, 40)) as pilot:
        await until(pilot, lambda: fleet.chosen == "plan/s0")
        await pilot.press("t", *"skip it")
        app.see(*gone, moved("s0", "completed", "in_progress", ts=1091.0))
        await pilot.press("enter")
        assert (fleet.line.value, app.wished) == ("skip it", [])
        await pilot.press("escape", "t", *"krx")
        assert app.wished == [], "of a step that is done, none of the keys does anything"
        app.see(moved("s1", "failed", "in_progress", ts=1092.0))
        await pilot.press("right", "t", *"use pnpm", "enter")
        assert app.wished == [("/retry s1 use pnpm",)]


async def test_the_one_that_asks_is_chosen_first_and_its_panel_answers() -> None:
    app, fleet = fleet_of(view_of(*TALKED, *SURVEYED, moved("shorten", "in_progress", ts=1081.0), ASKED))
    async with app.run_test(size=(200, 40)) as pilot:
        await until(pilot, lambda: bool(fleet.query(PanelFrame)))
        assert fleet.chosen == "plan/slugify"
        await pilot.press("1")
        assert app.replies == [], "who typed before could not know of it"
        await pilot.pause(GRACE_SECONDS + 0.1)
        await pilot.press("1")
        await until(pilot, lambda: bool(app.replies))
        assert app.replies == [Approve(request_id="r", allow=True, scope="once")]
        app.see(e.ApprovalDecisionEvent(request_id="r", decision="allow", by="user", **WHO))
        await until(pilot, lambda: not fleet.query(PanelFrame))


async def test_keys_answer_nothing_where_another_tile_is_chosen_and_tab_leads_to_the_one_that_asks() -> None:
    app, fleet = fleet_of(view_of(*SURVEYED, moved("shorten", "in_progress", ts=1081.0), ASKED, OPENED))
    async with app.run_test(size=(200, 40)) as pilot:
        await until(pilot, lambda: bool(fleet.query(PanelFrame)))
        await pilot.press("right")
        await until(pilot, lambda: not fleet.query(PanelFrame))
        await pilot.pause(GRACE_SECONDS + 0.1)
        await pilot.press("1")
        assert (fleet.chosen, app.replies) == ("plan/shorten", [])
        await pilot.press("tab")
        assert fleet.chosen == "plan/slugify"
        await pilot.press("right", "right")
        assert fleet.chosen == "plan/test"
        await pilot.pause(GRACE_SECONDS + 0.1)
        await pilot.press("tab", "down", "enter")
        await until(pilot, lambda: bool(app.replies))
        assert app.replies == [Decide(decision_id="d", selections=("b",))]


@pytest.mark.parametrize("size", [(200, 60), (120, 36), (80, 24), (60, 14), (20, 5)])
async def test_what_a_tile_asks_is_answered_in_it_and_below_its_last_lines(size: tuple[int, int]) -> None:
    said = e.AssistantEvent(message_id="m", text="I want to build it.", **WHO)
    app, fleet = fleet_of(view_of(*TALKED, *SURVEYED, moved("shorten", "in_progress", ts=1081.0), said, ASKED))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: any(panel.size.height for panel in fleet.query(PanelFrame)))
        await drawn(pilot)
        [panel] = fleet.query(PanelFrame)
        tiles = fleet.query_one(FleetView)
        [place] = [each for each in tiles.places if each.tile.id == fleet.chosen]
        top = tiles.region.y + place.y
        assert tiles.region.contains_region(panel.region)
        assert (panel.region.x, panel.region.width) == (place.x, place.width)
        assert panel.region.bottom <= max(top + place.height, tiles.region.bottom)
        if size[1] >= 24:
            assert panel.region.y > top
            assert "I want to build it." in app.rows[panel.region.y - tiles.region.y - 1]
            assert not any("? run make all" in row for row in app.rows), "it is told once"
        await pilot.pause(GRACE_SECONDS + 0.1)
        await pilot.click(panel)
        assert app.screen is fleet, "a click there does not open the tile"
        await pilot.press("y")
        await until(pilot, lambda: bool(app.replies))


async def test_a_panel_beside_tiles_names_no_key_that_is_theirs_until_the_keys_come_to_it() -> None:
    app, fleet = fleet_of(view_of(*SURVEYED, moved("shorten", "in_progress", ts=1081.0), OPENED))
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: bool(fleet.query(PanelFrame)))
        [panel] = fleet.query(PanelFrame)

        def told() -> str:
            return str(panel.query_one(".panel--keys", Static).render())

        await until(pilot, lambda: told().startswith("1-2 decide   Tab choose"))
        await pilot.press("tab")
        await until(pilot, lambda: told().startswith("1-2 decide   ↑↓ Enter choose"))


async def test_a_panel_wakes_once_the_person_pauses_however_late_the_timer() -> None:
    app, fleet = fleet_of(view_of(*SURVEYED, ASKED))
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: bool(fleet.query(PanelFrame)))
        [panel] = fleet.query(PanelFrame)
        assert panel.asleep
        await pilot.pause(0)
        time.sleep(GRACE_SECONDS + 0.5)  # noqa: ASYNC251  the machine is busy
        await until(pilot, lambda: not panel.asleep)


async def test_a_refusal_takes_a_reason_in_which_letters_are_text() -> None:
    app, fleet = fleet_of(view_of(*SURVEYED, ASKED))
    async with app.run_test(size=(200, 40)) as pilot:
        await until(pilot, lambda: bool(fleet.query(PanelFrame)))
        await pilot.pause(GRACE_SECONDS + 0.1)
        await pilot.press("n", *"text", "enter")
        await until(pilot, lambda: bool(app.replies))
        assert app.replies == [Approve(request_id="r", allow=False, reason="text")]
        assert app.wished == []


async def test_f_shows_those_at_work_those_that_need_the_person_and_those_that_ended() -> None:
    app, fleet = fleet_of(team(3, moved("s1", "failed", "in_progress", ts=1090.0), moved("s2", "completed", ts=1091.0)))
    async with app.run_test(size=(200, 40)) as pilot:
        seen: list[tuple[str, ...]] = []
        await until(pilot, lambda: fleet.chosen == "plan/s1")
        for _ in range(4):
            await pilot.press("f")
            seen.append(tuple(place.tile.name for place in fleet.query_one(FleetView).places))
        assert seen == [("s0",), ("s1",), ("s1", "s2"), ("s0", "s1", "s2")]


async def test_where_nobody_works_it_says_so_and_keys_do_nothing() -> None:
    app, fleet = fleet_of(view_of(*TALKED))
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: "no agents yet" in fleet.query_one(".keys", Static).render_line(0).text)
        await pilot.press("down", "enter", "x", "t", "tab")
        assert (app.screen, app.wished) == (fleet, [])


async def test_only_rows_that_differ_are_painted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    app, _ = fleet_of(team(3))
    painted: list[Any] = []
    async with app.run_test(size=(200, 40)) as pilot:
        await drawn(pilot)
        refresh = FleetView.refresh

        def noted(self: FleetView, *regions: Region, **how: Any) -> Any:
            painted.extend(regions or ["all"])
            return refresh(self, *regions, **how)

        monkeypatch.setattr(FleetView, "refresh", noted)
        piece = e.AssistantDeltaEvent(
            message_id="2", text="more", plan_id="plan", subagent_id="s1", subagent_step_id="s1", ts=1092.0
        )
        app.see(piece)
        await drawn(pilot)
        assert {region.y for region in painted} == {2}
        assert {region.x for region in painted} == {67}


async def test_while_nobody_works_nothing_is_drawn_by_itself() -> None:
    app, fleet = fleet_of(team(2, *(moved(f"s{at}", "completed", "in_progress", ts=1000.0) for at in range(2))))
    async with app.run_test(size=(200, 40)) as pilot:
        await drawn(pilot)
        assert not fleet.query_one(FleetView).places[0].height > 1
        assert not fleet.refresher.every


async def test_sixty_agents_open_within_a_tenth_of_a_second() -> None:
    took: list[float] = []
    for _ in range(3):
        app, fleet = fleet_of(team(60))
        few, _ = fleet_of(view_of(*TALKED))
        app.opened = FleetScreen(few.desk)  # takes the cost of what is loaded once
        async with app.run_test(size=(200, 60)) as pilot:
            began = time.process_time()  # not wall time, as the machine may be busy
            await app.push_screen(fleet)
            while not fleet.query_one(FleetView).places:
                await pilot.pause(0)
            took.append(time.process_time() - began)
    assert min(took) < 0.1 * 3, took  # the benchmark has the exact bound
