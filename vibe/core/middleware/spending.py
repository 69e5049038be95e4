"""SpendingNotice: tells an agent once that its tokens or its money are running out."""

from __future__ import annotations

from collections.abc import Sequence

from vibe.core.middleware.port import HOST_NOTICE, Middleware, Moment, Notice, Verdict

WRAP_UP_SHARE = 0.8
WRAP_UP = (
    "more than 80 % of this agent's budget is used. Finish what you are doing, leave the files "
    "in a consistent state, and end with your closing summary."
)
WRAP_UP_NOTICE = HOST_NOTICE + WRAP_UP


class SpendingNotice(Middleware):
    """Leaves room for an orderly end; the limits themselves are held by the budget, before each call."""

    def __init__(self) -> None:
        self._said = False

    async def before_turn(self, moment: Moment) -> Sequence[Verdict]:
        """Say it at 80 % of the tightest limit, once."""
        if self._said or moment.budget.used_share() < WRAP_UP_SHARE:
            return ()
        self._said = True
        return (Notice(WRAP_UP),)
