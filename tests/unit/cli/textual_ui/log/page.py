"""A screen that holds only a chat log, and the text on it."""

from __future__ import annotations

from textual.app import App, ComposeResult

from vibe.cli.textual_ui.log.chat_log import ChatLog
from vibe.cli.textual_ui.log.entry import LogEntry


class LogPage(App[None]):
    """Keeps what the log reports."""

    def __init__(self, *entries: LogEntry) -> None:
        super().__init__()
        self._entries = entries
        self.links: list[str] = []
        self.wanted = 0

    def compose(self) -> ComposeResult:
        yield ChatLog()

    def on_mount(self) -> None:
        self.log_view.extend(self._entries)

    @property
    def log_view(self) -> ChatLog:
        return self.query_one(ChatLog)

    def on_chat_log_link_clicked(self, message: ChatLog.LinkClicked) -> None:
        self.links.append(message.url)

    def on_chat_log_older_wanted(self) -> None:
        self.wanted += 1

    @property
    def above(self) -> int:
        """The number of empty rows above a log that is shorter than the screen."""
        return max(0, self.log_view.size.height - self.log_view.virtual_size.height)

    def at(self, x: int, row: int) -> tuple[int, int]:
        """Return the screen coordinates of a column and a row of a log that is shorter than the screen."""
        return x, row + self.above

    def lines(self) -> list[str]:
        """Return the lines on the screen, without the empty rows above the first."""
        log = self.log_view
        return [log.render_line(y).text.rstrip() for y in range(self.above, log.size.height)]

    def text(self) -> str:
        """Return the lines as one text."""
        return "\n".join(self.lines())


def numbered(count: int, words: str = "words that wrap " * 9) -> list[LogEntry]:
    """Return numbered answers of several rows each."""
    return [LogEntry("answer", f"first of {number}\n\n{words}\n\nlast of {number}") for number in range(count)]
