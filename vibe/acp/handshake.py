"""The handshake: the answer to `initialize`, given before the library that speaks the protocol is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct

from vibe import __version__

PROTOCOL_VERSION = 1
SETUP_METHOD = "setup"
"""The one way to authenticate: a person gives the key of a provider, once."""
SETUP_FLAG = "--setup"
SESSION_REQUESTS = ("additionalDirectories", "close", "delete", "fork", "list", "resume")
"""What can be asked of a session, or for one."""
CAPABILITIES: Mapping[str, Any] = {
    "loadSession": True,
    "mcpCapabilities": {"http": True, "sse": False},
    "promptCapabilities": {"audio": False, "embeddedContext": True, "image": True},
    "sessionCapabilities": {name: {} for name in SESSION_REQUESTS},
}


class EditorAbilities(Struct, frozen=True, kw_only=True):
    """The parts of the protocol that an editor serves."""

    reads: bool = False
    writes: bool = False
    terminals: bool = False
    forms: bool = False


def answer_to_initialize(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the answer to a valid `initialize`; None: the message is for the library."""
    version = _part(message.get("params"), "protocolVersion")
    if message.get("method") != "initialize" or "id" not in message or type(version) is not int:
        return None
    return {"jsonrpc": "2.0", "id": message["id"], "result": initialize_result(capabilities_in(message))}


def capabilities_in(message: Mapping[str, Any]) -> Any:
    """Return the capabilities of the editor, as its `initialize` has them."""
    return _part(message.get("params"), "clientCapabilities")


def abilities_of(capabilities: Any) -> EditorAbilities:
    """Return what an editor of these capabilities can do; what makes no sense, it can't."""
    files = _part(capabilities, "fs")
    return EditorAbilities(
        reads=_part(files, "readTextFile") is True,
        writes=_part(files, "writeTextFile") is True,
        terminals=_part(capabilities, "terminal") is True,
        forms=isinstance(_part(_part(capabilities, "elicitation"), "form"), dict),
    )


def initialize_result(capabilities: Any) -> dict[str, Any]:
    """Return the result of `initialize` for an editor of these capabilities."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentCapabilities": dict(CAPABILITIES),
        "agentInfo": {"name": "vibe", "title": "Vibe", "version": __version__},
        "authMethods": [_setup_method(capabilities)],
    }


def _setup_method(capabilities: Any) -> dict[str, Any]:
    method: dict[str, Any] = {
        "id": SETUP_METHOD,
        "name": "Set up a provider",
        "description": "Run `vibe setup` in a terminal: it keeps the key of a provider for you, and tries it.",
    }
    auth = _part(_part(capabilities, "auth"), "terminal")
    return {**method, "type": "terminal", "args": [SETUP_FLAG]} if auth is True else method


def _part(whole: Any, name: str) -> Any:
    return cast("Mapping[str, Any]", whole).get(name) if isinstance(whole, dict) else None
