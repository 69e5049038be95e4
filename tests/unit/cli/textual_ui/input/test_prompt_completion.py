"""Completion and history search, with keys pressed on a screen."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from textual.pilot import Pilot

from tests.unit.cli.textual_ui.input.stage import InputStage
from vibe.cli.textual_ui.input.prompt_input import CommandRow

COMMANDS: list[CommandRow] = [
    ("help", "", "say what there is"),
    ("model", "[NAME]", "choose a model"),
    ("plan", "GOAL | show | status", "plan and run"),
    ("memory", "", "[red]notes\x1b[2J"),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ["README.md", "src/main.py", "src/my notes.md", "tests/test_main.py"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


@pytest.fixture
def app(project: Path) -> InputStage:
    stage = InputStage()
    stage.prompt.complete_with(commands=lambda: COMMANDS, root=project)
    return stage


async def pressed(pilot: Pilot[None], *keys: str) -> None:
    stage = cast("InputStage", pilot.app)
    stage.press(*keys)
    await pilot.pause()
    await stage.threads_done()
    await pilot.pause()


async def test_a_slash_offers_commands_and_letters_choose_among_them(app: InputStage) -> None:
    async with app.run_test() as pilot:
        await pressed(pilot, "/")
        assert app.offered == ["/help", "/model [NAME]", "/plan GOAL | show | status", "/memory"]
        await pressed(pilot, "m", "m")
        assert app.offered == ["/memory"]
        rows = app.rows()

        assert rows[-2].rstrip() == "▸ /memory  [red]notes"
        assert rows[-1].startswith(" > /mm")


@pytest.mark.parametrize("key", ["tab", "enter"])
async def test_tab_and_enter_put_in_the_command_and_enter_sends_it_then(app: InputStage, key: str) -> None:
    async with app.run_test() as pilot:
        await pressed(pilot, *"/he", key)
        assert (app.prompt.text, app.texts) == ("/help ", [])
        await pressed(pilot, "enter")

        assert app.texts == ["/help "]


async def test_a_command_typed_as_a_whole_is_sent_by_the_first_enter(app: InputStage) -> None:
    async with app.run_test() as pilot:
        await pressed(pilot, *"/plan", "enter")
        await pressed(pilot, *"/plan make it so", "enter")
        await pressed(pilot, *"/plan s", "enter")

        assert app.texts == ["/plan", "/plan make it so", "/plan s"]


async def test_keys_that_come_at_once_do_the_same(app: InputStage) -> None:
    async with app.run_test() as pilot:
        await pressed(pilot, *"/hel", "tab", *"me", "enter", *"/plan x", "enter")

        assert app.texts == ["/help me", "/plan x"]


async def test_escape_closes_the_list_until_another_word_is_begun_and_bubbles_then(app: InputStage) -> None:
    async with app.run_test() as pilot:
        await pressed(pilot, *"/m")
        assert bool(app.popup.candidates)
        await pressed(pilot, "escape", "o")
        assert (bool(app.popup.candidates), app.bubbled) == (False, [])
        await pressed(pilot, "escape")
        assert app.bubbled == ["escape"]
        await pressed(pilot, "ctrl+u", *"/m")
        assert bool(app.popup.candidates)


async def test_arrows_move_in_the_list_round_its_end(app: InputStage) -> None:
    async with app.run_test() as pilot:
        await pressed(pilot, *"old", "enter", "/", "up", "tab")

        assert app.prompt.text == "/memory "


async def test_the_history_opens_no_list(app: InputStage) -> None:
    async with app.run_test() as pilot:
        await pressed(pilot, *"first", "enter", *"/help", "enter", "up")
        assert (app.prompt.text, bool(app.popup.candidates)) == ("/help", False)
        await pressed(pilot, "up")

        assert app.prompt.text == "first"


async def test_an_at_sign_offers_files_and_what_is_put_in_is_quoted_where_needed(app: InputStage) -> None:
    async with app.run_test() as pilot:
        await pressed(pilot, *"see @main")
        assert app.offered == ["src/main.py", "tests/test_main.py"]
        await pressed(pilot, "enter", *"and @not", "tab")
        await pressed(pilot, "!", "enter")

        assert app.texts == ['see @src/main.py and @"src/my notes.md" !']


async def test_a_path_typed_as_a_whole_is_sent_by_the_first_enter(app: InputStage) -> None:
    async with app.run_test() as pilot:
        await pressed(pilot, *"@src/main.py")
        assert bool(app.popup.candidates)
        await pressed(pilot, "enter")

        assert app.texts == ["@src/main.py"]


async def test_files_are_offered_once_they_are_listed(app: InputStage) -> None:
    async with app.run_test() as pilot:
        await pressed(pilot, "@")

        assert set(app.offered) == {"README.md", "src/main.py", "src/my notes.md", "tests/test_main.py"}


async def test_tab_and_enter_wait_for_what_is_still_looked_for(app: InputStage) -> None:
    async with app.run_test() as pilot:
        await pressed(pilot, *"@x", "ctrl+u")
        app.press(*"@readme", "tab")
        await pressed(pilot)
        assert app.prompt.text == "@README.md "
        app.press("ctrl+u", *"@testmain", "enter")
        await pressed(pilot)
        assert app.prompt.text == "@tests/test_main.py "
        app.press("ctrl+u", *"@testmain", "enter", *"next")
        await pressed(pilot)

        assert (app.texts, app.prompt.text) == (["@testmain"], "next")


async def test_a_long_usage_leaves_room_for_what_the_command_does(app: InputStage, project: Path) -> None:
    usage = "GOAL | " + " | ".join(f"word{number}" for number in range(20))
    app.prompt.complete_with(commands=lambda: [("plan", usage, "plan and run")], root=project)
    async with app.run_test(size=(60, 10)) as pilot:
        await pressed(pilot, *"/pl")
        assert app.rows()[-2] == "▸ /plan GOAL | word0 | word1 | word2 | word3…  plan and run "


async def test_the_list_fits_above_the_input_on_a_tiny_screen(app: InputStage) -> None:
    async with app.run_test(size=(20, 5)) as pilot:
        await pressed(pilot, "/", "down", "down", "down", "down")
        rows = app.rows()

        assert [row[:8].rstrip() for row in rows] == ["▸ /help", "  /model", "  /plan", "  /memor", " > /"]
        assert rows[1].startswith("  /model [NAME]  ch…")


async def test_a_path_that_is_too_long_shows_its_end(app: InputStage, project: Path) -> None:
    folder = project / ("a" * 30)
    folder.mkdir()
    (folder / "日本.md").write_text("")
    async with app.run_test(size=(30, 10)) as pilot:
        await pressed(pilot, *"@aa")
        assert app.rows()[-2].rstrip() == "▸ …aaaaaaaaaaaaaaaaaaa/日本.md"


async def test_a_click_puts_in_what_is_clicked(app: InputStage) -> None:
    async with app.run_test() as pilot:
        await pressed(pilot, "/")
        await pilot.click(app.popup, offset=(3, 1))
        await pressed(pilot, "x")

        assert app.prompt.text == "/model x"


async def test_ctrl_r_searches_the_history(app: InputStage) -> None:
    async with app.run_test() as pilot:
        await pressed(pilot, *"fix the parser", "enter", *"write docs", "enter", *"fix it", "enter", *"draft")
        await pressed(pilot, "ctrl+r", *"fix")
        assert (app.mark, app.offered) == ("?", ["fix it", "fix the parser"])
        await pressed(pilot, "ctrl+r", "enter")
        assert (app.prompt.text, app.mark, app.texts[3:]) == ("fix the parser", ">", [])
        await pressed(pilot, "enter")

        assert app.texts[3:] == ["fix the parser"]


async def test_escape_or_nothing_found_leaves_the_draft_as_it_was(app: InputStage) -> None:
    async with app.run_test() as pilot:
        await pressed(pilot, *"old", "enter", *"draft", "ctrl+r", "o", "escape")
        assert (app.prompt.text, bool(app.popup.candidates), app.bubbled) == ("draft", False, [])
        await pressed(pilot, "ctrl+r", *"nothing of it", "enter")

        assert (app.prompt.text, app.mark, app.texts) == ("draft", ">", ["old"])
