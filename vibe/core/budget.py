"""Budget: the port through which an agent reserves and pays for its model calls."""

from __future__ import annotations

from typing import Protocol

from anyio import current_time, move_on_after

from ipc.events import WarningEvent
from ipc.sink import EventSink
from vibe.core.config.models import ModelConfig
from vibe.core.messages import Usage
from vibe.system.errors import VibeError

WAITING = "budget.wait"
"""The code of the warning that an agent waits for budget; its next event means that it no longer waits."""
WAITED = "budget.waited"
"""The code of the warning that the wait for budget is over."""

PATIENCE_SECONDS = 2.0
"""Seconds an agent waits for budget before a warning says so."""


class BudgetExhaustedError(VibeError):
    """The budget is used up. ``account`` names its owner, ``limit`` what was reached and ``reason`` its kind."""

    def __init__(self, account: str, limit: str, spent: str) -> None:
        kind, _, most = limit.partition(" ")
        self.reason = "turns" if kind == "max_turns" else "budget"
        of_turns = f"the limit of {most} turn{'s' * (most != '1')} is reached: {spent} of {account}"
        others = f"the budget of {account} is used up: {limit}, {spent} spent"
        super().__init__(of_turns if self.reason == "turns" else others)
        self.account = account
        self.limit = limit
        self.spent = spent


class Reservation(Protocol):
    """Budget set aside for one call. It is either settled or released, once."""

    @property
    def max_completion_tokens(self) -> int:
        """The most tokens the answer may have."""
        ...

    def settle(self, usage: Usage, cost_usd: float | None) -> None:
        """Book what the call used and give back the rest."""

    def release(self) -> None:
        """Give everything back: the call was not made or had no result."""


class Budget(Protocol):
    """The budget an agent pays from."""

    async def reserve(self, model: ModelConfig, prompt_tokens: int, wanted_tokens: int) -> Reservation:
        """Set budget aside for a call, waiting while the reservations of other calls leave too little.

        Raises:
            BudgetExhaustedError: too little is left even if the other calls give everything back.
        """
        ...

    def used_share(self) -> float:
        """Return the used share (0 to 1) of the tightest limit, or 0 if there is no limit."""
        ...


async def reserve_budget(
    budget: Budget, sink: EventSink, model: ModelConfig, prompt_tokens: int, wanted_tokens: int
) -> Reservation:
    """Reserve budget for a call, announcing a wait of more than ``PATIENCE_SECONDS`` and its end.

    Raises:
        BudgetExhaustedError: too little is left even if the other calls give everything back.
    """
    started = current_time()
    with move_on_after(PATIENCE_SECONDS):
        return await budget.reserve(model, prompt_tokens, wanted_tokens)
    message = "a model call is waiting for budget reserved by other calls"
    sink.publish(WarningEvent(code=WAITING, message=message))
    reservation = await budget.reserve(model, prompt_tokens, wanted_tokens)
    message = f"a model call got its budget after {current_time() - started:.1f} s"
    sink.publish(WarningEvent(code=WAITED, message=message))
    return reservation
