"""Slash commands of the screen alone: colours, setting up, runs of other processes, and SessionPicker to go on."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from anyio import to_thread
from msgspec.structs import replace
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from vibe.cli.textual_ui.chat_screen import Hold
from vibe.cli.textual_ui.palettes import listed
from vibe.front.slash.command import ArgumentChoice, SlashCommand, Talk, Typed
from vibe.front.slash.wording import SHOWN_ID, TITLE_LENGTH, too_much
from vibe.system.errors import UsageError
from vibe.system.plain_text import plain_line, shortened

if TYPE_CHECKING:  # after the first frame
    from vibe.core.session.folder import SavedSession

MOST_SHOWN = 500
FOLDER_LENGTH = 40
WEEK_SECONDS = 7 * 86_400
TEXT_FROM = 3
"""Characters from which on the transcripts are searched, too."""


class SessionPicker(ModalScreen[str | None]):
    """Has the person choose a session; the result is its id, None: they would rather not.

    ``load`` reads the sessions, in a thread; those of the folder ``here`` are shown first, alone.
    """

    CSS = """
    SessionPicker { align: center middle; }
    SessionPicker > Vertical { width: 90%; max-width: 120; height: 80%; border: round $primary; padding: 0 1; }
    SessionPicker OptionList {
        height: 1fr; border: none; padding: 0; background: transparent; text-wrap: nowrap; text-overflow: ellipsis;
    }
    SessionPicker Input, SessionPicker Input:focus { height: 1; border: none; padding: 0 1; margin-bottom: 1; }
    SessionPicker #keys { color: $foreground-muted; height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back"),
        Binding("ctrl+a", "toggle_folders", "all folders", priority=True),
        Binding("down", "move(1)", "next", priority=True, show=False),
        Binding("up", "move(-1)", "previous", priority=True, show=False),
        Binding("enter", "choose", "go on", priority=True, show=False),
    ]

    def __init__(
        self, load: Callable[[], Sequence[SavedSession]], here: str, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__()
        self._load = load
        self._here = here
        self._clock = clock
        self._rows: Sequence[SavedSession] = ()
        self._is_everywhere = False
        self._found: frozenset[str] = frozenset()
        """Sessions in whose transcripts the words are."""

    def compose(self) -> ComposeResult:
        """A line to search with, the sessions, and the keys."""
        with Vertical() as box:
            box.border_title = "Sessions"
            yield Input(placeholder="search titles, folders and messages")
            yield OptionList()
            yield Static(Content("Enter open · Ctrl+A all folders · Esc back"), id="keys")

    def on_mount(self) -> None:
        """Read the sessions behind the picture."""
        self.query_one(Input).focus()
        self.run_worker(self._read())

    async def on_input_changed(self, message: Input.Changed) -> None:
        """Show what fits; the transcripts are searched behind it."""
        self._found = frozenset()
        self._show()
        if len(message.value.strip()) >= TEXT_FROM:
            self.run_worker(self._search(message.value), exclusive=True, group="search")

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        """Go on with the one clicked."""
        self.dismiss(message.option_id)

    def action_leave(self) -> None:
        """Choose none."""
        self.dismiss(None)

    def action_toggle_folders(self) -> None:
        """Show the sessions of all folders, or of this one."""
        self._is_everywhere = not self._is_everywhere
        self._show()

    def action_move(self, by: int) -> None:
        """Mark another."""
        options = self.query_one(OptionList)
        (options.action_cursor_down if by > 0 else options.action_cursor_up)()

    def action_choose(self) -> None:
        """Go on with the one marked."""
        options = self.query_one(OptionList)
        if options.highlighted is not None:
            self.dismiss(options.get_option_at_index(options.highlighted).id)

    async def _read(self) -> None:
        self._rows = await to_thread.run_sync(self._load)
        self._is_everywhere = not any(row.meta.workspace == self._here for row in self._rows)
        self._show()

    async def _search(self, text: str) -> None:
        self._found = await to_thread.run_sync(partial(_saying, self._rows, text))
        self._show()

    def _show(self) -> None:
        words = self.query_one(Input).value.lower().split()
        rows = [
            row
            for row in self._rows
            if (self._is_everywhere or row.meta.workspace == self._here)
            and (row.meta.session_id in self._found or all(word in _words(row) for word in words))
        ]
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(Option(self._line(row), id=row.meta.session_id) for row in rows[:MOST_SHOWN])
        if rows:
            options.highlighted = 0
        where = "all folders" if self._is_everywhere else shortened(plain_line(self._here), FOLDER_LENGTH)
        self.query_one(Vertical).border_subtitle = f"{len(rows)} in {where}".replace("[", "(")

    def _line(self, row: SavedSession) -> Content:
        title = shortened(plain_line(row.meta.title) or "(no title)", TITLE_LENGTH)
        folder = f"  {shortened(plain_line(row.meta.workspace), FOLDER_LENGTH)}" if self._is_everywhere else ""
        return Content.assemble(
            (f"{when(row.updated, self._clock()):>10}  {row.meta.session_id[:SHOWN_ID]}  ", "$foreground-muted"),
            title,
            (folder, "$foreground-muted"),
        )


def when(then: float, now: float) -> str:
    """Say how long ago something was, and after a week its date in the local time; both are unix seconds."""
    seconds = now - then
    if seconds >= WEEK_SECONDS:
        return time.strftime("%Y-%m-%d", time.localtime(then))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return "now"


def _words(row: SavedSession) -> str:
    return f"{row.meta.title} {row.meta.workspace} {row.meta.session_id}".lower()


def _saying(rows: Sequence[SavedSession], text: str) -> frozenset[str]:
    """Return the sessions in whose transcripts a text is, in any case; reads files."""
    needle, found = json.dumps(text.strip(), ensure_ascii=False)[1:-1].lower(), set[str]()
    for row in rows:
        try:
            if needle in row.folder.transcript.read_text(encoding="utf-8", errors="replace").lower():
                found.add(row.meta.session_id)
        except OSError:
            continue
    return frozenset(found)


Ask: TypeAlias = Callable[[Screen[Any]], Awaitable[Any]]
Switch: TypeAlias = Callable[[Hold], object]
Find: TypeAlias = Callable[[str], Awaitable[bool]]


def screen_commands(app: App[Any], ask: Ask, switch: Switch, find: Find) -> Mapping[str, SlashCommand]:
    """Return the commands that show something on ``app``, by name.

    ``ask`` opens a screen over it, ``switch`` has it show another chat, and ``find`` scrolls up to a text.
    """
    attach, find_words, resume = partial(_attach, switch), partial(_find, find), partial(_resume, ask)
    rows = (
        ("attach", "SOURCE", "save this conversation and show a run of another process", attach, None),
        ("find", "WORDS", "search the chat upwards; repeat for the next match", find_words, None),
        (
            "review",
            "[ID]",
            "read what a plan changed: comment, accept, give files back",
            partial(_review, ask, {}),
            None,
        ),
        ("resume", "[ID]", "switch to another session", resume, None),
        ("setup", "", "set up provider, key, model and theme again", partial(_set_up, ask), None),
        ("theme", "[NAME]", "list themes, or switch to one", partial(_theme, app), partial(_themes, app)),
    )
    return {
        name: SlashCommand(name=name, usage=usage, about=about, handler=handler, choices=choices)
        for name, usage, about, handler, choices in rows
    }


async def _attach(switch: Switch, talk: Talk, typed: Typed) -> None:
    from ipc.registry import Registry  # noqa: PLC0415  after the first frame
    from vibe.cli.textual_ui.remote_chat import hold_attached  # noqa: PLC0415  as above

    host = talk.runtime.host
    registry = Registry(host.home, host.runtime_dir)
    if not typed.rest:
        running = await to_thread.run_sync(registry.running)
        lines = [f"{one.source}  pid {one.pid}  {one.info.cwd}  {one.info.title}" for one in running]
        raise UsageError("\n".join(["/attach SOURCE: name a run; those that run now:", *lines]))
    await to_thread.run_sync(registry.running_as, typed.rest)  # else this one goes on
    switch(partial(hold_attached, host, typed.rest, ""))


async def _find(find: Find, _talk: Talk, typed: Typed) -> None:
    if not typed.rest:
        raise UsageError("/find WORDS: say what to look for")
    if not await find(typed.rest):
        raise UsageError("/find: not found in this conversation")


async def _resume(ask: Ask, talk: Talk, typed: Typed) -> None:
    load = partial(_sessions, talk.runtime.host.home, talk.conversation.session_id)
    chosen = typed.rest or await ask(SessionPicker(load, str(talk.opening.workdir)))
    if chosen:
        await talk.reopen(replace(talk.opening, resume=chosen, prompt=""))


async def _review(ask: Ask, drafts: dict[str, Any], talk: Talk, typed: Typed) -> None:
    from vibe.cli.textual_ui.screens.review_screen import review_plan  # noqa: PLC0415  after the first frame

    await review_plan(ask, drafts, talk, typed.rest)


async def _set_up(ask: Ask, talk: Talk, typed: Typed) -> None:
    if typed.rest:
        raise too_much(typed)
    from vibe.app.first_use.flow import FirstUse  # noqa: PLC0415  after the first frame
    from vibe.cli.textual_ui.screens.setup_screen import SetupScreen  # noqa: PLC0415  as above

    is_kept = await ask(SetupScreen(partial(FirstUse, talk.runtime.host, talk.opening.workdir)))
    if is_kept:
        await talk.commands["reload"].handler(talk, Typed(name="reload"))


async def _theme(app: App[Any], talk: Talk, typed: Typed) -> None:
    from vibe.app.engine.settings import Settings  # noqa: PLC0415  after the first frame

    names = listed(app.available_themes)
    if not typed.rest:
        talk.say("\n".join(f"{'*' if name == app.theme else ' '} {name}" for name in names))
        return
    if typed.rest not in names:
        raise UsageError(f"/theme {typed.rest}: unknown theme; choose from {', '.join(names)}")
    app.theme = typed.rest
    writer = Settings(talk.runtime.host, talk.opening.workdir).writer(project=False, key="ui.theme")
    await to_thread.run_sync(writer.set, "ui.theme", typed.rest)


async def _themes(app: App[Any], _talk: Talk, _text: str) -> Sequence[ArgumentChoice]:
    return [ArgumentChoice(name) for name in listed(app.available_themes)]


def _sessions(home: Path, besides: str) -> Sequence[SavedSession]:
    """Read the saved sessions, but for one."""
    from vibe.core.config.paths import VibePaths  # noqa: PLC0415  after the first frame
    from vibe.core.session.folder import SessionLoader  # noqa: PLC0415  as above

    saved = SessionLoader(VibePaths(home).sessions).all().sessions
    return [one for one in saved if one.meta.session_id != besides]
