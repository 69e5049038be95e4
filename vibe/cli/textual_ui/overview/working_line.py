"""WorkingLine: the row above the prompt that shows what the agent is working on."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace
from textual.content import Content
from textual.widget import Widget

from vibe.cli.textual_ui.log.rows import drawn
from vibe.cli.textual_ui.overview.ticker import is_busy, planner
from vibe.cli.textual_ui.refresher import SECONDS_PER_FRAME, Refresher
from vibe.front.working_line import CurrentWork, work_of, working_line
from vibe.view.agent_view import Key
from vibe.view.view import View


class WorkingLine(Widget):
    """Shows the current work of the chat's agent, or else of the planner; hidden in the frame in which that ends.

    ``agent_id`` is the agent, or blank for the view's main agent. ``clock`` returns Unix seconds.
    """

    DEFAULT_CSS = """
    WorkingLine { height: 1; display: none; padding: 0 1; }
    WorkingLine.shown { display: block; }
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self.agent_id = ""
        self._clock = clock
        self._work: CurrentWork | None = None
        self.refresher = Refresher(self, self.refresh, SECONDS_PER_FRAME)

    def present(self, view: View, changed: frozenset[Key] = frozenset()) -> None:  # noqa: ARG002  as every presenter
        """Show the current work, or hide the row if there is none."""
        self._work = work_in(view, self.agent_id)
        self.set_class(self._work is not None, "shown")
        self.refresher.draw_every(SECONDS_PER_FRAME if self._work is not None else 0.0)
        if self._work is not None:
            self.refresher.request()

    def render(self) -> Content:
        """Return the row."""
        if self._work is None:
            return Content("")
        now = self._clock()
        return drawn(working_line(self._work, now, self.content_size.width, int(now / SECONDS_PER_FRAME)))


def work_in(view: View, agent_id: str) -> CurrentWork | None:
    """Return the current work in a chat; None if nothing is at work, or everything waits for the person."""
    agent, writer = view.agents.get(agent_id) or view.main, planner(view)
    work = work_of(agent) if agent is not None and agent.plan_id is None and is_busy(agent) else None
    if work is not None or writer is None or not is_busy(writer):
        return work
    work = work_of(writer)
    return None if work is None else replace(work, words=f"planning · {work.words}", goes_back=False)
