"""The start screen in the chat: facts arrive, keys on an empty line choose, and typing ends the choice."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from msgspec.structs import replace
from textual.pilot import Pilot

from tests.unit.cli.textual_ui.log.page import LogPage
from tests.unit.cli.textual_ui.scenes import NOW, PROJECT, SEAT
from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.cli.textual_ui.presenters.start_page import SEEN_SECONDS, StartPage
from vibe.front.start_screen import StartFacts

ALL = replace(SEAT, project=PROJECT)
FIRST = StartFacts(version="0.1", folder="~/textkit")


class Shown:
    """A log with a start page, and a clock that a test sets."""

    def __init__(self, page: LogPage, pilot: Pilot[None]) -> None:
        self.now = 100.0
        self.page = page
        self.pilot = pilot
        self.taken: list[str] = []
        log = page.log_view
        self.start = StartPage(log, lambda choice: self.taken.append(choice.line), lambda: NOW, lambda: self.now)

    async def tell(self, facts: StartFacts) -> None:
        self.start.update(facts)
        await self.pilot.pause()

    async def see(self) -> None:
        """Let more time pass than choices must be visible for, however late they were drawn."""
        for _ in range(5):
            self.now += SEEN_SECONDS
            await self.pilot.pause()

    @property
    def marked(self) -> str:
        return next((line.strip().split("  ")[0] for line in self.page.lines() if "▸" in line), "")

    @property
    def rows(self) -> int:
        return len(self.page.lines())


@asynccontextmanager
async def shown(facts: StartFacts = FIRST) -> AsyncGenerator[Shown]:
    page = LogPage()
    async with page.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        on = Shown(page, pilot)
        on.start.begin(facts)
        await pilot.pause()
        yield on


async def test_the_first_frame_has_what_is_known_and_the_rest_comes_behind_it() -> None:
    async with shown() as on:
        assert [line.strip() for line in on.page.lines()] == ["vibe 0.1", "~/textkit"]
        assert not on.start.press("enter")
        await on.tell(ALL)
        assert on.marked == "▸ Make receipts and exports right"
        assert "bubblewrap" in on.page.text()


async def test_arrows_move_the_mark_and_enter_takes_it_once() -> None:
    async with shown() as on:
        await on.tell(ALL)
        await on.see()
        assert on.start.press("down")
        assert on.start.press("down")
        assert on.marked == "▸ fix the failing tests"
        assert all(on.start.press("down") for _ in range(5))
        assert on.marked == "▸ /plan add CSV export, with tests"
        assert on.start.press("up")
        assert on.start.press("enter")
        assert on.taken == ["fix the failing tests"]
        assert on.marked == ""
        assert not any(on.start.press(key) for key in ("enter", "up", "down"))


async def test_above_the_first_choice_is_the_history() -> None:
    async with shown() as on:
        await on.tell(ALL)
        assert not on.start.press("up")
        assert on.start.press("down")
        assert on.start.press("up")
        assert not on.start.press("up")


async def test_an_enter_that_was_typed_before_the_choices_were_seen_takes_none() -> None:
    async with shown() as on:
        await on.tell(ALL)
        while on.start._seen_at is None:  # pyright: ignore[reportPrivateUsage]  they are drawn a little later
            await on.pilot.pause()
        assert not on.start.press("enter")
        on.now += SEEN_SECONDS / 2
        await on.tell(replace(ALL, version="0.2"))
        assert not on.start.press("enter")
        on.now += SEEN_SECONDS / 2
        assert on.start.press("enter")
        assert on.taken == ["/plan resume 0a1b2c-20270114"]


async def test_nothing_moves_while_one_types_and_the_room_goes_with_the_first_prompt() -> None:
    async with shown() as on:
        await on.tell(ALL)
        rows = on.rows
        on.start.release_keys()
        assert (on.rows, on.marked) == (rows, "")
        assert not on.start.press("down")
        on.start.close()
        await on.pilot.pause()
        assert on.rows == rows - 2
        assert on.page.text().endswith("several agents, side by side")


async def test_facts_that_come_late_are_shown_and_choices_are_no_more() -> None:
    async with shown() as on:
        on.start.release_keys()
        await on.tell(ALL)
        await on.see()
        assert "3 files changed" in on.page.text()
        assert on.marked == ""
        assert not on.start.press("enter")


async def test_a_conversation_that_goes_on_has_only_a_plan_that_was_left() -> None:
    async with shown(replace(FIRST, is_new=False)) as on:
        on.page.log_view.append(LogEntry("answer", "earlier"))
        await on.tell(replace(ALL, project=replace(PROJECT, left=())))
        assert on.page.text().strip() == "earlier"
        await on.tell(ALL)
        assert "▌ Paused plan  1 of 6 done · paused yesterday " in on.page.text()
        assert "Try" not in on.page.text()
        await on.see()
        assert on.start.press("tab")
        assert on.start.press("enter")
        assert on.taken == ["/plan status 0a1b2c-20270114", "/plan resume 0a1b2c-20270114"]


async def test_a_plan_that_was_left_is_offered_until_the_conversation_goes_on() -> None:
    async with shown(replace(FIRST, is_new=False)) as on:
        on.page.log_view.append(LogEntry("answer", "earlier"))
        await on.tell(ALL)
        on.page.log_view.append(LogEntry("note", "later"))
        on.start.close()
        await on.tell(ALL)
        assert "Paused plan" not in on.page.text()
        assert on.page.text().split() == ["earlier", "·", "later"]
        on.start.begin(replace(ALL, is_new=False))
        await on.tell(ALL)
        on.start.begin(replace(ALL, is_new=False))
        await on.tell(ALL)
        assert on.page.text().count("Paused plan") == 1


async def test_a_plan_that_was_left_can_be_left_again() -> None:
    async with shown(replace(FIRST, is_new=False)) as on:
        await on.tell(ALL)
        await on.see()
        assert on.start.press("escape")
        assert not on.start.press("escape")
        assert not on.start.press("enter")
        assert on.taken == []


async def test_a_page_that_was_dropped_says_and_takes_nothing() -> None:
    async with shown() as on:
        on.start.drop()
        on.page.log_view.reset()
        await on.tell(ALL)
        await on.see()
        assert on.page.text().strip() == ""
        assert not on.start.press("enter")
        assert not on.start.is_open


async def test_a_page_that_another_one_follows_stays_as_it_was() -> None:
    async with shown(FIRST) as on:
        await on.tell(ALL)
        on.start.begin(replace(on.start.facts, is_new=False, with_cards=[PROJECT.left[0].plan_id]))
        await on.tell(ALL)
        text = on.page.text()
        assert text.count("Paused plan  1 of 6 done") == 1
        assert text.index("Paused here") < text.index("▌ Paused plan")
