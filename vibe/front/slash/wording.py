"""Sentences and listings that several slash commands share."""

from __future__ import annotations

from vibe.front.slash.command import Talk, TypedCommand
from vibe.system.errors import UsageError
from vibe.system.plain_text import one_line

SHOWN_ID = 8
"""Characters of a session id that are shown."""
TITLE_LENGTH = 70


def too_much(typed: TypedCommand) -> UsageError:
    """Return the error for arguments given to a command that takes none."""
    return UsageError(f"/{typed.name} takes no arguments: leave out {one_line(typed.rest, TITLE_LENGTH)!r}")


def setup_line(talk: Talk) -> str:
    """Return the current agent, model and approvals in one line."""
    setup, mode = talk.conversation.setup, talk.conversation.approvals.mode
    return f"{setup.profile.name} with {setup.model.key}, thinking {setup.model.thinking}, approvals {mode}"
