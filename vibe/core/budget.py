"""Budget: the port through which an agent pays for its model calls, before and after each."""

from __future__ import annotations

from typing import Protocol

from anyio import current_time, move_on_after

from ipc.events import WarningEvent
from ipc.sink import EventSink
from vibe.core.config.models import ModelConfig
from vibe.core.messages import Usage
from vibe.system.errors import VibeError

WAITING = "budget.wait"
"""The code of the warning that an agent waits for room; with its next event it waits no longer."""
WAITED = "budget.waited"
"""The code of the warning that it has room."""

PATIENCE_SECONDS = 2.0
"""How long an agent waits for room before it says so."""


class BudgetExhaustedError(VibeError):
    """Nothing is left. ``account`` names whose budget it is, ``limit`` which of its limits."""

    def __init__(self, account: str, limit: str, spent: str) -> None:
        super().__init__(f"the budget of {account} is used up: {limit}, {spent} spent")
        self.account = account
        self.limit = limit
        self.spent = spent


class Reservation(Protocol):
    """Room for one call. It is either settled or released, once."""

    @property
    def max_completion_tokens(self) -> int:
        """Most tokens the answer may have."""
        ...

    def settle(self, usage: Usage, cost_usd: float | None) -> None:
        """Book what the call took and give back the rest."""
        ...

    def release(self) -> None:
        """Give everything back: the call was not made or brought nothing."""
        ...


class Budget(Protocol):
    """Port to the budget an agent pays from."""

    async def reserve(self, model: ModelConfig, prompt_tokens: int, wanted_tokens: int) -> Reservation:
        """Set room aside for a call, waiting while others' reservations stand in the way.

        Raises:
            BudgetExhaustedError: there is no room, whatever the others give back.
        """
        ...

    def used_share(self) -> float:
        """The largest used share (0 to 1) of any limit; 0 where there is none."""
        ...


async def room_for(
    budget: Budget, sink: EventSink, model: ModelConfig, prompt_tokens: int, wanted_tokens: int
) -> Reservation:
    """Set room aside for a call, as ``Budget.reserve``; a wait of some length is announced, and so is its end.

    Raises:
        BudgetExhaustedError: there is no room, whatever the others give back.
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
