"""Follower: one run over all its sources, folded into one view as its events arrive."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio

from ipc.errors import IpcError
from ipc.events import Event
from ipc.registry import Entry
from ipc.subscriber import EVENTS_AT_ONCE, Subscription, subscribe
from planner.store.errors import BrokenPlanError
from planner.store.folder import PlanFolder, plans_folder
from vibe.app.watch.runs import KnownRun
from vibe.view.agent_view import EntryView, Key
from vibe.view.view import View, apply, lose

REST_S = 0.02
"""The time for which events gather before they are read. At 600 a second this halves the processor time of following.
"""


class Follower:
    """One run as it goes on. ``view`` is what its events say so far.

    ``ready`` is set once everything that was there at the beginning is in the view. ``problem`` says why events are
    missing, and is empty if none are. Everything happens on the loop of ``follow``, which is called again once ``run``
    has new sources.
    """

    def __init__(self, run: KnownRun, *, home: Path, runtime_dir: Path | None = None) -> None:
        self.run = run
        self.view = View()
        self.ready = anyio.Event()
        self.problem = ""
        self._home = home
        self._runtime_dir = runtime_dir
        self._followed: set[str] = set()
        self._changed: set[Key] = set()
        self._catching_up = anyio.Lock()

    def take_changed(self) -> set[Key]:
        """Return the keys of what changed in the view since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    async def follow(self) -> None:
        """Take everything that its sources publish, in the order they began, until the last has ended.

        Sources that another call already follows are left to that call.
        """
        async with anyio.create_task_group() as tasks, self._catching_up:
            if not self.ready.is_set():
                await self._take_recorded_facts()
            for entry in self.run.entries:
                if entry.source not in self._followed:
                    self._followed.add(entry.source)
                    caught_up = anyio.Event()
                    tasks.start_soon(self._follow_source, entry, caught_up)
                    await caught_up.wait()
            self.ready.set()

    async def older(self, agent_id: str, numbers: range) -> dict[int, EntryView]:
        """Return entries of an agent that the view no longer keeps, as far as journals have them.

        Raises:
            IpcError: a journal can't be read.
        """
        agent = self.view.agents.get(agent_id)
        ends = {} if agent is None else {source: last for source, (_, last) in agent.transcript.older.items()}
        found: dict[int, EntryView] = {}
        take = partial(_take_older, View(), (agent_id, numbers), found)
        for entry in self.run.entries:
            if not ends:
                break
            end = ends.pop(entry.source, 0)
            async with self._subscription(entry) as records:
                await records.pass_on(take, 0 if ends else end)
        return found

    def _subscription(self, entry: Entry) -> Subscription:
        subscription = subscribe(Path(entry.journal), home=self._home, after=0, runtime_dir=self._runtime_dir)
        subscription.gather_seconds = REST_S
        return subscription

    async def _take_recorded_facts(self) -> None:
        """Take the facts that only the plan's own folder has, of sources whose events are gone."""
        plan = self.run.plan
        if plan is None or any(entry.started <= plan.created for entry in self.run.entries):
            return
        folder = PlanFolder(plans_folder(self._home) / plan.plan_id)
        try:
            content = await anyio.to_thread.run_sync(folder.journal)
        except BrokenPlanError as error:
            self.problem = str(error)
            return
        self.problem = "; ".join(content.dropped)
        known = {entry.source for entry in self.run.entries}
        gone = [fact for fact in content.facts if fact.source not in known]
        for number, fact in enumerate(gone, start=1):
            self._take(fact)
            if number % EVENTS_AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
        self._changed.update(*(lose(self.view, source) for source in {fact.source for fact in gone}))

    async def _follow_source(self, entry: Entry, caught_up: anyio.Event) -> None:
        """Take the events of a source until it ends. ``caught_up`` is set once all that was there is in the view."""
        subscription = self._subscription(entry)
        try:
            async with subscription as records:
                if records.head or not records.is_live:
                    await records.pass_on(self._take, records.head if records.is_live else 0)
                caught_up.set()
                await records.pass_on(self._take)
        except IpcError as error:
            self.problem = str(error)
            self._changed.add(("runs", entry.source))
        if subscription.ended != "finished":
            self._changed.update(lose(self.view, entry.source))
        caught_up.set()

    def _take(self, event: Event) -> None:
        self._changed.update(apply(self.view, event))


def _take_older(view: View, entries: tuple[str, range], found: dict[int, EntryView], event: Event) -> None:
    """Take an event, and keep the entries it changed if they are among those wanted: an agent and numbers."""
    agent_id, numbers = entries
    for key in apply(view, event):
        if len(key) == 4 and key[:2] == ("agents", agent_id) and int(key[3]) in numbers:
            entry = view.agents[agent_id].entries.get(key[3])
            if entry is not None:
                found[entry.number] = entry
