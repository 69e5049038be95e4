"""Slash commands defined by the project, the user, skills and MCP servers; each sends a prompt."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from vibe.core.guidance import Guidance
from vibe.core.tools.mcp.remote import usage_of
from vibe.front.slash.command import SlashCommand, Talk, TypedCommand
from vibe.system.errors import UsageError
from vibe.system.plain_text import one_line

if TYPE_CHECKING:
    from vibe.app.engine.tool_servers import ToolServers

ABOUT_LENGTH = 120
HINT_LENGTH = 60


def custom_commands(guidance: Guidance, taken: Collection[str], warnings: list[str]) -> dict[str, SlashCommand]:
    """Return the custom commands by name, except names that are ``taken``; reads files.

    The project's commands win over the user's, and both win over skills. Name clashes and broken files are added to
    ``warnings``.
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


async def _send(talk: Talk, typed: TypedCommand) -> None:
    """Send the line as typed; the conversation looks up the prompt behind it."""
    await talk.send(f"/{typed.name} {typed.rest}".rstrip())


def server_commands(servers: ToolServers) -> dict[str, SlashCommand]:
    """Return a command, by name, for each prompt that the servers have listed so far."""
    return {
        f"{server}:{prompt.name}": SlashCommand(
            name=f"{server}:{prompt.name}",
            about=one_line(prompt.about, ABOUT_LENGTH) or f"a prompt of the MCP server {server}",
            usage=usage_of(prompt),
            handler=_send_prompt,
        )
        for server, prompt in servers.prompts()
    }


async def _send_prompt(talk: Talk, typed: TypedCommand) -> None:
    """Send the text that the server returns for the prompt."""
    text = await talk.conversation.servers.prompted(f"{typed.name} {typed.rest}")
    if text is None:
        raise UsageError(f"the MCP server has no prompt /{typed.name} any more: /mcp shows the servers")
    await talk.send(text)
