"""Slash commands of MCP servers: ``/server:prompt`` sends the text that the server has for it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from vibe.cli.render.event_text import one_line
from vibe.cli.slash.command import SlashCommand, Talk, Typed
from vibe.core.errors import UsageError

if TYPE_CHECKING:
    from vibe.app.engine.tool_servers import ToolServers
    from vibe.core.tools.mcp.prompts import RemotePrompt

ABOUT_LENGTH = 120


def server_commands(servers: ToolServers) -> dict[str, SlashCommand]:
    """Return a command for each prompt that the servers have listed so far, by name."""
    return {
        f"{server}:{prompt.name}": SlashCommand(
            name=f"{server}:{prompt.name}",
            about=one_line(prompt.about, ABOUT_LENGTH) or f"a prompt of the MCP server {server}",
            usage=_usage(prompt),
            handler=partial(_send, server, prompt),
        )
        for server, prompt in servers.prompts()
    }


def given_arguments(prompt: RemotePrompt, text: str) -> Mapping[str, str]:
    """Return the arguments in a text: words in the order declared, or NAME=VALUE; the last takes all that is left.

    Raises:
        UsageError: one is missing, or there are more than it takes.
    """
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()  # an apostrophe is no quote
    given: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        free = [one for one in prompt.arguments if one not in given]
        if equals and name in free:
            given[name] = value
        elif free:
            given[free[0]] = word
        elif prompt.arguments:
            last = prompt.arguments[-1]
            given[last] = f"{given[last]} {word}"
        else:
            raise UsageError(f"{prompt.name} takes no arguments: leave out {one_line(text, ABOUT_LENGTH)!r}")
    missing = [name for name in prompt.arguments if name in prompt.required and name not in given]
    if missing:
        raise UsageError(f"{prompt.name} needs {', '.join(missing)}: type {_usage(prompt)} after it")
    return given


def _usage(prompt: RemotePrompt) -> str:
    return " ".join(name.upper() if name in prompt.required else f"[{name.upper()}]" for name in prompt.arguments)


async def _send(server: str, prompt: RemotePrompt, talk: Talk, typed: Typed) -> None:
    """Send the server's text, under a line of ours: what a server says is never itself a command."""
    text = await talk.conversation.servers.prompt_text(server, prompt.name, given_arguments(prompt, typed.rest))
    await talk.send(f"The prompt {prompt.name!r} of the MCP server {server!r}:\n\n{text}")
