"""Usage by model, project, day or plan: what conversations, plans and planning took, as far as it is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

from planner.store.errors import BrokenPlanError
from planner.store.folder import JOURNAL_FILE, PlanFolder, plan_folders
from subagents.agent.subagent import earlier_subagents
from vibe.app.plan.usage_history import earlier_planning, revision_agents, spending_by_attempt
from vibe.core.config.paths import VibePaths
from vibe.core.messages import Spending, total_of
from vibe.core.session.folder import SavedSession, SessionLoader, Transcript, TranscriptError
from vibe.system.grouping import by_key
from vibe.system.plain_text import date_text

By: TypeAlias = Literal["model", "project", "day", "plan"]
MOST_BYTES = 1_000_000_000
"""The most bytes of all records together, newest first."""


class SpentRecord(Struct, frozen=True, kw_only=True):
    """The spending of a conversation, of an attempt at a step of a plan, or of a run that wrote a plan."""

    model: str
    project: str
    plan: str | None
    at: float
    spent: Spending

    def key(self, by: By) -> str | None:
        """Return the key that it is counted under."""
        return date_text(self.at, "%Y-%m-%d") if by == "day" else getattr(self, by) or None


class UsageSummary(Struct, frozen=True, kw_only=True):
    """The rows and their total. ``notes`` say what is unknown or was not read."""

    by: By
    total: Spending
    rows: tuple[tuple[str | None, Spending], ...]
    notes: tuple[str, ...]

    def as_document(self) -> dict[str, Any]:
        """Return it as JSON types."""
        rows = [{self.by: key, **_figures(spent)} for key, spent in self.rows]
        return {"total": _figures(self.total), "rows": rows, "notes": list(self.notes)}


def _figures(spent: Spending) -> dict[str, Any]:
    names = ("calls", "prompt_tokens", "completion_tokens", "cached_tokens")
    return {**{name: getattr(spent.usage, name) for name in names}, "cost_usd": spent.cost_usd}


def usage_summary(home: Path, by: By, since: float) -> UsageSummary:
    """Return what was used since a time (unix seconds), as far as it is recorded. Reads files.

    A conversation counts for the day of its last message.
    """
    notes: list[str] = []
    records = [*_of_sessions(home, since, notes), *_of_plans(home, since, notes)]
    records += (SpentRecord(plan=None, **structs.asdict(call)) for call in earlier_planning(home) if call.at >= since)
    groups = by_key((record.key(by), record.spent) for record in records)
    rows = [(key, total_of(spent)) for key, spent in groups.items()]
    rows.sort(key=lambda row: (row[0] or "") if by == "day" else -row[1].usage.total_tokens)
    unpriced = sum(record.spent.usage.calls for record in records if record.spent.cost_usd is None)
    if unpriced:
        notes.insert(0, f"cost unknown: no price is known for some calls ({unpriced:,} at most)")
    return UsageSummary(by=by, total=total_of(record.spent for record in records), rows=tuple(rows), notes=tuple(notes))


def _of_sessions(home: Path, since: float, notes: list[str]) -> Iterator[SpentRecord]:
    listing = SessionLoader(VibePaths(home).sessions).all()
    notes += listing.problems
    left = MOST_BYTES
    for saved in listing.sessions:
        if saved.updated < since:
            return
        subagents = saved.folder.path / "subagents"
        conversations = (saved.folder.transcript, *subagents.glob("*/messages.jsonl"))
        left -= sum(path.stat().st_size for path in conversations if path.exists())
        if left < 0:
            notes.append("there are more conversations than are read at once: the oldest are left out")
            return
        try:
            spent = total_of([_of_session(saved), *earlier_subagents(subagents, "")])
        except TranscriptError as error:
            notes.append(str(error))
            continue
        if spent.usage.calls:
            place = saved.meta.workspace
            yield SpentRecord(model=saved.meta.model, project=place, plan=None, at=saved.updated, spent=spent)


def _of_session(saved: SavedSession) -> Spending:
    """Return what a session took by itself. The last of its calls, for a summary, is recorded only in its metadata.

    Raises:
        TranscriptError: it can't be read.
    """
    meta = saved.meta
    if meta.origin:
        return Spending(meta.usage, None)
    transcript = Transcript.peek(saved.folder.transcript)
    base, last = transcript.inherited, meta if meta.usage.calls > transcript.usage.calls else transcript
    known = last.cost_usd is not None and base.cost_usd is not None
    return Spending(last.usage - base.usage, (last.cost_usd or 0.0) - (base.cost_usd or 0.0) if known else None)


def _of_plans(home: Path, since: float, notes: list[str]) -> Iterator[SpentRecord]:
    left = MOST_BYTES
    written = [(folder, *_written(folder)) for folder in plan_folders(home)]
    for folder, at, size in sorted(written, key=itemgetter(1), reverse=True):
        left -= size
        if at < since or left < 0:
            notes += [] if at < since else ["there are more plans than are read at once: the oldest are left out"]
            return
        try:
            yield from (record for record in _of_plan(folder, at) if record.at >= since and record.spent.usage.calls)
        except BrokenPlanError as error:
            notes.append(str(error))


def _of_plan(folder: PlanFolder, at: float) -> Iterator[SpentRecord]:
    """Yield what the attempts of a plan took. For attempts that were cut off, their conversations say so."""
    settings, state = folder.settings(), folder.state()
    common = {"project": settings.workspace, "plan": folder.plan_id}
    steps = {step.id: step for step in (*(gone.step for gone in state.removed), *state.steps.values())}
    for (step_id, number), taken in spending_by_attempt(state, folder).items():
        order = steps[step_id].outline.order
        was = next((attempt for attempt in steps[step_id].attempts if attempt.number == number), None)
        model = (was and was.result.model) or (order and order.model) or settings.model or ""
        spent = Spending(taken.usage, taken.cost_usd)
        yield SpentRecord(model=model, at=was.ended_at if was else at, spent=spent, **common)
    for _, agent in revision_agents(folder):
        yield SpentRecord(model=settings.model or "", at=at, spent=Spending(agent.usage, agent.cost_usd), **common)


def _written(folder: PlanFolder) -> tuple[float, int]:
    """Return when the journal of a plan was last written, and its size in bytes."""
    with suppress(OSError):
        found = (folder.path / JOURNAL_FILE).stat()
        return found.st_mtime, found.st_size
    return 0.0, 0
