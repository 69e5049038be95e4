"""``/copy``: an answer on the clipboard."""

from __future__ import annotations

from vibe.cli.render.event_text import counted
from vibe.cli.slash.command import Talk, Typed
from vibe.core.errors import UsageError
from vibe.core.messages import AssistantMessage


async def run(talk: Talk, typed: Typed) -> None:
    """Copy the last answer, or an earlier one."""
    messages = talk.conversation.messages
    answers = [one.content.strip() for one in messages if isinstance(one, AssistantMessage) and one.content.strip()]
    number = typed.rest or "1"
    if not answers:
        raise UsageError("/copy: the agent has not answered yet")
    if not number.isdecimal() or not 1 <= int(number) <= len(answers):
        raise UsageError(f"/copy {number}: say which answer, 1 for the last; there are {len(answers)}")
    text = answers[-int(number)]
    talk.copy(text)
    talk.say(f"copied {counted(len(text), 'character')}")
