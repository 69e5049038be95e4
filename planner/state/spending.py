"""Tokens and money that attempts took, and their sum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from vibe.core.messages import Usage

AttemptKey: TypeAlias = tuple[str, int]
"""A step's id and the number of the attempt."""


@dataclass(frozen=True, slots=True)
class Spending:
    """Tokens and calls, and what they cost in USD (None: unknown)."""

    usage: Usage
    cost_usd: float | None


def total_of(spent: Iterable[Spending]) -> Spending:
    """The sum; its cost is None once a model was called at an unknown price."""
    usage = Usage()
    cost: float | None = 0.0
    for one in spent:
        usage += one.usage
        if one.cost_usd is None:
            cost = None if one.usage.calls else cost
        elif cost is not None:
            cost += one.cost_usd
    return Spending(usage, cost)
