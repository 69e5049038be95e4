"""``/help``: the commands and keys."""

from __future__ import annotations

from collections.abc import Sequence

from vibe.cli.slash.command import ArgumentChoice, SlashCommand, Talk, Typed
from vibe.core.errors import UsageError
from vibe.core.suggestion import closest, did_you_mean


async def run(talk: Talk, typed: Typed) -> None:
    """Tell the commands and keys, or what one command is for."""
    name = typed.rest.removeprefix("/")
    if not name:
        for line in [*map(_line, talk.commands.values()), *talk.keys]:
            talk.say(line)
        return
    command = talk.commands.get(name)
    if command is None:
        other = did_you_mean(closest(name, talk.commands), "/help lists them")
        raise UsageError(f"/help {name}: there is no such command; {other}")
    talk.say(_line(command))


async def choices(talk: Talk, text: str) -> Sequence[ArgumentChoice]:
    """Return the commands."""
    return () if " " in text else [ArgumentChoice(one.name, one.about) for one in talk.commands.values()]


def _line(command: SlashCommand) -> str:
    return f"{command.line}: {command.about}"
