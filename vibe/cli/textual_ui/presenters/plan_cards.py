"""Shows a card in the chat log for each plan that is being written, is running or is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Final, TypeAlias

from vibe.cli.textual_ui.log.chat_log import ChatLog
from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.cli.textual_ui.overview.ticker import PLANNER, is_live
from vibe.cli.textual_ui.refresher import SECONDS_PER_FRAME, Refresher
from vibe.front.cells import Line
from vibe.view.agent_view import AgentView, Key, TurnView
from vibe.view.plan_view import PlanView
from vibe.view.view import View

SHARE: Final = 0.6
"""The largest share of the log's height that a card takes."""
FEWEST: Final = 8
"""The rows that a card may take in any case."""
KEYS: Final = {"r": "try again", "o": "open"}
"""The keys, with their hints, on the card of a plan that could not be written."""


_Act: TypeAlias = Callable[[str], object]


class _Cards:
    """Log entries that are redrawn eight times a second while what they show is running."""

    def __init__(self, log: ChatLog, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._cards: dict[str, tuple[float | TurnView, LogEntry]] = {}
        """The card of each plan or planner by its id, with the start of its last run or the turn it shows."""
        self._refresher = Refresher(log, self._redraw, SECONDS_PER_FRAME)

    def _redraw_while_live(self) -> None:
        self._refresher.draw_every(SECONDS_PER_FRAME if next(self._live(), None) is not None else 0.0)

    def _redraw(self) -> None:
        for entry in self._live():
            self._log.changed(entry)

    def _live(self) -> Iterator[LogEntry]:
        return (entry for _, entry in self._cards.values() if entry.status == "running" and entry.index >= 0)

    @property
    def _rows(self) -> int:
        """The most rows that a card may take."""
        window = self._log.size
        return max(FEWEST, int(window.height * SHARE))


class PlanCards(_Cards):
    """Appends a card to the log each time a plan is started or resumed, and updates it until that run ends.

    ``clock`` returns Unix seconds.
    """

    is_elsewhere = False
    """True if the plans run in another process, which the screen can't send commands about files."""

    def present(self, view: View, changed: frozenset[Key]) -> None:
        """Update the cards of the plans that changed."""
        touched = {key[1] for key in changed if key[0] == "plans" and len(key) > 1}
        for plan_id in touched:
            plan = view.plans.get(plan_id)
            if plan is not None and plan.started_at is not None:
                self._show(plan, plan.started_at)
        self._redraw_while_live()

    def record(self, plan: PlanView) -> LogEntry:
        """Return a log entry for a plan that a resumed conversation had before."""
        entry = LogEntry("drawn", title=plan.goal)
        entry.draw = partial(self._lines, plan, entry, is_record=True)
        self._cards[plan.id] = (plan.started_at or 0.0, entry)
        return entry

    def is_out_of_sight(self, plan: PlanView) -> bool:
        """Return whether a plan has a card that is scrolled out of sight."""
        card = self._cards.get(plan.id)
        return card is not None and not self._log.shows(card[1])

    def reveal(self) -> None:
        """Scroll to the card of the running plan."""
        entry = next(self._live(), None)
        if entry is not None:
            self._log.reveal(entry)

    def _show(self, plan: PlanView, since: float) -> None:
        began, entry = self._cards.get(plan.id, (None, None))
        if entry is None or began != since or (entry.index < 0 and is_live(plan)):
            if entry is not None:
                entry.draw, entry.title, entry.status = partial(_drawing().card_before, plan), "", "done"
                self._log.changed(entry)
            entry = LogEntry("drawn", status="running")
            entry.draw = partial(self._lines, plan, entry)
            self._cards[plan.id] = (since, entry)
            self._log.append(entry)
        entry.status = "running" if is_live(plan) else "done"
        if any(step.items for step in plan.steps.values()):
            entry.title = plan.goal
        self._log.changed(entry)

    def _lines(self, plan: PlanView, entry: LogEntry, cols: int, *, is_record: bool = False) -> list[Line]:
        """Draw a whole card, with the items of its list if it is unfolded; of a folded record only the first line."""
        opened = "" if entry.folded else _list_of(plan)
        rows = 1 if is_record and entry.folded else self._rows
        lines = _drawing().card(plan, self._clock(), cols, rows, chosen=opened)
        ours = f"/review · /report · undo: vibe plan rewind {plan.id} STEP"
        hints = f"vibe plan review {plan.id} · vibe plan report {plan.id}" if self.is_elsewhere else ours
        return lines if is_live(plan) else [*lines, *_drawing().record(plan, cols, hints)]


class PlanningCards(_Cards):
    """Appends a card to the log each time a planner begins to write a plan; it stays to show how that ended.

    ``again`` has a plan for a goal written once more, and ``look`` shows an agent's transcript. ``clock`` returns Unix
    seconds.
    """

    def __init__(self, log: ChatLog, clock: Callable[[], float], again: _Act, look: _Act) -> None:
        super().__init__(log, clock)
        self._goal = ""
        """The goal of the plan that is being written; blank for another version of a plan."""
        self._again = again
        self._look = look

    def present(self, view: View, changed: frozenset[Key]) -> None:
        """Update the cards of the planners that changed."""
        for run in view.runs.values():
            agent = view.agents.get(run.source) if run.agent == PLANNER else None
            if agent is not None and agent is not view.main and agent.key in changed and agent.turn is not None:
                self._show(agent, agent.turn)
        self._redraw_while_live()

    def begin(self, goal: str) -> None:
        """Set the goal for which a plan is about to be written."""
        self._goal = goal

    def _show(self, agent: AgentView, turn: TurnView) -> None:
        known, entry = self._cards.get(agent.id, (None, None))
        if entry is None or known is not turn:
            entry = LogEntry("drawn", status="running")
            entry.draw = partial(self._lines, agent, turn, entry)
            self._cards[agent.id] = (turn, entry)
            self._log.append(entry)
        if entry.is_open and turn.seconds is not None:
            if turn.outcome not in {"completed", "interrupted"}:
                again = {"r": partial(self._again, self._goal)} if self._goal else {}
                entry.keys = {**again, "o": partial(self._look, agent.id)}
            entry.status, self._goal = "done", ""
        self._log.changed(entry)

    def _lines(self, agent: AgentView, turn: TurnView, entry: LogEntry, cols: int) -> list[Line]:
        hint = " · ".join(("Tab", *(f"{key} {KEYS[key]}" for key in entry.keys))) if entry.keys else ""
        return _drawing().planning_card(agent, turn, self._clock(), cols, self._rows, hint)


def _list_of(plan: PlanView) -> str:
    """Return the id of the list step to show with its items: the first uncompleted one, else the last, else blank."""
    lists = [step for step in plan.steps.values() if step.items]
    return next((step.id for step in lists if step.status != "completed"), lists[-1].id if lists else "")


def _drawing() -> ModuleType:
    from vibe.front import plan_card  # noqa: PLC0415  after the first frame

    return plan_card
