"""Room for a conversation: a warning at half, a summary when it nears what the model takes."""

from __future__ import annotations

from collections.abc import Sequence

from vibe.core.config.models import ModelConfig
from vibe.core.middleware.port import Compact, Middleware, Notice, TurnContext, Verdict, Warn

WARNING_SHARE = 0.5


class ContextWarning(Middleware):
    """Warns at half of ``threshold`` tokens, once, and again only after the conversation was shortened."""

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self._said = False

    async def before_turn(self, context: TurnContext) -> Sequence[Verdict]:
        """Tell the model and the people."""
        half_used = context.context_tokens >= self._threshold * WARNING_SHARE
        if not half_used or self._said:
            self._said = self._said and half_used
            return ()
        self._said = True
        used = f"{context.context_tokens} of {self._threshold} tokens of context"
        return (
            Warn(code="context.half", message=f"{used} are used; at the threshold the conversation is summarised"),
            Notice(f"{used} are used. Read only what you need; the conversation is summarised at the threshold."),
        )


DEFAULT_THRESHOLD = 200_000
CONTEXT_SHARE = 0.85
"""A prompt may fill so much of what a model takes; the rest is for its answer."""
RETRY_GROWTH = 1.1
"""After shortening did not help, it is tried again once the conversation has grown by so much."""


def compaction_threshold(model: ModelConfig) -> int | None:
    """Tokens of prompt at which a conversation with ``model`` is shortened; None: never by itself."""
    wanted = model.auto_compact_threshold
    if wanted == 0:
        return None
    return min(wanted or DEFAULT_THRESHOLD, int(model.context_size * CONTEXT_SHARE))


class AutoCompact(Middleware):
    """Asks for it at ``threshold`` tokens."""

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self._next = threshold

    async def before_turn(self, context: TurnContext) -> Sequence[Verdict]:
        """Ask, unless the last time brought nothing and little was said since."""
        if context.context_tokens < self._threshold:
            self._next = self._threshold
            return ()
        if context.context_tokens < self._next:
            return ()
        self._next = int(context.context_tokens * RETRY_GROWTH)
        return (Compact(threshold=self._threshold),)
