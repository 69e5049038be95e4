"""One piece of planning: a reader that must end with an offer, and is stopped when it can't make one."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from anyio import to_thread

from planner.plan_offers import Offer
from planner.planner_prompts import planner_prompt
from subagents.reader import Reader
from vibe.core.agent_loop import ActResult
from vibe.core.outcome import Outcome
from vibe.core.stop import NeverStop, StopSignal

SHOWN_CHARACTERS = 300
"""How much is told of what a planner said instead of planning."""


async def planned(
    reader: Reader, orders: Literal["plan", "revise"], prompt: str, offer: Offer, stop: StopSignal | None = None
) -> ActResult:
    """Have an offer made, by the standing ``orders`` of that name. What goes wrong is in the result."""
    text = await to_thread.run_sync(planner_prompt, orders)
    acted = await reader.read(text, prompt, offer, _UntilGivenUp(offer, stop or NeverStop()))
    if offer.accepted:  # what it was not allowed to read on the way is listed, and no reason to throw the work away
        return replace(acted, outcome=Outcome.COMPLETED, reason=None, detail="")
    if offer.given_up:
        detail = f"nothing usable was handed in, {offer.refusals} times; the last time: {offer.last_problem}"
        return replace(acted, outcome=Outcome.FAILED, reason="output", detail=detail)
    if acted.reason == "output" and acted.text.strip():  # a refusal, most likely: whoever asked should read why
        return replace(acted, detail=f"{acted.detail}; it said: {acted.text.strip()[:SHOWN_CHARACTERS]}")
    return acted


class _UntilGivenUp:
    """Stops when told to, or when the offer has been refused too often."""

    def __init__(self, offer: Offer, stop: StopSignal) -> None:
        self._offer = offer
        self._stop = stop

    @property
    def requested(self) -> bool:
        return self._stop.requested or self._offer.given_up
