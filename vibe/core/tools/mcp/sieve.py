"""Takes out of a server's answers the odd parts for which the client library would refuse the whole."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, cast

from pydantic import ValidationError


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
        if isinstance(result, dict):
            said = cast("dict[str, Any]", result)
            for key, method in LISTS.items():
                if isinstance(entries := said.get(key), list):
                    said[key] = [
                        kept for entry in cast("list[Any]", entries) if (kept := self._usable(method, key, entry))
                    ]
            if isinstance(blocks := said.get("content"), list):
                said["content"] = [_readable(block) for block in cast("list[Any]", blocks)]
            if not isinstance(said.get("structuredContent", {}), dict):
                del said["structuredContent"]
        return item

    def _usable(self, method: str, key: str, entry: Any) -> dict[str, Any] | None:
        """Return an entry of a list without what is odd and not needed; None, and a sentence, if it can't be used."""
        if not isinstance(entry, dict):
            self._refuse("an entry that is no table")
            return None
        table = {name: value for name, value in cast("dict[str, Any]", entry).items() if name != "outputSchema"}
        problem = ""
        for kept in (table, {name: value for name, value in table.items() if name in NEEDED}):
            problem = (_problem(kept) if key == "tools" else "") or _refusal(method, {key: [kept]})
            if not problem:
                return kept
        self._refuse(problem)
        return None


LISTS = {"tools": "tools/list", "prompts": "prompts/list", "resources": "resources/list"}
NEEDED = frozenset({"name", "uri", "description", "inputSchema", "arguments"})
VERSION = "2025-11-25"
"""The revision whose shapes are asked for; earlier ones ask for no less."""
SHOWN = 2_000


def _refusal(method: str, result: dict[str, list[Any]]) -> str:
    """Return what the library has against a result of one part; blank: nothing."""
    from mcp_types.methods import validate_server_result  # noqa: PLC0415  only where there are servers

    try:
        validate_server_result(method, VERSION, result)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        [[part]] = result.values()
        name = cast("dict[str, Any]", part).get("name") if isinstance(part, dict) else part
        return f"{name!r}: {'.'.join(map(str, first['loc'][2:]))}: {first['msg']}"
    except KeyError:
        return ""  # a library that knows no such method
    return ""


def _readable(block: Any) -> Any:
    """A part of an answer as it came, or its JSON as text where the library would refuse the whole answer for it."""
    if not _refusal("tools/call", {"content": [block]}):
        return block
    return {"type": "text", "text": f"[a part of an unknown kind] {json.dumps(block, ensure_ascii=False)[:SHOWN]}"}


def _problem(table: dict[str, Any]) -> str:
    name, schema = table.get("name"), table.get("inputSchema")
    if not isinstance(name, str) or not name.strip():
        return "a tool without a name"
    if not isinstance(schema, dict):
        return f"{name!r} has no argument schema"
    kind = cast("dict[str, Any]", schema).get("type")
    if kind != "object":
        return f"{name!r} takes {kind!r} where only an object can be sent"
    return ""
