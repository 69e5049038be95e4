"""The input's keys, and the text it sends."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import pytest
from anyio import run_process, to_thread
from textual import events
from textual.pilot import Pilot

from tests.unit.cli.textual_ui.input.stage import InputStage
from vibe.cli.textual_ui.input.history import keep_prompt, load_prompts


async def pressed(pilot: Pilot[None], *keys: str) -> None:
    cast("InputStage", pilot.app).press(*keys)
    await pilot.pause()


async def history_done(pilot: Pilot[None]) -> None:
    await cast("InputStage", pilot.app).threads_done()
    await pilot.pause()


async def test_enter_sends_the_text_and_empties_the_input() -> None:
    async with (app := InputStage()).run_test() as pilot:
        await pressed(pilot, *"hello", "enter")

        assert app.texts == ["hello"]
        assert app.prompt.text == ""


async def test_enter_on_nothing_or_blanks_sends_nothing() -> None:
    async with (app := InputStage()).run_test() as pilot:
        await pressed(pilot, "enter", " ", "enter")

        assert app.texts == []


@pytest.mark.parametrize("key", ["shift+enter", "ctrl+j", "alt+enter"])
async def test_a_newline_is_a_key_of_its_own(key: str) -> None:
    async with (app := InputStage()).run_test() as pilot:
        await pressed(pilot, "a", key, "b", "enter")

        assert app.texts == ["a\nb"]


async def test_a_backslash_before_enter_is_a_newline() -> None:
    async with (app := InputStage()).run_test() as pilot:
        await pressed(pilot, "a", "\\", "enter", "b", "enter")

        assert app.texts == ["a\nb"]


async def test_keys_act_in_the_order_in_which_they_come() -> None:
    async with (app := InputStage()).run_test() as pilot:
        for number in range(20):
            app.press("x", "ctrl+u", *f"n{number}", "left", "right", "z", "backspace", "ctrl+j", "y", "enter")
        await pilot.pause()

        assert app.texts == [f"n{number}\ny" for number in range(20)]


async def test_keys_of_readline_edit_the_line() -> None:
    async with (app := InputStage()).run_test() as pilot:
        await pressed(pilot, *"one two three", "ctrl+w")
        assert app.prompt.text == "one two "
        await pressed(pilot, "ctrl+a", *"zero ", "ctrl+e", "!")
        assert app.prompt.text == "zero one two !"
        await pressed(pilot, "alt+b", "alt+b", "alt+d", "alt+backspace", "alt+f", *"1")
        assert app.prompt.text == "zero  !1"
        await pressed(pilot, "ctrl+a", "ctrl+right", "ctrl+k")
        assert app.prompt.text == "zero"
        await pressed(pilot, "ctrl+u")
        assert app.prompt.text == ""


async def test_what_was_deleted_comes_back_and_keys_act_on_it() -> None:
    async with (app := InputStage()).run_test() as pilot:
        await pressed(pilot, *"one two", "ctrl+u")
        assert app.prompt.text == ""
        await pressed(pilot, "ctrl+underscore", "!", "enter")

        assert app.texts == ["one two!"]


async def test_it_grows_by_rows_and_shrinks_again() -> None:
    async with (app := InputStage()).run_test(size=(80, 24)) as pilot:
        await pressed(pilot, "ctrl+j")
        assert app.prompt.text == "", "an Enter that came early is no first line"
        await pressed(pilot, "a", *["ctrl+j"] * 4)
        assert app.prompt.size.height == 5
        await pressed(pilot, *["ctrl+j"] * 10)
        assert app.prompt.size.height == 8
        await pressed(pilot, "a", "enter")
        assert app.prompt.size.height == 1


async def test_it_works_on_a_tiny_screen() -> None:
    async with (app := InputStage()).run_test(size=(20, 5)) as pilot:
        await pressed(pilot, *"a text that is wider than the screen is", "ctrl+j", *"end")
        assert app.prompt.size.height == 2
        await pressed(pilot, "enter")

        assert app.texts == ["a text that is wider than the screen is\nend"]


async def test_a_resize_keeps_text_and_cursor() -> None:
    async with (app := InputStage()).run_test(size=(80, 24)) as pilot:
        await pressed(pilot, *"one two three", "left", "left")
        for size in [(20, 5), (200, 50), (10, 3), (80, 24)]:
            await pilot.resize_terminal(*size)
            await pilot.pause()
        await pressed(pilot, "X", "enter")

        assert app.texts == ["one two thrXee"]


async def test_the_mark_says_where_keys_go() -> None:
    async with (app := InputStage()).run_test() as pilot:
        await pilot.pause()
        assert app.mark == ">"
        await pressed(pilot, "!")
        assert app.mark == "!"
        await pressed(pilot, "backspace")
        assert app.mark == ">"
        app.screen.set_focus(None)
        await pilot.pause()
        assert app.mark == ""


async def test_a_terminal_in_the_background_keeps_the_mark() -> None:
    async with (app := InputStage()).run_test() as pilot:
        app.post_message(events.AppBlur())
        await pilot.pause()

        assert app.mark == ">"


async def test_ctrl_g_asks_for_an_editor_and_set_text_brings_the_outcome() -> None:
    async with (app := InputStage()).run_test() as pilot:
        await pressed(pilot, *"ab", "ctrl+g")
        assert app.wanted == ["ab"]
        app.prompt.set_text("abc\nd")
        await pressed(pilot, "e", "enter")

        assert app.texts == ["abc\nde"]


async def test_text_set_before_the_screen_is_there_is_shown() -> None:
    app = InputStage()
    app.prompt.set_text("early")
    async with app.run_test() as pilot:
        await pressed(pilot, "!", "enter")

        assert app.texts == ["early!"]


async def test_up_and_down_walk_the_history_and_keep_the_draft() -> None:
    async with (app := InputStage()).run_test() as pilot:
        await pressed(pilot, *"one", "enter", *"two", "enter", *"draft")
        await pressed(pilot, "up")
        assert app.prompt.text == "two"
        await pressed(pilot, "!", "up")
        assert app.prompt.text == "one"
        await pressed(pilot, "up", "down")
        assert app.prompt.text == "two!"
        await pressed(pilot, "down", "down")
        assert app.prompt.text == "draft"


async def test_up_and_down_move_inside_a_text_of_several_rows_first() -> None:
    async with (app := InputStage()).run_test() as pilot:
        await pressed(pilot, *"old", "enter", *"a", "ctrl+j", *"b", "up", "x")
        assert app.prompt.text == "ax\nb"
        await pressed(pilot, "up")
        assert app.prompt.text == "old"
        await pressed(pilot, "down", "down")
        assert app.prompt.text == "ax\nb"


async def test_the_history_of_earlier_times_is_read_and_written(tmp_path: Path) -> None:
    file = tmp_path / "history"
    await to_thread.run_sync(keep_prompt, file, "from before\nof two lines")
    async with (app := InputStage(history=file)).run_test() as pilot:
        await history_done(pilot)
        await pressed(pilot, *"now", "enter")
        await pressed(pilot, *"now", "enter")
        await history_done(pilot)
        await pressed(pilot, "up", "up")

        assert app.prompt.text == "from before\nof two lines"
    assert await to_thread.run_sync(load_prompts, file) == ["from before\nof two lines", "now"]


async def test_a_history_that_cannot_be_written_is_said_and_the_text_is_sent(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with (app := InputStage(history=tmp_path / "file" / "history")).run_test(notifications=True) as pilot:
        await pressed(pilot, *"hi", "enter")
        await history_done(pilot)

        assert app.texts == ["hi"]
        problem = "the prompt was not saved to the history: File exists"
        assert app.notices[-1] == problem
        await pressed(pilot, *"ho", "enter")
        await history_done(pilot)
        assert app.texts == ["hi", "ho"]
        assert app.notices.count(problem) == 1


async def test_its_import_loads_nothing_heavy() -> None:
    heavy = {"anyio", "httpx", "pathspec", "prompt_toolkit", "pydantic", "pygments"}
    program = "import sys, vibe.cli.textual_ui.input.prompt_input; print(*{name.split('.')[0] for name in sys.modules})"
    done = await run_process([sys.executable, "-c", program])

    loaded = set(done.stdout.decode().split())
    assert "textual" in loaded
    assert loaded & heavy == set()


FAMILY = "👨\u200d👩\u200d👧"


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (("left", "Z"), f"aZ{FAMILY}"),
        (("left", "right", "Z"), f"a{FAMILY}Z"),
        (("left", "left", "right", "right", "Z"), f"a{FAMILY}Z"),
        (("backspace",), "a"),
        (("left", "delete"), "a"),
        (("left", "backspace"), FAMILY),
    ],
)
async def test_what_a_person_sees_as_one_character_is_one_for_the_cursor(keys: tuple[str, ...], text: str) -> None:
    async with (app := InputStage()).run_test() as pilot:
        app.prompt.set_text(f"a{FAMILY}")
        await pressed(pilot, *keys)

        assert app.prompt.text == text
