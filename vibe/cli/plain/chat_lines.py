"""ChatLines: what happens in a conversation, as lines of plain text."""

from __future__ import annotations

from collections.abc import Callable

from ipc import events as e
from vibe.app.conversation.user_shell import SHELL
from vibe.front.event_text import describe, one_line, trouble
from vibe.system.plain_text import plain

RESULT_LENGTH = 200
INDENT = "  "
TOLD = (e.CompactEndEvent, e.SubAgentStartedEvent, e.SubAgentFinishedEvent)
"""Events that are said as everywhere else."""


class ChatLines:
    """An ``EventSink``. Answers are printed as they come, calls and their ends as one line each; ``write`` prints."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._open = ""
        """The message whose text is being printed."""
        self._column = 0

    def publish(self, event: e.Event) -> None:
        """Print it, if a person should know."""
        if isinstance(event, e.AssistantDeltaEvent):
            self._stream(event)
        elif isinstance(event, e.AssistantEvent):
            self._end(event)
        elif isinstance(event, e.ToolStreamEvent):
            if event.tool == SHELL:
                self._write(plain(event.text))
        elif line := _line(event):
            self._end_line()
            indent = INDENT if event.subagent_id else ""
            self._write(f"{indent}{line}\n")

    def _stream(self, event: e.AssistantDeltaEvent) -> None:
        if event.subagent_id:
            return
        key = f"{event.message_id} {event.attempt}"
        if key != self._open and self._open.startswith(event.message_id):
            self._end_line()
            self._write("(connection lost: retrying)\n")
        self._open = key
        text = plain(event.text)
        self._column = len(text) if "\n" in text else self._column + len(text)
        if text.endswith("\n"):
            self._column = 0
        self._write(text)

    def _end(self, event: e.AssistantEvent) -> None:
        if not event.subagent_id:
            self._end_line()
            self._open = ""

    def _end_line(self) -> None:
        if self._column:
            self._write("\n")
            self._column = 0


def _line(event: e.Event) -> str:
    """The event in a line; empty: it goes without saying."""
    if isinstance(event, e.WarningEvent | e.ErrorEvent):
        return one_line(trouble(event), 1_000)
    if isinstance(event, e.ToolCallEvent):
        return "" if event.tool == SHELL else f"* {one_line(event.summary or event.tool)}"
    if isinstance(event, e.ToolResultEvent):
        return _result(event)
    if isinstance(event, e.ToolServerEvent):
        return describe(event) if event.status == "failed" else ""
    return describe(event) if isinstance(event, TOLD) else ""


def _result(event: e.ToolResultEvent) -> str:
    if event.tool == SHELL:
        return f"{INDENT}{event.status}" if event.status != "ok" else ""
    if event.status != "ok":
        return f"{INDENT}{event.status}: {one_line(event.content, RESULT_LENGTH)}"
    if isinstance(event.display, e.CommandDisplay) and event.display.exit_code:
        last = event.content.rstrip().rpartition("\n")[2]
        return f"{INDENT}exit code {event.display.exit_code}: {one_line(last, RESULT_LENGTH)}"
    return f"{INDENT}changed {one_line(', '.join(event.files_changed))}" if event.files_changed else ""
