"""Ticker: the line at the bottom that says how it stands; StatusLine: the part of it that a person's command prints."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
from rich.cells import cell_len
from rich.text import Text
from textual.content import Content
from textual.dom import DOMNode
from textual.timer import Timer
from textual.widget import Widget

from vibe.cli.textual_ui.log.entry import clean_coloured
from vibe.front.event_text import one_line
from vibe.front.plan_words import SPINNER, clock, cut, short, took, totals_line
from vibe.view.agent_view import AgentView, Key
from vibe.view.plan_view import PlanView
from vibe.view.view import View

SECONDS_PER_REFRESH = 0.25


class Refresher:
    """Calls ``draw`` soon after ``wish``, within ``seconds``; and every so many by itself, as ``beat`` says."""

    def __init__(self, widget: DOMNode, draw: Callable[[], object], seconds: float = SECONDS_PER_REFRESH) -> None:
        self._widget = widget
        self._draw = draw
        self._seconds = seconds
        self._drawn_at = 0.0
        self._soon: Timer | None = None
        self._beat: Timer | None = None
        self._every = 0.0

    @property
    def beats(self) -> bool:
        """It draws by itself."""
        return self._beat is not None

    def wish(self) -> None:
        """Have it drawn, now or a little later."""
        if self._soon is not None or not self._widget.is_attached:
            return
        waits = self._drawn_at + self._seconds - time.monotonic()
        if waits > 0:
            self._soon = self._widget.set_timer(waits, self._now)
        else:
            self._now()

    def beat(self, every: float) -> None:
        """Have it drawn every so many seconds; 0: only on a wish."""
        if every == self._every:
            return
        if self._beat is not None:
            self._beat.stop()
        self._beat = self._widget.set_interval(every, self._now) if every else None
        self._every = every

    def _now(self) -> None:
        if self._soon is not None:
            self._soon.stop()
        self._soon, self._drawn_at = None, time.monotonic()
        self._draw()


SECONDS_PER_FRAME = 0.125
SECONDS_PER_TICK = 1.0
NARROW = 110
"""Columns of the screen below which this line is all of the overview."""
SLIM = 40
"""Columns below which it names no keys."""
ROOMY = 60
"""Columns from which on it says how to stop what is at work."""
LEAST_DOING = 20
COUNTED_SECONDS = 3.0
"""An agent that is at work for so long is said to be."""
QUIET_SECONDS = 10.0
"""A model that sends nothing for so long is said to."""
PLANNER = "planner"
"""The agent of runs that write a plan."""
SPARED_FIRST = ("thinking", "approvals", "tokens", "agent", "cost")
"""Parts that go, one after the other, where the line is too short for all."""
GAP = "   "


class Ticker(Widget):
    """One line: the plan while one runs, else agent and model, context and cost; what is done now; who waits for you.

    ``agent_id`` is the agent of the chat (blank: the view's own choice), ``overview_key`` what a person presses to see
    more (blank: nothing is said of it), ``keys`` are those of the part that has the focus. It redraws by itself only
    while something goes on. A line of the person's own stands in for agent, model, context and cost.
    """

    DEFAULT_CSS = """
    Ticker {
        height: 1;
        background: $panel;
        color: $foreground;
        padding-right: 1;
    }
    """

    def __init__(self, *, overview_key: str = "Ctrl+T", clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self.agent_id = ""
        self.overview_key = overview_key
        self.keys = ""
        self._clock = clock
        self._view = View()
        self._own: Content | None = None
        self.refresher = Refresher(self, self._draw)

    def present(self, view: View, changed: frozenset[Key] = frozenset()) -> None:  # noqa: ARG002  as every presenter
        """Show how a view stands, now or at most a quarter of a second later."""
        self._view = view
        self.refresher.wish()

    def on_mount(self) -> None:
        """Show what was presented before."""
        self._draw()

    def render(self) -> Content:
        """The line."""
        return ticker_line(self._view, self.agent, self._clock(), self.size.width, self._hint(), self._own)

    @property
    def agent(self) -> AgentView | None:
        """The agent that the line is about."""
        view = self._view
        return view.agents.get(self.agent_id) or view.main

    def show_own(self, line: Content | None) -> None:
        """Show a line of the person's own from now on; None: none."""
        self._own = line
        self.refresher.wish()

    def _draw(self) -> None:
        self.refresher.beat(self._pace())
        self.refresh()

    def _pace(self) -> float:
        if not is_live(self._view.plan) and not self._is_at_work:
            return 0.0
        return SECONDS_PER_TICK if self._view.requests else SECONDS_PER_FRAME

    @property
    def _is_at_work(self) -> bool:
        return is_busy(self.agent) or is_busy(planner(self._view))

    def _hint(self) -> str:
        """The keys that a person may not know of now."""
        width = self.screen.size.width
        if self.keys:
            return self.keys
        stop = "Esc stops" if width >= ROOMY and self._is_at_work and not self._view.requests else ""
        more = f"{self.overview_key} overview" if SLIM <= width < NARROW and self.overview_key else ""
        return " · ".join(filter(None, (stop, more)))


def is_live(plan: PlanView | None) -> bool:
    """Return True if a run works on the plan."""
    return plan is not None and plan.started_at is not None and plan.ended_at is None


def is_busy(agent: AgentView | None) -> bool:
    """Return True if an agent works on a prompt, or something runs for it."""
    return agent is not None and (
        agent.prompt is not None or bool(agent.open_calls) or agent.writing is not None or agent.is_asking
    )


def planner(view: View) -> AgentView | None:
    """The agent that writes or changes a plan which is not accepted yet; None: there is none."""
    runs = (run for run in reversed(view.runs.values()) if run.agent == PLANNER and run.ended_at is None)
    run = next(runs, None)
    return None if run is None else view.agents.get(run.source)


def ticker_line(
    view: View, agent: AgentView | None, now: float, width: int, hint: str = "", own: Content | None = None
) -> Content:
    """The line for a view at ``now`` (unix seconds), at most ``width`` cells wide; ``own`` is the person's part."""
    ends = [_waiting(view), (hint, "$foreground-muted")]
    ends = [(text, style) for text, style in ends if text]
    taken = sum(cell_len(text) + len(GAP) for text, _ in ends) + 1
    doing, style = _doing(view, agent, now)
    room = max(0, width - taken)
    kept = min(cell_len(doing), LEAST_DOING) + len(GAP) if doing else 0
    is_about_plan = view.plan is not None and bool(view.plan.total) and _is_newest(view.plan, agent)
    facts = _facts(view, agent, now, (max(0, room - kept), room)) if own is None or is_about_plan else []
    said = sum(cell_len(text) for text, _ in facts)
    parts: list[tuple[str, str] | Content] = [(" ", ""), *facts]
    if own is not None and room - said > 2 * len(GAP):
        own = own.truncate(room - said - (len(GAP) if facts else 0), ellipsis=True)
        parts += [(GAP, ""), own] if facts else [own]
        said += own.cell_length + (len(GAP) if facts else 0)
    if doing and room - said > len(GAP) + 1:
        parts += [(GAP, ""), (cut(doing, room - said - len(GAP)), style)]
    left = Content.assemble(*parts).cell_length
    parts.append((" " * max(0, width - left - taken + 1), ""))
    for end in ends:
        parts += [(GAP, ""), end]
    return Content.assemble(*parts)[:width]


def _facts(view: View, agent: AgentView | None, now: float, rooms: tuple[int, int]) -> list[tuple[str, str]]:
    """The parts of what stands first: in so many cells as there should be, else in as many as there are."""
    room, most = rooms
    plan = view.plan
    if plan is not None and plan.total and _is_newest(plan, agent):
        return [(cut(totals_line(plan, now, room), most), "bold")]
    said = _about(view, agent)
    for spare in SPARED_FIRST:
        if sum(cell_len(text) + 3 for text, _ in said.values()) - 3 <= room:
            break
        said.pop(spare, None)
    parts: list[tuple[str, str]] = []
    for text, style in said.values():
        parts += [(" · ", "$foreground-muted"), (text, style)] if parts else [(text, style)]
    whole = sum(cell_len(text) for text, _ in parts)
    return parts if whole <= most else [(cut("".join(text for text, _ in parts), most), "")]


def _is_newest(plan: PlanView, agent: AgentView | None) -> bool:
    """Return True if a plan runs, or nothing was said since it ended."""
    if plan.started_at is None:
        return False
    newest = None if agent is None else next(reversed(agent.entries.values()), None)
    return plan.ended_at is None or newest is None or newest.ts <= plan.ended_at


def _about(view: View, agent: AgentView | None) -> dict[str, tuple[str, str]]:
    """The parts of a line on a conversation, by name: text and style."""
    if agent is None:
        return {}
    said = {
        name: (one_line(text, 40), style)
        for name, text, style in (
            ("agent", agent.profile, "bold"),
            ("model", agent.model, ""),
            ("thinking", agent.thinking, "$foreground-muted"),
            ("approvals", agent.approvals, "$foreground-muted"),
        )
        if text
    }
    if agent.context_tokens and agent.context_limit:
        share = agent.context_tokens / agent.context_limit
        said["context"] = (f"{share:.0%} context", pressure(share))
    if view.spent.calls:
        said["tokens"] = (f"{short(view.spent.tokens)} tok", "")
        if view.spent.cost_usd is not None:
            said["cost"] = (f"${view.spent.cost_usd:.2f}", "")
    return said


def pressure(share: float) -> str:
    """The style for a share of something that must not run out."""
    return "$text-error" if share >= 0.9 else "$text-warning" if share >= 0.7 else ""


def _doing(view: View, agent: AgentView | None, now: float) -> tuple[str, str]:
    plan = view.plan
    said, quiet = "", 0.0
    if agent is not None and agent.plan_id is None and is_busy(agent):
        said = "" if agent.requests else _with_time(agent.doing(), agent, now)  # that is told at the end of the line
        quiet = _quiet(view, agent, now) if said else 0.0
    if not said and plan is not None and is_live(plan):
        step = next(reversed(plan.running.values()), None)
        said = "" if step is None else f"{step.id}: {step.doing()}"
    writer = planner(view)
    if not said and writer is not None and is_busy(writer) and not writer.requests:
        said = _with_time(f"{PLANNER}: {writer.doing()}", writer, now)
    if not said:
        return "", ""
    spinner = "" if view.requests else SPINNER[int(now / SECONDS_PER_FRAME) % len(SPINNER)] + " "
    if quiet:
        return f"{spinner}{one_line(said, 380)} · nothing for {clock(quiet)}", "$text-warning"
    return spinner + one_line(said, 400), "$text-accent"


def _quiet(view: View, agent: AgentView, now: float) -> float:
    """Seconds since a model that is asked sent anything; 0: it is not long."""
    run = view.runs.get(agent.source)
    seconds = now - run.updated_at if run is not None and agent.is_asking else 0.0
    return seconds if seconds >= QUIET_SECONDS else 0.0


def _with_time(doing: str, agent: AgentView, now: float) -> str:
    """The work of an agent, and the time it has been at its prompt."""
    seconds = 0.0 if agent.prompt is None else now - agent.prompt.ts
    return f"{took(seconds)} · {doing}" if doing and seconds >= COUNTED_SECONDS else doing


def _waiting(view: View) -> tuple[str, str]:
    count = len(view.requests)
    if not count:
        return "", ""
    return ("? 1 waits for you" if count == 1 else f"? {count} wait for you"), "bold $text-warning"


EVERY_SECONDS: Final = 1.0
"""Between two beginnings of the command."""
MOST_SECONDS: Final = 5.0
"""For the command."""
LONGEST: Final = 1_000
_WITH_INPUT: Final = ("/bin/sh", "-c", 'said=$1; shift; printf "%s\\n" "$said" | "$@"', "status")


class StatusLine:
    """Has ``command`` print a line whenever what it is told has changed, and the ticker show it.

    It is the person's own shell command, run in ``folder`` with their ``environ``; it gets ``status_document`` as JSON.
    A failure is told to ``say`` once, and the ticker then shows what it usually does.
    """

    def __init__(
        self, ticker: Ticker, command: str, environ: Mapping[str, str], folder: Path, say: Callable[[str, str], object]
    ) -> None:
        self._ticker = ticker
        self._command = command
        self._environ = environ
        self._folder = folder
        self._say = say
        self._told = ""
        """The document that the command got last."""
        self._wanted = ""
        self._began_at = -EVERY_SECONDS
        self._is_at_it = False
        self._has_failed = False

    def present(self, view: View, changed: frozenset[Key]) -> None:  # noqa: ARG002  as every presenter
        """See whether there is something new to tell."""
        agent = self._ticker.agent
        if agent is not None:
            self._wanted = json.dumps(status_document(view, agent, str(self._folder)))
            if not self._is_at_it and self._wanted != self._told:
                self._is_at_it = True
                self._ticker.run_worker(self._keep_up(), group="status")

    async def _keep_up(self) -> None:
        """Run the command, as soon as it may, until it knows what is wanted."""
        while self._wanted != self._told:
            await anyio.sleep(max(0.0, self._began_at + EVERY_SECONDS - time.monotonic()))
            self._began_at, self._told = time.monotonic(), self._wanted
            await self._run(self._told)
        self._is_at_it = False

    async def _run(self, document: str) -> None:
        from vibe.shell.process.runner import (  # noqa: PLC0415  after the first frame
            CommandStartError,
            OutputLimit,
            run_command,
            shell_argv,
        )

        argv: Sequence[str] = [*_WITH_INPUT, document, *shell_argv(self._command)]
        try:
            ended = await run_command(
                argv, cwd=self._folder, environ=self._environ, timeout=MOST_SECONDS, limit=OutputLimit(raw=True)
            )
        except CommandStartError as error:
            self._fail(f"can't be started: {error}")
            return
        if ended.timed_out:
            self._fail(f"took more than {MOST_SECONDS:g} s")
        elif ended.is_success:
            self._ticker.show_own(own_content(ended.stdout))
        else:
            self._fail(f"ended with exit code {ended.exit_code}: {one_line(ended.stderr, 200) or 'it said nothing'}")

    def _fail(self, problem: str) -> None:
        self._ticker.show_own(None)
        if not self._has_failed:
            self._has_failed = True
            self._say(f"[ui] status_line: the command {problem}", "warning")


def status_document(view: View, agent: AgentView, folder: str) -> dict[str, Any]:
    """Return all that the command is told; an unknown number is null, and so is ``plan`` without a plan."""
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
    """Return the first line of what was printed with its colours, without all else that a terminal would act on."""
    line = clean_coloured(printed.lstrip("\n").partition("\n")[0], LONGEST).replace("\t", " ").rstrip()
    return Content.from_rich_text(Text.from_ansi(line)) if line else None
