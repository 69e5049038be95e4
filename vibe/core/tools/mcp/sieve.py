"""Repairs or removes the odd parts of a server's answers for which the client library would reject the whole answer."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from copy import deepcopy
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from vibe.core.schemas import list_of, table_of, whole_number
from vibe.system.plain_text import shortened

if TYPE_CHECKING:
    from mcp.types import JSONRPCMessage


@asynccontextmanager
async def sieved(transport: Any, refuse: Callable[[str], None]) -> AsyncGenerator[tuple[Any, Any]]:
    """Yield a transport whose messages are repaired. ``refuse`` gets a sentence for each list entry that is dropped."""
    asked: dict[str, str] = {}

    def sent(item: Any) -> Any:
        method = getattr(item.message, "method", "")
        if method == "notifications/cancelled":
            asked.pop(str(item.message.params["requestId"]), None)
        elif method and hasattr(item.message, "id"):
            asked[str(item.message.id)] = method
        return item

    def received(item: Any) -> Any:
        message: Any = getattr(item, "message", None)
        if hasattr(message, "error") and message.id is None and len(asked) == 1:
            message.id = next(iter(asked))  # A server that could not read a request does not know its id either.
        method = "" if hasattr(message, "method") else asked.pop(str(getattr(message, "id", "")), "")
        if method in PARTS and hasattr(message, "result"):
            _repair_result(method, message.result, refuse)
        return item

    async with transport as (inbox, outbox):
        yield _SievedStream(inbox, received), _SievedStream(outbox, sent)


class _SievedStream:
    """One of a client's two streams, with each item passed through a function."""

    def __init__(self, inner: Any, change: Callable[[Any], Any]) -> None:
        self._inner = inner
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def send(self, item: Any) -> None:
        await self._inner.send(self._change(item))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return self._change(await self._inner.__anext__())

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
"""The name of the list in the result of each request that is repaired. Empty if it has none."""
OTHER_KEYS = frozenset({"_meta", "isError", "structuredContent", "content"})
"""Other keys in the result of a tool call."""
VERSION = "2025-11-25"
"""The protocol revision whose shapes are required. Earlier revisions require no less."""
DEFAULTS: dict[str, Any] = {
    "resources.name": "", "resourceTemplates.name": "",
    "capabilities": {"tools": {}}, "serverInfo": {}, "serverInfo.name": "", "serverInfo.version": "",
    "protocolVersion": VERSION,
}  # fmt: skip
"""Values that replace missing ones."""
ABSENT = {"uri": "", "name": "", "mimeType": "application/octet-stream"}
"""Values that replace missing ones in a part of a result."""
NEEDED = frozenset({"type", "text", "data", "blob", "resource", *ABSENT})
"""Keys that make a part of a result readable."""
SHOWN = 2_000
"""The most characters shown of a part that can't be read, or of an error."""
INTERNAL_ERROR = -32603
"""The JSON-RPC code for an error without a code of its own."""
DATA_SHOWN = 200
"""The most characters shown of an answer that can't be read at all."""
_OPENING = re.compile(r"""\{\s*["'](?:jsonrpc|id|method|result|error)["']\s*:""")
"""The beginning of a message."""
_TORN = re.compile(r"""\{\s*(?:["']jsonrpc["'][^,]*,\s*)?["']id["']\s*:\s*(\d{1,18})\s*,\s*["'](?:result|error)["']""")
"""The beginning of an answer, up to what it says."""
_LENIENT = json.JSONDecoder(strict=False)
"""Accepts control characters in a string."""
MOST_REPAIRS = 100
"""The most repairs to one entry."""


def _repair_result(method: str, result: dict[str, Any], refuse: Callable[[str], None]) -> None:
    """Repair a result in place, as far as possible, so that the library accepts it."""
    if result.get("resultType", "complete") != "complete":
        return  # It is a question in place of an answer.
    if not isinstance(data := result.get("structuredContent"), dict | None):
        result["structuredContent"] = {"result": data}
    if not (key := PARTS[method]):
        _repair(method, "", result)
        return
    if not isinstance(result.get("nextCursor"), str | None):
        refuse("what follows on its next page: nextCursor is not text")
    entries, result[key] = _entries(key, result), []
    _repair(method, "", result)
    if key == "messages":
        result[key] = list(_messages(entries))
    elif not method.endswith("/list"):
        result[key] = [_readable(method, key, entry) for entry in entries]
    else:
        result[key] = [kept for entry in entries if (kept := _usable(method, key, entry, refuse))]


def _entries(key: str, result: dict[str, Any]) -> list[Any]:
    """Return the list that a result is about, wherever it is. A value that is not a list becomes its only entry."""
    listed = result.get(key, result.get("result"))
    if listed is None and key == "content":
        listed = {name: value for name, value in result.items() if name not in OTHER_KEYS} or None
    return list_of(listed)


def _usable(method: str, key: str, entry: Any, refuse: Callable[[str], None]) -> Any:
    """Return a list entry without its odd and unneeded parts, or refuse it and return None if it can't be used."""
    table = table_of(entry)
    name = f"{table.get('name', entry)!r:.80}"
    if table and key == "tools":
        whole = {word: value for word, value in table_of(table.get("inputSchema")).items() if value is not None}
        if not isinstance(whole.get("type"), str):
            whole["type"] = "object"
        entry = {word: value for word, value in table.items() if word != "outputSchema"} | {"inputSchema": whole}
    if problem := _repair(method, key, entry):
        refuse(f"{name}: {problem}")
    return None if problem else entry


def _repair(method: str, key: str, part: Any) -> str:
    """Repair or remove in place whatever the library rejects in ``part``.

    Return why it can't be used, or an empty string.

    ``key`` names the list that the part is in. It is empty for a whole result.
    """
    first = ""
    for _ in range(MOST_REPAIRS):
        errors = _errors(method, {key: [part]} if key else part)
        if not errors:
            return ""
        way = errors[0]["loc"][2 if key else 0 :]
        first = first or ": ".join(filter(None, (".".join(map(str, way)), errors[0]["msg"])))
        if not _repair_at(part, way, errors[0]["type"], key):
            break
    return first


def _repair_at(part: Any, way: tuple[int | str, ...], kind: str, key: str) -> bool:
    """Repair or remove what ``way`` leads to in a part. Return False if that is the part itself."""
    if not way:
        return False
    *holders, last = way
    name = ".".join(step for step in (key, *way) if isinstance(step, str) and step)
    try:
        holder: Any = reduce(getitem, holders, part)
        value = None if kind == "missing" else holder[last]
    except (LookupError, TypeError):
        return _repair_at(part, way[:-1], kind, key)  # The last step only names one of several types.
    if kind == "missing" and name not in DEFAULTS:
        return _repair_at(part, way[:-1], "", key)
    if kind == "missing":
        holder[last] = deepcopy(DEFAULTS[name])
    elif kind in {"dict_type", "model_type"} and value in ([], True):
        holder[last] = {}  # Some languages write an empty table like an empty list.
    else:
        del holder[last]
    return True


def _errors(method: str, result: Any) -> list[ErrorDetails]:
    """Return the library's objections to a result."""
    import mcp_types.methods  # noqa: PLC0415  only where there are servers

    try:
        mcp_types.methods.validate_server_result(method, VERSION, result)
        if method == "initialize":  # The library requires more of it than that revision does.
            mcp_types.InitializeResult.model_validate(result, by_name=False)
    except ValidationError as error:
        return error.errors(include_url=False, include_context=False, include_input=False)
    return []


def _readable(method: str, key: str, part: Any) -> Any:
    """Return a part of a result without what is odd and not needed, or its JSON as text if that is rejected, too."""
    if not (errors := _errors(method, {key: [part]})):
        return part
    odd = {step for error in errors for step in error["loc"]} - NEEDED
    less = ABSENT | {name: value for name, value in table_of(part).items() if name not in odd}
    if not _errors(method, {key: [less]}):
        return less
    text = f"[a part of an unknown kind] {json.dumps(part, ensure_ascii=False)[:SHOWN]}"
    return {"type": "text", "uri": "", "text": part if isinstance(part, str) else text}


def _messages(entries: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the messages of a prompt, one for each part of each message."""
    for entry in entries:
        table = table_of(entry) or {"content": entry}
        role = "assistant" if table.get("role") == "assistant" else "user"
        for part in _entries("content", table):
            yield {"role": role, "content": _readable("tools/call", "content", part)}


def messages_in(text: str, asked: int | str | None = None) -> Iterator[JSONRPCMessage]:
    """Yield the messages that a malformed text is meant to be: there may be several, with other text around them.

    An answer that can't be read becomes an error. ``asked`` is the id of the request, if it is known.
    """
    end = 0
    while opening := _OPENING.search(text, end):
        try:
            parsed, end = _LENIENT.raw_decode(text, opening.start())
            message = _in_form(table_of(parsed), asked)
        except (ValueError, RecursionError):
            if torn := _TORN.match(text, opening.start()):
                yield unreadable(text, int(torn[1]) if asked is None else asked)
            return
        if message is not None:
            yield message


def unreadable(text: str, identity: int | str) -> JSONRPCMessage:
    """Return the error that stands for an answer that can't be read."""
    from mcp.types import ErrorData, JSONRPCError

    problem = f"its answer can't be read: {shortened(text, DATA_SHOWN)}" if text.strip() else "its answer is empty"
    return JSONRPCError(jsonrpc="2.0", id=identity, error=ErrorData(code=INTERNAL_ERROR, message=problem))


def _in_form(message: dict[str, Any], asked: int | str | None) -> JSONRPCMessage | None:
    """Return a message in a form that the protocol allows, or None if it is not meant as one.

    Raises:
        ValueError: it can't be brought in form, since it is nested too deeply.
    """
    with suppress(ValueError):
        valid = _validated(message)
        if asked is None or hasattr(valid, "method") or getattr(valid, "id", None) == asked:
            return valid
    if not {"error", "result"} & message.keys():
        return None
    identity = message.get("id") if asked is None else asked
    answer = {"jsonrpc": "2.0", "id": whole_number(identity) if isinstance(identity, float) else identity}
    if not (error := message.get("error")):
        result = message.get("result")
        return _validated(answer | {"result": result if isinstance(result, dict) else {"result": result}})
    table = table_of(error) or {"message": str(error)}
    words = ": ".join(str(table[key]) for key in ("code", "message") if table.get(key) not in (None, ""))
    told = {"code": INTERNAL_ERROR, "message": words[:SHOWN], "data": table.get("data")}
    return _validated(answer | {"error": told})


def _validated(message: dict[str, Any]) -> JSONRPCMessage:
    from mcp.types import jsonrpc_message_adapter

    text = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    return jsonrpc_message_adapter.validate_json(text, by_name=False)


def answer_in_form(data: bytes, asked: int | str | None) -> str:
    """Return the answer to the request with the id ``asked``, or another message, in a form the protocol allows.

    If there is none, it is an error.
    """
    text = data.decode("utf-8", "replace")
    otherwise = unreadable(text, asked or 0)
    return encoded(max(messages_in(text, asked), key=lambda one: not hasattr(one, "method"), default=otherwise))


def encoded(message: JSONRPCMessage) -> str:
    """Return the JSON of a message."""
    return message.model_dump_json(by_alias=True, exclude_unset=True)
