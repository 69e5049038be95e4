"""``/help``: the commands."""

from __future__ import annotations

from vibe.cli.slash.command import Talk, Typed


async def run(talk: Talk, _typed: Typed) -> None:
    """Tell the commands."""
    for command in talk.commands.values():
        talk.say(f"{command.line}: {command.about}")
    talk.say("!COMMAND: run it in your shell; the agent is told of its output")
    talk.say("A line typed while the agent works is told to it. Ctrl-C interrupts it, Ctrl-D leaves.")
