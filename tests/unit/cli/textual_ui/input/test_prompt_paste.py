"""Pastes into the input."""

from __future__ import annotations

import time
from pathlib import Path
from typing import cast

import pytest
from anyio import to_thread
from textual import events
from textual.pilot import Pilot

from tests.unit.cli.textual_ui.input.stage import InputStage
from vibe.cli.textual_ui.input.history import keep_prompt


async def pasted(pilot: Pilot[None], text: str, *keys: str) -> None:
    stage = cast("InputStage", pilot.app)
    stage.post_message(events.Paste(text))
    stage.press(*keys)
    await pilot.pause()


async def test_a_paste_is_put_in_at_the_cursor_without_escapes() -> None:
    async with (app := InputStage()).run_test() as pilot:
        app.press("a", "b", "left")
        await pasted(pilot, "1\r2\x1b[2J\x07", "!", "enter")

        assert app.texts == ["a1\n2!b"]


async def test_a_paste_replaces_what_is_selected() -> None:
    async with (app := InputStage()).run_test() as pilot:
        app.press("a", "b", "shift+left")
        await pasted(pilot, "c", "enter")

        assert app.texts == ["ac"]


async def test_five_megabytes_are_fast_and_sent_as_a_whole() -> None:
    text = ("x" * 99 + "\n") * 50_000
    async with (app := InputStage()).run_test() as pilot:
        app.press("a", " ")
        start = time.process_time()
        await pasted(pilot, text)
        taken = time.process_time() - start
        assert app.prompt.text == "a [pasted 1: 50,000 lines]"
        await pasted(pilot, " b", "enter")

        assert app.texts == [f"a {text} b"]
        assert taken < 20


async def test_what_was_pasted_is_said_as_a_whole_to_an_agent_at_work_and_is_in_the_history() -> None:
    async with (app := InputStage()).run_test() as pilot:
        await pasted(pilot, "x\n" * 30)
        assert app.prompt.steer()
        await pasted(pilot, "", "up")
        assert [(sent.text, sent.steers) for sent in app.sent] == [("x\n" * 30, True)]
        assert app.prompt.text == "[pasted 1: 30 lines]"
        app.prompt.clear()
        assert not app.prompt.steer()


async def test_backspace_deletes_a_marker_as_a_whole() -> None:
    async with (app := InputStage()).run_test() as pilot:
        await pasted(pilot, "x\n" * 30, "backspace", "a", "]", "backspace", "enter")

        assert app.texts == ["a"]


async def test_a_marker_out_of_the_history_is_still_what_was_pasted() -> None:
    async with (app := InputStage()).run_test() as pilot:
        await pasted(pilot, "x\n" * 30, "enter", "up", "!", "enter")

        assert app.texts == ["x\n" * 30, "x\n" * 30 + "!"]


async def test_the_history_keeps_what_was_pasted_but_not_megabytes_of_it(tmp_path: Path) -> None:
    async with (app := InputStage(history=tmp_path / "history")).run_test() as pilot:
        await pasted(pilot, "x\n" * 30, "enter")
        await app.threads_done()
        await pasted(pilot, "x" * 60_000, "enter")
        await app.threads_done()
    entries = (tmp_path / "history").read_text()

    assert entries.count("+x\n") == 30
    assert "+[pasted 2: 60,000 characters]\n" in entries


@pytest.mark.parametrize("marker", ["[pasted 2: 60,000 characters]", "[image 1: shot.png]"])
async def test_a_marker_of_another_process_is_not_sent_as_if_it_were_the_text(tmp_path: Path, marker: str) -> None:
    await to_thread.run_sync(keep_prompt, tmp_path / "history", f"{marker} why?")
    async with (app := InputStage(history=tmp_path / "history")).run_test(notifications=True) as pilot:
        await app.threads_done()
        app.press("up", "enter")
        await pilot.pause()
        assert (app.texts, app.prompt.text) == ([], f"{marker} why?")
        assert f"nothing is kept for {marker}: paste it again" in app.notices[-1]
        app.press("home", "delete", "enter")
        await pilot.pause()

        assert app.texts == [f"{marker[1:]} why?"]


async def test_a_path_of_an_image_becomes_a_marker_and_the_file_is_sent_along(tmp_path: Path) -> None:
    image = tmp_path / "shot.png"
    image.write_bytes(b"")
    async with (app := InputStage()).run_test() as pilot:
        await pasted(pilot, f"'{image}'", *" why?", "enter")

        assert [(event.text, event.images) for event in app.sent] == [("[image 1: shot.png] why?", (image,))]


async def test_a_huge_text_from_elsewhere_becomes_a_marker_too() -> None:
    async with (app := InputStage()).run_test() as pilot:
        app.prompt.set_text("x" * 60_000)
        assert app.prompt.text == "[pasted 1: 60,000 characters]"
        app.press("enter")
        await pilot.pause()

        assert app.texts == ["x" * 60_000]
