"""The transcript of some agents for a terminal: what they were told, said and did, as it goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import chop_cells
from rich.text import Text

from vibe.app.view.agent_view import AgentView
from vibe.app.view.transcript import CallView, EntryView
from vibe.cli.render.event_text import one_line
from vibe.core.plain_text import plain

MARKS = {"user": ">", "answer": "●", "reasoning": "…", "note": "!"}
STYLES = {"user": "bold", "reasoning": "dim italic", "warning": "yellow", "error": "red", "note": "cyan"}
CALL_MARKS = {"ok": "✓", "error": "✗", "denied": "✗", "cancelled": "×", "writing": "▸", "queued": "·", "running": "▸"}  # noqa: RUF001  a cross is meant
CALL_STYLES = {"ok": "green", "error": "red", "denied": "red", "cancelled": "dim", "queued": "dim"}
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
MOST_LINES = {"user": 12, "reasoning": 4}
OUTPUT_LINES, DIFF_LINES = 8, 40
INDENT = "  "


def transcript_lines(agents: Sequence[AgentView], width: int, wanted: int) -> list[Text]:
    """The newest entries of agents, as they began, in lines of at most ``width`` cells: ``wanted`` lines or some more.

    Fewer: there are no others.
    """
    entries = [entry for agent in agents for entry in agent.entries.values()]
    shown: list[list[Text]] = []
    for entry in sorted(entries, key=lambda entry: (entry.ts, entry.first), reverse=True):
        if wanted <= 0:
            break
        lines = list(_call(entry, width) if isinstance(entry, CallView) else _said(entry, width))
        wanted -= len(lines)
        shown.append(lines)
    if wanted > 0 and any(agent.older for agent in agents):
        shown.append([Text("  (earlier output is in the run's journal)", style="dim")])
    return [line for lines in reversed(shown) for line in lines]


def _said(entry: EntryView, width: int) -> Iterator[Text]:
    style = STYLES.get(entry.status if entry.kind == "note" else entry.kind, "")
    most = MOST_LINES.get(entry.kind)
    texts = plain(entry.text).strip().split("\n")
    more = [f"… {len(texts) - most} more lines"] if most is not None and len(texts) > most else []
    mark = MARKS.get(entry.kind, "·") + " "
    for text in [*texts[:most], *more]:
        for piece in _fitted(text, width):
            yield Text(mark + piece, style=style)
            mark = INDENT


def _call(call: CallView, width: int) -> Iterator[Text]:
    style = CALL_STYLES.get(call.status, "cyan")
    words = call.words if call.status != "writing" else f"{call.tool} {call.written}"
    how = {"queued": "  (waits its turn)", "denied": "  (denied)", "cancelled": "  (stopped)"}.get(call.status, "")
    took = f"  {call.duration_s:.1f} s" if call.duration_s is not None and not how else ""
    line = one_line(words, max(8, width - len(INDENT + how + took))) + how + took
    yield Text(f"{CALL_MARKS.get(call.status, '·')} {line}"[:width], style=style)
    if call.diff:
        for text in plain(call.diff).split("\n")[2 : 2 + DIFF_LINES]:
            yield from (Text(INDENT + piece, style=DIFF_STYLES.get(text[:1], "dim")) for piece in _fitted(text, width))
        return
    printed = plain(call.text).rstrip().split("\n") if call.text.strip() else []
    hidden = [f"… {len(printed) - OUTPUT_LINES} lines above"] if len(printed) > OUTPUT_LINES else []
    for text in [*hidden, *printed[-OUTPUT_LINES:]]:
        yield from (Text(INDENT + piece, style="dim") for piece in _fitted(text, width)[:2])


def _fitted(text: str, width: int) -> list[str]:
    """A line in pieces that fit."""
    return chop_cells(text.expandtabs(4), max(8, width - len(INDENT))) or [""]
