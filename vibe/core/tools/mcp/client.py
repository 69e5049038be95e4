"""Turns an entry of ``mcp_servers`` into what is run or called, and connects the client library to network servers.

An entry becomes argv, variables and headers. The library is loaded off the event loop; its transport is streamable
HTTP.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakValueDictionary

from anyio import Event
from anyio.lowlevel import checkpoint
from msgspec import Struct

from vibe.core.config.models import McpServerConfig
from vibe.core.schemas import table_of
from vibe.core.tools.mcp.sieve import answer_in_form, encoded, messages_in, unreadable
from vibe.core.tools.mcp.sign_ins import SignInStore
from vibe.system.errors import EnvironmentFailure
from vibe.system.files import typed_path
from vibe.system.http import bounded, client_options
from vibe.system.line_wire import LONGEST_MESSAGE
from vibe.system.programs import find_program, shunned
from vibe.system.racing import unless

if TYPE_CHECKING:
    import httpx2
    from mcp import MCPError


INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "VIBE_DEPTH", "VIBE_WRITERS")
"""Variables that every server gets, without being named in its ``env``.

``VIBE_DEPTH`` and ``VIBE_WRITERS`` tell a server that is vibe itself how deeply it is nested.
"""

REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*|/)(?::-([^}]*))?\}")
"""A reference to a variable: ``${NAME}``, ``${env:NAME}`` or ``${NAME:-default}``."""
ONLY_EDITORS = frozenset({
    "columnNumber", "defaultBuildTask", "execPath", "file", "fileBasename", "fileBasenameNoExtension", "fileDirname",
    "fileDirnameBasename", "fileExtname", "fileWorkspaceFolder", "lineNumber", "relativeFile", "relativeFileDirname",
    "selectedText",
})  # fmt: skip
"""Variables that have a meaning in editors only."""
ADDRESSES = ("http://", "https://")
TOKEN = "{token}"  # noqa: S105  a place holder
"""The placeholder for the key in ``api_key_format``."""


class ServerSettingError(EnvironmentFailure):
    """A server can't be started: its command is missing, or a variable it needs is not set."""

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(f"mcp_servers[{server}] {problem}")
        self.problem = problem


class Launch(Struct, frozen=True, kw_only=True):
    """A server's process: ``argv``, starting with the program's path, and all the variables it gets."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: Path


class Endpoint(Struct, frozen=True, kw_only=True):
    """A server on the network."""

    url: str
    headers: Mapping[str, str]
    has_key: bool = False
    """True if the settings contain credentials, so that no sign-in is used."""


def launch_of(config: McpServerConfig, environ: Mapping[str, str], cwd: Path) -> Launch:
    """Return how to start a stdio server. Looks the program up on disk.

    Raises:
        ServerSettingError: there is no such program, or a variable is not set.
    """
    known = _known(environ, cwd)
    given = {name: _expanded(config.name, f"env.{name}", value, known) for name, value in config.env.items()}
    variables = {name: environ[name] for name in INHERITED if name in environ} | given
    program, *rest = [_expanded(config.name, "command", word, known) for word in _argv(config)]
    found = _program(program, variables.get("PATH"), cwd)
    if found is None:
        missing = f"there is no command {program!r}{shunned(program, environ)}"
        raise ServerSettingError(config.name, f"can't be started: {missing}; install it, or correct `command`")
    return Launch(argv=(found, *rest), environ=variables, cwd=cwd)


def endpoint_of(config: McpServerConfig, environ: Mapping[str, str], cwd: Path) -> Endpoint:
    """Return how to call a server on the network.

    Raises:
        ServerSettingError: a variable it names is not set, or does not yield an address.
    """
    known = _known(environ, cwd)
    headers = {
        name: _expanded(config.name, f"headers.{name}", text, known).strip() for name, text in config.headers.items()
    }
    given = {name.lower() for name in headers}
    if config.api_key_env and config.api_key_header.lower() not in given:
        key = environ.get(config.api_key_env)
        if not key:
            raise ServerSettingError(config.name, f"needs the environment variable {config.api_key_env}: set it")
        headers[config.api_key_header] = config.api_key_format.replace(TOKEN, key.strip())
    url = _expanded(config.name, "url", config.url, known).strip()
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ServerSettingError(config.name, f"has a url that is not an address ({error}): correct it") from error
    if not url.startswith(ADDRESSES):
        raise ServerSettingError(config.name, "needs a url that begins with http:// or https://: correct its variables")
    has_key = bool(config.api_key_env or parts.username) or "authorization" in given
    return Endpoint(url=url, headers=headers, has_key=has_key)


def _known(environ: Mapping[str, str], cwd: Path) -> dict[str, str]:
    """Return the variables, with those of editors that are meaningful here."""
    folders = dict.fromkeys(("workspaceFolder", "workspaceRoot", "cwd"), str(cwd))
    parts = {"workspaceFolderBasename": cwd.name, "userHome": environ.get("HOME", ""), "pathSeparator": os.sep}
    return {**environ, **folders, **parts, "/": os.sep}


def _argv(config: McpServerConfig) -> list[str]:
    command = config.command
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise ServerSettingError(config.name, f"has a `command` that can't be split into words: {error}") from error
    return [*words, *config.args] if words and words[0] else ["", *config.args]


def _program(name: str, search_path: str | None, cwd: Path) -> str | None:
    if os.sep not in name:
        return find_program(name, {"PATH": search_path or os.defpath}) if name else None
    path = Path(os.path.normpath(typed_path(cwd, name)))
    return str(path) if os.path.isfile(path) and os.access(path, os.X_OK) else None


def _expanded(server: str, key: str, text: str, environ: Mapping[str, str]) -> str:
    """Substitute the variables that ``text`` names: ``${NAME}``, ``${env:NAME}`` and ``${NAME:-default}``."""

    def value(match: re.Match[str]) -> str:
        name, otherwise = match.groups()
        if not environ.get(name) and otherwise is not None:
            return otherwise
        if name not in environ:
            raise ServerSettingError(server, f"needs the environment variable {name} for {key}: set it")
        return environ[name]

    return REFERENCE.sub(value, text)


CONNECT_SECONDS = 10.0
"""The timeout for connecting to a server, in seconds."""
NOT_FOUND = 404
SESSION = "mcp-session-id"
"""The header by which a request names its session."""
BAD_REQUEST, UNKNOWN_SESSION = 400, re.compile(rb"session|not initialized", re.IGNORECASE)
"""The status and the words by which many servers say that they do not know a session, in place of ``NOT_FOUND``."""
EVENT_END, LINE_END = re.compile(r"\r\n\r\n|\n\n|\r\r"), re.compile(r"\r\n|\n|\r")
"""The ends of an event in an event stream, and of a line in it."""
LONGEST_END = 3
"""The most characters of an event's end that one part may bring without completing it."""
READ_SECONDS = 3_900.0
"""The most seconds between two pieces of an answer, in which a person may be asked. Callers limit the call itself."""


class Exchange(Struct):
    """The outcome of the last request to a server.

    ``refused`` is its HTTP status if that was an error, and ``words`` what the server said then. ``unsigned`` says why
    the user's sign-in can't be renewed now.
    """

    refused: int | None = None
    words: str = ""
    unsigned: str = ""


@asynccontextmanager
async def endpoint_transport(endpoint: Endpoint, exchange: Exchange, sign_ins: SignInStore) -> AsyncGenerator[Any]:
    """Yield the transport through which a session talks to ``endpoint``, and keep ``exchange`` up to date.

    Requests carry the user's sign-in, unless the settings contain credentials.
    """
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    from vibe.core.tools.mcp.token_auth import TokenAuth  # noqa: PLC0415  it loads httpx2

    streams: WeakValueDictionary[Any, Event] = WeakValueDictionary()
    """Events that each end the stream which is the answer to a request, by the request's id."""

    async def end_stream(request: httpx2.Request) -> None:
        told = table_of(json.loads(await request.aread() or "{}"))
        if told.get("method") == "notifications/cancelled" and (over := streams.get(told["params"]["requestId"])):
            over.set()

    async def note(response: httpx2.Response) -> None:
        if not _is_stream(response):
            await bounded(LONGEST_MESSAGE, response)
        # A server answers GET with 405 if it has no stream of its own. Nothing is wrong then.
        if response.request.method != "POST":
            return
        exchange.refused = response.status_code if response.status_code >= 400 else None
        if exchange.refused is None:
            await _bring_in_form(response, streams)
            return
        body = await response.aread()
        exchange.words = "" if body.lstrip().startswith(b"<") else body.decode("utf-8", "replace")  # no web page
        is_unknown = exchange.refused == BAD_REQUEST and UNKNOWN_SESSION.search(body)
        if SESSION in response.request.headers and (is_unknown or exchange.refused == NOT_FOUND):
            exchange.refused = response.status_code = NOT_FOUND
            response.headers["content-type"] = ""  # The status says it all, whatever error the body holds.

    timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    auth = None if endpoint.has_key else TokenAuth(endpoint.url, sign_ins, partial(setattr, exchange, "unsigned"))
    options = client_options()
    options["event_hooks"] = {"request": [end_stream], "response": [note]}
    async with httpx2.AsyncClient(headers=endpoint.headers, auth=auth, timeout=timeout, **options) as client:
        yield streamable_http_client(endpoint.url, http_client=client, max_sse_event_size=LONGEST_MESSAGE)


def _is_stream(response: Any) -> bool:
    kind = response.headers.get("content-type", "").lower()
    return response.is_success and response.request.method != "DELETE" and kind.startswith("text/event-stream")


async def _bring_in_form(response: Any, streams: WeakValueDictionary[Any, Event]) -> None:
    """Bring the answer to a request in a form that the protocol allows, whether it is JSON or an event stream."""
    asked = json.loads(await response.request.aread()).get("id")
    if _is_stream(response):
        over = streams[asked] = Event()
        response.aiter_text = partial(_events_in_form, response.aiter_text(), asked, over)
    elif not response.headers.get("content-type", "").lower().startswith("text/html"):
        response.headers["content-type"] = "application/json"
        response.aiter_bytes = partial(_answer_in_form, response.aiter_bytes(), asked)


async def _answer_in_form(parts: AsyncIterator[bytes], asked: int | str | None) -> AsyncGenerator[bytes]:
    """Yield the JSON of an answer in form, or of an error if it can't be read."""
    import httpx2

    try:
        answer = answer_in_form(b"".join([part async for part in parts]), asked)
    except httpx2.DecodingError as error:
        answer = encoded(unreadable(str(error), asked or 0))
    yield answer.encode()


async def _events_in_form(parts: AsyncIterator[str], asked: int | str | None, over: Event) -> AsyncGenerator[str]:
    """Yield an event stream with messages in form, until it is ``over``."""
    pending, part = "", "first"
    while part and not over.is_set():
        [part] = await unless(over.wait, partial(anext, parts, "")) or [""]
        seen = len(pending)
        pending += part
        if EVENT_END.search(pending, max(0, seen - LONGEST_END)):  # what was seen before is not searched again
            *events, pending = EVENT_END.split(pending)
            for event in events:
                yield _event_in_form(event, asked)
        if len(pending) > LONGEST_MESSAGE:
            pending = f"data:{encoded(unreadable(f'it is longer than {LONGEST_MESSAGE:,} bytes', asked or 0))}"
            break
    if over.is_set():  # with an answer, since the library would ask for the rest of a stream without one
        pending = f"data:{encoded(unreadable('', asked or 0))}"
    yield _event_in_form(pending, asked)  # a last event may lack its blank line


def _event_in_form(event: str, asked: int | str | None) -> str:
    """Return an event as one for each message in it, all without a name, as the library knows only one.

    Data in which there is no message is left out, so that it does not cost the answer that follows.
    """
    lines = LINE_END.split(event)
    data = "\n".join(line.removeprefix("data:") for line in lines if line.startswith("data:"))
    told = [f"data:{encoded(message)}\n\n" for message in messages_in(data, asked)]
    return "\n".join([*(line for line in lines if not line.startswith(("data:", "event:"))), "".join(told) or "\n"])


def shown_url(url: str) -> str:
    """Return ``url`` without user, password and query, which may be secret.

    A text that can't be parsed is replaced entirely.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an invalid address"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


NOISY_LOGGERS = ("mcp", "client", "httpx2", "httpcore2")
"""Loggers that would write to standard error when logging is not set up."""
HANDLER_CHECKPOINTS = 5
"""The number of times to yield to the event loop, which gives the library's tasks time to handle an announcement."""


def load_library() -> None:
    """Import the client library, and keep its log off standard error unless logging is set up.

    Importing takes long, so it must not run on an event loop.
    """
    importlib.import_module("mcp.client.streamable_http")
    for name in NOISY_LOGGERS:
        noisy = logging.getLogger(name)
        if not noisy.handlers:
            noisy.addHandler(logging.NullHandler())


def protocol_error() -> type[MCPError]:
    """Return the exception that the library raises for a request that was refused, cut off or not answered in time."""
    from mcp import MCPError

    return MCPError


async def let_handlers_run() -> None:
    """Let handlers see what a server announced before an answer. The library runs each of them in a task of its own."""
    for _ in range(HANDLER_CHECKPOINTS):
        await checkpoint()
