"""The picker over the chat: filtered, moved through, previewed and chosen from; the palette and the help."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from textual.app import App
from textual.events import Paste
from textual.pilot import Pilot

from tests.fakes.snapshots import rows_of
from tests.unit.cli.textual_ui import scenes
from tests.unit.cli.textual_ui.scenes import Scene, Stage, made_app, played
from vibe.cli.textual_ui.log.chat_log import ChatLog
from vibe.cli.textual_ui.log.rows import LinesPage
from vibe.cli.textual_ui.screens import picker_screen
from vibe.cli.textual_ui.screens.picker_screen import (
    COMMANDS,
    PickerScreen,
    menu_of,
    shown_keys,
)
from vibe.front.cells import Line, text_of
from vibe.front.picker import Picker, PickRow, PickState, picker_lines
from vibe.front.slash.table import WORDS
from vibe.system.errors import UsageError

ROWS = [PickRow("/go north", "north", "cold"), PickRow("/go south", "south", "warm"), PickRow("/go home", "home")]


class Picking(App[None]):
    """An app in which something is chosen."""

    chosen: str | None = "nothing yet"

    def __init__(self, picker: Picker) -> None:
        super().__init__()
        self.picker = PickerScreen(picker)

    def on_mount(self) -> None:
        self.push_screen(self.picker, lambda chosen: setattr(self, "chosen", chosen))

    def text(self) -> str:
        page = self.picker.query_one(LinesPage)
        return page.render().plain


@asynccontextmanager
async def picking(picker: Picker, size: tuple[int, int] = (100, 30)) -> AsyncGenerator[tuple[Picking, Pilot[None]]]:
    app = Picking(picker)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


async def rest(app: App[None], pilot: Pilot[None]) -> None:
    await app.workers.wait_for_complete()  # pyright: ignore[reportUnknownMemberType]  Textual's has no type
    await pilot.pause()


def of_rows(**more: Any) -> Picker:
    return Picker(title="Where", rows=lambda _: ROWS, **more)


def nothing(_row: PickRow, _mode: int) -> list[Line]:
    return []


def said_at_home(text: str) -> list[str]:
    return ["/go home"] if text == "dear" else []


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (["enter"], "/go north"),
        (["down", "enter"], "/go south"),
        (["down", "down", "down", "up", "enter"], "/go south"),
        (["pagedown", "enter"], "/go home"),
        ([*"warm", "enter"], "/go south"),
        ([*"hom", "backspace", *"me", "enter"], "/go home"),
        ([*"nowhere", "enter", "ctrl+u", "enter"], "/go north"),
        (["escape"], ""),
        ([*"nowhere", "escape"], ""),
    ],
)
async def test_what_is_typed_filters_and_enter_chooses(keys: list[str], chosen: str) -> None:
    async with picking(of_rows()) as (app, pilot):
        await pilot.press(*keys)
        await pilot.pause()
        assert app.chosen == chosen


async def test_a_mode_goes_on_by_its_keys_and_is_put_behind_the_line() -> None:
    modes = [("on foot", ""), ("by ship", " by ship"), ("by air", " by air")]
    async with picking(of_rows(modes=modes, mode=1)) as (app, pilot):
        await pilot.press("down", "tab", "right", "left", "enter")
        await pilot.pause()
        assert app.chosen == "/go south by air"


async def test_rows_of_another_mode_are_others() -> None:
    picker = Picker(title="Where", rows=lambda mode: ROWS[mode:], modes=[("here", ""), ("all", "")])
    async with picking(picker) as (app, pilot):
        await pilot.press("tab", "enter")
        await pilot.pause()
        assert app.chosen == "/go south"


async def test_each_marked_row_is_looked_at_and_escape_is_as_before() -> None:
    looked: list[str] = []

    def look(row: PickRow | None) -> None:
        looked.append("as before" if row is None else row.title)

    async with picking(of_rows(look=look, first="/go south")) as (_, pilot):
        await pilot.press("down", "escape")
        await pilot.pause()
    assert [what for what, before in zip(looked, ["", *looked], strict=False) if what != before] == [
        "south",
        "home",
        "as before",
    ]


async def test_the_preview_is_of_the_marked_row_and_what_is_wrong_with_it_is_said() -> None:
    def preview(row: PickRow, _mode: int) -> list[Line]:
        if row.title == "home":
            raise UsageError("home is nowhere")
        return [[(f"it is {row.fact} there", "")]]

    async with picking(of_rows(preview=preview)) as (app, pilot):
        await rest(app, pilot)
        assert "it is cold there" in app.text()
        await pilot.press("down", "down")
        await rest(app, pilot)
        assert "home is nowhere" in app.text()
        await pilot.press("up")
        await rest(app, pilot)
        assert "it is warm there" in app.text()


@pytest.mark.parametrize(("is_previewed", "chosen"), [(True, ["nothing yet", "/go north"]), (False, ["/go north"])])
async def test_what_must_be_seen_first_is_read_again_and_chosen_only_then(
    *, is_previewed: bool, chosen: list[str]
) -> None:
    tries: list[str] = []

    def preview(row: PickRow, _mode: int) -> list[Line]:
        tries.append(row.title)
        if len(tries) == 1:
            raise UsageError("the agent is working")
        return [[("1 file goes back", "")]]

    async with picking(of_rows(preview=preview, is_previewed=is_previewed)) as (app, pilot):
        await rest(app, pilot)
        assert "the agent is working" in app.text()
        for each in chosen:
            assert app.chosen == "nothing yet"
            await pilot.press("enter")
            await rest(app, pilot)
            assert app.chosen == each
            assert each != "nothing yet" or "1 file goes back" in app.text()


async def test_what_rows_stand_for_is_searched_too() -> None:
    async with picking(of_rows(search=said_at_home)) as (app, pilot):
        await pilot.press(*"dear")
        await rest(app, pilot)
        await pilot.press("enter")
        await pilot.pause()
        assert app.chosen == "/go home"


async def test_a_paste_filters_and_a_click_marks_then_chooses() -> None:
    async with picking(of_rows()) as (app, pilot):
        app.screen.post_message(Paste("o\n"))
        await pilot.pause()
        page = app.picker.query_one(LinesPage)
        await pilot.click(page, offset=(5, 3))
        assert app.chosen == "nothing yet"
        await pilot.click(page, offset=(5, 3))
        await pilot.pause()
        assert app.chosen == "/go south"


async def test_of_a_paste_of_megabytes_only_the_beginning_filters() -> None:
    searched: list[str] = []

    def search(text: str) -> list[str]:
        searched.append(text)
        return []

    async with picking(of_rows(search=search)) as (app, pilot):
        app.screen.post_message(Paste("north" * 1_000_000))
        await pilot.pause()
        await rest(app, pilot)
        assert [len(text) for text in searched] == [picker_screen.LONGEST_PASTE]


@pytest.mark.parametrize("size", [(20, 5), (40, 10), (80, 24), (200, 60)])
async def test_it_is_within_the_window(size: tuple[int, int]) -> None:
    async with picking(of_rows(preview=nothing), size) as (app, _):
        page = app.picker.query_one(LinesPage).region
        assert app.screen.region.contains_region(page)
        assert "north" in app.text()


# --- over the chat


@asynccontextmanager
async def chatting(folder: Path) -> AsyncGenerator[Stage]:
    app = await to_thread.run_sync(made_app, "textual-dark", folder)
    async with played(Scene(scenes.empty, (120, 36)), app, folder) as on:
        yield on


def chat_of(on: Stage) -> list[tuple[str, str]]:
    chat = on.app.controller.chat
    assert isinstance(chat, scenes.ScriptedChat)
    return [done for done in chat.done if done[0] != "interrupt"]


async def test_what_is_notified_covers_neither_the_keys_nor_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await to_thread.run_sync(made_app, "textual-dark", tmp_path)
    monkeypatch.setattr(app, "run_test", partial(app.run_test, notifications=True))
    async with played(Scene(scenes.rewind, (60, 24)), app, tmp_path) as on:
        app.notify("commands changed 1 file +1 −1 · /review /diff /undo", timeout=60)  # noqa: RUF001  a minus
        await on.rest()
        shown = rows_of(app)
        assert any("commands changed" in row for row in shown)
        assert any("↑↓ move" in row and "Esc back" in row for row in shown)
        assert any("back to before" in row for row in shown), "what Enter does to the files is seen here, too"
        await on.press("escape")
        assert any("Ask anything · / commands · @ files · ! shell" in row for row in rows_of(app))


async def test_the_palette_does_what_is_chosen_by_its_key_or_its_command(tmp_path: Path) -> None:
    async with chatting(tmp_path) as on:
        await on.press("ctrl+p", *"overview", "enter")
        assert on.app.chat_screen.query_one("SidePanel").has_class("shown")
        await on.press("ctrl+p", *"/cost", "enter")
        assert chat_of(on) == [("command", "/cost")]
        await on.press("ctrl+p", *"/rename", "enter", "x")
        assert (on.app.chat_screen.prompt.text, len(chat_of(on))) == ("/rename x", 1)
        await on.press("ctrl+p", "ctrl+p")
        assert on.app.screen is on.app.chat_screen


async def test_the_palette_has_the_commands_before_there_is_a_chat(tmp_path: Path) -> None:
    async with chatting(tmp_path) as on:
        opened, on.app.controller.chat = on.app.controller.chat, None
        await on.press("ctrl+p", *"/theme", "enter")
        on.app.controller.chat = opened
        assert [line.text for line in on.app.store.screen.queued] == ["/theme"]


def test_a_list_in_which_nothing_fits_says_so() -> None:
    picker = Picker(title="Prompts", rows=lambda _: [])
    lines = [text_of(line) for line in picker_lines(picker, PickState(query="zz"), 60, 10)]
    assert "  nothing fits: Ctrl+U shows all" in [line.rstrip() for line in lines]


async def test_the_help_has_topics_and_opens_one(tmp_path: Path) -> None:
    async with chatting(tmp_path) as on:
        await on.press("f1", *"undo", "enter")
        assert isinstance(on.app.screen, PickerScreen)
        await on.press("escape")
        assert not any("Help: " in row for row in rows_of(on.app))
        await on.press(*"undo", "enter")
        assert any("Help: Files and undo" in row for row in rows_of(on.app))
        await on.press(*"/diff", "enter")
        assert chat_of(on) == [("command", "/diff")]


async def test_escape_twice_on_an_empty_line_goes_back_and_not_otherwise(tmp_path: Path) -> None:
    async with chatting(tmp_path) as on:
        await on.press("escape", "x", "escape", "escape")
        assert chat_of(on) == []
        await on.press("ctrl+u", "escape", "y", "backspace", "escape")
        assert chat_of(on) == [], "something was typed between"
        await on.press("y", "ctrl+u", "escape", "escape")
        assert chat_of(on) == [("command", "/rewind")]


def test_every_command_of_ours_has_a_topic_and_none_has_two() -> None:
    named = [name for names in COMMANDS.values() for name in names.split()]

    assert [name for name, count in Counter(named).items() if count > 1] == []
    assert {"attach", "review", "setup", "theme"} >= set(named) - set(WORDS)


def test_a_topic_tells_its_commands_and_keys_and_all_keys_are_told_by_where_they_count() -> None:
    picker = menu_of("help", [("undo", "", "take back")], {"chat": ChatLog.BINDINGS})
    assert picker.preview is not None
    topics = {row.title: "\n".join(map(text_of, picker.preview(row, 0))) for row in picker.rows(0)}

    assert "/undo" in topics["Files and undo"]
    assert "Take back" in topics["Files and undo"]
    assert "Ctrl+Home Ctrl+End" in topics["All keys"]
    assert [line.split()[:3] for line in topics["All keys"].splitlines() if line.startswith("Enter")] == [
        ["Enter", "Send,", "or"],
        ["Enter", "Marked", "entry:"],
    ]
    assert topics["Settings"].split("\n") == ["Settings", ""]


def test_keys_are_shown_as_people_write_them() -> None:
    assert shown_keys("shift+enter,ctrl+j,alt+up") == "Shift+Enter Ctrl+J Alt+↑"
    assert shown_keys("k,pagedown,f1") == "k PgDn F1"


async def test_a_row_that_is_only_to_be_read_is_no_choice() -> None:
    rows = [PickRow("/go", "go"), PickRow("", "only to be read"), PickRow("", "only this, too")]
    async with picking(Picker(title="Where", rows=lambda _: rows, enter="go")) as (app, pilot):
        assert "▸ go" in app.text()
        await pilot.press("down")
        assert "Enter" not in app.text()
        await pilot.press("enter")
        assert app.chosen == "nothing yet"
        await pilot.press(*"only")
        assert "▸ only to be read" in app.text()
        await pilot.press("ctrl+u", "enter")
        assert app.chosen == "/go"
