"""``/rename``: the title of the session."""

from __future__ import annotations

from vibe.app.conversation.conversation import TITLE_LENGTH, rename
from vibe.cli.slash.command import Talk, Typed
from vibe.core.errors import UsageError


async def run(talk: Talk, typed: Typed) -> None:
    """Give the session a title."""
    title = " ".join(typed.rest.split())
    if not title:
        raise UsageError("/rename TITLE: say what to call the session")
    if len(title) > TITLE_LENGTH:
        raise UsageError(f"/rename: a title has at most {TITLE_LENGTH} characters, this one {len(title)}: shorten it")
    await rename(talk.conversation, title)
    talk.say(f"the session is called: {title}")
