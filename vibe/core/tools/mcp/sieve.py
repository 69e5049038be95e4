"""Takes unusable tools out of a server's list before the client sees it: one bad entry would cost the whole list."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, cast


@asynccontextmanager
async def sieved(transport: Any, refuse: Callable[[str], None]) -> AsyncGenerator[tuple[Any, Any]]:
    """A transport whose messages pass the sieve; ``refuse`` gets a sentence for each tool that is dropped."""
    async with transport as (inbox, outbox):
        yield _SievedStream(inbox, refuse), outbox


class _SievedStream:
    """The stream that the client reads from."""

    def __init__(self, inner: Any, refuse: Callable[[str], None]) -> None:
        self._inner = inner
        self._refuse = refuse

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Any:
        return self._sieved(await self._inner.receive())

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return self._sieved(await self._inner.__anext__())

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)

    def _sieved(self, item: Any) -> Any:
        result = getattr(getattr(item, "message", None), "result", None)
        if isinstance(result, dict) and isinstance(tools := cast("dict[str, Any]", result).get("tools"), list):
            result["tools"] = [tool for tool in cast("list[Any]", tools) if self._usable(tool)]
        return item

    def _usable(self, tool: Any) -> bool:
        problem = _problem(cast("dict[str, Any]", tool)) if isinstance(tool, dict) else "an entry that is no table"
        if problem:
            self._refuse(problem)
        return not problem


def _problem(tool: dict[str, Any]) -> str:
    name, schema = tool.get("name"), tool.get("inputSchema")
    if not isinstance(name, str) or not name.strip():
        return "a tool without a name"
    if not isinstance(schema, dict):
        return f"{name!r} has no argument schema"
    kind = cast("dict[str, Any]", schema).get("type")
    if kind != "object":
        return f"{name!r} takes {kind!r} where only an object can be sent"
    return ""
