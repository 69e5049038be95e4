"""Board: all runs of this machine, those that live followed, and what waits for a person in any of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
from anyio import create_task_group, to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

from vibe.app.watch.commands import CommandOutcome, settled
from vibe.app.watch.follower import Follower
from vibe.app.watch.rows import request_row, run_row
from vibe.app.watch.runs import KnownRun, Runs
from vibe.view.agent_view import RequestView
from vibe.view.view import View

LOOK_S = 0.5
"""New runs are looked for that often."""
READY_S = 5.0
"""A run that has so much to tell that it takes longer is listed without."""
MOST_ENDED = 4
"""Followed runs that are kept in memory after their end."""


class Waiting(Struct, frozen=True):
    """A request that waits for a person, and the run it is of."""

    run: KnownRun
    view: View
    request: RequestView

    @property
    def settled(self) -> CommandOutcome | None:
        """The answer to it; None: there is none yet."""
        return settled(self.view, self.request.id)


class Board:
    """The runs, the newest first, and the views of those that were seen alive. Everything happens on one loop."""

    def __init__(self, home: Path, runtime_dir: Path | None = None) -> None:
        self.runs: tuple[KnownRun, ...] = ()
        self.ready = anyio.Event()
        """All that was there at first is known."""
        self._home = home
        self._runtime_dir = runtime_dir
        self._runs = Runs(home, runtime_dir)
        self.followers: dict[str, Follower] = {}
        """Those of the runs that were seen alive or opened, by key."""
        self.listed: dict[str, dict[str, Any]] = {}
        """The rows of all runs as they are where these are not followed."""
        self._tasks: TaskGroup | None = None
        self._seen: tuple[tuple[KnownRun, ...], bool] = ((), False)

    async def keep(self) -> None:
        """Look for runs and follow those that live, until cancelled."""
        async with create_task_group() as self._tasks:
            while True:
                runs = await to_thread.run_sync(self._runs.look)
                if runs != self.runs:
                    self.know(runs)
                if not self.ready.is_set():
                    await self._catch_up()
                await anyio.sleep(LOOK_S)

    def take_changed(self) -> bool:
        """Return whether anything changed since the last call; for who asks no follower itself."""
        seen, self._seen = self._seen, (self.runs, self.ready.is_set())
        changed = [follower.take_changed() for follower in self.followers.values() if follower.ready.is_set()]
        return any(changed) or seen != self._seen

    def view_of(self, key: str) -> View | None:
        """The view of a run; None: it was not seen alive, or has not told all that was there yet."""
        follower = self.followers.get(key)
        return follower.view if follower is not None and follower.ready.is_set() else None

    @property
    def waiting(self) -> list[Waiting]:
        """The requests that wait for a person, the oldest first."""
        found = [
            Waiting(run, view, request)
            for run in self.runs
            if run.live and (view := self.view_of(run.key)) is not None
            for request in view.requests.values()
        ]
        return sorted(found, key=lambda each: each.request.event.ts)

    def rows(self) -> dict[str, dict[str, Any]]:
        """The row of every run, by its key; the newest first."""
        seen = {run.key: run_row(run, view) for run in self.runs if (view := self.view_of(run.key)) is not None}
        return self.listed | seen

    def requests(self) -> dict[str, dict[str, Any]]:
        """The row of everything that waits, by its id; the oldest first."""
        return {each.request.id: request_row(each.run, each.view, each.request) for each in self.waiting}

    async def _catch_up(self) -> None:
        """Wait until every run that lives has told all that was there."""
        with anyio.move_on_after(READY_S):
            for follower in list(self.followers.values()):
                await follower.ready.wait()
        self.ready.set()

    def know(self, runs: tuple[KnownRun, ...]) -> None:
        """Take in the runs there are, and follow those that live."""
        self.runs = runs
        self.listed = {run.key: run_row(run) for run in runs}
        for run in runs:
            follower = self.followers.get(run.key)
            if run.live if follower is None else follower.run != run:
                self.open(run)

    def open(self, run: KnownRun) -> Follower:
        """Follow a run, be it one that has ended, of which some are kept in memory, and return how far that is."""
        known = self.followers.pop(run.key, None)
        follower = known or Follower(run, home=self._home, runtime_dir=self._runtime_dir)
        self.followers[run.key] = follower  # the latest comes last
        if self._tasks is not None and (known is None or follower.run != run):
            follower.run = run
            self._tasks.start_soon(follower.follow)
        live = {each.key for each in self.runs if each.live}
        ended = [key for key, each in self.followers.items() if key not in live and each.ready.is_set()]
        for key in ended[:-MOST_ENDED]:
            del self.followers[key]
        return follower
