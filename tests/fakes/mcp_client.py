"""Clients of ``vibe mcp serve`` for synchronous tests: one on the official library, one that writes raw messages."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

CALL_SECONDS = 120.0


@dataclass
class ServedVibe:
    """A connection to a server. ``answers`` are given to its questions in order, and ``asked`` keeps the questions."""

    portal: BlockingPortal
    client: Any = None
    answers: list[str] = field(default_factory=list[str])
    asked: list[str] = field(default_factory=list[str])

    def tools(self) -> dict[str, Any]:
        """Return the tools it offers by name."""
        return {tool.name: tool for tool in self.portal.call(self.client.list_tools).tools}

    def call(self, tool: str, /, **arguments: Any) -> Any:
        """Call a tool and return its answer."""
        return self.start(tool, **arguments).result(CALL_SECONDS)

    def start(self, tool: str, /, on_progress: Callable[[str], None] | None = None, **arguments: Any) -> Future[Any]:
        """Call a tool without waiting. Cancelling the returned future cancels the call."""

        async def call() -> Any:
            async def progress(_count: float, _total: float | None, message: str | None) -> None:
                if on_progress is not None:
                    on_progress(message or "")

            return await self.client.call_tool(tool, arguments, progress_callback=progress if on_progress else None)

        return self.portal.start_task_soon(call)

    async def elicit(self, context: Any, params: Any) -> Any:  # noqa: ARG002  the library's interface
        """Answer a question with the next of ``answers``, or decline if none is left."""
        from mcp_types import ElicitResult  # noqa: PLC0415  slow to import, and few tests need it

        self.asked.append(params.message)
        if not self.answers:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"answer": self.answers.pop(0)})


@contextmanager
def connected(server: Any, *, can_ask: bool = False, http: Any = None) -> Generator[ServedVibe]:
    """Connect to a server, either started from its parameters, or running and given as a transport over ``http``."""
    from mcp import Client  # noqa: PLC0415  as above

    with start_blocking_portal() as portal:
        served = ServedVibe(portal)
        client = Client(server, elicitation_callback=served.elicit if can_ask else None)
        with portal.wrap_async_context_manager(client) as served.client:
            yield served
        if http is not None:
            portal.call(http.aclose)


class RawClient:
    """Exchanges raw protocol lines with a server that it starts."""

    def __init__(self, argv: list[str], environ: Mapping[str, str], cwd: str) -> None:
        self.process = subprocess.Popen(
            argv, env=dict(environ), cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )

    def say(self, **message: Any) -> None:
        """Send a message."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        """Send bytes unchanged."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """Return the next message."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def greet(self, version: str = "2025-06-18") -> dict[str, Any]:
        """Open the session and return the server's answer."""
        info = {"name": "raw", "version": "1"}
        self.say(id=0, method="initialize", params={"protocolVersion": version, "capabilities": {}, "clientInfo": info})
        answer = self.hear()
        self.say(method="notifications/initialized")
        return answer

    def call(self, number: int, tool: str, **arguments: Any) -> None:
        """Call a tool without waiting."""
        self.say(id=number, method="tools/call", params={"name": tool, "arguments": arguments})

    def leave(self) -> None:
        """Close the connection."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def close(self) -> None:
        """Kill the server if it still runs, and close the pipes."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
