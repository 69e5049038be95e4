"""PromptArea: the text of the prompt, with its cursor and the keys that edit it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.actions import SkipAction
from textual.binding import Binding, BindingType, NoBinding
from textual.widgets import TextArea
from wcwidth import iter_graphemes

if TYPE_CHECKING:
    from textual.app import App

ROWS = 8
"""The most it takes of the screen."""


class PromptArea(TextArea):
    """Text that grows from one row to some; all keys act in the order in which they come.

    ``first`` is offered every key, and says whether it took it. ``pasted`` returns the text to put in for what a
    person pastes. ``edited`` is told of every change, before the next key.
    """

    DEFAULT_CSS = f"""
    PromptArea, PromptArea:focus {{
        height: auto; min-height: 1; max-height: {ROWS}; border: none; padding: 0;
        background: transparent; scrollbar-size: 1 1;
    }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("shift+enter,ctrl+j,alt+enter", "newline", "Newline", show=False),
    ]

    def __init__(self, first: Callable[[str], bool], pasted: Callable[[str], str], edited: Callable[[], None]) -> None:
        self._edited: Callable[[], None] | None = None  # the base class edits while it is made
        super().__init__(soft_wrap=True, highlight_cursor_line=False, compact=True)
        self._first = first
        self._pasted = pasted
        self._edited = edited
        self.cursor_blink = False
        self.match_cursor_bracket = False  # it reads through the whole text

    @property
    def before_cursor(self) -> str:
        """The line up to the cursor."""
        row, column = self.cursor_location
        return self.document.get_line(row)[:column]

    @property
    def is_in_first_row(self) -> bool:
        """True where Up has nowhere to go."""
        return self.navigator.is_first_wrapped_line(self.cursor_location)

    @property
    def is_in_last_row(self) -> bool:
        """True where Down has nowhere to go."""
        return self.navigator.is_last_wrapped_line(self.cursor_location)

    def replace_before_cursor(self, length: int, text: str) -> None:
        """Put ``text`` in for so many characters of the line before the cursor."""
        row, column = self.cursor_location
        self.replace(text, (row, column - length), (row, column), maintain_selection_offset=False)

    def load_text(self, text: str) -> None:
        """Show another text, with the cursor at its end."""
        super().load_text(text)
        self.move_cursor(self.document.end)

    def update_suggestion(self) -> None:
        """The base class calls this after each change."""
        if self._edited is not None:
            self._edited()

    def action_newline(self) -> None:
        """Begin another line."""
        self.replace("\n", *self.selection, maintain_selection_offset=False)

    def action_delete_left(self) -> None:
        """Delete what is selected, or a whole character as a person sees it: an emoji may be several."""
        before = self.before_cursor
        if self.selection.is_empty and before and not before.isascii():
            self.replace_before_cursor(len([*iter_graphemes(before)][-1]), "")
        else:
            super().action_delete_left()

    def action_delete_right(self) -> None:
        """Leave Ctrl+D to the app where there is nothing to delete."""
        if not self.text:
            raise SkipAction
        super().action_delete_right()

    async def _on_key(self, event: events.Key) -> None:
        """Act at once on the keys that are bound here, too: else the letter typed after one could be before it."""
        if self._first(event.key):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)
        if event.is_printable:
            return
        try:
            bindings = self._bindings.get_bindings_for_key(event.key)
        except NoBinding:
            return
        app = cast("App[None]", self.app)  # pyright: ignore[reportUnknownMemberType]  Textual's has no type
        if await app.run_action(bindings[0].action, self):
            event.stop()
            event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.replace(self._pasted(event.text), *self.selection, maintain_selection_offset=False)
