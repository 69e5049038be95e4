"""``/approvals``: how far agents may go unasked."""

from __future__ import annotations

from collections.abc import Sequence

from vibe.app.conversation.opening import AgentChange
from vibe.cli.slash.command import ArgumentChoice, Talk, Typed
from vibe.cli.slash.wording import setup_line, words
from vibe.core.errors import UsageError
from vibe.core.tools.permissions import ApprovalMode


async def run(talk: Talk, typed: Typed) -> None:
    """Say what is asked about, or change it."""
    if typed.rest and typed.rest not in list(ApprovalMode):
        raise UsageError(f"/approvals {typed.rest}: say one of {', '.join(ApprovalMode)}")
    if typed.rest:
        await talk.conversation.configure(AgentChange(approvals=ApprovalMode(typed.rest)))
    talk.say(setup_line(talk))


async def choices(_talk: Talk, _text: str) -> Sequence[ArgumentChoice]:
    """Return the modes."""
    return words(*ApprovalMode)
