"""Rows about the state: Ticker with StatusLine at the bottom, and WorkingLine and QueuedList above the prompt."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
from msgspec.structs import replace
from rich.cells import cell_len
from rich.text import Text
from textual import events, on
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from vibe.cli.textual_ui.log.entry import clean_coloured
from vibe.cli.textual_ui.log.rows import drawn
from vibe.cli.textual_ui.refresher import SECONDS_PER_FRAME, SECONDS_PER_TICK, Refresher
from vibe.cli.textual_ui.state_store import SCREEN, QueuedLine, ScreenPhase, UIStateStore
from vibe.front.cells import Line, cells_of, chained, cut, fit
from vibe.front.working_line import CurrentWork, work_of, working_line
from vibe.system.plain_text import one_line, plain_line, shortened
from vibe.view.agent_view import AgentView, Key
from vibe.view.figures import clock, dollars, short
from vibe.view.plan_view import PlanView
from vibe.view.view import View

NARROW, SLIM = 40, 60
"""The widths of the screen in columns below which the line names no keys, if nothing or something waits."""
ROOMY = 120
"""The width from which it names the keys that work everywhere."""
KEYS = "Shift+Tab mode · Ctrl+P commands · F1 help"
AGENTS_KEY, OVERVIEW_KEY = "F2 agents", "Ctrl+T overview · F1 help"
PLANNER = "planner"
"""The name of the agent in runs that write a plan."""
LEFT_OUT_FIRST = ("thinking", "cost", "tokens", "agent", "context")
"""The parts that are left out, in this order, if the line is too short for all."""
GAP = "   "


class ViewWidget(Widget):
    """Draws a part of the view: a change of it is drawn now, or at most a quarter of a second later.

    ``clock`` returns Unix seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._view = View()
        self._shown = Content()
        self.refresher = Refresher(self, self._draw)

    def present(self, view: View, changed: frozenset[Key] = frozenset()) -> None:  # noqa: ARG002  as every presenter
        """Show the view."""
        self._view = view
        self.refresher.request()

    def render(self) -> Content:
        """Return what is drawn."""
        self._shown = self._content()
        return self._shown

    def _content(self) -> Content:
        """Return what is to be drawn now."""
        raise NotImplementedError

    def _period(self) -> float:
        """Return the seconds between redraws by itself; 0 for none."""
        raise NotImplementedError

    def _draw(self) -> None:
        """Redraw if there is something else to draw."""
        self.refresher.draw_every(self._period())
        if not self._content().is_same(self._shown):
            self.refresh()


class Ticker(ViewWidget):
    """One line with mode, model, context and cost, what waits for the person, and keys.

    If the card of a running plan is out of sight, the line begins with that plan. A line of the user's own replaces
    mode, model, context and cost. ``agent_id`` is the chat's agent, or blank for the view's main agent. ``keys`` are
    those of the widget that has the focus. ``is_hidden`` returns whether the card of a plan is out of sight. The line
    redraws by itself only while it shows the time of a plan.
    """

    DEFAULT_CSS = """
    Ticker { height: 1; color: $foreground-muted; padding-right: 1; }
    """

    class PlanWanted(Message, namespace="ticker"):
        """Posted when the line is clicked while it shows a plan."""

    def __init__(
        self, *, is_hidden: Callable[[PlanView], bool] = lambda _: False, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(clock)
        self.agent_id = ""
        self.keys = ""
        self.sign = ("", "")
        """Words that say what waits for the person, and their style, set by the ``BottomPanel``."""
        self._is_hidden = is_hidden
        self._own: Content | None = None

    def on_click(self) -> None:
        """Post that the person wants to see the plan the line shows."""
        if self._hidden is not None:
            self.post_message(self.PlanWanted())

    @property
    def agent(self) -> AgentView | None:
        """The agent that the line is about."""
        view = self._view
        return view.agents.get(self.agent_id) or view.main

    def show_own(self, line: Content | None) -> None:
        """Show a line of the user's own from now on, or none."""
        self._own = line
        self.refresher.request()

    def _period(self) -> float:
        return SECONDS_PER_TICK if self._hidden is not None else 0.0

    def _content(self) -> Content:
        plan = self._hidden
        lead = "" if plan is None else f"▸ {plan.done}/{plan.total} steps · {clock(plan.clock(self._clock()))}"
        ends = (self.sign, (self._hint(), "muted"))
        return ticker_line(self._view, self.agent, self.size.width, lead=lead, ends=ends, own=self._own)

    def show_sign(self, words: str, style: str) -> None:
        """Show words for what waits for the person; blank if nothing does."""
        self.sign = (words, style)
        self.refresher.request()

    @property
    def _hidden(self) -> PlanView | None:
        """The running plan, if its card is out of sight."""
        plan = self._view.plan
        return plan if plan is not None and is_live(plan) and self._is_hidden(plan) else None

    def _hint(self) -> str:
        """Return the keys to mention, as the person may not know that they work now."""
        width = self.screen.size.width
        if self.keys or width < (SLIM if self.sign[0] else NARROW):
            return self.keys
        if is_live(self._view.plan):
            return AGENTS_KEY
        if width < ROOMY:
            return OVERVIEW_KEY
        return "" if self._view.requests else KEYS


def is_live(plan: PlanView | None) -> bool:
    """Return whether a run is working on the plan."""
    return plan is not None and plan.started_at is not None and plan.ended_at is None


def is_busy(agent: AgentView | None) -> bool:
    """Return whether an agent is answering a prompt, or has calls open or being written, or is asking."""
    return agent is not None and (
        agent.prompt is not None or bool(agent.open_calls) or agent.writing is not None or agent.awaits_model
    )


def planner(view: View) -> AgentView | None:
    """Return the planner that is writing or revising a proposed plan, or None."""
    runs = (run for run in reversed(view.runs.values()) if run.agent == PLANNER and run.ended_at is None)
    run = next(runs, None)
    return None if run is None else view.agents.get(run.source)


def ticker_line(
    view: View,
    agent: AgentView | None,
    width: int,
    *,
    lead: str = "",
    ends: Sequence[tuple[str, str]] = (),
    own: Content | None = None,
) -> Content:
    """Return the line for a view, at most ``width`` cells wide.

    ``lead`` comes first, ``own`` is the user's own part, and ``ends`` are texts for the right end, with their styles.
    """
    right = [piece for end in ends if end[0] for piece in ((GAP, ""), end)]
    left: Line = [(" ", "")]
    room = max(0, width - cells_of(right) - 1)
    if lead:
        left += [(cut(lead, room), "bold $foreground"), (GAP[: max(0, room - cell_len(lead))], "")]
        room = max(0, room - cell_len(lead) - len(GAP))
    shown = drawn(left if own is not None else [*left, *_facts(view, agent, room)])
    if own is not None and room > len(GAP):
        shown += own.truncate(room, ellipsis=True)
    blank = " " * max(0, width - shown.cell_length - cells_of(right))
    return (shown + drawn([(blank, ""), *right]))[:width]


def _facts(view: View, agent: AgentView | None, room: int) -> Line:
    """Return the parts about the conversation, in at most ``room`` cells."""
    texts = _about(view, agent)
    for spare in LEFT_OUT_FIRST:
        if sum(cell_len(text) + 3 for text, _ in texts.values()) - 3 <= room:
            break
        texts.pop(spare, None)
    parts = chained(([text] for text in texts.values()), (" · ", "muted"))
    return parts if cells_of(parts) <= room else fit(parts, room)


def mode_of(agent: AgentView) -> tuple[str, str]:
    """Return the name of an agent's profile, blank if a mode implies it, and the agent's mode in words."""
    own = "" if agent.profile in MODES else agent.profile
    if agent.approvals == "all":
        return own, UNASKED
    if agent.approvals == "edits" and agent.profile != "plan":
        return own, MODES["accept-edits"]
    return own, MODES.get(agent.profile, "asks") if agent.profile else ""


MODES: Final = {"default": "asks", "accept-edits": "accepts edits", "plan": "plan mode", "auto-approve": "asks"}
"""The modes of the built-in profiles in words; ``auto-approve`` asks after its rights were taken back."""
UNASKED: Final = "AUTO-APPROVES EVERYTHING"


def _about(view: View, agent: AgentView | None) -> dict[str, tuple[str, str]]:
    """Return the parts of the line about a conversation and its agent, by name."""
    texts = {} if agent is None else _about_agent(agent)
    if view.spent.calls:
        texts["tokens"] = (f"{short(view.spent.tokens)} tok", "")
        if view.spent.cost_usd is not None:
            texts["cost"] = (dollars(view.spent.cost_usd), "")
    return texts


def _about_agent(agent: AgentView) -> dict[str, tuple[str, str]]:
    own, mode = mode_of(agent)
    texts = {
        "agent": (own, ""),
        "mode": (mode, "bold failed" if mode == UNASKED else ""),
        "model": (agent.model, ""),
        "thinking": ("" if agent.thinking in {"", "off"} else f"thinking {agent.thinking}", ""),
    }
    if agent.context_tokens and agent.context_limit:
        share = agent.context_tokens / agent.context_limit
        texts["context"] = (f"{share:.0%} of {short(agent.context_limit)}", pressure(share))
    return {name: (one_line(text, 40), style) for name, (text, style) in texts.items() if text}


def pressure(share: float) -> str:
    """Return the style for the used share of something that must not run out."""
    return "failed" if share >= 0.9 else "warn" if share >= 0.7 else ""


INTERVAL_SECONDS: Final = 1.0
"""The shortest time between two starts of the command."""
TIMEOUT_SECONDS: Final = 5.0
"""The longest time, in seconds, that the command may take."""
LONGEST: Final = 1_000
"""The most characters of the command's line."""
_WITH_INPUT: Final = ("/bin/sh", "-c", 'said=$1; shift; printf "%s\\n" "$said" | "$@"', "status")


class StatusLine:
    """Runs the user's ``command`` whenever its input has changed, and shows the line it prints in the ticker.

    The shell command runs in ``folder`` with ``environ``, and reads the ``status_document`` as JSON from its standard
    input. The first failure is reported to ``say``; after any failure the ticker shows its usual parts.
    """

    def __init__(
        self, ticker: Ticker, command: str, environ: Mapping[str, str], folder: Path, say: Callable[[str, str], object]
    ) -> None:
        self._ticker = ticker
        self._command = command
        self._environ = environ
        self._folder = folder
        self._say = say
        self._given = ""
        """The document that the command was given last."""
        self._document = ""
        self._started_at = -INTERVAL_SECONDS
        self._is_running = False
        self._has_failed = False

    def present(self, view: View, changed: frozenset[Key]) -> None:  # noqa: ARG002  as every presenter
        """Run the command if the document has changed."""
        agent = self._ticker.agent
        if agent is not None:
            self._document = json.dumps(status_document(view, agent, str(self._folder)))
            if not self._is_running and self._document != self._given:
                self._is_running = True
                self._ticker.run_worker(self._keep_up(), group="status")

    async def _keep_up(self) -> None:
        """Run the command, at most every ``INTERVAL_SECONDS``, until it has had the latest document."""
        while self._document != self._given:
            await anyio.sleep(max(0.0, self._started_at + INTERVAL_SECONDS - time.monotonic()))
            self._started_at, self._given = time.monotonic(), self._document
            await self._run(self._given)
        self._is_running = False

    async def _run(self, document: str) -> None:
        from vibe.shell.process import runner  # noqa: PLC0415  after the first frame

        argv: Sequence[str] = [*_WITH_INPUT, document, *runner.shell_argv(self._command)]
        try:
            limit = runner.OutputLimit(raw=True)
            ended = await runner.run_command(
                argv, cwd=self._folder, environ=self._environ, timeout=TIMEOUT_SECONDS, limit=limit
            )
        except runner.CommandStartError as error:
            self._fail(f"can't be started: {error}")
            return
        if ended.timed_out:
            self._fail(f"took more than {TIMEOUT_SECONDS:g} s")
        elif ended.is_success:
            self._ticker.show_own(own_content(ended.stdout))
        else:
            self._fail(f"ended with exit {ended.exit_code}: {one_line(ended.stderr, 200) or 'it said nothing'}")

    def _fail(self, problem: str) -> None:
        self._ticker.show_own(None)
        if not self._has_failed:
            self._has_failed = True
            self._say(f"[ui] status_line: the command {problem}", "warning")


def status_document(view: View, agent: AgentView, folder: str) -> dict[str, Any]:
    """Return the command's input; unknown numbers are null, and so are the plan's fields without a plan."""
    plan, run = view.plan, view.runs.get(agent.source)
    return {
        "session_id": agent.session_id,
        "agent": agent.profile,
        "model": agent.model,
        "folder": (run.workspace if run is not None else "") or folder,
        "context_tokens": agent.context_tokens,
        "context_limit": agent.context_limit,
        "tokens": view.spent.tokens,
        "cost_usd": view.spent.cost_usd,
        "plan": None if plan is None or not plan.total else f"{plan.done}/{plan.total}",
        "plan_status": None if plan is None or not plan.total else plan.status,
    }


def own_content(printed: str) -> Content | None:
    """Return the first line of a command's output, with its colours but no other escapes; None if it is blank."""
    line = clean_coloured(printed.lstrip("\n").partition("\n")[0], LONGEST).replace("\t", " ").rstrip()
    return Content.from_rich_text(Text.from_ansi(line)) if line else None


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


MOST_SHOWN: Final = 5
"""The most rows of prompts; if there are more, the next ones and the last one are shown."""
LONGEST_PROMPT: Final = 1_000
"""The most characters of a prompt that are looked at to make its row."""
QUEUE_KEYS: Final = "Ctrl+S sends now · Alt+Up edits the last"


class QueuedList(Static):
    """Shows the prompts that wait for the agent or the engine; it takes no room if there are none."""

    DEFAULT_CSS = """
    QueuedList { height: auto; padding: 0 1; color: $foreground-muted; display: none; text-wrap: nowrap; }
    """

    def __init__(self, store: UIStateStore) -> None:
        super().__init__(markup=False)
        self._store = store

    def present(self, view: View, changed: frozenset[Key]) -> None:  # noqa: ARG002  as every presenter
        """Show the current queue."""
        if SCREEN in changed:
            self._draw()

    @on(events.Resize)
    def _draw(self) -> None:
        screen = self._store.screen
        self.display = bool(screen.queued)
        if screen.queued:
            lines = queued_lines(screen.queued, max(10, self.content_size.width or self.screen.size.width - 2))
            keys = [QUEUE_KEYS] if screen.phase is ScreenPhase.READY else []
            self.update(Content("\n".join([*lines, *keys])))


def queued_lines(queued: tuple[QueuedLine, ...], width: int) -> list[str]:
    """Return a numbered line for each queued prompt, of at most ``width`` cells."""
    numbered = [f"{number}. {plain_line(shortened(one.text, LONGEST_PROMPT))}" for number, one in enumerate(queued, 1)]
    if len(numbered) > MOST_SHOWN:
        left_out = len(numbered) - MOST_SHOWN + 1
        numbered[MOST_SHOWN - 2 : -1] = [f"… {left_out} more"]
    return [cut(line, width) for line in ["waiting:", *numbered]]
