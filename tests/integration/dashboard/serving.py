"""A dashboard served in this process, and a client that knows its tokens."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
from anyio import create_task_group, fail_after

from tests.unit.dashboard.pages import FakePage
from vibe.app.engine.host import Host
from vibe.dashboard.guard import Tokens
from vibe.dashboard.server import serve
from vibe.system.loopback import listening

PATIENCE_S = 60
VIEW, CONTROL = "look", "act"


@asynccontextmanager
async def served(home: Path, *, control: bool = True) -> AsyncGenerator[httpx.AsyncClient]:
    """Serve the dashboard while the block runs. The client has the token with the most rights."""
    tokens = Tokens(view=VIEW, control=CONTROL if control else "")
    with listening("127.0.0.1", 0, "--port") as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        began = anyio.Event()
        async with create_task_group() as tasks:
            tasks.start_soon(serve, listener, Host(home=home, environ={}), tokens, began.set)
            await began.wait()
            headers = {"authorization": f"Bearer {CONTROL if control else VIEW}"}
            async with httpx.AsyncClient(base_url=address, headers=headers, timeout=PATIENCE_S) as client:
                yield client
            tasks.cancel_scope.cancel()


class Listening(FakePage):
    """A page that reads the event stream. ``heard`` is the id of the last event."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        super().__init__()
        self.heard = ""
        self.now: dict[str, Any] = {}
        self.patches: list[dict[str, Any]] = []
        self._lines = lines

    async def read(self) -> None:
        """Read one event."""
        said: dict[str, str] = {}
        async for line in self._lines:
            name, _, value = line.partition(": ")
            if line:
                said[name] = value
            elif "data" in said:
                break
            else:
                said.clear()
        if said.get("event") == "now":
            self.now = json.loads(said["data"])
            return
        self.heard = said["id"]
        for patch in json.loads(said["data"]):
            self.patches.append(patch)
            self.merge(patch)

    async def until(self, table: str, key: str, **fields: Any) -> dict[str, Any]:
        """Read until a row exists with these fields, and return it."""
        with fail_after(PATIENCE_S):
            while True:
                row = self.tables.get(table, {}).get(key)
                if row is not None and all(row.get(name) == value for name, value in fields.items()):
                    return row
                await self.read()

    async def until_gone(self, table: str, key: str) -> None:
        with fail_after(PATIENCE_S):
            while key in self.tables[table]:
                await self.read()


@asynccontextmanager
async def listening_to(client: httpx.AsyncClient, **query: str) -> AsyncGenerator[Listening]:
    async with client.stream("GET", "/api/stream", params=query) as reply:
        assert reply.status_code == 200
        yield Listening(reply.aiter_lines())
