"""The beats and wishes of what is drawn: none is lost, however late its timer, and none comes too often."""

from __future__ import annotations

import time

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import Static

from tests.unit.cli.textual_ui.overview.views import until
from vibe.cli.textual_ui.refresher import Refresher

EVERY = 0.1


class Drawing(App[None]):
    def __init__(self, seconds: float = EVERY) -> None:
        super().__init__()
        self.times: list[float] = []
        self.shown = Static()
        self.refresher = Refresher(self.shown, lambda: self.times.append(time.monotonic()), seconds)

    def compose(self) -> ComposeResult:
        yield self.shown


def late(seconds: float) -> None:
    """Keep the loop from all else, as a machine does that is busy with other things."""
    time.sleep(seconds)


async def test_what_comes_alone_is_drawn_at_once_and_what_follows_once_for_all() -> None:
    async with (app := Drawing()).run_test() as pilot:
        app.refresher.wish()
        assert len(app.times) == 1
        for _ in range(5):
            app.refresher.wish()
        assert len(app.times) == 1
        await until(pilot, lambda: len(app.times) > 1)
        await pilot.pause(3 * EVERY)
        assert len(app.times) == 2


async def test_a_wish_is_granted_though_its_timer_is_late() -> None:
    async with (app := Drawing()).run_test() as pilot:
        for count in (2, 3, 4):
            app.refresher.wish()
            app.refresher.wish()
            await pilot.pause(0)
            late(5 * EVERY)
            await until(pilot, lambda count=count: len(app.times) >= count)


async def test_beats_go_on_after_one_that_is_late_and_come_no_more_often_than_asked() -> None:
    async with (app := Drawing()).run_test() as pilot:
        app.refresher.beat(EVERY)
        assert app.refresher.beats
        await _beaten(pilot, app, 2)
        late(5 * EVERY)
        app.times.clear()
        await _beaten(pilot, app, 4)
        assert app.times[3] - app.times[0] > 2 * EVERY
        app.refresher.beat(0.0)
        assert not app.refresher.beats
        app.times.clear()
        await pilot.pause(3 * EVERY)
        assert not app.times


async def test_without_motion_it_beats_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (app := Drawing()).run_test() as pilot:
        app.animation_level = "none"
        asked: list[float] = []

        def noted(seconds: float, _: object) -> None:
            asked.append(seconds)

        monkeypatch.setattr(app.shown, "set_interval", noted)
        app.refresher.beat(EVERY)
        await pilot.pause()
        assert 0.0 < asked[0] <= 1.0
        assert app.refresher._every == 1.0  # pyright: ignore[reportPrivateUsage]


async def test_what_is_gone_is_drawn_no_more() -> None:
    async with (app := Drawing()).run_test():
        await app.shown.remove()
        app.refresher.wish()
        assert not app.times


async def _beaten(pilot: Pilot[None], app: Drawing, times: int) -> None:
    await until(pilot, lambda: len(app.times) >= times)
