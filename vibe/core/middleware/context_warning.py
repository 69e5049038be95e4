"""ContextWarning: says once that half of the room for a conversation is used."""

from __future__ import annotations

from collections.abc import Sequence

from vibe.core.middleware.port import Middleware, Moment, Notice, Verdict, Warn

WARNING_SHARE = 0.5


class ContextWarning(Middleware):
    """Warns at half of ``threshold`` tokens, once, and again only after the conversation was shortened."""

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self._said = False

    async def before_turn(self, moment: Moment) -> Sequence[Verdict]:
        """Tell the model and the people."""
        half_used = moment.context_tokens >= self._threshold * WARNING_SHARE
        if not half_used or self._said:
            self._said = self._said and half_used
            return ()
        self._said = True
        used = f"{moment.context_tokens} of {self._threshold} tokens of context"
        return (
            Warn(code="context.half", message=f"{used} are used; at the threshold the conversation is summarised"),
            Notice(f"{used} are used. Read only what you need; the conversation is summarised at the threshold."),
        )
