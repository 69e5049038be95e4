"""PickerScreen: shows a picker over the dimmed chat; also builds the command palette and the help as pickers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Final, TypeAlias

from anyio import to_thread
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from vibe.cli.textual_ui.input.prompt_area import PromptArea
from vibe.cli.textual_ui.input.prompt_input import CommandRow
from vibe.cli.textual_ui.log.rows import LinesPage
from vibe.front.cells import Line
from vibe.front.picker import Picker, PickRow, PickState, first_shown, list_room, matching_rows, picker_lines, wrapped
from vibe.system.errors import VibeError
from vibe.system.plain_text import plain_line

Preview: TypeAlias = "Callable[[PickRow, int], Sequence[Line]]"
TEXT_FROM: Final = 3
"""The length of a query from which the contents behind the rows are searched, too."""
LONGEST_PASTE: Final = 200
"""The most characters of a paste that are used as a filter."""


class PickerScreen(ModalScreen[str]):
    """Lets the person choose a row; the result is the row's line, or blank for none.

    Letters filter the rows, so none of them is bound to an action.
    """

    CSS = """
    PickerScreen { align: center middle; background: $background 80%; }
    PickerScreen LinesPage { background: $surface; width: 95%; max-width: 120; }
    PickerScreen LinesPage { height: 60%; min-height: 18; max-height: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up"),
        Binding("down", "move(1)", "Down"),
        Binding("pageup", "move(-10)", "Up"),
        Binding("pagedown", "move(10)", "Down"),
        Binding("tab,right", "go_on(1)", "Next"),
        Binding("left", "go_on(-1)", "Previous"),
        Binding("enter", "choose", "Choose"),
        Binding("escape", "leave", "Back"),
        Binding("backspace", "shorten(1)", "Delete"),
        Binding("ctrl+u,ctrl+w,alt+backspace", "shorten(0)", "Filter nothing"),
    ]

    def __init__(self, picker: Picker) -> None:
        super().__init__()
        self._picker = picker
        self._state = PickState(mode=picker.mode)
        self._page = LinesPage(partial(picker_lines, picker, self._state))
        self._found: Collection[str] = ()
        self._previews: dict[tuple[PickRow, int], Sequence[Line]] = {}

    def compose(self) -> ComposeResult:
        """Compose the page with the picker."""
        yield self._page

    def on_mount(self) -> None:
        """Mark the picker's first choice."""
        self._fill(self._picker.first)

    def on_key(self, event: events.Key) -> None:
        """Add a typed character to the filter."""
        if event.is_printable and event.character:
            event.stop()
            self._filter(self._state.query + event.character)

    def on_paste(self, event: events.Paste) -> None:
        """Add pasted text to the filter."""
        event.stop()
        self._filter(self._state.query + plain_line(event.text[:LONGEST_PASTE]))

    def on_click(self, event: events.Click) -> None:
        """Mark the clicked row, or choose it if it is marked already."""
        page = self._page.region
        place = first_shown(self._state, list_room(self._picker, *page.size)) + event.screen_y - page.y - 2
        if event.widget is not self._page or not 0 <= place < len(self._state.rows):
            return
        if place == self._state.marked:
            self.action_choose()
        else:
            self.action_move(place - self._state.marked)

    def action_move(self, by: int) -> None:
        """Mark another row."""
        self._state.marked = max(0, min(self._state.marked + by, len(self._state.rows) - 1))
        self._show()

    def action_go_on(self, by: int) -> None:
        """Switch to another mode."""
        if self._picker.modes:
            self._state.mode = (self._state.mode + by) % len(self._picker.modes)
            self._fill(self._row.line if self._row else "")

    def action_shorten(self, by: int) -> None:
        """Delete the last character of the filter, or all of it (0)."""
        self._filter(self._state.query[:-1] if by else "")

    def action_choose(self) -> None:
        """Close with the marked row as the result; a preview that must be seen first is read again if it is missing."""
        row, modes = self._row, self._picker.modes
        if self._picker.is_previewed and (row, self._state.mode) not in self._previews:
            self._show()
        elif row is not None and row.line:
            self.dismiss(row.line + (modes[self._state.mode][1] if modes else ""))

    def action_leave(self) -> None:
        """Close without a choice."""
        self._picker.look(None)
        self.dismiss("")

    @property
    def _row(self) -> PickRow | None:
        rows = self._state.rows
        return rows[self._state.marked] if rows else None

    def _filter(self, query: str) -> None:
        """Show the rows that match and mark the best one; the contents behind rows are searched in the background."""
        self._state.query, self._found = query, ()
        self._fill("")
        if self._picker.search is not None and len(query.strip()) >= TEXT_FROM:
            self.run_worker(self._search(self._picker.search, query), exclusive=True, group="search")

    def _fill(self, marked: str) -> None:
        state = self._state
        state.rows = matching_rows(self._picker.rows(state.mode), state.query, self._found)
        state.marked = next((place for place, row in enumerate(state.rows) if marked and row.line == marked), 0)
        self._show()

    def _show(self) -> None:
        """Redraw, and read the preview if it is not known yet."""
        row, state = self._row, self._state
        if row is not None:
            self._picker.look(row)
        known = self._previews.get((row, state.mode)) if row else ()
        state.preview = known or ()
        if known is None and row is not None and self._picker.preview is not None:
            self.run_worker(self._read(self._picker.preview, row, state.mode), exclusive=True, group="preview")
        self._page.refresh()

    async def _search(self, search: Callable[[str], Collection[str]], query: str) -> None:
        self._found = await to_thread.run_sync(search, query)
        self._fill(self._row.line if self._row else "")

    async def _read(self, preview: Preview, row: PickRow, mode: int) -> None:
        """Show a preview, or why there is none: the next time that may be otherwise."""
        try:
            shown = self._previews[row, mode] = await to_thread.run_sync(preview, row, mode)
        except VibeError as error:
            shown = wrapped(plain_line(f"{error}"), "failed")
        if (row, mode) == (self._row, self._state.mode):
            self._state.preview = shown
            self._page.refresh()


TALK: Final = "Talk"
ALL_KEYS: Final = "All keys"
COMMANDS: Final = MappingProxyType({
    TALK: "",
    "Plans": "plan skip retry cancel pause attach",
    "Permissions": "agents approvals permissions",
    "Context": "context compact clear cost memory",
    "Files and undo": "review diff undo rewind",
    "Settings": "model theme config setup reload init mcp skills tools hooks log bug",
    ALL_KEYS: "",
})
"""The slash commands by help topic; those listed nowhere belong to ``TALK``."""
LINE_KEYS: Final = (
    ("enter", "Send, or queue while the agent works"),
    ("up,down", "Earlier prompts; at first, what the start screen offers"),
    ("ctrl+r", "Search earlier prompts"),
    ("ctrl+g", "Go on in your editor"),
    ("pageup,pagedown", "Scroll a page"),
    ("ctrl+home,ctrl+end", "Scroll to the beginning, to the end"),
    ("home,end", "The same, in an empty line"),
    *((one.key, one.description) for one in PromptArea.BINDINGS if isinstance(one, Binding)),
)
"""The keys of the prompt, those first that are in no table of Textual bindings."""
MARKS: Final = (
    ("!COMMAND", "Run it in your shell; the agent sees its output (!!COMMAND: it does not)"),
    ("@PATH", "Name a file; a pasted path of an image sends the image"),
)
KEY_TOPICS: Final = MappingProxyType({"f2": "Plans", "ctrl+t": "Plans", "shift+tab": "Permissions"})
_SIGNS: Final = MappingProxyType({
    "up": "↑", "down": "↓", "left": "←", "right": "→", "pageup": "PgUp", "pagedown": "PgDn", "escape": "Esc",
    "underscore": "_",
})  # fmt: skip
HELP_PREFIX: Final = "help "
"""The prefix, before the topic, of the line of a help topic's row; without a slash it can't be a command."""
NOT_OFFERED: Final = frozenset({"escape", "ctrl+c", "ctrl+d", "ctrl+p", "tab", "ctrl+up", "ctrl+down"})
FACT_CELLS: Final = 18
Tables: TypeAlias = Mapping[str, Sequence[BindingType]]
"""Bindings by owner: the app (``app.``), the chat screen (blank), and a marked log entry (``chat``)."""


def menu_of(what: str, commands: Iterable[CommandRow], tables: Tables) -> Picker:
    """Return the picker of all commands (``palette``), of the topics of the ``help``, or of one (``help TOPIC``)."""
    topics = _topics(commands, tables)
    topic = what.removeprefix(HELP_PREFIX)
    if what == "palette":
        rows = dict.fromkeys(row for rows in (topics[ALL_KEYS], *topics.values()) for row in rows if row.line)
        return Picker(title="Commands", rows=lambda _: list(rows), enter="do it")
    if topic in topics:
        return Picker(title=f"Help: {topic}", rows=lambda _: topics[topic], enter="do it")
    names = [
        PickRow(f"{HELP_PREFIX}{name}", name, words=" ".join(f"{row.title} {row.fact}" for row in rows))
        for name, rows in topics.items()
    ]

    def preview(row: PickRow, _mode: int) -> list[Line]:
        rows = topics[row.title]
        width = min(max((len(one.fact) for one in rows), default=0), FACT_CELLS)
        lines: list[Line] = [[(f"{one.fact:<{width}}  ", ""), (one.title, "muted")] for one in rows]
        return [[(row.title, "bold")], [], *lines]

    return Picker(title="Help", rows=lambda _: names, preview=preview, enter="read")


def _topics(commands: Iterable[CommandRow], tables: Tables) -> dict[str, list[PickRow]]:
    """Return the rows of commands and keys by help topic."""
    found: dict[str, list[PickRow]] = {topic: [] for topic in COMMANDS}
    topic_of = {name: topic for topic, names in COMMANDS.items() for name in names.split()}
    for name, usage, about in commands:
        line = f"/{name}{' ' if usage and not usage.startswith('[') else ''}"
        title = plain_line(f"{about[:1].upper()}{about[1:]}")
        found[topic_of.get(name, TALK)].append(PickRow(line, title, f"/{plain_line(name)}", usage))
    keys = [("", names, what) for names, what in LINE_KEYS]
    for owner, table in tables.items():
        for one in (one for one in table if isinstance(one, Binding)):
            action = one.action if one.action.startswith("app.") else f"{owner}{one.action}"
            is_of_entry = owner == "chat"
            line = "" if is_of_entry or one.key in NOT_OFFERED else action
            keys.append((line, one.key, f"Marked entry: {one.description.lower()}" if is_of_entry else one.description))
    found[TALK] += [PickRow("", what, mark) for mark, what in MARKS]
    for line, names, what in keys:
        row = PickRow(line, what, shown_keys(names))
        found[KEY_TOPICS.get(names, TALK)].append(row)
        found[ALL_KEYS].append(row)
    return found


def shown_keys(names: str) -> str:
    """Return the keys of a binding in readable form."""
    return " ".join(
        name if len(name) == 1 else "+".join(_SIGNS.get(part) or part.capitalize() for part in name.split("+"))
        for name in names.split(",")
    )
