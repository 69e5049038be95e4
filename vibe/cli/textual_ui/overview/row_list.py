"""RowList: rows of one line each, of which only those in sight are made; one can be chosen by keys or mouse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from msgspec import Struct
from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from vibe.front.plan_words import cut

Parts: TypeAlias = tuple[tuple[str, str], ...]
"""Texts with their styles."""
MOST_KEPT = 1_000
"""Painted rows that are kept."""


class ListRow(Struct, frozen=True):
    """A row: texts at the left, which give way, and texts at the right. All of them are safe to show."""

    left: Parts
    right: Parts = ()


ListedRow: TypeAlias = tuple[str, Callable[[], ListRow]]
"""The id of a row, and what makes it when it comes into sight."""


class RowList(ScrollView, can_focus=True):
    """Shows rows; one with a blank id belongs to the one above it and can't be chosen.

    ``chosen`` is the id of the row that the keys are at; blank: none.
    """

    DEFAULT_CSS = """
    RowList { height: auto; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; text-wrap: nowrap; }
    RowList > .row-list--chosen {
        background: $block-cursor-background; color: $block-cursor-foreground; text-style: $block-cursor-text-style;
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"row-list--chosen"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "move(-1000000)", "First", show=False),
        Binding("end", "move(1000000)", "Last", show=False),
        Binding("enter", "open", "Open"),
    ]

    @dataclass
    class RowOpened(Message):
        """A row was opened, by Enter or a click."""

        rows: RowList
        row_id: str

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.chosen = ""
        self._ids: Sequence[str] = ()
        self._rows: Sequence[ListedRow] = ()
        self._painted: dict[tuple[ListRow, int, bool], Strip] = {}

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self._ids)

    def set_rows(self, rows: Sequence[ListedRow]) -> None:
        """Show these rows."""
        is_other_size = len(rows) != len(self._ids)
        self._ids, self._rows = [row_id for row_id, _ in rows], rows
        if is_other_size:
            self.virtual_size = Size(0, len(rows))
            self.refresh(layout=self.styles.is_auto_height)
        else:
            self.refresh()

    def reveal(self, index: int) -> None:
        """Have a row in sight, and those after it rather than those before."""
        height = self.scrollable_content_region.height
        top = self.scroll_offset.y
        if height and not top <= index < top + max(1, height - 1):
            self.scroll_to(y=max(0, index - height // 4), animate=False)

    def render_line(self, y: int) -> Strip:
        """A line of the screen."""
        width, index = self.scrollable_content_region.width, y + self.scroll_offset.y
        if not 0 <= index < len(self._ids):
            return Strip.blank(width, self.rich_style)
        is_chosen = self.has_focus and bool(self._ids[index]) and self._ids[index] == self.chosen
        row = self._rows[index][1]()
        painted = self._painted.get((row, width, is_chosen))
        if painted is None:
            if len(self._painted) >= MOST_KEPT:
                self._painted.clear()
            painted = self._painted[row, width, is_chosen] = self._paint(row, width, is_chosen=is_chosen)
        return painted

    def _paint(self, row: ListRow, width: int, *, is_chosen: bool) -> Strip:
        content = fitted(row, width)
        style = self.visual_style
        if is_chosen:
            style, content = style + self.get_visual_style("row-list--chosen"), Content(content.plain)
        strips = Visual.to_strips(self, content, width, 1, style, apply_selection=False)
        return strips[0] if strips else Strip.blank(width, self.rich_style)

    def notify_style_update(self) -> None:
        """Paint in the colours of another theme."""
        super().notify_style_update()
        self._painted.clear()

    def on_focus(self) -> None:
        """Have a row chosen."""
        if not self._has_choice:
            self._choose(self._nearest(self.scroll_offset.y, 1))
        self.refresh()

    def on_blur(self) -> None:
        """Show no choice while the keys are elsewhere."""
        self.refresh()

    def action_move(self, by: int) -> None:
        """Choose a row further up or down."""
        at = self._ids.index(self.chosen) if self._has_choice else self.scroll_offset.y - by
        self._choose(self._nearest(max(0, min(at + by, len(self._ids) - 1)), 1 if by > 0 else -1))

    def action_page(self, by: int) -> None:
        """Choose a row a page further up or down."""
        self.action_move(by * max(1, self.scrollable_content_region.height - 1))

    def action_open(self) -> None:
        """Open the chosen row."""
        if self._has_choice:
            self.post_message(self.RowOpened(self, self.chosen))

    def on_click(self, event: events.Click) -> None:
        """Choose and open a row."""
        index = self._nearest(event.y + self.scroll_offset.y, -1)
        if event.y + self.scroll_offset.y < len(self._ids):
            self._choose(index)
            self.action_open()

    @property
    def _has_choice(self) -> bool:
        return bool(self.chosen) and self.chosen in self._ids

    def _nearest(self, index: int, step: int) -> int:
        """The next row that can be chosen, in one direction or else in the other; -1: there is none."""
        for direction in (step, -step):
            at = index
            while 0 <= at < len(self._ids):
                if self._ids[at]:
                    return at
                at += direction
        return -1

    def _choose(self, index: int) -> None:
        if 0 <= index < len(self._ids):
            self.chosen = self._ids[index]
            height = self.scrollable_content_region.height
            top = self.scroll_offset.y
            if index < top:
                self.scroll_to(y=index, animate=False)
            elif index >= top + height:
                self.scroll_to(y=index - height + 1, animate=False)
            self.refresh()


def fitted(row: ListRow, width: int) -> Content:
    """A row of exactly so many cells: what is at the left gives way, but keeps half of it."""
    right = _within(row.right, width // 2 if row.left else width)
    taken = sum(cell_len(text) for text, _ in right)
    left = _within(row.left, max(0, width - taken - (1 if taken else 0)))
    gap = width - taken - sum(cell_len(text) for text, _ in left)
    return Content.assemble(*left, " " * max(0, gap), *right)


def _within(parts: Parts, cells: int) -> list[tuple[str, str]]:
    """As much of some texts as goes into so many cells."""
    shown: list[tuple[str, str]] = []
    for text, style in parts:
        if cells <= 0:
            break
        piece = cut(text, cells)
        shown.append((piece, style))
        cells = 0 if piece != text else cells - cell_len(piece)
    return shown
