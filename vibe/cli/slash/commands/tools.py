"""``/tools``: the tools of the agent."""

from __future__ import annotations

from vibe.cli.render.listings import tool_lines
from vibe.cli.slash.command import Talk, Typed


async def run(talk: Talk, _typed: Typed) -> None:
    """List the tools with their permissions."""
    talk.say("\n".join(tool_lines(talk.conversation.setup.tools)))
