"""The card of a plan in the chat: it appears, is updated in place, and stays."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from ipc import events as e
from ipc.events import Event
from tests.unit.cli.textual_ui.log.page import LogPage
from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.cli.textual_ui.presenters.plan_cards import PlanCards, PlanningCards
from vibe.cli.textual_ui.state_store import UIStateStore
from vibe.view.view import View, apply

PLAN: dict[str, Any] = {"plan_id": "plan"}
STEPS = tuple(e.StepOutline(id=name, title=f"Do {name}", mode="code") for name in ("one", "two"))
STARTED = e.PlanStartedEvent(goal="Two things", steps=STEPS, ts=100.0, **PLAN)
ENDED = e.PlanCompletedEvent(status="completed", counts={}, duration_s=9.0, ts=109.0, **PLAN)


def moved(step_id: str, status: str, ts: float, previous: str = "pending") -> e.PlanStepUpdateEvent:
    return e.PlanStepUpdateEvent(step_id=step_id, title="", status=status, previous=previous, ts=ts, **PLAN)


class Shown:
    """A log with cards, and a clock that a test sets."""

    def __init__(self, page: LogPage, pilot: Pilot[None]) -> None:
        self.now = 100.0
        self.page = page
        self._pilot = pilot
        self.store = UIStateStore(lambda: None)
        self.cards = PlanCards(page.log_view, lambda: self.now)
        self.store.add(self.cards.present)
        self.told: list[tuple[str, str]] = []
        self.plannings = PlanningCards(
            page.log_view,
            lambda: self.now,
            again=lambda goal: self.told.append(("again", goal)),
            look=lambda agent_id: self.told.append(("look", agent_id)),
        )
        self.store.add(self.plannings.present)

    async def see(self, *events: Event) -> None:
        for event in events:
            self.now = max(self.now, event.ts)
            self.store.publish(event)
        self.store.flush()
        self.page.log_view.settle()
        await self._pilot.pause()

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    def rows(self) -> list[str]:
        return self.page.lines()


@asynccontextmanager
async def shown(size: tuple[int, int] = (100, 20)) -> AsyncGenerator[Shown]:
    page = LogPage()
    async with page.run_test(size=size) as pilot:
        await pilot.pause()
        yield Shown(page, pilot)


async def test_a_card_goes_on_where_it_is_and_becomes_the_record() -> None:
    async with shown() as on:
        await on.see(STARTED, moved("one", "in_progress", 100.0))
        on.page.log_view.append(LogEntry("answer", "said meanwhile"))
        await on.see(moved("one", "completed", 104.0, "in_progress"), moved("two", "in_progress", 104.0))
        rows = on.rows()
        assert rows[0].startswith("▸ Two things")
        assert rows[0].endswith("1/2 · 4 s")
        assert rows[2].startswith("✓ one ")
        assert rows[-1] == "  said meanwhile"

        await on.see(moved("two", "completed", 109.0, "in_progress"), ENDED)
        rows = on.rows()
        assert rows[0].startswith("✓ Two things")
        assert rows[4] == "  Plan completed · 9.0 s"
        assert rows[-1] == "  said meanwhile"
        on.now = 500.0
        assert on.rows() == rows, "it stays as it is"


async def test_its_seconds_count_while_nothing_happens_and_only_its_rows_are_painted() -> None:
    async with shown() as on:
        await on.see(STARTED, moved("one", "in_progress", 100.0))
        log = on.page.log_view
        before = [log.render_line(y) for y in range(log.size.height)]
        on.now = 101.0
        entry = log.entries[0]
        log.changed(entry)
        log.settle()
        after = [log.render_line(y) for y in range(log.size.height)]
        changed = [row.text.split()[1] for row, old in zip(after, before, strict=True) if row is not old]
        assert on.rows()[0].endswith("0/2 · 1 s")
        assert changed == ["Two", "one"]


async def test_out_of_sight_it_is_not_drawn_and_is_as_it_should_be_when_it_comes_back() -> None:
    async with shown(size=(100, 8)) as on:
        await on.see(STARTED, moved("one", "in_progress", 100.0))
        log = on.page.log_view
        log.extend(LogEntry("answer", f"answer {number}") for number in range(20))
        entry = log.entries[0]
        drawn = 0
        draw = entry.draw
        assert draw is not None

        def counted(cols: int) -> Any:
            nonlocal drawn
            drawn += 1
            return draw(cols)

        entry.draw = counted
        await on.see(moved("one", "completed", 104.0, "in_progress"))
        await on.see(moved("two", "in_progress", 104.0))
        assert drawn == 0

        log.action_scroll_home()
        assert on.rows()[0].endswith("1/2 · 4 s")
        assert drawn == 1


async def test_a_plan_that_is_resumed_has_its_card_at_the_end_and_a_line_where_it_was() -> None:
    async with shown() as on:
        await on.see(STARTED, moved("one", "in_progress", 100.0), e.PlanPausedEvent(reason="signal", ts=102.0, **PLAN))
        assert on.rows()[4].startswith("  Plan paused")
        resumed = e.PlanResumedEvent(goal="Two things", steps=STEPS, done=0, ts=900.0, **PLAN)
        await on.see(resumed, moved("one", "in_progress", 900.0))
        rows = on.rows()
        assert [row[:12] for row in rows] == ["↻ Two things", "", "▸ Two things", *(row[:12] for row in rows[3:])]
        assert rows[0].endswith("goes on below")
        assert rows[2].endswith("0/2 · 2 s")


async def test_enter_on_the_card_opens_a_list_with_its_items_and_closes_it() -> None:
    children = tuple(e.ItemOutline(id=f"two-{name}", key=name, title=f"Do {name}") for name in ("x", "y"))
    async with shown() as on:
        unfolded = e.PlanUnfoldedEvent(step_id="two", children=children, items="0", ts=101.0, **PLAN)
        await on.see(STARTED, unfolded, moved("two-x", "in_progress", 102.0))
        assert not any("Do x" in row for row in on.rows())
        on.page.log_view.focus()
        await on.press("ctrl+up", "enter")
        assert [row[2:6] for row in on.rows()[2:]] == ["one ", "two ", "Do x", "Do y"]
        await on.see(moved("two-x", "completed", 109.0, "in_progress"))
        assert on.rows()[4].startswith("✓ Do x")
        await on.press("enter")
        assert not any("Do x" in row for row in on.rows())


CHAT = e.SessionStartedEvent(workspace="w", model="m", agent="default", source="chat", session_id="chat")
PLANNER: dict[str, Any] = {"source": "planner", "session_id": "planner"}
PLANS = e.SessionStartedEvent(workspace="w", model="m", agent="planner", ts=100.0, **PLANNER)


def begun(number: int, ts: float) -> e.PromptStartedEvent:
    return e.PromptStartedEvent(prompt_id=f"p{number}", ts=ts, **PLANNER)


def over(number: int, outcome: str, ts: float, detail: str = "") -> e.PromptEndedEvent:
    return e.PromptEndedEvent(prompt_id=f"p{number}", outcome=outcome, detail=detail, duration_s=9.0, ts=ts, **PLANNER)


async def test_planning_is_shown_while_it_goes_on_and_each_version_leaves_a_line() -> None:
    async with shown() as on:
        on.plannings.begin("Build it")
        await on.see(CHAT, PLANS, begun(1, 100.0))
        on.now = 104.0
        await on.see(e.UsageEvent(model="m", prompt_tokens=900, completion_tokens=0, cost_usd=0.01, **PLANNER))
        assert on.rows()[0].endswith("4 s · 900 tok · $0.01")
        await on.press("r", "o")
        assert on.told == [], "there is nothing to be tried again yet"
        await on.see(over(1, "completed", 109.0))
        assert on.rows()[0].startswith("✓ Planned")
        await on.see(begun(2, 120.0), over(2, "failed", 130.0, "nothing came"))
        rows = [row for row in on.rows() if row]
        assert rows[0].startswith("✓ Planned")
        assert rows[1].startswith("✗ no plan: nothing came   Tab · o open"), (
            "another version is asked for where the plan is"
        )


async def test_after_a_failure_keys_on_its_line_try_again_and_open_what_the_planner_did() -> None:
    async with shown() as on:
        on.plannings.begin("Build it")
        await on.see(CHAT, PLANS, begun(1, 100.0), over(1, "failed", 109.0, "nothing came"))
        assert "Tab · r try again · o open" in on.rows()[0], "they work once the line is marked"
        on.page.set_focus(None)
        await on.press("r")
        assert on.told == [], "the log has no keys"
        on.page.log_view.focus()
        await on.press("x", "o", "r")
    assert on.told == [("look", "planner"), ("again", "Build it")]


async def test_a_run_that_only_plans_is_its_own_chat() -> None:
    async with shown() as on:
        await on.see(PLANS, begun(1, 100.0))
        assert on.rows() == []


async def test_plans_of_a_conversation_that_is_resumed_are_records_until_they_go_on() -> None:
    earlier = View()
    for event in (STARTED, moved("one", "completed", 104.0), e.PlanPausedEvent(reason="left", ts=105.0, **PLAN)):
        apply(earlier, event)
    async with shown() as on:
        on.page.log_view.append(on.cards.record(earlier.plans["plan"]))
        on.store.view.plans.update(earlier.plans)
        await on.see()
        assert [row.split("  ")[0] for row in on.rows() if row.strip()] == ["‖ Two things", ""]
        assert "Plan paused (when you left) · 5.0 s" in on.page.text()

        on.page.log_view.focus()
        await on.press("ctrl+up", "enter")
        assert any(row.startswith("✓ one ") for row in on.rows())

        again = e.PlanResumedEvent(goal="Two things", steps=STEPS, done=1, ts=200.0, **PLAN)
        await on.see(again, moved("two", "in_progress", 200.0))
        assert [row.split("  ")[0] for row in on.rows() if "Two things" in row] == ["↻ Two things", "▸ Two things"]
        assert sum(row.startswith("✓ one ") for row in on.rows()) == 1
