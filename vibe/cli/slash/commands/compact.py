"""``/compact``: a summary in place of the conversation."""

from __future__ import annotations

from vibe.cli.render.event_text import counted
from vibe.cli.slash.command import Talk, Typed


async def run(talk: Talk, typed: Typed) -> None:
    """Put a summary in place of the conversation so far."""

    async def work() -> None:
        if await talk.conversation.compact(typed.rest):
            talk.say(f"the conversation has {counted(len(talk.conversation.messages), 'message')} now")

    talk.begin(work)
