"""Periodic and requested redraws: none is lost, however late its timer is, and none comes too often."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Static

from tests.unit.cli.textual_ui.overview.views import until
from vibe.cli.textual_ui import refresher
from vibe.cli.textual_ui.refresher import Refresher

EVERY = 0.125


class Drawing(App[None]):
    def __init__(self, seconds: float = EVERY) -> None:
        super().__init__()
        self.drawn = 0
        self.shown = Static()
        self.refresher = Refresher(self.shown, self._draw, seconds)

    def compose(self) -> ComposeResult:
        yield self.shown

    def _draw(self) -> None:
        self.drawn += 1


class Hands:
    """A clock that only the test moves, and the timers that depend on it."""

    def __init__(self, app: Drawing, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        self._set: list[Hand] = []
        monkeypatch.setattr(refresher, "monotonic", lambda: self.now)
        monkeypatch.setattr(app.shown, "set_interval", self._begin)

    def turn(self, seconds: float) -> None:
        """Let time pass, and run each timer when it is due."""
        end = self.now + seconds + EVERY / 100
        while self._set and (hand := min(self._set, key=lambda each: each.due)).due <= end:
            self.now = max(self.now, hand.due)
            hand.due += hand.seconds
            hand.act()
        self.now = max(self.now, end)

    def _begin(self, seconds: float, act: Callable[[], object]) -> Hand:
        self._set.append(hand := Hand(self.now + seconds, seconds, act, self._set))
        return hand


@dataclass(eq=False)
class Hand:
    """A timer."""

    due: float
    seconds: float
    act: Callable[[], object]
    others: list[Hand]

    def stop(self) -> None:
        self.others.remove(self)


def late(seconds: float) -> None:
    """Block the loop, as a machine busy with other things does."""
    time.sleep(seconds)


async def test_what_comes_alone_is_drawn_at_once_and_what_follows_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (app := Drawing()).run_test():
        hands = Hands(app, monkeypatch)
        app.refresher.request()
        assert app.drawn == 1
        for _ in range(5):
            app.refresher.request()
        assert app.drawn == 1
        hands.turn(3 * EVERY)
        assert app.drawn == 2


async def test_a_wish_is_granted_though_its_timer_is_late() -> None:
    async with (app := Drawing()).run_test() as pilot:
        for count in (2, 3, 4):
            app.refresher.request()
            app.refresher.request()
            await pilot.pause(0)
            late(5 * EVERY)
            await until(pilot, lambda count=count: app.drawn >= count)


async def test_beats_go_on_after_one_that_is_late_and_come_no_more_often_than_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (app := Drawing()).run_test():
        hands = Hands(app, monkeypatch)
        app.refresher.draw_every(EVERY)
        assert app.refresher.every
        hands.turn(3 * EVERY)
        assert app.drawn == 3
        hands.now += 5.5 * EVERY  # as on a machine busy with other things
        hands.turn(3 * EVERY)
        assert app.drawn == 3 + 1 + 3, "the late one, and one at each multiple after it"
        app.refresher.draw_every(0.0)
        assert not app.refresher.every
        hands.turn(3 * EVERY)
        assert app.drawn == 7


async def test_without_motion_it_beats_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (app := Drawing()).run_test() as pilot:
        app.animation_level = "none"
        asked: list[float] = []

        def noted(seconds: float, _: object) -> None:
            asked.append(seconds)

        monkeypatch.setattr(app.shown, "set_interval", noted)
        app.refresher.draw_every(EVERY)
        await pilot.pause()
        assert 0.0 < asked[0] <= 1.0
        assert app.refresher.every == 1.0


async def test_what_is_gone_is_drawn_no_more() -> None:
    async with (app := Drawing()).run_test():
        await app.shown.remove()
        app.refresher.request()
        assert app.drawn == 0
