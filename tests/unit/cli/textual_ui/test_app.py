"""The app around the chat: its messages about settings and absence, and what a resize leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.drivers.headless_driver import HeadlessDriver
from textual.events import AppBlur, AppFocus

from ipc import events as e
from tests.unit.cli.textual_ui import scenes
from tests.unit.cli.textual_ui.scenes import CHAT, Scene, Stage, made_app, played
from vibe.cli.textual_ui import app as app_module
from vibe.cli.textual_ui.app import VibeApp
from vibe.cli.textual_ui.overview.summaries import SidePanel
from vibe.cli.textual_ui.palettes import ASK_BACKGROUND, BackgroundReported

EMPTY = Scene(scenes.empty, (120, 30))


@pytest.fixture
def app(tmp_path: Path) -> VibeApp:
    """Return the app, whose settings name a theme that does not exist."""
    return made_app("nosuch", tmp_path)


def said(on: Stage) -> list[str]:
    return [entry.text for entry in on.app.chat_screen.log_view.entries]


async def test_a_broken_theme_is_said_once_the_chat_is_there_and_the_screen_has_the_usual(
    app: VibeApp, tmp_path: Path
) -> None:
    async with played(EMPTY, app, tmp_path) as on:
        assert [line for line in said(on) if "theme" in line] == [
            "there is no theme 'nosuch' ([ui] theme): /theme lists them"
        ]
        assert app.theme == "follow"


async def test_the_palette_is_that_of_the_terminal_as_soon_as_it_says_so_and_a_set_theme_stays(
    app: VibeApp, tmp_path: Path
) -> None:
    async with played(EMPTY, app, tmp_path) as on:
        assert app.current_theme.dark
        app.post_message(BackgroundReported(is_dark=False))
        await on.settle()
        assert (app.theme, app.current_theme.dark) == ("follow", False)
        assert app.screen.styles.background.brightness > 0.9

        app.theme = "nord"
        app.post_message(BackgroundReported(is_dark=True))
        await on.settle()
        assert app.theme == "nord"
        app.theme = "follow"
        await on.settle()
        assert app.current_theme.dark


async def test_the_terminal_is_asked_for_its_background_by_who_follows_it_alone(
    app: VibeApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr(HeadlessDriver, "write", lambda _self, data: written.append(data))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    async with played(EMPTY, app, tmp_path) as on:
        assert written.count(ASK_BACKGROUND) == 1
        app.theme = "nord"
        await on.settle()
        assert written.count(ASK_BACKGROUND) == 1


async def test_who_comes_back_is_told_what_happened_meanwhile_once(
    app: VibeApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "AWAY_SECONDS", 0.0)
    async with played(EMPTY, app, tmp_path) as on:
        await on.see(e.PromptStartedEvent(prompt_id="p", **CHAT))
        app.post_message(AppBlur())
        await on.settle()
        await on.see(e.PromptEndedEvent(prompt_id="p", outcome="completed", **CHAT))
        app.post_message(AppFocus())
        await on.settle()
        assert [line for line in said(on) if "away" in line] == ["while you were away: the agent answered"]


async def test_the_overview_is_there_by_itself_where_there_is_room_and_something_in_it(
    app: VibeApp, tmp_path: Path
) -> None:
    async with played(Scene(scenes.empty, (160, 30)), app, tmp_path) as on:
        overview = app.chat_screen.query_one(SidePanel)
        assert not overview.display
        await on.see(*scenes.BESIDE)
        assert overview.display
        await on.pilot.resize_terminal(149, 30)
        await on.settle()
        assert not overview.display


async def test_the_overview_that_was_hidden_comes_again_with_another_amount_of_room(
    app: VibeApp, tmp_path: Path
) -> None:
    async with played(Scene(scenes.empty, (160, 30)), app, tmp_path) as on:
        overview = app.chat_screen.query_one(SidePanel)
        await on.see(*scenes.BESIDE)
        await on.press("ctrl+t")
        await on.pilot.resize_terminal(170, 40)
        await on.settle()
        assert not overview.display
        await on.pilot.resize_terminal(80, 24)
        await on.pilot.resize_terminal(160, 36)
        await on.settle()
        assert overview.display


async def test_the_overview_that_was_opened_stays(app: VibeApp, tmp_path: Path) -> None:
    async with played(Scene(scenes.empty, (120, 30)), app, tmp_path) as on:
        overview = app.chat_screen.query_one(SidePanel)
        await on.press("ctrl+t")
        assert overview.display
        await on.pilot.resize_terminal(170, 40)
        await on.pilot.resize_terminal(100, 30)
        await on.settle()
        assert overview.display
        await on.press("ctrl+t")
        assert not overview.display
