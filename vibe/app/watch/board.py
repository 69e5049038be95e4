"""Board: all runs of this machine.

It follows those that are alive, and knows what waits for a person in any of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from vibe.app.watch.commands import CommandOutcome, settled
from vibe.app.watch.follower import Follower
from vibe.app.watch.rows import request_row, run_row
from vibe.app.watch.runs import KnownRun, Runs
from vibe.view.agent_view import RequestView
from vibe.view.view import View

LOOK_S = 0.5
"""The interval at which new runs are looked for."""
READY_S = 5.0
"""A run whose events so far take longer than this to read is listed without them at first."""
MOST_ENDED = 4
"""The most followed runs that are kept in memory after their end."""


class WaitingRequest(Struct, frozen=True):
    """A request that waits for a person, and its run."""

    run: KnownRun
    view: View
    request: RequestView

    @property
    def settled(self) -> CommandOutcome | None:
        """The answer to it; None while there is none."""
        return settled(self.view, self.request.id)


class Board:
    """The runs, newest first, and the views of those that were seen alive. Everything happens on one event loop."""

    def __init__(self, home: Path, runtime_dir: Path | None = None) -> None:
        self.runs: tuple[KnownRun, ...] = ()
        self.ready = anyio.Event()
        """Set once everything that was there at the beginning is known."""
        self._home = home
        self._runtime_dir = runtime_dir
        self._runs = Runs(home, runtime_dir)
        self.followers: dict[str, Follower] = {}
        """The followers of runs that were seen alive or opened, by key."""
        self.listed: dict[str, dict[str, Any]] = {}
        """The rows of all runs, as far as they are known without following them."""
        self._tasks: TaskGroup | None = None
        self._seen: tuple[tuple[KnownRun, ...], bool] = ((), False)

    async def keep(self) -> None:
        """Look for runs and follow those that are alive, until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            while True:
                runs = await anyio.to_thread.run_sync(self._runs.look)
                if runs != self.runs:
                    self.know(runs)
                if not self.ready.is_set():
                    await self._catch_up()
                await anyio.sleep(LOOK_S)

    def take_changed(self) -> bool:
        """Return whether anything changed since the last call. Only for callers that ask no follower themselves."""
        seen, self._seen = self._seen, (self.runs, self.ready.is_set())
        changed = [follower.take_changed() for follower in self.followers.values() if follower.ready.is_set()]
        return any(changed) or seen != self._seen

    def view_of(self, key: str) -> View | None:
        """Return the view of a run; None if it was not seen alive, or its events so far are not all read."""
        follower = self.followers.get(key)
        return follower.view if follower is not None and follower.ready.is_set() else None

    @property
    def waiting(self) -> list[WaitingRequest]:
        """The requests that wait for a person, oldest first."""
        found = [
            WaitingRequest(run, view, request)
            for run in self.runs
            if run.live and (view := self.view_of(run.key)) is not None
            for request in view.requests.values()
        ]
        return sorted(found, key=lambda each: each.request.event.ts)

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the row of every run by its key, newest first."""
        seen = {run.key: run_row(run, view) for run in self.runs if (view := self.view_of(run.key)) is not None}
        return self.listed | seen

    def requests(self) -> dict[str, dict[str, Any]]:
        """Return the row of every waiting request by its id, oldest first."""
        return {each.request.id: request_row(each.run, each.view, each.request) for each in self.waiting}

    async def _catch_up(self) -> None:
        """Wait until all that the live runs published so far is read."""
        with anyio.move_on_after(READY_S):
            for follower in list(self.followers.values()):
                await follower.ready.wait()
        self.ready.set()

    def know(self, runs: tuple[KnownRun, ...]) -> None:
        """Take over the runs there are, and follow those that are alive."""
        self.runs = runs
        self.listed = {run.key: run_row(run) for run in runs}
        for run in runs:
            follower = self.followers.get(run.key)
            if run.live if follower is None else follower.run != run:
                self.open(run)

    def open(self, run: KnownRun) -> Follower:
        """Follow a run and return its follower. An ended run may be opened too; a few of those are kept in memory."""
        known = self.followers.pop(run.key, None)
        follower = known or Follower(run, home=self._home, runtime_dir=self._runtime_dir)
        self.followers[run.key] = follower  # the most recently opened comes last
        if self._tasks is not None and (known is None or follower.run != run):
            follower.run = run
            self._tasks.start_soon(follower.follow)
        live = {each.key for each in self.runs if each.live}
        ended = [key for key, each in self.followers.items() if key not in live and each.ready.is_set()]
        for key in ended[:-MOST_ENDED]:
            del self.followers[key]
        return follower
