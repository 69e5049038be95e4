"""Mends or takes out of a server's answers the odd parts for which the client library would refuse the whole."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from copy import deepcopy
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any, Self, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from vibe.core.schemas import table_of

if TYPE_CHECKING:
    from mcp.types import JSONRPCError, JSONRPCResponse


@asynccontextmanager
async def sieved(transport: Any, refuse: Callable[[str], None]) -> AsyncGenerator[tuple[Any, Any]]:
    """A transport whose messages pass the sieve; ``refuse`` gets a sentence for each entry of a list it drops."""
    asked: dict[str, str] = {}

    def sent(item: Any) -> Any:
        if hasattr(item.message, "method") and hasattr(item.message, "id"):
            asked[str(item.message.id)] = item.message.method
        return item

    def received(item: Any) -> Any:
        message: Any = getattr(item, "message", None)
        method = "" if hasattr(message, "method") else asked.pop(str(getattr(message, "id", "")), "")
        if method in PARTS and hasattr(message, "result"):
            _mend(method, message.result, refuse)
        return item

    async with transport as (inbox, outbox):
        yield _SievedStream(inbox, received), _SievedStream(outbox, sent)


class _SievedStream:
    """A stream of the client's, to read from or to write to."""

    def __init__(self, inner: Any, passed: Callable[[Any], Any]) -> None:
        self._inner = inner
        self._passed = passed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def send(self, item: Any) -> None:
        await self._inner.send(self._passed(item))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return self._passed(await self._inner.__anext__())

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> bool | None:
        return await self._inner.__aexit__(*raised)


PARTS = {
    "initialize": "", "tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "tools/call": "content", "resources/read": "contents", "prompts/get": "messages",
}  # fmt: skip
"""The list in the answer to each request that is looked at; blank: it has none."""
BESIDE = frozenset({"_meta", "isError", "structuredContent", "content"})
"""What else the answer to a call has."""
VERSION = "2025-11-25"
"""The revision whose shapes are asked for; earlier ones ask for no less."""
DEFAULTS: dict[str, Any] = {
    "resources.name": "", "resourceTemplates.name": "",
    "capabilities": {"tools": {}}, "serverInfo": {}, "serverInfo.name": "", "serverInfo.version": "",
    "protocolVersion": VERSION,
}  # fmt: skip
"""What stands for something missing."""
ABSENT = {"uri": "", "name": "", "mimeType": "application/octet-stream"}
"""What stands for something missing in a part of an answer."""
NEEDED = frozenset({"type", "text", "data", "blob", "resource", *ABSENT})
"""Keys of a part of an answer that make it readable."""
SHOWN = 2_000
INTERNAL_ERROR = -32603
"""Of JSON-RPC, for an error without a number."""
MOST_ODD = 100
"""The most odd things in one entry that are mended."""


def _mend(method: str, result: dict[str, Any], refuse: Callable[[str], None]) -> None:
    """Make of a result, in place, what the library takes, as far as that can be."""
    if result.get("resultType", "complete") != "complete":
        return  # a question in place of the answer
    if not isinstance(data := result.get("structuredContent"), dict | None):
        result["structuredContent"] = {"result": data}
    if not (key := PARTS[method]):
        _problem(method, "", result)
        return
    if not isinstance(result.get("nextCursor"), str | None):
        refuse("what follows on its next page: nextCursor is no text")
    entries, result[key] = _entries(key, result), []
    _problem(method, "", result)
    if key == "messages":
        result[key] = list(_messages(entries))
    elif not method.endswith("/list"):
        result[key] = [_readable(method, key, entry) for entry in entries]
    else:
        result[key] = [kept for entry in entries if (kept := _usable(method, key, entry, refuse))]


def _entries(key: str, result: dict[str, Any]) -> list[Any]:
    """The list that a result is about, wherever it is; what is no list is its only entry."""
    said = result.get(key, result.get("result"))
    if said is None and key == "content":
        said = {name: value for name, value in result.items() if name not in BESIDE} or None
    return cast("list[Any]", said if isinstance(said, list) else [] if said is None else [said])


def _usable(method: str, key: str, entry: Any, refuse: Callable[[str], None]) -> Any:
    """An entry of a list without what is odd and not needed; None, and a sentence, if it can't be used."""
    table = table_of(entry)
    name = f"{table.get('name', entry)!r:.80}"
    if table and key == "tools":
        whole = {word: value for word, value in table_of(table.get("inputSchema")).items() if value is not None}
        if not isinstance(whole.get("type"), str):
            whole["type"] = "object"
        entry = {word: value for word, value in table.items() if word != "outputSchema"} | {"inputSchema": whole}
    if problem := _problem(method, key, entry):
        refuse(f"{name}: {problem}")
    return None if problem else entry


def _problem(method: str, key: str, part: Any) -> str:
    """Take out of ``part``, in place, what the library refuses; return why it can't be used, blank if it can.

    ``key`` names the list it is in; blank: it is a whole result.
    """
    first = ""
    for _ in range(MOST_ODD):
        errors = _errors(method, {key: [part]} if key else part)
        if not errors:
            return ""
        way = errors[0]["loc"][2 if key else 0 :]
        first = first or ": ".join(filter(None, (".".join(map(str, way)), errors[0]["msg"])))
        if not _mended(part, way, errors[0]["type"], key):
            break
    return first


def _mended(part: Any, way: tuple[int | str, ...], kind: str, key: str) -> bool:
    """Mend what a way into a part leads to, or take it out; False if that is the part itself."""
    if not way:
        return False
    *holders, last = way
    name = ".".join(step for step in (key, *way) if isinstance(step, str) and step)
    try:
        holder: Any = reduce(getitem, holders, part)
        value = None if kind == "missing" else holder[last]
    except (LookupError, TypeError):
        return _mended(part, way[:-1], kind, key)  # a step that names one of several types
    if kind == "missing" and name not in DEFAULTS:
        return _mended(part, way[:-1], "", key)
    if kind == "missing":
        holder[last] = deepcopy(DEFAULTS[name])
    elif kind in {"dict_type", "model_type"} and value in ([], True):
        holder[last] = {}  # as languages write an empty table that know one kind of them
    else:
        del holder[last]
    return True


def _errors(method: str, result: Any) -> list[ErrorDetails]:
    """The objections of the library to a result."""
    from mcp_types.methods import validate_server_result  # noqa: PLC0415  only where there are servers

    try:
        validate_server_result(method, VERSION, result)
    except ValidationError as error:
        return error.errors(include_url=False, include_context=False, include_input=False)
    return []


def _readable(method: str, key: str, part: Any) -> Any:
    """A part of an answer without what is odd and not needed; its JSON as text where the library refuses that too."""
    if not (errors := _errors(method, {key: [part]})):
        return part
    odd = {step for error in errors for step in error["loc"]} - NEEDED
    less = ABSENT | {name: value for name, value in table_of(part).items() if name not in odd}
    if not _errors(method, {key: [less]}):
        return less
    text = f"[a part of an unknown kind] {json.dumps(part, ensure_ascii=False)[:SHOWN]}"
    return {"type": "text", "uri": "", "text": part if isinstance(part, str) else text}


def _messages(entries: list[Any]) -> Iterator[dict[str, Any]]:
    """The messages of a prompt, one for each part of each."""
    for entry in entries:
        table = table_of(entry) or {"content": entry}
        role = "assistant" if table.get("role") == "assistant" else "user"
        for part in _entries("content", table):
            yield {"role": role, "content": _readable("tools/call", "content", part)}


def answer_to(line: bytes) -> JSONRPCError | JSONRPCResponse | None:
    """Return what a line is meant as that answers a request, in no form of the protocol; None: as no answer."""
    from mcp.types import ErrorData, JSONRPCError, JSONRPCResponse

    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    answer = table_of(said)
    if not isinstance(identity := answer.get("id"), int | str) or not {"error", "result"} & answer.keys():
        return None
    if not (error := answer.get("error")):
        result = table_of(answer.get("result")) or {"result": answer.get("result")}
        return JSONRPCResponse(jsonrpc="2.0", id=identity, result=result)
    table = table_of(error) or {"message": str(error)}
    words = ": ".join(str(table[key]) for key in ("code", "message") if table.get(key) not in {None, ""})
    return JSONRPCError(jsonrpc="2.0", id=identity, error=ErrorData(code=INTERNAL_ERROR, message=words[:SHOWN]))


def in_form(data: bytes) -> bytes:
    """The answer in ``data`` in a form of the protocol; what is in one, or no answer, stays as it is."""
    from mcp.types import jsonrpc_message_adapter

    try:
        jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValueError:
        answer = answer_to(data)
        return data if answer is None else answer.model_dump_json(by_alias=True, exclude_unset=True).encode()
    return data
