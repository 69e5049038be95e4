"""OneLine, the input for a sentence, and the bindings of keys that may open it."""

from __future__ import annotations

from textual import events
from textual.binding import Binding
from textual.widgets import Input

from vibe.system.plain_text import plain_line


class OneLine(Input):
    """An input of one line. What is pasted goes into it as a whole, its lines one after the other."""

    def _on_paste(self, event: events.Paste) -> None:
        event.text = plain_line(event.text)  # the base class inserts the first line only


def priority_binding(key: str, action: str, description: str) -> Binding:
    """Return a binding with priority: its action must run before the next key, as it may open the input for that."""
    return Binding(key, action, description, priority=True, show=False)
