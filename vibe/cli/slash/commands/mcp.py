"""``/mcp``: the MCP servers of the conversation."""

from __future__ import annotations

from vibe.cli.render.listings import NO_SERVERS, server_lines
from vibe.cli.slash.command import Talk, Typed


async def run(talk: Talk, _typed: Typed) -> None:
    """List the servers with their tools."""
    states = talk.conversation.servers.states()
    talk.say("\n".join(line for server in states for line in server_lines(server)) or NO_SERVERS)
