"""The screen of a chat as a whole: where keys go, and what is offered."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from anyio import to_thread
from textual.pilot import Pilot

from tests.unit.cli.textual_ui.controllers.test_app_controller import ScriptedChat
from tests.unit.cli.textual_ui.scenes import made_app
from vibe.cli.textual_ui.app import VibeApp
from vibe.cli.textual_ui.input.candidate_list import CandidateList
from vibe.cli.textual_ui.log.entry import LogEntry


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[tuple[VibeApp, Pilot[None], ScriptedChat]]:
    """The screen with a chat in which there was one answer."""
    app = await to_thread.run_sync(made_app, "textual-dark", folder)
    chat = ScriptedChat()
    async with app.run_test(size=(80, 24)) as pilot:
        app.chat_screen.opened(chat, "")
        app.chat_screen.log_view.append(LogEntry("answer", "```\nmake\n```"))
        await pilot.pause()
        yield app, pilot, chat


async def test_letters_are_keys_of_the_chat_after_tab_and_words_of_a_prompt_after_a_click(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot, _):
        screen = app.chat_screen
        await pilot.press("tab", "b")
        assert (app.clipboard, screen.prompt.text) == ("make", "")
        await pilot.press("x", "b")
        assert screen.prompt.text == "xb"

        screen.prompt.clear()
        await pilot.click(screen.log_view, offset=(4, 4))
        assert screen.log_view.has_focus
        await pilot.press(*"make")
        assert screen.prompt.text == "make"


async def test_commands_that_come_after_the_start_are_offered(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot, chat):
        chat.about = replace(chat.about, commands=[("pen:review", "PLACE", "Ask for a review.")])
        await pilot.press(*"/rev")
        await pilot.pause()
        assert [candidate.label for candidate in app.screen.query_one(CandidateList).candidates] == [
            "/pen:review PLACE"
        ]
