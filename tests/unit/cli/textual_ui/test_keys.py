"""The table of keys: each key works where it should and nowhere else, and no letter is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from anyio import to_thread
from textual.binding import Binding
from textual.dom import DOMNode

from ipc import events as e
from tests.unit.cli.textual_ui import scenes
from tests.unit.cli.textual_ui.controllers.test_app_controller import ScriptedChat
from tests.unit.cli.textual_ui.scenes import Play, Scene, Stage, made_app, played
from vibe.cli.textual_ui.app import VibeApp
from vibe.cli.textual_ui.chat_screen import ChatScreen
from vibe.cli.textual_ui.input.prompt_area import PromptArea
from vibe.cli.textual_ui.input.prompt_input import PromptInput
from vibe.cli.textual_ui.log.chat_log import ChatLog
from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.cli.textual_ui.log.painted_sheet import LETTERS
from vibe.cli.textual_ui.overview.summaries import SidePanel
from vibe.cli.textual_ui.panels.panel_frame import PanelFrame
from vibe.cli.textual_ui.screens.agent_screens import FleetScreen, TranscriptScreen
from vibe.cli.textual_ui.screens.picker_screen import LINE_KEYS, PickerScreen
from vibe.cli.textual_ui.screens.review_screen import ReviewScreen, ReviewSheet

ARROWS = "up down left right"
TABLE = {
    "line": "enter shift+enter ctrl+j alt+enter up down ctrl+r ctrl+g ctrl+s alt+up tab",
    "scroll": "pageup pagedown ctrl+home ctrl+end ctrl+up ctrl+down home end",
    "everywhere": "escape ctrl+c ctrl+d ctrl+p f1 f2 f8 ctrl+t ctrl+o shift+tab",
    "marked entry": "j k enter m c b tab escape",
    "fleet": f"{ARROWS} enter t x k r v f tab escape f2",
    "transcript": "up down pageup pagedown left right enter t x k r v tab escape",
    "review": "a x c z up down j k enter escape",
    "picker": f"{ARROWS} pageup pagedown tab enter escape backspace",
}
"""The keys that the screen should have, by the place where they work."""
PANELS: dict[str, tuple[Play, str]] = {
    "permission": (scenes.approval, "y s a n 1 2 3 escape"),
    "permission to edit": (scenes.approval_of_edit, "y s a e n 1 2 3 escape"),
    "question": (scenes.question, "1 2 up down enter escape"),
    "decision": (scenes.decision, "1 2 up down enter escape"),
    "proposed plan": (scenes.proposal, "a r e s d c c down up right left enter escape"),
    "failed step": (scenes.failed, "r t k o enter escape"),
    "leaving": (scenes.leaving, "p c escape"),
}
"""The panels that replace the input line: the scene, and the keys of the table."""
BEGINNINGS = f"{''.join(sorted(LETTERS))}roxtyZ1?"
"""Letters with which a prompt may begin and that are keys somewhere."""
SPELLED = {"Enter": "enter", "Esc": "escape", "↑": "up", "↓": "down", "←": "left", "→": "right", "Space": "space"}


def bindings(*classes: type[DOMNode]) -> list[tuple[str, str]]:
    """Return each key that classes, or those of their bases that are ours, bind, with its action."""
    tables = [
        base.__dict__.get("BINDINGS", []) for each in classes for base in each.__mro__ if "vibe" in base.__module__
    ]
    return [
        (key, one.action) for table in tables for one in table if isinstance(one, Binding) for key in one.key.split(",")
    ]


def bound(*classes: type[DOMNode]) -> list[str]:
    return [key for key, _ in bindings(*classes)]


def in_line() -> list[str]:
    return [*PromptInput()._keys, *bound(PromptArea)]  # pyright: ignore[reportPrivateUsage]


def spelled(told: str) -> list[str]:
    """Return the keys behind a panel's words for them, such as ``↑↓ Enter`` or ``1-4``."""
    if told[1:2] == "-":
        return [str(number) for number in range(int(told[0]), int(told[2:]) + 1)]
    words = [word if word in SPELLED else list(word) for word in told.split()]
    return [SPELLED.get(key, key) for word in words for key in ([word] if isinstance(word, str) else word)]


TAKEN = {
    "line": lambda: [*in_line(), *bound(ChatScreen, VibeApp)],
    "scroll": lambda: [*in_line(), *bound(ChatScreen, VibeApp)],
    "everywhere": lambda: bound(ChatScreen, VibeApp),
    "marked entry": lambda: bound(ChatLog),
    "fleet": lambda: bound(FleetScreen),
    "transcript": lambda: bound(TranscriptScreen, ChatLog),
    "review": lambda: bound(ReviewScreen, ReviewSheet),
    "picker": lambda: bound(PickerScreen),
}


@pytest.mark.parametrize("where", TABLE)
def test_each_key_of_the_table_is_taken_where_it_counts(where: str) -> None:
    taken = TAKEN[where]()

    assert [key for key in TABLE[where].split() if key not in taken] == []


def test_no_key_means_two_things_in_one_place_and_none_in_the_line_is_a_letter() -> None:
    line, around, log = in_line(), bound(ChatScreen, VibeApp), bound(ChatLog)
    others = [bound(screen) for screen in (FleetScreen, TranscriptScreen, PickerScreen)]
    others.append(bound(ReviewScreen, ReviewSheet))

    assert [key for keys in (line, around, log, *others) for key, count in Counter(keys).items() if count > 1] == []
    assert [key for key in (*line, *around) if len(key) == 1] == []
    assert {*line} & {*around} == {"tab", "escape"}, "the line hands these on where it has no use for them"
    assert {key for key in log if len(key) == 1} == LETTERS
    everywhere = {*line, *around, *log, *(key for keys in others for key in keys)}
    assert not {"ctrl+a", "ctrl+b"} & everywhere, "they are left to tmux and screen"


def test_keys_of_the_line_are_told_as_they_are_taken() -> None:
    told = {key for names, _ in LINE_KEYS for key in names.split(",")}

    assert told == {*in_line()} - {"tab", "escape", "backspace"}


def test_the_keys_that_are_told_of_a_marked_entry_are_those_it_has() -> None:
    told = [
        words.rsplit(" ", 1)[0].split() if "j k" in words else words.split()[:1] for words in ChatLog.KEYS.split(" · ")
    ]
    keys = {SPELLED.get(key, key) for each in told for key in each if len(key) == 1 or key in SPELLED}

    assert keys == LETTERS | {"enter", "escape"}


# --- the keys' effects


async def on_stage(play: Play, folder: Path, size: tuple[int, int] = (120, 36)) -> tuple[VibeApp, Scene]:
    return await to_thread.run_sync(made_app, "textual-dark", folder), Scene(play, size)


def done_of(on: Stage) -> list[tuple[str, str]]:
    return cast("ScriptedChat", on.app.controller.chat).done


def panel_of(on: Stage) -> PanelFrame:
    panel = on.app.chat_screen.bottom.shown
    assert isinstance(panel, PanelFrame)
    return panel


@pytest.mark.parametrize("where", PANELS)
async def test_a_panel_takes_each_key_of_the_table_and_each_that_it_tells(where: str, tmp_path: Path) -> None:
    play, keys = PANELS[where]
    app, scene = await on_stage(play, tmp_path)
    async with played(scene, app, tmp_path) as on:
        panel = panel_of(on)
        told = [key for words, _ in panel.keys() for key in spelled(words)]  # noqa: SIM118  it is no dict
        assert [key for key, count in Counter(told).items() if count > 1] == []
        assert [key for key in (*told, *keys.split()) if not panel.pressed(key)] == []


@pytest.mark.parametrize("where", PANELS)
async def test_a_panel_lets_no_letter_into_the_line_and_keys_that_count_everywhere_count(
    where: str, tmp_path: Path
) -> None:
    play, _ = PANELS[where]
    app, scene = await on_stage(play, tmp_path)
    async with played(scene, app, tmp_path) as on:
        chat = app.chat_screen
        await on.press("z", "w", "shift+tab", "f8", "ctrl+t", "ctrl+o")
        assert (chat.prompt.text, done_of(on)) == ("", [("send back", "")])
        assert chat.query_one(SidePanel).display
        for key, opened in (("f1", PickerScreen), ("f2", FleetScreen)):
            await on.press(key)
            assert isinstance(app.screen, opened)
            await on.press("escape")
            await on.until(lambda: app.screen is chat)
        panel = panel_of(on)
        await on.press("escape")
        assert chat.bottom.shown is not panel


async def test_each_letter_is_text_in_the_line_wherever_the_keys_are(tmp_path: Path) -> None:
    app, scene = await on_stage(scenes.overview, tmp_path, (160, 36))
    async with played(scene, app, tmp_path) as on:
        chat = app.chat_screen
        places = [each for each in chat.query("*") if each.focusable]
        assert chat.log_view in places
        for place in places:
            for letter in BEGINNINGS:
                chat.prompt.clear()
                place.focus()
                await on.pilot.press(letter)
                assert chat.prompt.text == letter, place


async def test_keys_that_count_everywhere_count_in_the_line_and_in_the_chat(tmp_path: Path) -> None:
    app, scene = await on_stage(scenes.talk, tmp_path)
    async with played(scene, app, tmp_path) as on:
        chat = app.chat_screen
        calls = [entry for entry in chat.log_view.entries if entry.kind == "call"]
        for place in (chat.prompt, chat.log_view):
            place.focus()
            await on.press("f8", "shift+tab")
            assert done_of(on) == [("send back", ""), ("next agent", "")]
            done_of(on).clear()
            for key in ("ctrl+t", "ctrl+t"):
                is_shown = chat.query_one(SidePanel).display
                await on.press(key)
                assert chat.query_one(SidePanel).display is not is_shown
            folded = [entry.folded for entry in calls]
            await on.press("ctrl+o")
            assert [entry.folded for entry in calls] != folded
            for key in ("f1", "ctrl+p", "f2"):
                await on.press(key)
                assert app.screen is not chat
                await on.press("escape")
                await on.until(lambda: app.screen is chat)


async def test_a_long_chat_is_scrolled_from_the_line_and_marked(tmp_path: Path) -> None:
    app, scene = await on_stage(scenes.talk, tmp_path)
    async with played(scene, app, tmp_path) as on:
        log = app.chat_screen.log_view
        log.extend(LogEntry("answer", f"line {number}") for number in range(100))
        await on.settle()
        at = list[float]()
        for key in ("pageup", "pageup", "pagedown", "pagedown", "ctrl+home", "ctrl+end", "home", "end"):
            await on.press(key)
            at.append(log.max_scroll_y - log.scroll_offset.y)
        page = at[0]
        assert page > 20
        assert at == [page, 2 * page, page, 0, log.max_scroll_y, 0, log.max_scroll_y, 0]
        await on.press("ctrl+up")
        assert (log.has_focus, log.takes("k")) == (True, True)
        for keys in (["tab"], ["escape"], ["x"]):
            await on.press("ctrl+up", *keys)
            assert not log.has_focus


# --- full screens


async def test_a_transcript_has_one_meaning_for_a_key_at_a_time(tmp_path: Path) -> None:
    app, scene = await on_stage(scenes.transcript, tmp_path)
    async with played(scene, app, tmp_path) as on:
        screen = app.screen
        assert isinstance(screen, TranscriptScreen)
        log = screen.query_one(ChatLog)
        await on.press("ctrl+up", "k", "k", "j")
        assert (log.takes("k"), done_of(on)) == (True, [])
        await on.press("escape", "k")
        assert (app.screen, log.takes("k"), [word for word, _ in done_of(on)]) == (screen, False, ["command"])
        await on.press("escape")
        await on.until(lambda: app.screen is not screen)


async def test_a_panel_in_a_transcript_has_its_s_and_else_it_opens_the_line(tmp_path: Path) -> None:
    app, scene = await on_stage(scenes.fleet_asking, tmp_path)
    async with played(scene, app, tmp_path) as on:
        asked = [each.id for each in app.chat_screen.requests.pending if isinstance(each.event, e.ApprovalRequestEvent)]
        fleet = app.screen
        assert isinstance(fleet, FleetScreen)
        fleet.chosen = "crowd/receipt"
        await on.press("enter")
        await on.until(lambda: isinstance(app.screen, TranscriptScreen))
        await on.until(lambda: [panel for panel in app.screen.query(PanelFrame) if not panel.asleep])
        await on.press("s")
        await on.until(lambda: asked[0] not in {each.id for each in app.chat_screen.requests.pending})


@pytest.mark.parametrize("key", ["a", "x", "c", "z", "down", "j"])
async def test_each_key_of_the_review_changes_what_is_seen(key: str, tmp_path: Path) -> None:
    app, scene = await on_stage(scenes.review, tmp_path)
    async with played(scene, app, tmp_path) as on:
        before = seen(app)
        await on.press(key)
        assert seen(app) != before
        await on.press({"c": "escape", "down": "up", "j": "k"}.get(key, key))
        if key not in "ax":  # taking back a verdict leaves the file open
            assert seen(app) == before


def seen(app: VibeApp) -> Sequence[str]:
    lines = app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
    return [line.text for line in lines]
