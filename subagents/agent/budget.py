"""The budget ledger of a whole tree of agents: room is reserved before each model call and booked after it.

Accounts form a tree (plan -> step). A reservation counts on the account it was made on and on all accounts above it.
Providers count prompts their own way and may write longer answers than they were asked for, so calls under way are
expected to use twice their reservation. As long as none uses more than that, a limit is exceeded by no more than one
call's reservation, however many agents work at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
from msgspec import Struct, field, structs

from vibe.core.budget import BudgetExhaustedError, Reservation
from vibe.core.config.models import ModelConfig
from vibe.core.messages import Spending, Usage
from vibe.system.plain_text import counted

SMALLEST_ANSWER = 64
"""The fewest tokens of room for an answer. An answer with less room is not worth its prompt."""
FAIR_ANSWER = 1_024
"""Tokens of room below which a call waits for others to give back some of their reservations."""
RESERVED_WEIGHT = 2
"""The most that a call under way may use, as a multiple of its reservation."""


class Limits(Struct, frozen=True, kw_only=True):
    """Upper bounds, None for none. Tokens are prompt plus completion, the price is in USD, turns are model calls."""

    max_tokens: int | None = None
    max_price: float | None = None
    max_turns: int | None = None


class _Entry(Struct, kw_only=True, eq=False):
    """The figures of one account: what is spent, and what is reserved for calls under way."""

    name: str
    limits: Limits
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    reserved_tokens: int = 0
    reserved_price: float = 0.0
    reserved_calls: int = 0

    def book(self, usage: Usage, cost_usd: float | None) -> None:
        self.usage += usage
        if self.cost_usd is not None:
            self.cost_usd = None if cost_usd is None else self.cost_usd + cost_usd

    def free_room(self, model: ModelConfig, prompt_tokens: int) -> float:
        """Return how many tokens of answer fit besides what is reserved."""
        tokens, price = RESERVED_WEIGHT * self.reserved_tokens, RESERVED_WEIGHT * self.reserved_price
        return self._room(model, prompt_tokens + tokens, price + _price(model, prompt_tokens), self.reserved_calls)

    def room_at_best(self, model: ModelConfig, prompt_tokens: int) -> float:
        """Return how many tokens of answer would fit if all reservations were given back."""
        return self._room(model, prompt_tokens, _price(model, prompt_tokens), 0)

    def used_share(self) -> float:
        by_tokens = self.usage.total_tokens / self.limits.max_tokens if self.limits.max_tokens else 0.0
        by_price = self.cost_usd / self.limits.max_price if self.limits.max_price and self.cost_usd else 0.0
        most = self.limits.max_turns
        by_turns = self.usage.calls / max(1, most - 1) if most else 0.0  # 1 if the next call is the last
        return max(by_tokens, by_price, by_turns)

    def exhausted(self, prompt_tokens: int) -> BudgetExhaustedError:
        limits, used = self.limits, self.usage.total_tokens
        if limits.max_turns is not None and self.usage.calls >= limits.max_turns:
            return BudgetExhaustedError(
                self.name, f"max_turns {limits.max_turns}", counted(self.usage.calls, "model call")
            )
        if limits.max_tokens is not None and limits.max_tokens - used - prompt_tokens < SMALLEST_ANSWER:
            need = f"max_tokens {limits.max_tokens} leaves no room for a prompt of about {prompt_tokens}"
            return BudgetExhaustedError(self.name, need, f"{used} tokens")
        spent = f"{used} tokens" if self.cost_usd is None else f"${self.cost_usd:.4f}"
        return BudgetExhaustedError(self.name, f"max_price ${limits.max_price} leaves no room for a call", spent)

    def _room(self, model: ModelConfig, other_tokens: int, other_price: float, other_calls: int) -> float:
        most = self.limits.max_turns
        room = float("inf") if most is None or self.usage.calls + other_calls < most else 0.0
        if self.limits.max_tokens is not None:
            room = min(room, self.limits.max_tokens - self.usage.total_tokens - other_tokens)
        price = model.output_price or model.highest_input_price  # answers may be free where prompts are not
        if self.limits.max_price is not None and self.cost_usd is not None and price:
            left = self.limits.max_price - self.cost_usd - other_price
            room = min(room, left * 1_000_000 / price)
        return room


Upstream: TypeAlias = Callable[[ModelConfig, int, int], Awaitable[Reservation]]
"""Reserves room on the account in another process that a tree's root mirrors; see ``vibe.core.budget.Budget``."""


class _Tree(Struct, kw_only=True, eq=False):
    """The state that all accounts of a tree share.

    ``upstream`` is what lies above the root; ``freed`` is set when a reservation is given back.
    """

    upstream: Upstream | None
    freed: anyio.Event = field(default_factory=anyio.Event)


class Account:
    """The account of one part of the tree: what is spent and reserved.

    With ``upstream``, it mirrors an account in another process, where each call needs room, too.
    """

    def __init__(self, name: str, limits: Limits, upstream: Upstream | None = None) -> None:
        self._entries = (_Entry(name=name, limits=limits),)
        self._tree = _Tree(upstream=upstream)

    def open(self, name: str, limits: Limits, *, spent: Spending | None = None) -> Account:
        """Return a new account below this one. ``spent`` comes from an earlier run and is booked above already."""
        account = Account(name, limits)
        own = _Entry(name=name, limits=limits, **structs.asdict(spent or Spending()))
        account._entries = (own, *self._entries)
        account._tree = self._tree
        return account

    def renew(self, limits: Limits) -> None:
        """Begin this account anew, with new limits and nothing spent. What was spent stays booked above it.

        No call may be under way. Accounts opened below it before are still charged to the old one.
        """
        self._entries = (_Entry(name=self._entries[0].name, limits=limits), *self._entries[1:])

    @property
    def name(self) -> str:
        """The name of this account, as ``BudgetExhaustedError`` gives it."""
        return self._entries[0].name

    @property
    def usage(self) -> Usage:
        """The tokens spent on this account and those below it."""
        return self._entries[0].usage

    @property
    def cost_usd(self) -> float | None:
        """The USD spent on this account and those below it; None once a call of unknown price was booked."""
        return self._entries[0].cost_usd

    @property
    def has_price_limit(self) -> bool:
        """True if this account or one above it limits the price."""
        return any(entry.limits.max_price is not None for entry in self._entries)

    def shortage(self, model: ModelConfig, prompt_tokens: int, wanted: Limits) -> str:
        """Say what is lacking here for a call with such a prompt, or for all that is ``wanted``; blank if nothing is.

        Calls under way count at RESERVED_WEIGHT.
        """
        own, call = self._entries[0], _price(model, prompt_tokens, SMALLEST_ANSWER)
        tokens = own.usage.total_tokens + RESERVED_WEIGHT * own.reserved_tokens
        price = 0.0 if own.cost_usd is None else own.cost_usd + RESERVED_WEIGHT * own.reserved_price
        for name, limit, taken, needed in (
            ("max_tokens", own.limits.max_tokens, tokens, max(wanted.max_tokens or 0, prompt_tokens + SMALLEST_ANSWER)),
            ("max_price", own.limits.max_price, price, max(wanted.max_price or 0.0, call)),
        ):
            if limit is not None and needed - (limit - taken) > 1e-9 and needed:  # sums of prices are not exact
                return f"{name} {limit} of {own.name} leaves {max(0, limit - taken):.9g}, and it needs {needed:.9g}"
        return ""

    def used_share(self) -> float:
        """Return the largest used share of any limit of this account or one above it."""
        return max(entry.used_share() for entry in self._entries)

    def book(self, usage: Usage, cost_usd: float | None) -> None:
        """Add what was spent, here and on all accounts above."""
        for entry in self._entries:
            entry.book(usage, cost_usd)

    def mirror(self, usage: Usage, cost_usd: float | None) -> None:
        """Set what is spent on the root account to the figures of the account that it mirrors."""
        self._entries[-1].usage, self._entries[-1].cost_usd = usage, cost_usd

    async def reserve(self, model: ModelConfig, prompt_tokens: int, wanted_tokens: int) -> CallReservation:
        """Set room aside for a prompt and an answer; see ``vibe.core.budget.Budget``."""
        needed = min(wanted_tokens, SMALLEST_ANSWER)
        while True:
            best = float("inf")
            for entry in self._entries:
                best = min(best, entry.room_at_best(model, prompt_tokens))
                if best < needed:
                    raise entry.exhausted(prompt_tokens)
            room = min(entry.free_room(model, prompt_tokens) for entry in self._entries)
            if room >= min(wanted_tokens, FAIR_ANSWER, best):
                reserved = CallReservation(self, model, prompt_tokens, int(min(room, wanted_tokens)))
                return await self._reserve_above(reserved, model, prompt_tokens)
            await self._tree.freed.wait()

    async def _reserve_above(self, own: CallReservation, model: ModelConfig, prompt_tokens: int) -> CallReservation:
        """Reserve the same room on what is above the tree, too, and shrink the reservation if that gives less."""
        upstream = self._tree.upstream
        if upstream is None:
            return own
        try:
            own.add_upstream(await upstream(model, prompt_tokens, own.max_completion_tokens))
        except BaseException:
            own.release()
            raise
        return own

    def hold(self, tokens: int, price: float) -> None:
        """Reserve a call's tokens and USD on this account and all above it; amounts below 0 give them back."""
        for entry in self._entries:
            entry.reserved_tokens += tokens
            entry.reserved_price += price
            entry.reserved_calls += 1 if tokens > 0 else -1
        if tokens < 0:
            self._tree.freed.set()
            self._tree.freed = anyio.Event()


class CallReservation:
    """Room for one call; see ``vibe.core.budget.Reservation``."""

    def __init__(self, account: Account, model: ModelConfig, prompt_tokens: int, completion_tokens: int) -> None:
        self.max_completion_tokens = completion_tokens
        self._account = account
        self._upstream: Reservation | None = None
        self._tokens = prompt_tokens + completion_tokens
        self._price = _price(model, prompt_tokens, completion_tokens)
        account.hold(self._tokens, self._price)

    def add_upstream(self, above: Reservation) -> None:
        """Add the reservation made above the tree, which ends together with this one."""
        self._upstream = above
        self.max_completion_tokens = min(self.max_completion_tokens, above.max_completion_tokens)

    def settle(self, usage: Usage, cost_usd: float | None) -> None:
        """Book what the call used and give back the rest."""
        self._account.book(usage, cost_usd)
        if self._upstream is not None:
            self._upstream.settle(usage, cost_usd)
        self.release()

    def release(self) -> None:
        """Give everything back; idempotent."""
        if self._tokens:
            self._account.hold(-self._tokens, -self._price)
            self._tokens = 0
            if self._upstream is not None:
                self._upstream.release()


def _price(model: ModelConfig, prompt_tokens: int, completion_tokens: int = 0) -> float:
    price = (model.highest_input_price or 0.0) * prompt_tokens + (model.output_price or 0.0) * completion_tokens
    return price / 1_000_000
