"""Runs: which runs there are on this machine, both live and ended."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ipc.places import bases
from ipc.registry import Entry, Registry
from planner.store.errors import BrokenPlanError
from planner.store.folder import JOURNAL_FILE, SNAPSHOT_FILE, PlanSummary, modified_at, plan_folders

ENDED_EVERY_S = 5.0
"""Folders of plans are checked when a run begins or ends, else at most this often, and read only if they changed."""


class KnownRun(Struct, frozen=True, kw_only=True):
    """A run: a plan over all its sources, or a conversation. ``key`` is the plan's id, else the source.

    ``entries`` are its sources, oldest first. There are none if only the plan's own folder is left. ``plan`` is what
    that folder says.
    """

    key: str
    entries: tuple[Entry, ...] = ()
    live: bool = False
    plan: PlanSummary | None = None

    @property
    def title(self) -> str:
        """The goal of the plan, else the title of the newest source."""
        goal = "" if self.plan is None else self.plan.goal
        return goal or (self.entries[-1].info.title if self.entries else "")

    @property
    def folder(self) -> str:
        """The folder it works in; empty if unknown."""
        if self.entries:
            return self.entries[-1].info.cwd
        return "" if self.plan is None else self.plan.workspace

    @property
    def started_at(self) -> float:
        """The time at which its newest source began, or the plan was last changed (unix seconds)."""
        if self.entries:
            return self.entries[-1].started
        return 0.0 if self.plan is None else self.plan.updated or self.plan.created

    @property
    def is_plan(self) -> bool:
        """True for a plan, False for a conversation."""
        return self.plan is not None or any(entry.info.plan_id for entry in self.entries)


class Runs:
    """The runs of a vibe home. Every look reads files: call it off the event loop, from one thread at a time."""

    def __init__(self, home: Path, runtime_dir: Path | None = None) -> None:
        self._home = home
        self._registry = Registry(home, runtime_dir)
        self._watched = (*bases(home, runtime_dir), home / "run")
        self._ended: dict[str, Entry] = {}
        self._running: dict[str, Entry] = {}
        self._plans: dict[str, PlanSummary] = {}
        self._written: dict[str, tuple[float, float]] = {}
        self._plans_read_at = -ENDED_EVERY_S
        self._state_read: tuple[object, ...] = ()

    def look(self) -> tuple[KnownRun, ...]:
        """Return every run, newest first."""
        self._running = {entry.source: entry for entry in self._registry.running()}
        state = (*map(modified_at, self._watched), *sorted(self._running))
        if state != self._state_read:
            self._ended = {entry.source: entry for entry in self._registry.ended()}
        if state != self._state_read or time.monotonic() - self._plans_read_at >= ENDED_EVERY_S:
            with suppress(BrokenPlanError):
                self._read_plans()
            self._state_read, self._plans_read_at = state, time.monotonic()
        return tuple(sorted(self._known_runs(), key=lambda run: run.started_at, reverse=True))

    def _read_plans(self) -> None:
        """Read the folders of plans that were written since the last time, and of those that a process worked on."""
        known, self._plans = self._plans, {}
        for folder in plan_folders(self._home):
            written = (modified_at(folder.path / JOURNAL_FILE), modified_at(folder.path / SNAPSHOT_FILE))
            plan = known.get(folder.plan_id)
            if plan is None or plan.holder or self._written.get(folder.plan_id) != written:
                plan = folder.summary()
            self._plans[folder.plan_id], self._written[folder.plan_id] = plan, written

    def _known_runs(self) -> Iterable[KnownRun]:
        sources: dict[str, dict[str, Entry]] = {}
        # A run that has not announced its folder yet may turn out to be a plan, which has another key.
        for entry in filter(lambda entry: entry.info.cwd, (*self._ended.values(), *self._running.values())):
            sources.setdefault(entry.info.plan_id or entry.source, {})[entry.source] = entry
        for key, group in sources.items():
            entries = tuple(sorted(group.values(), key=lambda entry: entry.started))
            yield KnownRun(
                key=key, entries=entries, live=not group.keys().isdisjoint(self._running), plan=self._plans.get(key)
            )
        talking = {entry.pid for entry in self._running.values()}
        for key, plan in self._plans.items():
            if key not in sources and plan.holder not in talking:  # otherwise it belongs to a conversation
                yield KnownRun(key=key, plan=plan)
