"""PlanCards: keeps a card of each plan that runs, or has run, in the chat log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from vibe.cli.textual_ui.log.chat_log import ChatLog
from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.cli.textual_ui.overview.ticker import SECONDS_PER_FRAME, Refresher, is_live
from vibe.view.agent_view import Key
from vibe.view.plan_view import PlanView
from vibe.view.view import View

if TYPE_CHECKING:
    from vibe.front.cells import Line

SHARE: Final = 0.6
"""Of the log's height that a card takes at most."""
FEWEST: Final = 8


class PlanCards:
    """Each time a plan is taken up, a card of it is put behind what is shown; it goes on until the plan is let go.

    ``clock`` tells unix seconds.
    """

    def __init__(self, log: ChatLog, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._view = View()
        self._cards: dict[str, tuple[float, LogEntry]] = {}
        """By plan: when it was taken up last, and its card."""
        self._refresher = Refresher(log, self._beat, SECONDS_PER_FRAME)

    def present(self, view: View, changed: frozenset[Key]) -> None:
        """Show what changed in plans."""
        self._view = view
        touched = {key[1] for key in changed if key[0] == "plans" and len(key) > 1}
        for plan_id in touched:
            plan = view.plans.get(plan_id)
            if plan is not None and plan.started_at is not None:
                self._show(plan, plan.started_at)
        self._refresher.beat(SECONDS_PER_FRAME if next(self._live(), None) is not None else 0.0)

    def is_out_of_sight(self, plan: PlanView) -> bool:
        """Return whether a plan has a card of which nothing is to be seen."""
        card = self._cards.get(plan.id)
        return card is not None and not self._log.shows(card[1])

    def reveal(self) -> None:
        """Bring the card of the plan that runs into sight."""
        entry = next(self._live(), None)
        if entry is not None:
            self._log.reveal(entry)

    def _show(self, plan: PlanView, since: float) -> None:
        began, entry = self._cards.get(plan.id, (None, None))
        if entry is None or began != since or (entry.index < 0 and is_live(plan)):
            if entry is not None:
                entry.draw = partial(self._heading, plan.id)
                entry.status = "done"
                self._log.changed(entry)
            entry = LogEntry("drawn", status="running", draw=partial(self._lines, plan.id))
            self._cards[plan.id] = (since, entry)
            self._log.append(entry)
        entry.status = "running" if is_live(plan) else "done"
        self._log.changed(entry)

    def _beat(self) -> None:
        for entry in self._live():
            self._log.changed(entry)

    def _live(self) -> Iterator[LogEntry]:
        return (entry for _, entry in self._cards.values() if entry.status == "running" and entry.index >= 0)

    def _heading(self, plan_id: str, cols: int) -> list[Line]:
        return self._lines(plan_id, cols)[:1]

    def _lines(self, plan_id: str, cols: int) -> list[Line]:
        from vibe.front.plan_card import card, record  # noqa: PLC0415  behind the first frame

        plans, window = self._view.plans, self._log.size
        plan = plans.get(plan_id)
        if plan is None:
            return []
        rows = max(FEWEST, int(window.height * SHARE))
        lines = card(plan, self._clock(), cols, rows)
        return (
            lines if is_live(plan) else list(chain(lines, record(plan, cols, f"undo: vibe plan rewind {plan.id} STEP")))
        )
