"""QueuedList: lists the queued prompts above the input, in the order in which they will be sent."""

from __future__ import annotations

from typing import Final

from textual import events, on
from textual.content import Content
from textual.widgets import Static

from vibe.cli.textual_ui.state_store import SCREEN, QueuedLine, ScreenPhase, UIStateStore
from vibe.front.cells import cut
from vibe.system.plain_text import plain_line, shortened
from vibe.view.agent_view import Key
from vibe.view.view import View

MOST_SHOWN: Final = 5
"""The most rows of prompts; if there are more, the next ones and the last one are shown."""
LONGEST_PROMPT: Final = 1_000
"""The most characters of a prompt that are looked at to make its row."""
KEYS: Final = "Ctrl+S sends now · Alt+Up edits the last"


class QueuedList(Static):
    """Shows the prompts that wait for the agent or the engine; it takes no room if there are none."""

    DEFAULT_CSS = """
    QueuedList { height: auto; padding: 0 1; color: $foreground-muted; display: none; text-wrap: nowrap; }
    """

    def __init__(self, store: UIStateStore) -> None:
        super().__init__(markup=False)
        self._store = store

    def present(self, view: View, changed: frozenset[Key]) -> None:  # noqa: ARG002  as every presenter
        """Show the current queue."""
        if SCREEN in changed:
            self._draw()

    @on(events.Resize)
    def _draw(self) -> None:
        screen = self._store.screen
        self.display = bool(screen.queued)
        if screen.queued:
            lines = queued_lines(screen.queued, max(10, self.content_size.width or self.screen.size.width - 2))
            keys = [KEYS] if screen.phase is ScreenPhase.READY else []
            self.update(Content("\n".join([*lines, *keys])))


def queued_lines(queued: tuple[QueuedLine, ...], width: int) -> list[str]:
    """Return a numbered line for each queued prompt, of at most ``width`` cells."""
    numbered = [f"{number}. {plain_line(shortened(one.text, LONGEST_PROMPT))}" for number, one in enumerate(queued, 1)]
    if len(numbered) > MOST_SHOWN:
        left_out = len(numbered) - MOST_SHOWN + 1
        numbered[MOST_SHOWN - 2 : -1] = [f"… {left_out} more"]
    return [cut(line, width) for line in ["waiting:", *numbered]]
