"""Follower: one run, over all its sources, folded into one view as its events come."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
from anyio import create_task_group, lowlevel, to_thread

from ipc.errors import IpcError
from ipc.events import Event
from ipc.registry import Entry
from ipc.subscriber import Subscription, subscribe
from planner.store.errors import BrokenPlanError
from planner.store.folder import PlanFolder, plans_folder
from vibe.app.watch.runs import KnownRun
from vibe.view.agent_view import EntryView, Key
from vibe.view.view import View, apply, lose

EVENTS_AT_ONCE = 200
"""After so many events others on the loop have their turn."""
REST_S = 0.02
"""Events gather so long: at 600 a second that halves what following takes of the processor."""


class Follower:
    """One run as it goes on: ``view`` is what its events say so far.

    ``ready`` is set once all that was there at the beginning is in the view. ``problem`` says why events are missing;
    blank: none are. Everything happens on the loop of ``follow``, which is called again once ``run`` has new sources.
    """

    def __init__(self, run: KnownRun, *, home: Path, runtime_dir: Path | None = None) -> None:
        self.run = run
        self.view = View()
        self.ready = anyio.Event()
        self.problem = ""
        self._home = home
        self._runtime_dir = runtime_dir
        self._heard: set[str] = set()
        self._changed: set[Key] = set()
        self._catching_up = anyio.Lock()

    def take_changed(self) -> set[Key]:
        """Return the keys of what changed in the view since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    async def follow(self) -> None:
        """Take in all that its sources publish, one after the other as they began, until the last has ended.

        What another call follows already is left to that.
        """
        async with create_task_group() as tasks, self._catching_up:
            if not self.ready.is_set():
                await self._recall()
            for entry in self.run.entries:
                if entry.source not in self._heard:
                    self._heard.add(entry.source)
                    caught_up = anyio.Event()
                    tasks.start_soon(self._hear, entry, caught_up)
                    await caught_up.wait()
            self.ready.set()

    async def older(self, agent_id: str, numbers: range) -> dict[int, EntryView]:
        """Return those entries of an agent that the view no longer keeps, as far as journals have them.

        Raises:
            IpcError: a journal can't be read.
        """
        agent = self.view.agents.get(agent_id)
        ends = {} if agent is None else {source: last for source, (_, last) in agent.older.items()}
        found: dict[int, EntryView] = {}
        take = partial(_take_older, View(), (agent_id, numbers), found)
        for entry in self.run.entries:
            if not ends:
                break
            end = ends.pop(entry.source, 0)
            async with self._subscription(entry) as records:
                await _hand_on(records, take, 0 if ends else end)
        return found

    def _subscription(self, entry: Entry) -> Subscription:
        subscription = subscribe(Path(entry.journal), home=self._home, after=0, runtime_dir=self._runtime_dir)
        subscription.rest = REST_S
        return subscription

    async def _recall(self) -> None:
        """Take in what only the plan's own folder knows: the facts of sources whose events are gone."""
        plan = self.run.plan
        if plan is None or any(entry.started <= plan.created for entry in self.run.entries):
            return
        folder = PlanFolder(plans_folder(self._home) / plan.plan_id)
        try:
            content = await to_thread.run_sync(folder.journal)
        except BrokenPlanError as error:
            self.problem = str(error)
            return
        known = {entry.source for entry in self.run.entries}
        gone = [fact for fact in content.facts if fact.source not in known]
        for number, fact in enumerate(gone, start=1):
            self._take(fact)
            if number % EVENTS_AT_ONCE == 0:
                await lowlevel.checkpoint()
        self._changed.update(*(lose(self.view, source) for source in {fact.source for fact in gone}))

    async def _hear(self, entry: Entry, caught_up: anyio.Event) -> None:
        """Take in the events of a source until it ends; ``caught_up`` is set once all that was there is in the view."""
        subscription = self._subscription(entry)
        try:
            async with subscription as records:
                if records.head or not records.is_live:
                    await _hand_on(records, self._take, records.head)
                caught_up.set()
                await _hand_on(records, self._take)
        except IpcError as error:
            self.problem = str(error)
        if subscription.ended != "finished":
            self._changed.update(lose(self.view, entry.source))
        caught_up.set()

    def _take(self, event: Event) -> None:
        self._changed.update(apply(self.view, event))


async def _hand_on(records: Subscription, take: Callable[[Event], None], last: int = 0) -> None:
    """Hand on the events of a source, up to that number; 0: to its end."""
    async for record in records:
        if record.event is not None:  # else of a later version
            take(record.event)
        if record.seq % EVENTS_AT_ONCE == 0:
            await lowlevel.checkpoint()
        if 0 < last <= record.seq:
            return


def _take_older(view: View, wanted: tuple[str, range], found: dict[int, EntryView], event: Event) -> None:
    """Take an event in, and keep what is wanted of the entries that it changed: agent and numbers."""
    agent_id, numbers = wanted
    for key in apply(view, event):
        if len(key) == 4 and key[:2] == ("agents", agent_id) and int(key[3]) in numbers:
            entry = view.agents[agent_id].entries.get(key[3])
            if entry is not None:
                found[entry.number] = entry
