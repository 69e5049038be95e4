"""``/cost``: tokens and price."""

from __future__ import annotations

from vibe.cli.slash.command import Talk, Typed
from vibe.cli.slash.wording import usage_line


async def run(talk: Talk, _typed: Typed) -> None:
    """Say what this conversation has used."""
    talk.say(usage_line(talk))
