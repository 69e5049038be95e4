"""Painter: the rows of an entry, by its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.style import Style
from textual.widget import Widget

from vibe.cli.render.event_text import counted
from vibe.cli.textual_ui.log.answer_rows import AnswerRows
from vibe.cli.textual_ui.log.blocks import LogBlock, styled
from vibe.cli.textual_ui.log.clean import clean_line, middle_cut
from vibe.cli.textual_ui.log.diff_blocks import diff_blocks
from vibe.cli.textual_ui.log.markdown_blocks import MarkdownBlocks
from vibe.cli.textual_ui.log.rows import GUTTER, Row, lay_out
from vibe.core.told_files import told_parts

if TYPE_CHECKING:
    from vibe.cli.textual_ui.log.entry import LogEntry

USER: Final = "chat-log--user"
MOST_TOLD: Final = 40
"""Of a prompt; the others show by the same key as those that a tool printed."""
MOST_LINES: Final = 200
"""Of what a tool printed; those between the first and the last ones show by a key."""
ALL_LINES: Final = 4000
"""Even then."""
_LIVE: Final = 3
"""Lines that show of a folded call that runs, or of a command that failed."""

WHOLE: Final = "whole"
"""In the style of text that a click replaces by what it stands for."""
_CALLS: Final = {
    "writing": ("…", "$foreground-muted"),
    "queued": ("…", "$foreground-muted"),
    "running": ("▶", "$text-accent"),
    "ok": ("✓", "$text-success"),
    "error": ("✗", "$text-error"),
    "failed": ("✗", "$text-error"),
    "denied": ("⊘", "$text-warning"),
    "cancelled": ("⊘", "$foreground-muted"),
}
_NOTES: Final = {"typed": (">", "$foreground-muted"), "warning": ("!", "$text-warning"), "error": ("✗", "$text-error")}
_AFTER: Final = {"queued": "waits its turn", "error": "failed", "denied": "denied", "cancelled": "cancelled"}


class Painter:
    """Makes rows for a widget, whose look it takes; of answers that stream it keeps what is finished."""

    def __init__(self, widget: Widget) -> None:
        self._markdown = MarkdownBlocks()
        self._widget = widget
        self._answers: dict[LogEntry, AnswerRows] = {}
        self._kinds: dict[str, Callable[[LogEntry], Iterator[LogBlock]]] = {
            "user": _told,
            "call": _call,
            "reasoning": _reasoning,
            "note": _note,
            "shell": _shell,
        }

    def rows(self, entry: LogEntry, cols: int) -> list[Row]:
        """All rows of an entry at that width."""
        kind = self._kinds.get(entry.kind)
        return self._answer(entry, cols) if kind is None else lay_out(self._widget, kind(entry), cols)

    def warm(self) -> None:
        """Load what Markdown and code need."""
        self._markdown.warm()

    def forget(self, entry: LogEntry | None = None) -> None:
        """Keep nothing of an entry, or of any."""
        if entry is None:
            self._answers.clear()
        else:
            self._answers.pop(entry, None)

    def _answer(self, entry: LogEntry, cols: int) -> list[Row]:
        answer = self._answers.get(entry)
        if answer is None or answer.cols != cols - GUTTER or answer.epoch != entry.epoch:

            def laid_out(blocks: Iterable[LogBlock]) -> list[Row]:
                return lay_out(self._widget, blocks, cols)

            answer = AnswerRows(self._markdown, laid_out, cols - GUTTER, entry.epoch)
        if entry.is_open:
            self._answers[entry] = answer
            return answer.streamed(entry.text)
        self._answers.pop(entry, None)
        rows = answer.finished(entry.text)
        if entry.status == "interrupted":
            rows += lay_out(self._widget, [LogBlock(styled("(interrupted)", "$text-warning"))], cols)
        return rows


def _told(entry: LogEntry) -> Iterator[LogBlock]:
    prompt, files = (entry.text, ()) if entry.whole else told_parts(entry.text)
    head, hidden, tail = middle_cut(prompt.rstrip("\n").split("\n"), ALL_LINES if entry.whole else MOST_TOLD)
    yield LogBlock(Content("\n".join(head)), look=USER, mark=styled(">", "bold $text-primary"), flush=True)
    if hidden:
        yield LogBlock(_hidden(hidden, entry), look=USER, flush=True)
        yield LogBlock(Content("\n".join(tail)), look=USER, flush=True)
    for name, text in files:
        size = counted(len(text.splitlines()), "line")
        yield LogBlock(styled(f"[{name}: {size}]", "$foreground-muted"), look=USER, flush=True)
    if entry.images:
        images = "1 image" if entry.images == 1 else f"{entry.images} images"
        yield LogBlock(styled(f"[{images}]", "$foreground-muted"), look=USER, flush=True)


def _note(entry: LogEntry) -> Iterator[LogBlock]:
    sign, style = _NOTES.get(entry.status, ("·", "$foreground-muted"))
    yield LogBlock(styled(entry.text.rstrip("\n"), style), mark=styled(sign, style))


def _reasoning(entry: LogEntry) -> Iterator[LogBlock]:
    title = clean_line(entry.title) or ("Thinks" if entry.is_open else "Thought")
    yield _heading(Content.styled(title, "italic $foreground-muted"), styled("*", "$foreground-muted"), entry)
    if not entry.folded:
        yield LogBlock(styled(entry.text.rstrip("\n"), "italic $foreground-muted"))


def _call(entry: LogEntry) -> Iterator[LogBlock]:
    sign, style = _CALLS.get(entry.status, ("·", "$foreground-muted"))
    name, blank, rest = (clean_line(entry.title) or "call").partition(" ")
    title = Content.assemble((name, "bold"), blank, rest)
    if after := _AFTER.get(entry.status):
        title += styled(f"  {after}", style)
    if detail := clean_line(entry.detail):
        title += styled(f"  {detail}", "$text-error" if entry.status in {"error", "failed"} else "$foreground-muted")
    if entry.images:
        title += styled(f"  [images: {entry.images}]", "$foreground-muted")
    yield _heading(title, styled(sign, style), entry)
    if entry.folded:
        if entry.status in {"running", "failed"}:
            yield from _lines(entry.text.rstrip("\n").rsplit("\n", _LIVE)[-_LIVE:])
        return
    if entry.diff:
        yield from diff_blocks(entry.diff)
    if entry.text.strip() and (not entry.diff or entry.status != "ok"):
        head, hidden, tail = middle_cut(_text_lines(entry), ALL_LINES if entry.whole else MOST_LINES)
        yield from _lines(head)
        if hidden:
            yield LogBlock(_hidden(hidden, entry))
            yield from _lines(tail)


def _shell(entry: LogEntry) -> Iterator[LogBlock]:
    from rich.text import Text  # noqa: PLC0415  only for what a person runs

    mark = styled("!", "$foreground-muted")
    if entry.title:
        yield LogBlock(styled(clean_line(entry.title), "bold"), mark=mark)
    head, hidden, tail = middle_cut(_text_lines(entry), ALL_LINES if entry.whole else MOST_LINES)
    for lines in (head, tail):
        if any(lines):
            coloured = Content.from_rich_text(Text.from_ansi("\n".join(lines)))
            yield LogBlock(coloured)
        if hidden and lines is head:
            yield LogBlock(_hidden(hidden, entry))
    if detail := clean_line(entry.detail):
        yield LogBlock(styled(detail, "$text-error"))


def _heading(title: Content, mark: Content, entry: LogEntry) -> LogBlock:
    has_more = entry.text.strip() or entry.diff
    sign = ("▸ " if entry.folded else "▾ ") if has_more else ""
    return LogBlock(styled(sign, "$foreground-muted") + title, mark=mark)


def _lines(lines: list[str]) -> Iterator[LogBlock]:
    if any(lines):
        yield LogBlock(styled("\n".join(lines), "$foreground-muted"), "│ ", "│ ")


def _text_lines(entry: LogEntry) -> list[str]:
    return entry.text.rstrip("\n").split("\n")


def _hidden(count: int, entry: LogEntry) -> Content:
    """The line in the place of others; a click on it shows them."""
    text = f"… {count} more lines" + ("" if entry.whole else ": click, or Alt+M in the chat")
    return styled(text, "italic $foreground-muted").stylize(Style.from_meta({WHOLE: True}))
