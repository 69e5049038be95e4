"""Attention: calls a person who looks elsewhere, when something waits for them or long work has ended."""

from __future__ import annotations

from collections.abc import Callable

from vibe.app.view.transcript import Key
from vibe.app.view.view import View


class Attention:
    """Calls ``sign`` with a few words; work that took less than ``after`` seconds ends without."""

    def __init__(self, sign: Callable[[str], object], after: float) -> None:
        self._sign = sign
        self._after = after
        self._waiting = 0
        self._since: float | None = None
        """Start of the prompt that is at work, in unix seconds."""
        self._plans: dict[str, float | None] = {}
        """End of each plan, by id; None: it goes on."""

    def present(self, view: View, changed: frozenset[Key]) -> None:  # noqa: ARG002  as every presenter
        """See what began and ended since."""
        waiting, self._waiting = self._waiting, len(view.requests)
        if self._waiting and not waiting:
            self._sign("vibe waits for you")
        self._look_at_prompt(view)
        for plan_id, plan in view.plans.items():
            ended = plan.ended_at
            if ended is not None and self._plans.get(plan_id, ended) is None and plan.elapsed(ended) >= self._after:
                self._sign(f"vibe: plan {plan.status}")
            self._plans[plan_id] = ended

    def _look_at_prompt(self, view: View) -> None:
        main = view.main
        prompt = None if main is None else main.prompt
        if prompt is not None:
            self._since = prompt.ts
            return
        since, self._since = self._since, None
        run = None if main is None else view.runs.get(main.source)
        if since is not None and run is not None and run.updated_at - since >= self._after:
            self._sign("vibe has answered")
