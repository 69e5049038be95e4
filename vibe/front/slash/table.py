"""The table of slash commands. It is cheap to import, because each command is loaded on first use."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vibe.front.slash.command import SlashCommand, Talk, TypedCommand

if TYPE_CHECKING:
    from vibe.app.engine.tool_servers import ToolServers
    from vibe.core.guidance import Guidance
    from vibe.front.picker import Picker

WORDS = MappingProxyType({
    "help": ("support", "[COMMAND]", "list commands and keys, or explain one command"),
    "plan": (
        "plan",
        (
            "GOAL | status | show | list | pause | resume | cancel | decide | retry | skip | edit | report | save"
            " | load | undo | demo"
        ),
        "propose a plan, revise it and run it; or show and control plans",
    ),
    "skip": ("plan", "STEP", "skip a step of the plan"),
    "retry": ("plan", "[STEP]", "try a step of the plan again, by default the one that failed"),
    "cancel": ("plan", "STEP", "cancel a step of the plan"),
    "pause": ("plan", "", "pause the plan; /plan resume continues it"),
    "report": ("plan", "[FILE]", "write the report of the last plan, by default as HTML to the plan's folder"),
    "agents": ("settings", "[NAME]", "list agents, or switch to one"),
    "model": ("settings", "[ALIAS] [off|low|medium|high|max]", "list models, or switch to one"),
    "approvals": ("settings", "[ask|edits|all]", "show or change what needs approval"),
    "compact": ("conversation", "[FOCUS]", "summarise the conversation to free context"),
    "clear": ("conversation", "", "start an empty conversation; the session so far is kept"),
    "rewind": ("files", "[NUMBER [chat|files]]", "go back to before a prompt, with the files or without"),
    "undo": ("files", "", "put the files back that the last prompt changed"),
    "diff": ("files", "[NUMBER]", "show what changed in files, all or since before a prompt"),
    "context": ("conversation", "", "show what fills the context"),
    "resume": ("conversation", "[ID]", "list sessions of this folder, or resume one"),
    "rename": ("conversation", "TITLE", "rename the session"),
    "cost": ("conversation", "", "show the tokens and cost of this conversation"),
    "status": ("conversation", "", "show the status of the conversation"),
    "config": ("settings", "[KEY [VALUE]]", "show settings, or change one"),
    "memory": ("resources", "[add TEXT | forget ID]", "show or change the notes for later conversations"),
    "mcp": ("resources", "", "list the MCP servers and their tools"),
    "skills": ("resources", "[NAME]", "list the skills"),
    "tools": ("resources", "", "list the tools of the agent"),
    "permissions": ("resources", "[TOOL ARGUMENTS]", "show what runs unasked, or check one call"),
    "hooks": ("resources", "", "list the hooks"),
    "log": ("support", "", "show where log and transcript are"),
    "copy": (
        "conversation",
        "[code] [NUMBER]",
        "copy the last answer or block of code, or the one before it (2), to the clipboard",
    ),
    "reload": ("settings", "", "reload settings, agents, skills and commands"),
    "init": ("resources", "[INSTRUCTIONS]", "write an AGENTS.md for this project"),
    "bug": ("support", "", "print the facts for a bug report; nothing is sent"),
    "exit": ("conversation", "", "save the conversation and quit"),
})
"""For each command, the module that carries it out, its arguments and its description.

The commands that act on a plan, except ``plan`` itself, are short forms.
"""
ON_SCREEN = MappingProxyType({
    "attach": ("SOURCE", "save this conversation and show a run of another process"),
    "find": ("WORDS", "search the chat upwards; repeat for the next match"),
    "review": ("[ID|chat]", "read what this chat or a plan changed: comment, give files back"),
    "setup": ("", "set up provider, key, model and theme again"),
    "theme": ("[NAME]", "choose a theme, or switch to one"),
})
"""The arguments and descriptions of the commands that only a screen has."""


def of_screen() -> list[tuple[str, str, str]]:
    """Return name, arguments and description of a screen's commands, before a conversation adds its own."""
    ours = {**{name: words[1:] for name, words in WORDS.items()}, **ON_SCREEN}
    return [(name, usage, about) for name, (usage, about) in ours.items()]


class SlashTable(Mapping[str, SlashCommand]):
    """The commands by name, ours first. ``extra`` are one front end's own, which win where names clash."""

    def __init__(self, extra: Mapping[str, SlashCommand] | None = None) -> None:
        self._own = {**{name: _command(name) for name in WORDS}, **(extra or {})}
        self._filed: Mapping[str, SlashCommand] = self._own
        self._servers: ToolServers | None = None
        self._said: set[str] = set()

    def __getitem__(self, name: str) -> SlashCommand:
        return self._commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._commands)

    def __len__(self) -> int:
        return len(self._commands)

    @property
    def _commands(self) -> Mapping[str, SlashCommand]:
        """All commands known now; MCP servers that are still starting add theirs later."""
        if self._servers is None or not self._servers.prompts():
            return self._filed
        from vibe.front.slash.custom import server_commands  # noqa: PLC0415  as in `renew`

        return {**server_commands(self._servers), **self._filed}

    def called(self, line: str) -> tuple[SlashCommand, TypedCommand] | None:
        """Return the command that a line calls, or None if it calls none. A bare ``/`` lists the commands."""
        word, *rest = ("/help" if line.strip() == "/" else line).split(maxsplit=1) or [""]
        command = self._commands.get(word[1:]) if word.startswith("/") else None
        return None if command is None else (command, TypedCommand(name=command.name, rest="".join(rest).strip()))

    def renew(self, guidance: Guidance, servers: ToolServers) -> list[str]:
        """Offer the commands of user, project, skills and servers, and return the new warnings; reads files."""
        from vibe.front.slash.custom import custom_commands  # noqa: PLC0415  the first screen must not wait for it

        warnings: list[str] = []
        self._servers = servers
        self._filed = {**self._own, **custom_commands(guidance, self._own, warnings)}
        unsaid = [warning for warning in dict.fromkeys(warnings) if warning not in self._said]
        self._said.update(unsaid)
        return unsaid


def _command(name: str) -> SlashCommand:
    _, usage, about = WORDS[name]
    return SlashCommand(name=name, usage=usage, about=about, handler=_run, picker=partial(_picker, name))


def _module(name: str) -> tuple[Any, str]:
    """Return the module that carries out a command, and the command's name in it."""
    subject = WORDS[name][0]
    return importlib.import_module(f"vibe.front.slash.commands.{subject}"), "plan" if subject == "plan" else name


async def _run(talk: Talk, typed: TypedCommand) -> None:
    module, name = _module(typed.name)
    if typed.rest and name == typed.name and not WORDS[name][1]:
        from vibe.front.slash.wording import too_much  # noqa: PLC0415  as in `renew`

        raise too_much(typed)
    await getattr(module, f"run_{name}")(talk, typed)


async def _picker(name: str, talk: Talk) -> Picker | None:
    module, _ = _module(name)
    make = getattr(module, f"{name}_picker", None)
    return None if make is None else await make(talk)
