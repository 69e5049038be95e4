"""The fleet: which agents have a tile, where it is, what is on it, and that it always fits."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from ipc import events as e
from ipc.events import Event
from tests.unit.cli.textual_ui.overview.views import HOSTILE, SURVEYED, TALKED, WHO, moved, outline, view_of
from vibe.front.cells import Line, cells_of, text_of
from vibe.front.fleet import (
    FADE_S,
    Tile,
    TilePlace,
    actions,
    fleet_head,
    hearing_agent,
    neighbour,
    places,
    tile_lines,
    tiles,
)
from vibe.view.view import View

NOW = 1092.0
HELPER: dict[str, Any] = {"plan_id": "plan", "subagent_id": "helper", "subagent_step_id": "slugify", "ts": 1085.0}
RAN: dict[str, Any] = {**WHO, "ts": 1086.0}

RESULT = e.ToolResultEvent(tool_call_id="1", tool="bash", status="ok", content="3 passed", **RAN)


def team(count: int, *events: Event) -> View:
    """Return a view of ``count`` agents that work side by side."""
    ids = [f"s{number}" for number in range(count)]
    start = e.PlanStartedEvent(plan_id="plan", goal="g", steps=tuple(map(outline, ids)), ts=1000.0)
    began = [moved(one, "in_progress", ts=1010.0) for one in ids]
    said = [
        e.AssistantEvent(
            message_id="1", text=f"words of {one}", plan_id="plan", subagent_id=one, subagent_step_id=one, ts=1020.0
        )
        for one in ids
    ]
    return view_of(start, *began, *said, *events)


def named(view: View) -> list[str]:
    return [tile.name for tile in tiles(view)]


def lines_of(view: View, tile_id: str = "plan/slugify", width: int = 60, height: int = 10, **how: Any) -> list[str]:
    [place] = [
        each
        for each in places([tile for tile in tiles(view) if tile.id == tile_id], width, height, tile_id, NOW)
        if each.tile.id == tile_id
    ]
    lines = tile_lines(place, NOW, chosen=True, **how)
    assert all(cells_of(line) == width for line in lines)
    return [text_of(line) for line in lines]


def test_who_works_or_has_worked_has_a_tile_in_plan_order_and_the_chats_agent_has_none() -> None:
    other = e.SubAgentStartedEvent(
        title="look around",
        mode="",
        model="m",
        tools=(),
        max_tokens=1,
        max_turns=1,
        subagent_id="sub",
        parent_id="chat",
    )
    view = view_of(*TALKED, *SURVEYED, moved("shorten", "in_progress", ts=1081.0), other)
    assert named(view) == ["slugify", "shorten", "look around"]


def test_a_helper_of_a_step_has_a_tile_behind_it() -> None:
    helper = e.SubAgentStartedEvent(
        title="helper", mode="", model="m", tools=(), max_tokens=1, max_turns=1, parent_id="agent", **HELPER
    )
    view = view_of(*SURVEYED, moved("shorten", "in_progress", ts=1081.0), helper)
    assert named(view) == ["slugify", "helper", "shorten"]


def test_a_tile_has_the_last_lines_of_what_was_said_done_and_checked() -> None:
    written = e.DiffDisplay(files=(e.WrittenFile(path="a.py", added=2, removed=1),))
    checked: dict[str, Any] = {**RAN, "subagent_id": None, "ts": 1087.0}
    view = view_of(
        *SURVEYED,
        RESULT,
        e.AssistantEvent(message_id="m", text="It is a\n\nshare.", **RAN),
        e.ToolCallEvent(tool_call_id="2", tool="search_replace", arguments={}, summary="search_replace a.py", **RAN),
        e.ToolResultEvent(
            tool_call_id="2", tool="search_replace", status="ok", content="", display=written, diff="+++ b/a.py\n+  x", **RAN
        ),
        e.ToolCallEvent(
            tool_call_id="3", tool="command", arguments={"command": "make test", "purpose": "verify"}, **checked
        ),
        e.ToolResultEvent(tool_call_id="3", tool="command", status="error", content="a\n9.9 != 9.0", **checked),
    )  # fmt: skip
    first, *rest = lines_of(view, height=12)
    assert first.startswith("━━ ⠋ slugify ━━━━")
    assert first.endswith(" 12 s · 41k tok")
    assert [" ".join(line.split()) for line in rest if line] == [
        "✓ bash pytest -q",
        "It is a",
        "share.",
        "✓ edit a.py +2 −1",  # noqa: RUF001
        "x",
        "✗ check make test failed",
        "│ a",
        "│ 9.9 != 9.0",
    ]


def test_of_more_lines_than_there_is_room_for_the_last_are_there() -> None:
    said = e.AssistantEvent(message_id="m", text="\n".join(f"line {number}" for number in range(40)), **RAN)
    rows = lines_of(view_of(*SURVEYED, RESULT, said), height=8)
    assert rows[1:7] == [f"  line {number}" for number in range(34, 40)]


def test_a_tile_that_asks_is_amber_and_says_what_is_asked_and_its_time_stands() -> None:
    asked = e.ApprovalRequestEvent(
        request_id="r", tool_call_id="1", tool="bash", arguments={}, rule="ask", preview=e.CommandDisplay(command="make all"), **RAN
    )  # fmt: skip
    view = view_of(*SURVEYED, asked)
    [tile] = tiles(view)
    [place] = places([tile], 60, 10, "", NOW)
    assert (tile.state, tile.request is not None) == ("ask", True)
    assert tile_lines(place, NOW)[0][0] == ("━━ ", "warn")
    assert "  ? run make all" in lines_of(view)
    assert lines_of(view)[0].endswith(" 6 s · 41k tok")


def test_a_decision_makes_its_step_a_tile_though_it_has_not_begun() -> None:
    opened = e.PlanDecisionEvent(
        plan_id="plan", decision_id="d", question="CSV or JSON?", options=("a", "b"), step_id="test", ts=1084.0
    )
    view = view_of(*SURVEYED, opened)
    assert named(view) == ["slugify", "test"]
    rows = lines_of(view, "plan/test")
    assert rows[0].endswith(" waits 8 s")
    assert "  ? CSV or JSON?" in rows


def test_a_tile_that_asks_names_its_answers_and_with_a_panel_only_what_was_before() -> None:
    opened = e.PlanDecisionEvent(
        plan_id="plan", decision_id="d", question="Which?", options=("a", "b"), labels=("CSV", "JSON"), step_id="test"
    )
    asked = e.ApprovalRequestEvent(request_id="r", tool_call_id="2", tool="bash", rule="ask", arguments={}, **RAN)
    picked = e.QuestionEvent(
        request_id="q", questions=({"question": "Where?", "options": [{"label": "here"}, {"label": "there"}]},), **RAN
    )
    assert lines_of(view_of(*SURVEYED, opened), "plan/test")[1:4] == ["  ? Which?", "    1 CSV", "    2 JSON"]
    assert "    y yes   n no" in lines_of(view_of(*SURVEYED, asked))
    assert "    2 there" in lines_of(view_of(*SURVEYED, picked))
    assert [line for line in lines_of(view_of(*SURVEYED, asked), has_panel=True)[1:] if line] == ["  ▸ bash pytest -q"]


def test_who_never_worked_has_no_tile() -> None:
    begun = e.SessionStartedEvent(
        workspace="/w", agent="planner", model="m", version="1", session_id="other", source="other", ts=1.0
    )
    idle = view_of(*TALKED, begun)
    assert named(idle) == []
    ended = structs.replace(
        e.SessionEndedEvent(outcome="interrupted", exit_code=130), session_id="other", source="other"
    )
    assert named(view_of(*TALKED, begun, ended)) == []
    worked = e.UserMessageEvent(text="plan it", session_id="other", source="other")
    assert named(view_of(*TALKED, begun, worked, ended)) == ["planner"]


def test_who_hears_nothing_for_long_says_so_and_who_failed_says_why() -> None:
    silent = lines_of(view_of(*SURVEYED[:-1], called(1070.0)))
    assert any("nothing for 22 s" in line for line in silent)
    failed = moved("slugify", "failed", "in_progress", reason="verify", detail="2 tests failed", ts=1090.0)
    assert "    verify: 2 tests failed" in lines_of(view_of(*SURVEYED, failed))


def called(ts: float) -> e.ToolCallEvent:
    return e.ToolCallEvent(tool_call_id="1", tool="bash", arguments={}, summary="bash pytest", ts=ts, **WHO)


def test_who_has_ended_counts_no_seconds() -> None:
    done = moved("slugify", "completed", "in_progress", ts=1085.0)
    view = view_of(*SURVEYED, done)
    assert lines_of(view)[0].endswith(" 5.0 s · 41k tok")
    end = e.SubAgentFinishedEvent(outcome="interrupted", reason=None, tokens=1, turns=1, duration_s=1.0, **HELPER)
    [_, helper] = tiles(
        view_of(
            *SURVEYED,
            e.SubAgentStartedEvent(
                title="h", mode="", model="m", tools=(), max_tokens=1, max_turns=1, parent_id="agent", **HELPER
            ),
            end,
        )
    )
    assert (helper.state, helper.ended_at) == ("done", 1085.0)


def test_a_plan_that_was_paused_has_nobody_at_work() -> None:
    view = view_of(*SURVEYED, e.PlanPausedEvent(plan_id="plan", reason="user", ts=1090.0))
    [tile] = tiles(view)
    assert (tile.state, tile.ended_at) == ("later", 1090.0)


@pytest.mark.parametrize(("width", "columns"), [(80, 1), (121, 1), (122, 2), (200, 3), (248, 4)])
def test_tiles_have_sixty_cells_at_least_and_fill_the_width(width: int, columns: int) -> None:
    known = places(tiles(team(9)), width, 40, "plan/s0", NOW)
    assert len({place.x for place in known}) == columns
    assert all(place.width >= 60 and place.x + place.width <= width for place in known)
    assert [place.tile.name for place in known] == [f"s{number}" for number in range(9)]


def test_in_one_column_the_chosen_has_the_room_and_the_others_two_rows() -> None:
    known = places(tiles(team(5)), 80, 22, "plan/s2", NOW)
    assert [place.height for place in known] == [2, 2, 14, 2, 2]
    [*_, last] = [tile_lines(place, NOW) for place in known]
    assert [" ".join(text_of(line).split()) for line in last] == ["⠋ s4 1:22", "answered"]


def test_who_ended_long_ago_has_a_row_at_the_end() -> None:
    view = team(
        3, moved("s0", "completed", "in_progress", ts=NOW - FADE_S), moved("s1", "completed", ts=NOW - FADE_S + 1)
    )
    known = places(tiles(view), 200, 40, "", NOW)
    assert [(place.tile.name, place.height == 1) for place in known] == [("s1", False), ("s2", False), ("s0", True)]
    [row] = tile_lines(known[-1], NOW)
    assert text_of(row).startswith("✓ s0")


@pytest.mark.parametrize(("width", "rows"), [(80, 22), (120, 34), (200, 30)])
def test_where_not_all_fit_who_just_ended_makes_room_for_who_is_at_work(width: int, rows: int) -> None:
    ended = [moved(f"s{number}", "completed", "in_progress", ts=NOW - 1) for number in range(18)]
    shown = tiles(team(22, *ended))
    known = places(shown, width, rows, "plan/s20", NOW)
    assert [tile.id for tile in shown if tile.state == "run"] == [each.tile.id for each in known if each.height > 1][
        -4:
    ]
    assert all(place.y + place.height <= rows for place in known if place.tile.state == "run")
    assert all(place.height > 1 for place in places(shown[16:], width, rows, "plan/s20", NOW)), "here all fit"


def test_arrows_lead_to_the_tile_beside() -> None:
    known = places(tiles(team(5)), 200, 40, "", NOW)
    ways = [("plan/s0", "right"), ("plan/s0", "down"), ("plan/s2", "down"), ("plan/s4", "up"), ("plan/s0", "left")]
    assert [neighbour(known, *way) for way in ways] == ["plan/s1", "plan/s3", "plan/s4", "plan/s1", "plan/s0"]


def test_keys_are_named_where_they_count() -> None:
    def keys(*events: Event) -> str:
        return "".join(key for key, _ in actions(tiles(view_of(*SURVEYED, *events))[0]))

    assert keys() == "txk"
    gone = e.SubAgentFinishedEvent(outcome="completed", reason=None, tokens=1, turns=1, duration_s=1.0, **RAN)
    assert keys(gone, moved("slugify", "failed", "in_progress", ts=1090.0)) == "tkr"
    assert keys(gone, moved("slugify", "completed", "in_progress", ts=1090.0)) == ""


def test_what_is_told_to_a_step_is_told_to_its_agent_not_to_the_host() -> None:
    check = {"command": "make", "purpose": "verify"}
    host = e.ToolCallEvent(
        tool_call_id="2", tool="command", arguments=check, plan_id="plan", subagent_step_id="slugify", ts=1090.0
    )
    [tile] = tiles(view_of(*SURVEYED, host))
    assert [agent.id for agent in tile.agents] == ["agent", "plan/slugify"]
    agent = hearing_agent(tile)
    assert agent is not None
    assert agent.id == "agent"


@pytest.mark.parametrize(
    ("width", "facts"),
    [(80, "1/4 · 1 at work · 1:32 · 41k tok · $0.12"), (40, "1/4 · 1 at work · 1:32"), (24, "1 at work")],
)
def test_the_first_line_tells_how_all_of_it_stands(width: int, facts: str) -> None:
    view = view_of(*SURVEYED)
    line = fleet_head(view, tiles(view), NOW, width)
    assert cells_of(line) == width
    assert text_of(line).endswith(facts)


@pytest.mark.parametrize("height", [1, 2, 6, 20])
def test_what_comes_from_outside_moves_no_cursor(height: int) -> None:
    view = view_of(
        *SURVEYED,
        e.AssistantEvent(message_id="m", text=HOSTILE * 3, **RAN),
        e.ToolCallEvent(tool_call_id="2", tool="bash", arguments={}, summary=HOSTILE, **RAN),
        e.ToolStreamEvent(tool_call_id="2", tool="bash", text=HOSTILE, **RAN),
        e.QuestionEvent(request_id="q", questions=({"question": HOSTILE},), **RAN),
    )
    [tile] = tiles(view)
    lines = drawn(tile, height)
    assert not {"\x1b", "\u202e", "\x07", "\n"} & {char for line in lines for char in text_of(line)}


def drawn(tile: Tile, height: int) -> list[Line]:
    lines = tile_lines(TilePlace(tile=tile, x=0, y=0, width=70, height=height), NOW)
    assert len(lines) == height
    assert all(cells_of(line) == 70 for line in lines)
    return lines


def test_a_tile_for_an_item_of_a_list_has_its_title_and_the_model_that_has_stepped_up() -> None:
    steps = (outline("find"), outline("move", title="Move ${item.path}"))
    view = view_of(
        e.PlanStartedEvent(plan_id="plan", goal="g", steps=steps, ts=1000.0),
        e.PlanUnfoldedEvent(
            plan_id="plan",
            step_id="move",
            children=(e.ItemOutline(id="move-790c2794", key="towns/a.py", title="Move towns/a.py"),),
            items="0",
            ts=1001.0,
        ),
        moved("move-790c2794", "in_progress", ts=1010.0),
    )
    assert named(view) == ["move", "Move towns/a.py"]
    step = view.plans["plan"].steps["move-790c2794"]
    step.state.outline = structs.replace(
        step.state.outline, order=e.WorkOrder(models=("small", "large"), pattern="move")
    )
    step.state.attempt = 2
    [head, *_] = lines_of(view, "plan/move-790c2794")
    assert head.startswith("━━ ")
    assert " Move towns/a.py " in head
    assert "large, 2nd of 2 · " in head
