"""What a person can do about a plan that failed: the commands, in a line."""

from __future__ import annotations

from collections.abc import Sequence

from vibe.core.outcome import Outcome

PERMIT = "--approve edits (or --auto-approve)"
"""What lets steps do what nobody was there to allow."""


def try_again(plan_id: str, failed: Sequence[str], outcome: Outcome | None) -> list[str]:
    """Return how to have the steps done again that failed in a run with that outcome; nothing if none did."""
    more = f"give the whole plan more with: vibe plan edit {plan_id} --max-tokens N (or --max-price, --max-seconds)"
    if not failed:
        return [more] if outcome is Outcome.LIMIT else []
    step = failed[0] if len(failed) == 1 else "STEP"
    allowed = f" {PERMIT}" if outcome is Outcome.BLOCKED else ""
    again = f"try again with: vibe plan retry {plan_id} {step}, then vibe plan resume {plan_id}{allowed}"
    if outcome is not Outcome.LIMIT:
        return [again]
    return [
        f"{again} (a step gets twice the limits that it does not set itself)",
        more,
    ]
