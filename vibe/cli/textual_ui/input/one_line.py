"""OneLine, the input for a sentence, and the bindings of keys that may open it."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import Input

from vibe.system.plain_text import plain_line

LONGEST_PASTE = 20_000
"""The most characters that are pasted: each key takes the longer, the longer the line is."""


class OneLine(Input):
    """An input of one line. What is pasted goes into it as a whole, its lines one after the other."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("alt+d,alt+delete", "delete_right_word", "Delete to the end of the word", show=False),
        Binding("alt+backspace,ctrl+backspace", "delete_left_word", "Delete the word before", show=False),
        Binding("alt+b,alt+left", "cursor_left_word", "A word to the left", show=False),
        Binding("alt+f,alt+right", "cursor_right_word", "A word to the right", show=False),
    ]

    def _on_paste(self, event: events.Paste) -> None:
        if len(event.text) > LONGEST_PASTE:
            self.notify(f"only the first {LONGEST_PASTE:,} characters were pasted", severity="warning")
        event.text = plain_line(event.text[:LONGEST_PASTE])  # the base class inserts the first line only


def priority_binding(key: str, action: str, description: str) -> Binding:
    """Return a binding with priority: its action must run before the next key, as it may open the input for that."""
    return Binding(key, action, description, priority=True, show=False)
