"""``/bug``: the facts for a report; nothing is sent anywhere."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, metadata

from anyio import to_thread

from vibe import __version__
from vibe.cli.slash.command import Talk, Typed
from vibe.core.config.paths import VibePaths

DISTRIBUTION = "vibe-orchestrator"
ADDRESSES = ("bug", "issue")
"""Words in the label of the address that takes reports."""


async def run(talk: Talk, _typed: Typed) -> None:
    """Say what a report should say, and where it goes."""
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
    """Return the address for reports that the package names; empty: none."""
    try:
        named = metadata(DISTRIBUTION).get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    pairs = (str(line).partition(",") for line in named)
    return next((url.strip() for label, _, url in pairs if any(word in label.casefold() for word in ADDRESSES)), "")
