"""Searches runs for a text, in memory and, for runs that aren't in memory, in their journals."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from vibe.app.watch.runs import KnownRun
from vibe.system.plain_text import excerpt
from vibe.view.view import View

MOST_HITS = 200
SECONDS = 2.0
"""Maximum time for searching journals, in seconds."""
LONGEST_LINE = 1024 * 1024
"""Maximum length of a journal's line that is searched, in bytes."""
DEEPEST = 6
"""Maximum depth of nested values searched in an event."""
NAMES: Final = frozenset({"type", "event_id", "source", "session_id", "plan_id", "subagent_id", "tool_call_id"})
"""Fields that identify an event rather than say what happened. They are not searched."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A place where the text was found. ``entry`` is ``AGENT:N`` in a transcript, and blank elsewhere."""

    run: str
    line: str
    step: str = ""
    entry: str = ""
    ts: float = 0.0


def found_in_rows(rows: Mapping[str, Mapping[str, Any]], wanted: str) -> Iterator[Hit]:
    """Yield the runs whose goal, folder or id contains the text."""
    for key, row in rows.items():
        line = f"{row.get('title', '')}  {row.get('folder', '')}  {key}"
        if wanted in line.casefold():
            yield Hit(run=key, line=excerpt(line, wanted), ts=row.get("started_at", 0.0))


def found_in_view(key: str, view: View, wanted: str) -> Iterator[Hit]:
    """Yield the places where the steps, notes and transcripts of a run contain the text."""
    for step in (step for plan in view.plans.values() for step in plan.steps.values()):
        line = f"{step.id}  {step.title}  {step.summary}"
        if wanted in line.casefold():
            yield Hit(run=key, step=step.id, line=excerpt(line, wanted), ts=step.started_at or 0.0)
    for note in view.notices.values():
        if wanted in note.message.casefold():
            yield Hit(run=key, step=note.step_id or "", line=excerpt(note.message, wanted), ts=note.ts)
    for agent in view.agents.values():
        for number, entry in agent.entries.items():
            text = f"{getattr(entry, 'words', '')}\n{entry.text}"
            if wanted in text.casefold():
                place = {"step": agent.step_id or "", "entry": f"{agent.id}:{number}"}
                yield Hit(run=key, line=excerpt(text, wanted), ts=entry.ts, **place)


def found_in_journals(runs: Iterable[KnownRun], wanted: str, seconds: float = SECONDS) -> tuple[list[Hit], bool]:
    """Return the places where the journals of runs contain the text, and whether the search was cut short. Blocks."""
    deadline = time.monotonic() + seconds
    places = ((run.key, Path(entry.journal)) for run in runs for entry in run.entries)
    found = (hit for key, path in places for hit in _in_journal(key, path, wanted, deadline))
    hits = list(islice(found, MOST_HITS))
    return hits, len(hits) == MOST_HITS or time.monotonic() > deadline


def _in_journal(key: str, path: Path, wanted: str, deadline: float) -> Iterator[Hit]:
    needle = json.dumps(wanted, ensure_ascii=False)[1:-1]
    with suppress(OSError), path.open("rb") as journal:  # it may be deleted meanwhile
        while (line := journal.readline(LONGEST_LINE)) and time.monotonic() < deadline:
            if needle in line.decode("utf-8", "replace").casefold():
                yield from _in_event(key, line, wanted)


def _in_event(key: str, line: bytes, wanted: str) -> Iterator[Hit]:
    try:
        event = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # an incomplete or too long line
        return
    text = next((text for text in _texts(event, DEEPEST) if wanted in text.casefold()), None)
    if text is not None:
        step, ts = event.get("subagent_step_id") or event.get("step_id") or "", event.get("ts")
        known = ts if isinstance(ts, float) else 0.0  # a later version may write it differently
        yield Hit(run=key, step=str(step), line=excerpt(text, wanted), ts=known)


def _texts(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth:
        parts = cast("dict[object, object] | list[object]", value)
        for name, part in parts.items() if isinstance(parts, dict) else enumerate(parts):
            if name not in NAMES:
                yield from _texts(part, depth - 1)
