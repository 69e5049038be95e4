"""PickerScreen: a picker over the dimmed chat. The palette and the help, made of the tables of commands and keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from anyio import to_thread
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget

from vibe.cli.textual_ui.log.rows import drawn
from vibe.front.picker import FRAME, Picker, PickRow, PickState, first_shown, fitting, picker_lines
from vibe.system.errors import VibeError
from vibe.system.plain_text import plain_line

if TYPE_CHECKING:
    from vibe.front.cells import Line

Preview: TypeAlias = "Callable[[PickRow, int], Sequence[Line]]"
CommandRow: TypeAlias = tuple[str, str, str]
"""The name of a command, its usage, and what it does."""
TEXT_FROM: Final = 3
"""Characters from which on what rows stand for is searched, too."""
FREE: Final = 4
"""Columns and rows of the window that a picker leaves free, where it has so many."""
MOST_COLUMNS: Final = 120
LEAST_COLUMNS: Final = 60
LEAST_ROWS: Final = 18
FEWEST_ROWS: Final = 8
SHARE: Final = 0.6
"""A picker has so many rows, fewer in a low window, and in a high one this share of it."""


class PickerPage(Widget):
    """Draws the picker of its screen."""

    DEFAULT_CSS = "PickerPage { background: $surface; }"

    def __init__(self, picker: Picker, state: PickState) -> None:
        super().__init__()
        self._picker = picker
        self._state = state

    def render(self) -> Content:
        """The lines."""
        return Content("\n").join(map(drawn, picker_lines(self._picker, self._state, *self.size)))


class PickerScreen(ModalScreen[str]):
    """Has the person choose a row; the result is its line, blank: none.

    What is typed filters: so keys that do something else are no letters.
    """

    CSS = "PickerScreen { align: center middle; background: $background 80%; }"
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
        Binding("ctrl+u,ctrl+w", "shorten(0)", "Filter nothing"),
    ]

    def __init__(self, picker: Picker) -> None:
        super().__init__()
        self._picker = picker
        self._state = PickState(mode=picker.mode)
        self._page = PickerPage(picker, self._state)
        self._found: Collection[str] = ()
        self._previews: dict[tuple[PickRow, int], Sequence[Line]] = {}

    def compose(self) -> ComposeResult:
        """The picker."""
        yield self._page

    def on_mount(self) -> None:
        """Mark the row that is in force."""
        self._fill(self._picker.first)

    def on_resize(self, event: events.Resize) -> None:
        """Have a part of the window; all of a small one."""
        width, height = event.size
        self._page.styles.width = min(MOST_COLUMNS, max(width - FREE, min(width, LEAST_COLUMNS)))
        self._page.styles.height = min(
            max(LEAST_ROWS, int(height * SHARE)), max(height - FREE, min(height, FEWEST_ROWS))
        )

    def on_key(self, event: events.Key) -> None:
        """Filter by what is typed."""
        if event.is_printable and event.character:
            event.stop()
            self._filter(self._state.query + event.character)

    def on_paste(self, event: events.Paste) -> None:
        """Filter by it."""
        event.stop()
        self._filter(self._state.query + plain_line(event.text))

    def on_click(self, event: events.Click) -> None:
        """Mark the row that is clicked; choose the one that is marked."""
        room = self._page.size.height - FRAME
        place = first_shown(self._state, room) + event.screen_y - self._page.region.y - 2
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
        """Have another mode."""
        if self._picker.modes:
            self._state.mode = (self._state.mode + by) % len(self._picker.modes)
            self._fill(self._row.line if self._row else "")

    def action_shorten(self, by: int) -> None:
        """Take the last character back, or all of them."""
        self._filter(self._state.query[:-1] if by else "")

    def action_choose(self) -> None:
        """End with the row that is marked."""
        row, modes = self._row, self._picker.modes
        if row is not None:
            self.dismiss(row.line + (modes[self._state.mode][1] if modes else ""))

    def action_leave(self) -> None:
        """End with none."""
        self._picker.look(None)
        self.dismiss("")

    @property
    def _row(self) -> PickRow | None:
        rows = self._state.rows
        return rows[self._state.marked] if rows else None

    def _filter(self, query: str) -> None:
        """Show what fits; what rows stand for is searched behind it."""
        self._state.query, self._found = query, ()
        self._fill(self._row.line if self._row else "")
        if self._picker.search is not None and len(query.strip()) >= TEXT_FROM:
            self.run_worker(self._search(query), exclusive=True, group="search")

    def _fill(self, marked: str) -> None:
        state = self._state
        state.rows = fitting(self._picker.rows(state.mode), state.query, self._found)
        state.marked = next((place for place, row in enumerate(state.rows) if row.line == marked), 0)
        self._show()

    def _show(self) -> None:
        """Draw it, and read the preview, if that is not known."""
        row, state = self._row, self._state
        if row is not None:
            self._picker.look(row)
        known = self._previews.get((row, state.mode)) if row else ()
        state.preview = known or ()
        if known is None and row is not None and self._picker.preview is not None:
            self.run_worker(self._read(self._picker.preview, row, state.mode), exclusive=True, group="preview")
        self._page.refresh()

    async def _search(self, query: str) -> None:
        if self._picker.search is not None:
            self._found = await to_thread.run_sync(self._picker.search, query)
            self._fill(self._row.line if self._row else "")

    async def _read(self, preview: Preview, row: PickRow, mode: int) -> None:
        try:
            self._previews[row, mode] = await to_thread.run_sync(preview, row, mode)
        except VibeError as error:
            self._previews[row, mode] = [[(plain_line(f"{error}"), "failed")]]
        self._show()


TALK, PLANS, PERMISSIONS, CONTEXT, FILES, SETTINGS = (
    "Talk", "Plans", "Permissions", "Context", "Files and undo", "Settings",
)  # fmt: skip
ALL_KEYS: Final = "All keys"
COMMANDS: Final = MappingProxyType({
    PLANS: "plan skip retry cancel pause attach",
    PERMISSIONS: "agents approvals permissions",
    CONTEXT: "context compact clear cost memory",
    FILES: "diff undo rewind",
    SETTINGS: "model theme config setup reload init mcp skills tools hooks log bug",
})
"""Our commands by topic; the others are about talking."""
LINE_KEYS: Final = (
    ("enter", "Send, or queue while the agent works"),
    ("shift+enter,ctrl+j,alt+enter", "Begin another line"),
    ("up,down", "Earlier prompts; at first, what the start screen offers"),
    ("ctrl+r", "Search earlier prompts"),
    ("ctrl+g", "Go on in your editor"),
    ("pageup,pagedown", "Scroll a page"),
    ("ctrl+home,ctrl+end", "Scroll to the beginning, to the end"),
    ("home,end", "The same, in an empty line"),
)
"""Keys of the line that no table of Textual's has."""
MARKS: Final = (
    ("!COMMAND", "Run it in your shell; the agent sees its output (!!COMMAND: it does not)"),
    ("@PATH", "Name a file; a pasted path of an image sends the image"),
)
PLACES: Final = MappingProxyType({"screen": "in the line", "app": "everywhere", "": "a marked entry"})
"""Places in which keys count, by who has their table; the chat's are none to be chosen from a list."""
KEY_TOPICS: Final = MappingProxyType({"f2": PLANS, "ctrl+t": PLANS, "shift+tab": PERMISSIONS, "ctrl+o": FILES})
_SIGNS: Final = MappingProxyType({
    "up": "↑", "down": "↓", "left": "←", "right": "→", "pageup": "PgUp", "pagedown": "PgDn", "escape": "Esc",
})  # fmt: skip
ASKS_HELP: Final = "help "
"""Before the topic in the line of a row that stands for one; no command, as it has no slash."""
UNOFFERED: Final = frozenset({"escape", "ctrl+c", "ctrl+d", "ctrl+p", "tab", "ctrl+up", "ctrl+down"})
FACT_CELLS: Final = 18


def palette(commands: Iterable[CommandRow], bindings: Mapping[str, Sequence[BindingType]]) -> Picker:
    """All that can be done by a key or a command, to be done; ``bindings`` are those of the app and of the screen."""
    entries = sorted(_entries(commands, bindings), key=lambda entry: not entry[1])
    rows = [row for _, _, row in entries if row.line not in {"", "/help"}]
    return Picker(title="Commands", rows=lambda _: rows, enter="do it")


def help_on(topic: str, commands: Iterable[CommandRow], bindings: Mapping[str, Sequence[BindingType]]) -> Picker:
    """The commands and keys of a topic; blank: the topics."""
    entries = _entries(commands, bindings)
    if topic:
        chosen = [row for about, where, row in entries if about == topic or (where and topic == ALL_KEYS)]
        return Picker(title=f"Help: {topic}", rows=lambda _: chosen, enter="do it")
    about = {name: [row for entry, _, row in entries if entry == name] for name in (TALK, *COMMANDS)}
    topics = [
        PickRow(f"{ASKS_HELP}{name}", name, words=" ".join(f"{row.title} {row.fact}" for row in rows))
        for name, rows in about.items()
    ]

    def preview(row: PickRow, _mode: int) -> list[Line]:
        shown = [entry for entry in entries if row.title == entry[0] or (entry[1] and row.title == ALL_KEYS)]
        lines: list[Line] = [[(row.title, "bold")], []]
        width = min(max((len(one.fact) for _, _, one in shown), default=0), FACT_CELLS)
        before = ""
        for _, where, one in shown:
            if where != before and row.title == ALL_KEYS:
                lines.append([(where, "muted")])
            before = where
            lines.append([(f"{one.fact:<{width}}  ", ""), (one.title, "muted")])
        return lines

    topics.append(PickRow(f"{ASKS_HELP}{ALL_KEYS}", ALL_KEYS))
    return Picker(title="Help", rows=lambda _: topics, preview=preview, enter="read")


def _entries(
    commands: Iterable[CommandRow], bindings: Mapping[str, Sequence[BindingType]]
) -> list[tuple[str, str, PickRow]]:
    """The topic of each command and key, where it counts (of a key), and its row."""
    topics = {name: topic for topic, names in COMMANDS.items() for name in names.split()}
    found: list[tuple[str, str, PickRow]] = []
    for name, usage, about in commands:
        line = f"/{name}{' ' if usage and not usage.startswith('[') else ''}"
        title = f"{about[:1].upper()}{about[1:]}"
        found.append((topics.get(name, TALK), "", PickRow(line, plain_line(title), plain_line(line), usage)))
    found += [(TALK, PLACES["screen"], PickRow("", what, mark)) for mark, what in MARKS]
    found += [(TALK, PLACES["screen"], PickRow("", what, shown_keys(keys))) for keys, what in LINE_KEYS]
    for owner, place in PLACES.items():
        for one in bindings.get(owner, ()):
            if isinstance(one, Binding):
                action = one.action if "." in one.action else f"{owner}.{one.action}"
                line = action if owner and one.key not in UNOFFERED else ""
                found.append((
                    KEY_TOPICS.get(one.key, TALK),
                    place,
                    PickRow(line, one.description, shown_keys(one.key)),
                ))
    return found


def shown_keys(names: str) -> str:
    """Keys of a table as people read them."""
    return " ".join(
        name if len(name) == 1 else "+".join(_SIGNS.get(part) or part.capitalize() for part in name.split("+"))
        for name in names.split(",")
    )
