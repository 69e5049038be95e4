"""``/status``: the conversation as it stands."""

from __future__ import annotations

from vibe.cli.render.event_text import counted, one_line
from vibe.cli.slash.command import Talk, Typed
from vibe.cli.slash.wording import TITLE_LENGTH, setup_line, usage_line


async def run(talk: Talk, _typed: Typed) -> None:
    """Say how the conversation stands."""
    conversation, running = talk.conversation, talk.plans.session
    talk.say(f"session {conversation.session_id} {one_line(conversation.session.title, TITLE_LENGTH)}".rstrip())
    talk.say(f"in {conversation.setup.opening.workdir}")
    talk.say(setup_line(talk))
    at_work = ", the agent is at work" if conversation.is_busy else ""
    talk.say(f"{counted(len(conversation.messages), 'message')}{at_work}")
    talk.say(usage_line(talk))
    servers = ", ".join(f"{server.name} {server.status}" for server in conversation.servers.states())
    if servers:
        talk.say(f"MCP servers: {servers}")
    if running is not None:
        talk.say(f"plan {running.plan_id or ''} runs: {one_line(running.plan.goal, TITLE_LENGTH)}; see /plan status")
