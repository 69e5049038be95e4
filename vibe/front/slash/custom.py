"""Slash commands of the project, the user and the skills: each sends a prompt."""

from __future__ import annotations

from collections.abc import Collection

from vibe.core.guidance import Guidance
from vibe.front.event_text import one_line
from vibe.front.slash.command import SlashCommand, Talk, Typed

ABOUT_LENGTH = 120
HINT_LENGTH = 60


def custom_commands(guidance: Guidance, taken: Collection[str], warnings: list[str]) -> dict[str, SlashCommand]:
    """Return the commands by name, without the names that are ``taken``; reads files.

    The project's win over the user's, and both over skills. Clashes and broken files are added to ``warnings``.
    """
    found: dict[str, SlashCommand] = {}
    for file in guidance.commands.listed(warnings):
        if file.name in taken:
            warnings.append(f"{file.path} is not used: /{file.name} is built in, choose another name for the file")
            continue
        about = one_line(file.description, ABOUT_LENGTH) or f"the prompt in {file.path}"
        found[file.name] = SlashCommand(
            name=file.name, about=about, usage=one_line(file.hint, HINT_LENGTH), handler=_send
        )
    for name, skill in guidance.skills.commands.items():
        if name in taken or name in found:
            by = "built in" if name in taken else "custom command"
            warnings.append(
                f"the skill {skill.name!r} can't be started as /{name}, which is {by}: the agent can load it"
            )
            continue
        found[name] = SlashCommand(
            name=name, about=one_line(skill.description, ABOUT_LENGTH), usage="[REQUEST]", handler=_send
        )
    return found


async def _send(talk: Talk, typed: Typed) -> None:
    """Send the line: the conversation knows the prompt behind it."""
    await talk.send(f"/{typed.name} {typed.rest}".rstrip())
