"""TurnLimit: ends an agent after so many model calls."""

from __future__ import annotations

from collections.abc import Sequence

from vibe.core.middleware.port import Middleware, Moment, Stop, Verdict
from vibe.core.outcome import Outcome


class TurnLimit(Middleware):
    """Counts model calls over the whole transcript but the ``before`` first ones, so that a resume brings no new allowance."""

    def __init__(self, max_turns: int, before: int = 0) -> None:
        self._max_turns = max_turns
        self._before = before

    async def before_turn(self, moment: Moment) -> Sequence[Verdict]:
        """Stop once the limit is reached."""
        if moment.transcript.turns - self._before < self._max_turns:
            return ()
        detail = f"the limit of {self._max_turns} turns is reached"
        return (Stop(outcome=Outcome.LIMIT, reason="turns", detail=detail),)
