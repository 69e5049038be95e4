"""PanelFrame: the base of every panel at the bottom, with a title, scrolling lines, a text field and key hints."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar, Final

from msgspec import Struct
from rich._wrap import divide_line
from rich.cells import cell_len, chop_cells
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.timer import Timer
from textual.visual import Visual
from textual.widgets import Input, Static

from vibe.cli.textual_ui.input.prompt_area import OneLine
from vibe.system.plain_text import counted

BAR: Final = "│ "
"""The lead of lines of a command, a file or a diff."""
DIFF_STYLES: Final = {"+": "$text-success", "-": "$text-error", "@": "$text-accent"}
NARROWEST: Final = 8
"""The fewest cells for the text of a line, however wide its lead is."""
SLIM: Final = 58
"""The width in cells below which a line's facts are left out if they do not fit beside its text."""
FACTS_GAP: Final = 2
"""The fewest blanks between a line's text and its facts."""


class Spot(Struct, frozen=True):
    """A clickable part of a line: its first cell, the one after its last, and its key."""

    first: int
    end: int
    key: str


class Line(Struct, frozen=True, kw_only=True):
    """One line of a panel; its ``text`` must be safe to show.

    ``lead`` precedes each of its rows, or only the first if it ``hangs``; ``indent`` blanks precede the rows after the
    first. ``facts`` go to the right edge of the first row, and the text makes room for them unless there is little.
    With ``words`` the line is wrapped between words, otherwise wherever a row is full. ``look`` fills its rows with a
    colour: ``added``, ``removed`` or ``chosen``. Lines with the same ``key`` are one clickable thing, and ``spots`` are
    clickable parts of a line.
    """

    text: str | Content = ""
    style: str = ""
    facts: str = ""
    look: str = ""
    lead: str = ""
    hangs: bool = False
    indent: int = 0
    words: bool = True
    key: str = ""
    spots: tuple[Spot, ...] = ()

    def has(self, key: str) -> bool:
        """Return whether the line, or a part of it, has this key."""
        return self.key == key or any(spot.key == key for spot in self.spots)

    def key_at(self, cell: int) -> str:
        """Return the key at a cell; blank if there is none."""
        return next((spot.key for spot in self.spots if spot.first <= cell < spot.end), self.key)


def row_starts(text: str, width: int, *, words: bool) -> list[int]:
    """Wrap a line of text to a width in cells, and return the index at which each row begins."""
    if words:
        return [0, *divide_line(text, width)]
    if text.isascii():
        return list(range(0, len(text) or 1, width))
    return [0, *accumulate(map(len, chop_cells(text, width)))][:-1]


class LineView(ScrollView, can_focus=True, inherit_bindings=False):
    """A widget that shows lines and is scrolled by its owner; whole lines can be selected with the mouse and copied."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"lines--added", "lines--removed", "lines--chosen"}
    DEFAULT_CSS = """
    LineView {
        height: auto;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
    }
    LineView > .lines--added { background: $success 12%; }
    LineView > .lines--removed { background: $error 12%; }
    LineView > .lines--chosen { background: $panel; }
    """

    class Scrolled(Message):
        """Posted when other rows have come into sight."""

    @dataclass
    class Pointed(Message):
        """Posted when something with a key was clicked."""

        key: str

    def __init__(self) -> None:
        super().__init__()
        self.lines: Sequence[Line] = ()
        self._cols = 0
        self._starts: list[list[int]] = []
        self._tops: list[int] = [0]

    @property
    def rows(self) -> int:
        """The number of rows that the lines take."""
        return self._tops[-1]

    def show(self, lines: Sequence[Line], *, reveal: str = "", from_top: bool = False) -> None:
        """Show other lines, and scroll to those with the key ``reveal``."""
        self.lines = lines
        self._lay_out(self._cols)
        self.refresh(layout=True)
        if from_top:
            self.scroll_to(y=0, animate=False)
        if reveal:
            self.reveal(reveal)
            self.call_after_refresh(self.reveal, reveal)  # the height may change with the lines

    def reveal(self, key: str) -> None:
        """Scroll the lines with a key into sight; the first of them if not all fit."""
        found = [number for number, line in enumerate(self.lines) if line.has(key)]
        height = self.scrollable_content_region.height
        if not found or not height or len(self._tops) <= found[-1] + 1:
            return
        top, end = self._tops[found[0]], self._tops[found[-1] + 1]
        if end > self.scroll_offset.y + height:
            self.scroll_to(y=end - height, animate=False)
        if top < self.scroll_offset.y or end - top > height:
            self.scroll_to(y=top, animate=False)

    # --- the widget

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        """Return how many rows the lines take in ``width`` cells."""
        cols = max(1, width - 1)  # there is always room for the scrollbar
        return self.rows if cols == self._cols else sum(len(self._rows_of(line, cols)) for line in self.lines)

    def on_resize(self, _: events.Resize) -> None:
        """Wrap the lines again."""
        cols = self.scrollable_content_region.width
        if cols and cols != self._cols:
            at = bisect_right(self._tops, self.scroll_offset.y) - 1
            self._lay_out(cols)
            self._refresh_scrollbars()  # the scrollbar may not be needed any more
            if 0 < at < len(self._tops):
                self.scroll_to(y=self._tops[at], animate=False)
        self.post_message(self.Scrolled())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Post that other rows are in sight."""
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Scrolled())

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        y += self.scroll_offset.y
        width = self.scrollable_content_region.width
        if y >= self.rows or not self._cols:
            return Strip.blank(width, self.rich_style)
        number = bisect_right(self._tops, y) - 1
        line = self.lines[number]
        style = self.get_visual_style(f"lines--{line.look}") if line.look else self.visual_style
        strip = self._row(number, y - self._tops[number], style)
        return strip.crop(0, width).extend_cell_length(width, style.rich_style).apply_offsets(0, number)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected lines as a whole."""
        first = selection.start.y if selection.start else 0
        last = selection.end.y if selection.end else len(self.lines) - 1
        return "\n".join(str(line.text) for line in self.lines[first : last + 1]), "\n"

    def on_click(self, event: events.Click) -> None:
        """Post the key of what was clicked."""
        y = event.y + self.scroll_offset.y
        line = self.lines[bisect_right(self._tops, y) - 1] if 0 <= y < self.rows else Line()
        if key := line.key_at(event.x - self.gutter.left):
            self.post_message(self.Pointed(key))

    def _lay_out(self, cols: int) -> None:
        self._cols = cols
        self._starts = [self._rows_of(line, cols) for line in self.lines] if cols else []
        self._tops = list(accumulate(map(len, self._starts), initial=0))
        self.virtual_size = Size(cols, self.rows)

    @staticmethod
    def _rows_of(line: Line, width: int) -> list[int]:
        room = max(NARROWEST, width - cell_len(line.lead) - line.indent)
        text = line.text if isinstance(line.text, str) else line.text.plain
        beside = room - len(line.facts) - FACTS_GAP
        if line.facts and width >= SLIM and cell_len(text) > beside + line.indent:
            room = max(NARROWEST, beside)
        return row_starts(text, room, words=line.words)

    def _row(self, number: int, row: int, style: Style) -> Strip:
        line, starts = self.lines[number], self._starts[number]
        whole = line.text if isinstance(line.text, Content) else Content(line.text)
        end = starts[row + 1] if row + 1 < len(starts) else len(whole)
        piece = whole[starts[row] : end]
        if line.style:
            piece = piece.stylize_before(line.style)
        lead = " " * cell_len(line.lead) if row and line.hangs else line.lead
        shown = Content.assemble((lead, "$foreground-muted"), " " * (line.indent if row else 0), piece)
        room = self._cols - shown.cell_length - len(line.facts)
        if line.facts and row == 0 and room >= FACTS_GAP:
            shown = Content.assemble(shown, " " * room, (line.facts, "$foreground-muted"))
        selected = self.text_selection is not None and self.text_selection.get_span(number) is not None
        if selected:
            shown = shown.stylize("reverse")
        if not shown:
            return Strip([], 0)
        strips = Visual.to_strips(self, shown.rstrip(), self._cols + 1, None, style, apply_selection=False)
        return strips[0] if strips else Strip([], 0)


GRACE_SECONDS: Final = 1.0
"""The time after a key in which the person counts as typing, so that no key meant for a text reaches a new panel."""
WAKE_SECONDS: Final = 0.1
"""The interval at which to check whether the person is still typing."""
NARROW: Final = 40
"""The width in cells below which key hints are shortened."""
LOW: Final = 12
"""The rows of the screen below which the foot scrolls with the lines."""
TINY: Final = 8
"""The rows of the screen below which the panel takes all of them."""
ROOMY: Final = 30
"""The rows of the screen from which there is an empty row between the parts of a panel."""
FOR_SCREEN: Final = frozenset({"tab", "shift+tab"})
"""The keys that an inactive panel leaves to the screen, besides those with Ctrl or Alt and F1 to F12."""


class TypingGuard(Struct, eq=False):
    """Tells whether the person is in the middle of typing; ``clock`` returns monotonic seconds."""

    _clock: Callable[[], float] = time.monotonic
    _typed_at: float | None = None

    @property
    def is_typing(self) -> bool:
        """True if a key was pressed within ``GRACE_SECONDS``."""
        return self._typed_at is not None and self._clock() - self._typed_at < GRACE_SECONDS

    def typed(self) -> None:
        """Record that a key was pressed."""
        self._typed_at = self._clock()

    def finished(self) -> None:
        """Record that the typing is over, because the text was sent or dropped."""
        self._typed_at = None


class PanelFrame(Vertical):
    """A panel with scrolling lines and a last row that names its keys.

    A panel that appears while the person is typing, or in which they type words, is ``asleep`` and takes no keys until
    the typing stops.
    """

    TITLE: ClassVar[str] = ""
    COLOUR: ClassVar[str] = "$text-primary"
    """The colour of the title and the keys."""
    DEFAULT_CSS = """
    PanelFrame {
        height: auto;
        min-height: 3;
        max-height: 80vh;
        border-left: outer $warning;
        background: $surface;
        color: $foreground;
    }
    PanelFrame > LineView { height: auto; max-height: 100%; padding: 0 1; }
    PanelFrame > .panel--foot { dock: bottom; height: auto; }
    PanelFrame .panel--keys { height: auto; max-height: 5; padding: 0 1; color: $foreground-muted; }
    PanelFrame.-low .panel--keys { max-height: 2; }
    PanelFrame Input { margin: 0 1; }
    PanelFrame.-asleep { border-left: outer $panel; }
    """

    asleep: reactive[bool] = reactive(default=False)
    place: reactive[tuple[int, int]] = reactive((1, 1))
    """The panel's number among all that wait for the person, and how many there are."""

    class PutOff(Message):
        """Posted when the person puts the panel off to get back to the prompt."""

    def __init__(self) -> None:
        super().__init__()
        self.guard = TypingGuard()
        """Replaced by the owner's guard once the panel has an owner."""
        self.is_beside = False
        """True for a panel beside other widgets, which keep the arrows and Enter until the panel has the focus."""
        self._view = LineView()
        self._field = OneLine(compact=True, select_on_focus=False)
        self._field.display = False
        self._keys = Static(classes="panel--keys")
        self._notice = ""
        self._use_text: Callable[[str], object] | None = None
        self._is_wanted = False
        self._waking: Timer | None = None

    # --- for subclasses

    def lines(self) -> Sequence[Line]:
        """Return the lines to show."""
        raise NotImplementedError

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys that work now, each with its meaning."""
        raise NotImplementedError

    def _foot(self) -> Sequence[tuple[str, str]]:
        """Return texts, with their styles, to show below the keys."""
        return ()

    def _hint(self) -> str:
        """Return a text to show to the right of the keys, or below them."""
        return ""

    def _head(self, *asked: tuple[str, str]) -> list[Line]:
        """Return the line with the title and the parts of what is asked, each with its style."""
        text = Content.assemble((self.TITLE, f"bold {self.COLOUR}"), "  ", *asked)
        return [Line(text=text, facts=self._facts(), indent=2), *self._gap()]

    def _facts(self) -> str:
        """Return the text to the right of the title."""
        number, count = self.place
        return "" if self.is_beside else f"{number} of {count}" + (" · Tab next" if count > 1 else "")

    def _gap(self) -> list[Line]:
        """Return an empty line if there is room for one."""
        return [Line()] if self.screen.size.height >= ROOMY else []

    @property
    def has_words(self) -> bool:
        """True while the text field is open, in which the person may have typed something."""
        return self._use_text is not None

    def pressed(self, key: str) -> bool:
        """Handle a key; return False if it has no meaning here."""
        raise NotImplementedError

    def redraw(self, *, reveal: str = "", from_top: bool = False) -> None:
        """Show the current lines and keys."""
        notice = [Line(text=self._notice, style="bold $text-error")] if self._notice else []
        lines = [*notice, *self.lines()]
        if self.is_low and self._foot():
            lines.append(Line(text=_joined(self._foot()), indent=2))
        self._view.show(lines, reveal=reveal, from_top=from_top or bool(self._notice))
        self._draw_keys()

    def tell(self, notice: str) -> None:
        """Show a notice above the lines until the next key."""
        self._notice = notice
        self.redraw()

    def ask_words(self, placeholder: str, use: Callable[[str], object]) -> None:
        """Open the text field; Esc closes it, and ``use`` gets the line that was typed, stripped."""
        self._use_text = use
        self._field.placeholder = placeholder
        self._field.display = True
        self.screen.set_focus(self._field)
        self._draw_keys()

    def end_words(self) -> None:
        """Close the text field."""
        self._use_text = None
        if self.screen.focused is self._field:
            self.screen.set_focus(self._view)
        self._field.display = False
        self._field.clear()
        self._draw_keys()

    @property
    def is_narrow(self) -> bool:
        """True if there is room for short words only."""
        return self.size.width < NARROW

    @property
    def is_low(self) -> bool:
        """True if the screen has few rows."""
        return self.screen.size.height < LOW

    # --- for the owner of the panel

    def take_focus(self) -> None:
        """Focus the panel, as soon as it is mounted."""
        self._is_wanted = True
        wanted = self._field if self.has_words else self._view
        if wanted.is_attached:
            self.screen.set_focus(wanted)

    # --- the widget

    def compose(self) -> ComposeResult:
        """Compose the lines, the text field and the keys."""
        yield self._view
        with Vertical(classes="panel--foot"):
            yield self._field
            yield self._keys

    @on(events.Mount)
    def _begin(self) -> None:
        self.redraw()
        if self._is_wanted:
            self.take_focus()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the rows of the lines and of what is below them."""
        room = (container, viewport, max(1, width - 2))
        return self._view.get_content_height(*room) + self._keys.get_content_height(*room) + self._field.display

    @on(events.Resize)
    def _fit(self) -> None:
        self.set_class(self.is_low, "-low")
        self.set_class(self.screen.size.height < TINY, "-tiny")
        self.redraw()

    def _watch_place(self) -> None:
        if self.is_mounted:
            self.redraw()

    def _watch_asleep(self) -> None:
        self.set_class(self.asleep, "-asleep")
        if self.is_attached:
            self._draw_keys()
        if self.asleep and self._waking is None:
            self._waking = self.set_interval(WAKE_SECONDS, self._wake)

    def _wake(self) -> None:
        if self._waking is not None and not (self.asleep and self.guard.is_typing):
            self._waking.stop()
            self._waking, self.asleep = None, False

    def on_key(self, event: events.Key) -> None:
        """Handle a key, unless the panel is asleep."""
        if self.asleep and not self.guard.is_typing:
            self.asleep = False
        elif self.asleep:
            if not _is_for_screen(event.key):
                self.guard.typed()
                event.stop()
                event.prevent_default()
            return
        self.guard.typed()
        if self.has_words:
            if event.key == "escape":
                self.end_words()
                event.stop()
        elif self._take(event):
            event.stop()
            event.prevent_default()
        elif event.is_printable and not (event.character or "").isdigit() and not self.is_beside:
            self.asleep = True  # these may be words, of which no later letter should be a key

    def _take(self, event: events.Key) -> bool:
        if self._notice:
            self._notice = ""
            self.redraw()
        key = event.character.lower() if event.character and event.is_printable else event.key
        return self.pressed(key) or self._scroll_for(key)

    @on(Input.Submitted)
    def _submit_text(self, event: Input.Submitted) -> None:
        event.stop()
        if self._use_text is not None:
            self._use_text(event.value.strip())

    @on(Input.Changed)
    def _typing(self, event: Input.Changed) -> None:
        event.stop()
        self.guard.typed()

    @on(LineView.Scrolled)
    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _look_changed(self) -> None:
        self._draw_keys()

    def _scroll_for(self, key: str) -> bool:
        view, page = self._view, max(1, self._view.size.height - 1)
        far = view.rows
        rows = {"up": -1, "down": 1, "pageup": -page, "pagedown": page, "home": -far, "end": far}.get(key)
        if rows is None:
            return False
        view.scroll_to(y=view.scroll_offset.y + rows, animate=False)
        return True

    def _draw_keys(self) -> None:
        if self.asleep:
            self._keys.update(Content("keys work once you stop typing"))
            return
        keys = [("Enter", "send"), ("Esc", "back")] if self.has_words else list(self.keys())
        if self.is_beside and self.screen.focused not in (self._view, self._field):
            keys = [("Tab", "choose") if "Enter" in key else (key, meaning) for key, meaning in keys]
        view = self._view
        below = view.rows - view.scroll_offset.y - view.scrollable_content_region.height
        if below > 0 and not self.has_class("-tiny"):
            keys.append(("PgDn", f"{counted(below, 'more line')}"))
        elif view.scroll_offset.y and not self.has_class("-tiny"):
            keys.append(("PgUp", "above"))
        width = self._keys.content_size.width or self.screen.size.width - 4  # before the first layout
        text = _key_rows(keys, width, " " * (1 if self.is_narrow else 3), f"bold {self.COLOUR}")
        if not self.has_words:
            foot = _joined(self._foot()) if not self.is_low else Content("")
            hinted = _with_hint(text, self._hint(), width - 1)
            is_below = bool(foot) and "\n" in hinted.plain[len(text) :]
            text = _with_hint(text + "\n" + foot, self._hint(), width - 1) if is_below else hinted + "\n" + foot
        self._keys.update(text.rstrip())


def _joined(parts: Sequence[tuple[str, str]]) -> Content:
    return Content(" · ").join(Content.styled(text, style) for text, style in parts)


def _key_rows(keys: Sequence[tuple[str, str]], width: int, between: str, style: str) -> Content:
    """Return the key hints in rows of at most ``width`` cells, each key on one row with its meaning."""
    text = Content("")
    room = 0
    for key, meaning in keys:
        hint = Content.assemble((key, style), " ", meaning)
        room -= hint.cell_length + len(between)
        if not text:
            text, room = hint, width - hint.cell_length
        elif room >= 0:
            text += Content(between) + hint
        else:
            text, room = text + "\n" + hint, width - hint.cell_length
    return text


def _with_hint(keys: Content, hint: str, width: int) -> Content:
    """Add a hint that ends at ``width``, on a row of its own if there is no room beside the keys.

    If the keys take several rows already, or the hint is too wide for one, it is left out instead.
    """
    rows = keys.split("\n")
    room = width - rows[-1].cell_length - len(hint)
    if not hint or (room < 2 and (len(rows) > 1 or len(hint) > width)):
        return keys
    between = " " * room if room >= 2 else "\n" + " " * (width - len(hint))
    return keys + Content(between) + Content.styled(hint, "$foreground-muted")


def _is_for_screen(key: str) -> bool:
    modified = key.startswith(("ctrl+", "alt+")) and key not in {"ctrl+j", "ctrl+m"}
    return modified or key in FOR_SCREEN or (key.startswith("f") and key[1:].isdecimal())
