"""From an entry of ``mcp_servers`` to what is run or called; the client library, and its way to servers on the network.

An entry comes to argv, variables and headers. The library is loaded off the event loop; its transport is streamable
HTTP.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import shlex
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from anyio.lowlevel import checkpoint
from msgspec import Struct

from vibe.core.config.models import McpServerConfig
from vibe.core.tools.mcp.sieve import in_form
from vibe.core.tools.mcp.sign_ins import SignInStore
from vibe.system.errors import EnvironmentFailure
from vibe.system.files import typed_path
from vibe.system.http import client_options
from vibe.system.programs import find_program, shunned

if TYPE_CHECKING:
    import httpx2
    from mcp import MCPError


INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "VIBE_DEPTH", "VIBE_WRITERS")
"""The variables a server gets without being named in its ``env``; by the last, ours knows how deep it is."""

REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*|/)(?::-([^}]*))?\}")
ONLY_EDITORS = frozenset({
    "columnNumber", "defaultBuildTask", "execPath", "file", "fileBasename", "fileBasenameNoExtension", "fileDirname",
    "fileDirnameBasename", "fileExtname", "fileWorkspaceFolder", "lineNumber", "relativeFile", "relativeFileDirname",
    "selectedText",
})  # fmt: skip
"""Variables that mean something in an editor only."""
ADDRESSES = ("http://", "https://")
TOKEN = "{token}"  # noqa: S105  a place holder


class ServerSettingError(EnvironmentFailure):
    """A server that can't be started: its command is missing, or a variable it needs is not set."""

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(f"mcp_servers[{server}] {problem}")
        self.problem = problem


class Launch(Struct, frozen=True, kw_only=True):
    """A server's process: ``argv`` with the program's path first, and all the variables it gets."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: Path


class Endpoint(Struct, frozen=True, kw_only=True):
    """A server on the network."""

    url: str
    headers: Mapping[str, str]
    has_key: bool = False
    """The settings say how the server knows us, so that no sign-in is used."""


def launch_of(config: McpServerConfig, environ: Mapping[str, str], cwd: Path) -> Launch:
    """Return how a stdio server is started; looks the program up.

    Raises:
        ServerSettingError: there is no such program, or a variable is not set.
    """
    known = _known(environ, cwd)
    given = {name: _expanded(config.name, f"env.{name}", value, known) for name, value in config.env.items()}
    variables = {name: environ[name] for name in INHERITED if name in environ} | given
    program, *rest = [_expanded(config.name, "command", word, known) for word in _argv(config)]
    found = _program(program, variables.get("PATH"), cwd)
    if found is None:
        raise ServerSettingError(
            config.name,
            f"can't be started: there is no command {program!r}{shunned(program, environ)}; install it, or correct "
            "`command`",
        )
    return Launch(argv=(found, *rest), environ=variables, cwd=cwd)


def endpoint_of(config: McpServerConfig, environ: Mapping[str, str], cwd: Path) -> Endpoint:
    """Return how a server on the network is called.

    Raises:
        ServerSettingError: a variable it names is not set, or makes no address.
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
        raise ServerSettingError(config.name, f"has a url that is no address ({error}): correct it") from error
    if not url.startswith(ADDRESSES):
        raise ServerSettingError(config.name, "needs a url that begins with http:// or https://: correct its variables")
    has_key = bool(config.api_key_env or parts.username) or "authorization" in given
    return Endpoint(url=url, headers=headers, has_key=has_key)


def _known(environ: Mapping[str, str], cwd: Path) -> dict[str, str]:
    """The variables, with those of editors that mean something here."""
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
    return str(path) if path.is_file() and os.access(path, os.X_OK) else None


def _expanded(server: str, key: str, text: str, environ: Mapping[str, str]) -> str:
    """``text`` with the variables it names in place of ``${NAME}``, ``${env:NAME}`` and ``${NAME:-otherwise}``."""

    def value(match: re.Match[str]) -> str:
        name, otherwise = match.groups()
        if not environ.get(name) and otherwise is not None:
            return otherwise
        if name not in environ:
            raise ServerSettingError(server, f"needs the environment variable {name} for {key}: set it")
        return environ[name]

    return REFERENCE.sub(value, text)


CONNECT_SECONDS = 10.0
NOT_FOUND = 404
SESSION = "mcp-session-id"
OTHER_KINDS = ("text/event-stream", "text/html")
"""Types of answers that are no JSON, as all others are, whatever they say."""
READ_SECONDS = 3_900.0
"""Between two pieces of an answer, in which a person may be asked; how long a call may take is the caller's to say."""


class Exchange(Struct):
    """The outcome of the last request to a server. ``refused`` is its HTTP status if that was an error."""

    refused: int | None = None


@asynccontextmanager
async def endpoint_transport(endpoint: Endpoint, exchange: Exchange, sign_ins: SignInStore) -> AsyncGenerator[Any]:
    """The transport a session talks to ``endpoint`` through; ``exchange`` is kept up to date.

    The user's sign-in goes along unless the settings say how the server knows us.
    """
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    from vibe.core.tools.mcp.token_auth import TokenAuth  # noqa: PLC0415  it loads httpx2

    async def note(response: httpx2.Response) -> None:
        # 405 is how a server says that it has no stream of its own: nothing is wrong.
        if response.request.method != "POST":
            return
        exchange.refused = response.status_code if response.status_code >= 400 else None
        kind = response.headers.get("content-type", "")
        if response.status_code == NOT_FOUND and SESSION in response.request.headers:
            response.headers["content-type"] = ""  # its status says all, whatever error is in it
        elif not exchange.refused and not kind.lower().startswith(OTHER_KINDS):
            response.headers["content-type"] = "application/json"
            given: Any = response.stream
            data: list[bytes] = [part async for part in given]
            await given.aclose()
            response.stream = httpx2.ByteStream(in_form(b"".join(data)))

    timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    hooks = {"response": [note]}
    auth = None if endpoint.has_key else TokenAuth(endpoint.url, sign_ins)
    headers = dict(endpoint.headers)
    options = client_options(httpx2)
    async with httpx2.AsyncClient(headers=headers, auth=auth, timeout=timeout, event_hooks=hooks, **options) as client:
        yield streamable_http_client(endpoint.url, http_client=client)


def shown_url(url: str) -> str:
    """``url`` without what may be secret: user, password, query; of what is no address, nothing."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that is none"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


NOISY_LOGGERS = ("mcp", "client", "httpx2", "httpcore2")
HANDLER_CHECKPOINTS = 5


def load_library() -> None:
    """Import it, and keep its log off stderr unless logging is set up; takes long, so not on an event loop."""
    importlib.import_module("mcp.client.streamable_http")
    for name in NOISY_LOGGERS:
        noisy = logging.getLogger(name)
        if not noisy.handlers:
            noisy.addHandler(logging.NullHandler())


def protocol_error() -> type[MCPError]:
    """Return what it raises for a request that was refused, cut off or not answered in time."""
    from mcp import MCPError

    return MCPError


async def let_handlers_run() -> None:
    """Let what a server announced before an answer be heard: it hands announcements to tasks of their own."""
    for _ in range(HANDLER_CHECKPOINTS):
        await checkpoint()
