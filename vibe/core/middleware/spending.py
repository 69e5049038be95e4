"""SpendingNotice: tells an agent once that its tokens, its money or its turns are running out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from vibe.core.middleware.port import HOST_NOTICE, Middleware, Moment, Notice, Verdict

WRAP_UP_SHARE = 0.8
WRAP_UP = (
    "more than 80 % of this agent's budget is used. Finish what you are doing, leave the files "
    "in a consistent state, and {ending}."
)
SUMMARISE = "end with your closing summary"
WRAP_UP_NOTICE = HOST_NOTICE + WRAP_UP.format(ending=SUMMARISE)


class SpendingNotice(Middleware):
    """Leaves room for an orderly end; the limits themselves are held by the budget, and by the limit of turns.

    ``ending`` is what the agent is to end with; turns are counted as ``TurnLimit`` does.
    """

    def __init__(self, max_turns: int | None = None, before: int = 0, *, ending: str = SUMMARISE) -> None:
        self._max_turns = max_turns
        self._before = before
        self._text = WRAP_UP.format(ending=ending)
        self._said = False

    async def before_turn(self, moment: Moment) -> Sequence[Verdict]:
        """Say it at 80 % of the tightest limit of tokens, price and turns, once; an agent that goes on is not told again."""
        if self._said or max(moment.budget.used_share(), self._used_turns(moment)) < WRAP_UP_SHARE:
            return ()
        self._said = True
        prompts = (prompt.content for prompt in reversed(moment.transcript.prompts))
        told = HOST_NOTICE + self._text in takewhile(lambda text: text.startswith(HOST_NOTICE), prompts)
        return () if told else (Notice(self._text),)

    def _used_turns(self, moment: Moment) -> float:
        """A share of the turns; the last of few is reason enough."""
        turns = moment.transcript.turns - self._before
        if self._max_turns is None or not turns:
            return 0.0
        return WRAP_UP_SHARE if turns >= int(WRAP_UP_SHARE * self._max_turns) else 0.0
