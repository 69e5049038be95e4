"""A conversation between two turns, set up by a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from subagents.agent.budget import Account, Limits
from vibe.core.messages import Message, Usage
from vibe.core.middleware.port import TurnContext
from vibe.core.session.folder import Transcript


@dataclass(kw_only=True)
class Talk:
    """The input of a middleware. Change it and ask again."""

    messages: Sequence[Message] = ()
    context_tokens: int = 0
    spent: int = 0
    limit: int | None = None
    calls: int = 1
    turns: int | None = None

    @property
    def context(self) -> TurnContext:
        """The context of a turn with the present values."""
        account = Account("this run", Limits(max_tokens=self.limit, max_turns=self.turns))
        account.book(Usage(self.spent, 0, 0, self.calls), 0.0)
        return TurnContext(transcript=Transcript(self.messages), budget=account, context_tokens=self.context_tokens)
