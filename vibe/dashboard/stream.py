"""Streams changes to pages. At each tick every page gets the changes of its tables, or is dropped if it lags behind."""

from __future__ import annotations

import time
from collections.abc import Mapping

from anyio import CancelScope, WouldBlock, create_memory_object_stream, create_task_group, move_on_after, sleep
from starlette.types import Receive, Send

from vibe.app.watch.board import LOOK_S, Board
from vibe.app.watch.follower import Follower
from vibe.app.watch.runs import KnownRun
from vibe.dashboard.answers import RefusedError, encoded
from vibe.dashboard.rows import TALK, RunTables
from vibe.dashboard.table import Patch, RowTable
from vibe.view.view import View

TICK_SECONDS = 0.1
MOST_BEHIND = 200
"""Ticks that a page may be behind. A page that doesn't read is dropped, and reconnects by itself."""
MOST_PAGES = 64
"""Maximum number of pages that listen at the same time."""
LAST_SECONDS = 0.5
"""Seconds for a dropped page to take the end of its stream before its connection is closed."""
QUIET_SECONDS = 15.0
"""Seconds without a change after which a page gets a comment, as a sign of life."""
AGAIN_MS = 1_000
"""Milliseconds after which a page that lost its stream reconnects."""
READY_SECONDS = 10.0
"""Seconds to wait for the events of a run to be read. After that it is shown as far as it is known."""


class WebPage:
    """A page that listens to some tables. They include those of ``run``, unless that is blank."""

    def __init__(self, tables: tuple[RowTable, ...], run: str = "") -> None:
        self.tables = tables
        self.run = run
        self.scope = CancelScope()
        self._send, self._receive = create_memory_object_stream[bytes](MOST_BEHIND)

    @property
    def epoch(self) -> str:
        """The epochs of the page's tables, without which a revision means nothing."""
        return "-".join(table.epoch for table in self.tables)

    def hears(self, event: bytes) -> None:
        """Queue an event for the page, or drop the page if it is too far behind."""
        try:
            self._send.send_nowait(event)
        except WouldBlock:
            self.drop()

    async def next(self) -> bytes:
        """Return the next event, or a comment after ``QUIET_SECONDS`` without one."""
        with move_on_after(QUIET_SECONDS):
            return await self._receive.receive()
        return b": \n\n"

    def drop(self) -> None:
        """End the page's stream. The page reconnects by itself."""
        self.scope.cancel()

    def close(self) -> None:
        """Close the page's queue."""
        self._send.close()
        self._receive.close()


class PageDesk:
    """The tables of all runs of a board, and the pages that listen to them. Everything happens on one event loop."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.table = RowTable("board")
        self.pages: set[WebPage] = set()
        self._runs: dict[str, RunTables] = {}
        self._known: dict[str, KnownRun] = {}
        self._seen: tuple[KnownRun, ...] = ()
        self._revision = 0

    async def keep(self) -> None:
        """Follow the runs and send changes to the pages, until cancelled."""
        async with create_task_group() as tasks:
            tasks.start_soon(self.board.keep)
            while True:
                self.tick()
                await sleep(TICK_SECONDS)

    def tick(self) -> None:
        """Bring the tables up to date, and send the changes to the pages."""
        now = time.monotonic()
        followers = self.board.followers
        self._runs = {key: each for key, each in self._runs.items() if followers.get(key) is each.follower}
        for key, follower in followers.items():
            tables = self._runs.get(key) or self._new_tables(key, follower)
            if tables.update(now):
                self.table.put(key, tables.board_row)
        if self.board.runs is not self._seen:
            self._update_list()
        self._commit()
        open_now = {table.epoch for page in self.pages for table in page.tables}
        for tables in self._runs.values():
            tables.close_steps(open_now)

    def _new_tables(self, key: str, follower: Follower) -> RunTables:
        """Make new tables for a run. Pages that listen to older ones are dropped, and reconnect to these."""
        for page in (page for page in self.pages if page.run == key):
            page.drop()
        return self._runs.setdefault(key, RunTables(follower))

    async def listed(self) -> Mapping[str, KnownRun]:
        """Return all runs by key, once they are known."""
        with move_on_after(READY_SECONDS):
            await self.board.ready.wait()
        self.tick()
        return self._known

    async def run(self, key: str) -> KnownRun:
        """Return a run.

        Raises:
            RefusedError: there is no run with that key.
        """
        if key not in await self.listed():
            await sleep(2 * LOOK_S)  # it may have begun, or ended, since the last look
        if key not in await self.listed():
            raise RefusedError(404, "unknown", f"there is no run {key[:100]!r}: it is unknown, or its events are gone")
        return self._known[key]

    async def opened(self, key: str) -> RunTables:
        """Return the tables of a run. The events of a run that has ended are read now.

        Raises:
            RefusedError: there is no such run.
        """
        follower = self.board.open(await self.run(key))
        with move_on_after(READY_SECONDS):
            await follower.ready.wait()
        self.tick()
        tables = self._runs.get(key)
        if tables is None:
            raise RefusedError(404, "unknown", f"run {key[:100]!r} is gone")
        return tables

    async def page(self, key: str, step_id: str, after: str, *, may_act: bool) -> WebPage:
        """Return a page that listens, from now on, to the list of runs and to a run and a step if they are named.

        ``after`` is the id of the last event the page has got. If it is blank or belongs to other tables, the page gets
        everything. The page is told whether it ``may_act``.

        Raises:
            RefusedError: there is no such run, or there are too many pages.
        """
        if len(self.pages) >= MOST_PAGES:
            raise RefusedError(429, "pages", f"{MOST_PAGES} pages listen already: close some")
        tables: list[RowTable] = [self.table]
        if key:
            run = await self.opened(key)
            tables.append(run.table)
            if step_id or not run.follower.run.is_plan:
                tables.append(run.open_step(step_id or TALK))
                self._commit()
        page = WebPage(tuple(tables), key)
        page.hears(self._first_event(page, after, may_act=may_act))
        self.pages.add(page)
        return page

    @property
    def views(self) -> dict[str, View]:
        """The views of all runs that are or were followed, by key."""
        return {key: follower.view for key, follower in self.board.followers.items() if follower.ready.is_set()}

    def leave(self, page: WebPage) -> None:
        """Remove a page."""
        self.pages.discard(page)
        page.close()

    def close(self) -> None:
        """End the streams of all pages."""
        for page in self.pages:
            page.drop()

    def _first_event(self, page: WebPage, after: str, *, may_act: bool) -> bytes:
        epoch, _, revision = after.rpartition(".")
        known = int(revision) if revision.isdecimal() and len(revision) < 16 else 0
        epochs = set(epoch.split("-")) if known <= self._revision else set[str]()
        patches = [table.since(known if table.epoch in epochs else 0) for table in page.tables]
        now = {"now": round(time.time(), 3), "control": may_act}
        first = self._event(page, [patch for patch in patches if patch is not None])
        return b"retry: %d\n\n%sevent: now\ndata: %s\n\n" % (AGAIN_MS, first, encoded(now))

    def _event(self, page: WebPage, patches: list[Patch]) -> bytes:
        return b"id: %s.%d\ndata: %s\n\n" % (page.epoch.encode(), self._revision, encoded(patches))

    def _update_list(self) -> None:
        """Update the rows of the list of runs. The rows of followed runs come from their views."""
        self._seen = self.board.runs
        self._known = {run.key: run for run in self._seen}
        for key, row in self.board.listed.items():
            tables = self._runs.get(key)
            if tables is None or not tables.board_row:
                self.table.put(key, row)
        self.table.keep(self._known, "")

    def _commit(self) -> None:
        """Commit all changes as one revision, and send each page the patches of its tables."""
        new = self._revision + 1
        tables = (self.table, *(table for run in self._runs.values() for table in run.tables))
        patches = {table.epoch: patch for table in tables if (patch := table.commit(new)) is not None}
        self._revision = new if patches else self._revision
        for page in self.pages:
            news = [patches[table.epoch] for table in page.tables if table.epoch in patches]
            if news:
                page.hears(self._event(page, news))


async def stream(desk: PageDesk, page: WebPage, receive: Receive, send: Send) -> None:
    """Send a page its events until it is gone or dropped."""
    headers = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]
    try:
        async with create_task_group() as tasks:
            page.scope = tasks.cancel_scope
            tasks.start_soon(_until_gone, receive, page.scope)
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while True:
                await send({"type": "http.response.body", "body": await page.next(), "more_body": True})
    finally:
        desk.leave(page)
    with move_on_after(LAST_SECONDS):
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_gone(receive: Receive, scope: CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
