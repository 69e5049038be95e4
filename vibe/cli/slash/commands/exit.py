"""``/exit``: the end."""

from __future__ import annotations

from vibe.cli.slash.command import Talk, Typed


async def run(talk: Talk, _typed: Typed) -> None:
    """Save the conversation and leave."""
    talk.leave()
