"""Sentences and listings that several slash commands share."""

from __future__ import annotations

from anyio import to_thread

from vibe.core.config.paths import VibePaths
from vibe.core.session.folder import SavedSession, SessionLoader
from vibe.front.slash.command import Talk, TypedCommand
from vibe.system.errors import UsageError
from vibe.system.plain_text import counted, one_line

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


async def other_sessions(talk: Talk) -> list[SavedSession]:
    """Return the saved sessions except the conversation's own, the newest first."""
    listing = await to_thread.run_sync(SessionLoader(VibePaths(talk.runtime.host.home).sessions).all)
    return [saved for saved in listing.sessions if saved.meta.session_id != talk.conversation.session_id]


def usage_line(talk: Talk) -> str:
    """Return the tokens, calls and price that the conversation has used."""
    account = talk.conversation.account
    price = "at an unknown price" if account.cost_usd is None else f"${account.cost_usd:.4f}"
    usage = account.usage
    return (
        f"{counted(usage.prompt_tokens, 'token')} read ({usage.cached_tokens:,} cached), "
        f"{counted(usage.completion_tokens, 'token')} written in {counted(usage.calls, 'call')}, {price}"
    )
