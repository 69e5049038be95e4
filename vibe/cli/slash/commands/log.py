"""``/log``: the files in which all is written down."""

from __future__ import annotations

from anyio import to_thread

from vibe.cli.slash.command import Talk, Typed
from vibe.core.config.paths import VibePaths


async def run(talk: Talk, _typed: Typed) -> None:
    """Say where log and transcript are."""
    log = VibePaths(talk.runtime.host.home).log_file
    talk.say(f"log of internal errors: {log}{'' if await to_thread.run_sync(log.exists) else ' (none so far)'}")
    talk.say(f"transcript of this session: {talk.conversation.session.folder.transcript}")
