"""One piece of planning: a reader that must end with an offer, and is stopped when it can't make one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal

from anyio import to_thread

from planner.author.prompt_text import planner_prompt
from planner.author.structured_output import Offer
from subagents.agent.reader import ReadOnlyAgent
from vibe.core.agent_loop import ActResult
from vibe.core.outcome import NeverStop, Outcome, StopSignal

_decoder = json.JSONDecoder()

MOST_STARTS = 200
"""So many braces are looked at for the beginning of a value."""
SHOWN_CHARACTERS = 300
"""How much is told of what a planner said instead of planning."""


async def planned(
    reader: ReadOnlyAgent,
    orders: Literal["plan", "revise", "change"],
    prompt: str,
    offer: Offer,
    stop: StopSignal | None = None,
) -> ActResult:
    """Have an offer made, by the standing ``orders`` of that name. What goes wrong is in the result."""
    text = await to_thread.run_sync(planner_prompt, orders)
    acted = await reader.read(text, prompt, offer, _UntilGivenUp(offer, stop or NeverStop()))
    if not offer.accepted and not offer.given_up and (value := _value_in(acted.text)) is not None:
        await to_thread.run_sync(offer.offer, value)
    if offer.accepted:  # what it was not allowed to read on the way is listed, and no reason to throw the work away
        return replace(acted, outcome=Outcome.COMPLETED, reason=None, detail="")
    if offer.given_up:
        detail = f"no usable plan after {offer.refusals} attempts; last problem: {offer.last_problem}"
        return replace(acted, outcome=Outcome.FAILED, reason="output", detail=detail)
    if acted.reason == "output" and acted.text.strip():  # a refusal, most likely: whoever asked should read why
        return replace(acted, detail=f"{acted.detail}; it said: {acted.text.strip()[:SHOWN_CHARACTERS]}")
    return acted


def _value_in(text: str) -> dict[str, Any] | None:
    """The largest JSON object in prose: a model may say what it was to hand in."""
    found: list[tuple[int, dict[str, Any]]] = []
    start = text.find("{")
    for _ in range(MOST_STARTS):
        if start < 0:
            break
        try:
            value, end = _decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            found.append((end - start, value))
        start = text.find("{", end)
    return max(found, key=lambda each: each[0])[1] if found else None


class _UntilGivenUp:
    """Stops when told to, or when the offer has been refused too often."""

    def __init__(self, offer: Offer, stop: StopSignal) -> None:
        self._offer = offer
        self._stop = stop

    @property
    def requested(self) -> bool:
        return self._stop.requested or self._offer.given_up
