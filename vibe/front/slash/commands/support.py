"""Slash commands for help and for reporting problems."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, metadata

from anyio import to_thread

from vibe import __version__
from vibe.core.config.paths import VibePaths
from vibe.front.slash.command import SlashCommand, Talk, TypedCommand
from vibe.system.errors import UsageError, closest, did_you_mean

DISTRIBUTION = "vibe-orchestrator"
ADDRESSES = ("bug", "issue")
"""Words that mark the label of the address for reports."""


async def run_bug(talk: Talk, _typed: TypedCommand) -> None:
    """Say what a bug report should contain and where it goes."""
    setup = talk.conversation.setup
    system = await to_thread.run_sync(platform.platform)
    talk.say(f"vibe {__version__}, Python {platform.python_version()}, {system}")
    talk.say(f"session {talk.conversation.session_id}: {setup.profile.name} with {setup.model.key}")
    talk.say(f"log: {VibePaths(talk.runtime.host.home).log_file}")
    talk.say(f"transcript: {talk.conversation.session.folder.transcript} (read it before you pass it on)")
    address = await to_thread.run_sync(_address)
    talk.say(f"report to: {address}" if address else "this build has no address for reports")
    talk.say("nothing was sent")


def _address() -> str:
    """Return the address for reports from the package's metadata, or ``""`` if it has none."""
    try:
        named = metadata(DISTRIBUTION).get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    pairs = (str(line).partition(",") for line in named)
    return next((url.strip() for label, _, url in pairs if any(word in label.casefold() for word in ADDRESSES)), "")


async def run_help(talk: Talk, typed: TypedCommand) -> None:
    """List the commands and keys, or explain one command."""
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


def _line(command: SlashCommand) -> str:
    return f"{command.line}: {command.about}"


async def run_log(talk: Talk, _typed: TypedCommand) -> None:
    """Say where the log and the transcript are."""
    log = VibePaths(talk.runtime.host.home).log_file
    talk.say(f"log of internal errors: {log}{'' if await to_thread.run_sync(log.exists) else ' (none so far)'}")
    talk.say(f"transcript of this session: {talk.conversation.session.folder.transcript}")
