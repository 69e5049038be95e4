"""``/reload``: settings, agents, skills, hooks and commands as they are on disk now."""

from __future__ import annotations

from vibe.app.conversation.opening import AgentChange
from vibe.cli.slash.command import Talk, Typed
from vibe.cli.slash.wording import setup_line


async def run(talk: Talk, _typed: Typed) -> None:
    """Read all of it again; what is wrong with it leaves everything as it was."""
    setup = talk.conversation.setup
    await talk.conversation.configure(AgentChange(agent=setup.profile.name, model=setup.opening.model))
    for warning in talk.conversation.setup.engine.warnings:
        talk.say(f"warning: {warning}")
    await talk.refresh()
    talk.say(f"reloaded: {setup_line(talk)}; MCP servers keep running as they were started")
