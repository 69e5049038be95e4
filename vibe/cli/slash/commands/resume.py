"""``/resume``: another session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vibe.cli.render.event_text import one_line
from vibe.cli.slash.command import ArgumentChoice, Talk, Typed
from vibe.cli.slash.wording import SHOWN_ID, TITLE_LENGTH, sessions_here

SESSIONS_SHOWN = 10


async def run(talk: Talk, typed: Typed) -> None:
    """List the sessions of this folder, or go on with one."""
    if typed.rest:
        await talk.reopen(replace(talk.opening, resume=typed.rest, prompt=""))
        return
    for choice in (await choices(talk, ""))[:SESSIONS_SHOWN]:
        talk.say(f"{choice.value} {choice.about}")


async def choices(talk: Talk, _text: str) -> Sequence[ArgumentChoice]:
    """Return the sessions by the beginnings of their ids, with their titles."""
    return [
        ArgumentChoice(saved.meta.session_id[:SHOWN_ID], one_line(saved.meta.title, TITLE_LENGTH))
        for saved in await sessions_here(talk)
    ]
