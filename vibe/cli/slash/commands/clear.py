"""``/clear``: a fresh start."""

from __future__ import annotations

from vibe.cli.slash.command import Talk, Typed
from vibe.cli.slash.wording import SHOWN_ID


async def run(talk: Talk, _typed: Typed) -> None:
    """Go on without what was said."""
    before = talk.conversation.session_id
    await talk.conversation.clear()
    talk.say(f"cleared; session {before[:SHOWN_ID]} is kept")
