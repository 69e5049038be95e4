"""Errors of MCP servers, and what the client library raises in words.

VibeError
├── ToolError
│   └── ServerCallError          a call could not be made, or was not answered; names the server
└── EnvironmentFailure
    └── ServerSettingError       an entry of mcp_servers can't be started as it stands
"""

from __future__ import annotations

from pydantic import ValidationError

from vibe.core.tools.errors import ToolError
from vibe.system.errors import EnvironmentFailure
from vibe.system.plain_text import shortened


class ServerCallError(ToolError):
    """A call that no result came of.

    ``lost``: the session is gone, and with it whatever the call was doing; not ``taken``: it was refused before.
    """

    def __init__(self, server: str, problem: str, *, lost: bool = False, taken: bool = True) -> None:
        super().__init__(f"MCP server {server!r} {problem}")
        self.server = server
        self.problem = problem
        self.lost = lost
        self.taken = taken


class ServerSettingError(EnvironmentFailure):
    """A server that can't be started: its command is missing, or a variable it needs is not set."""

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(f"mcp_servers[{server}] {problem}")
        self.problem = problem


CLOSED_CODE = -32000
MODERN_ONLY_CODES = frozenset({-32022, -32601})
"""Codes with which a server refuses ``initialize`` that only speaks revisions of the protocol without it."""
SESSION_GONE = "Session terminated"
STATUS_MESSAGES = frozenset({"Server returned an error response", "Not Found", SESSION_GONE})
"""Texts of the client library that stand for a refused request's HTTP status."""

_STATUS = {
    401: "refused the credentials (HTTP 401): check api_key_env and headers",
    403: "refused access (HTTP 403): check what the key may do",
    404: "has no MCP endpoint at {where} (HTTP 404): check url",
    405: "does not speak streamable HTTP at {where} (HTTP 405): check url",
}
LONGEST = 300


def code_of(error: BaseException) -> int | None:
    """The JSON-RPC code of a protocol error; None for any other."""
    code = getattr(error, "code", None)
    return code if isinstance(code, int) else None


def phrase(error: BaseException, where: str, status: int | None = None) -> str:
    """Return why a session or a call failed.

    ``where`` is the server's address or command, ``status`` a refused request's.
    """
    if status is not None and status >= 400:
        return _STATUS.get(status, f"answered HTTP {status} at {{where}}: see the server's own log").format(where=where)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        return f"sent what is no valid MCP answer ({path}: {first['msg']})"
    if type(error).__module__.startswith("httpx2"):
        return f"can't be reached at {where} ({_text(error)}): is it running?"
    if isinstance(error, OSError):
        return f"can't be started as {where} ({error.strerror or error})"
    if code_of(error) == CLOSED_CODE:
        return "closed the connection"
    return f"failed: {_text(error)}"


def _text(error: BaseException) -> str:
    return shortened(" ".join(str(error).split()) or type(error).__name__, LONGEST)
