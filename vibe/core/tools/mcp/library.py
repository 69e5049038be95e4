"""The client library, which costs most of a second to import: loaded once, off the event loop, and kept quiet."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING

from anyio.lowlevel import checkpoint

if TYPE_CHECKING:
    from mcp import MCPError

NOISY_LOGGERS = ("mcp", "client", "httpx2", "httpcore2")
HANDLER_CHECKPOINTS = 5


def load_library() -> None:
    """Import it, and keep its log off stderr where nobody set up logging; takes long, so not on an event loop."""
    importlib.import_module("mcp.client.streamable_http")
    for name in NOISY_LOGGERS:
        noisy = logging.getLogger(name)
        if not noisy.handlers:
            noisy.addHandler(logging.NullHandler())


def protocol_error() -> type[MCPError]:
    """What it raises for a request that was refused, cut off or not answered in time."""
    from mcp import MCPError  # noqa: PLC0415  costs most of a second

    return MCPError


async def let_handlers_run() -> None:
    """Let what a server announced before an answer be heard: it hands announcements to tasks of their own."""
    for _ in range(HANDLER_CHECKPOINTS):
        await checkpoint()
