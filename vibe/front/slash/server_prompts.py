"""Slash commands of MCP servers: ``/server:prompt`` sends the text that the server has for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe.core.tools.mcp.remote import usage_of
from vibe.front.event_text import one_line
from vibe.front.slash.command import SlashCommand, Talk, Typed
from vibe.system.errors import UsageError

if TYPE_CHECKING:
    from vibe.app.engine.tool_servers import ToolServers

ABOUT_LENGTH = 120


def server_commands(servers: ToolServers) -> dict[str, SlashCommand]:
    """Return a command for each prompt that the servers have listed so far, by name."""
    return {
        f"{server}:{prompt.name}": SlashCommand(
            name=f"{server}:{prompt.name}",
            about=one_line(prompt.about, ABOUT_LENGTH) or f"a prompt of the MCP server {server}",
            usage=usage_of(prompt),
            handler=_send,
        )
        for server, prompt in servers.prompts()
    }


async def _send(talk: Talk, typed: Typed) -> None:
    """Send the text that the server has."""
    text = await talk.conversation.servers.prompted(f"{typed.name} {typed.rest}")
    if text is None:
        raise UsageError(f"the MCP server has no prompt /{typed.name} any more: /mcp shows the servers")
    await talk.send(text)
