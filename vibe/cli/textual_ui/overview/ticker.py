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
from textual.message import Message
from textual.widget import Widget

from vibe.cli.textual_ui.log.entry import clean_coloured
from vibe.cli.textual_ui.log.rows import drawn
from vibe.cli.textual_ui.refresher import SECONDS_PER_TICK, Refresher
from vibe.front.cells import Line, cells_of, cut, fit
from vibe.front.event_text import one_line
from vibe.view.agent_view import AgentView, Key
from vibe.view.figures import clock, dollars, short
from vibe.view.plan_view import PlanView
from vibe.view.view import View

SLIM = 40
"""Columns of the screen below which this line names no keys."""
ROOMY = 120
"""Columns from which on it names those that count everywhere."""
KEYS = "Shift+Tab mode · Ctrl+P commands · F1 help"
AGENTS_KEY, OVERVIEW_KEY = "F2 agents", "Ctrl+T overview"
PLANNER = "planner"
"""The agent of runs that write a plan."""
SPARED_FIRST = ("thinking", "cost", "tokens", "agent", "context")
"""Parts that go, one after the other, where the line is too short for all."""
GAP = "   "


class Ticker(Widget):
    """One line: mode, model, context and cost; who waits for you; keys. First of all a plan whose card is not in sight.

    ``agent_id`` is the agent of the chat (blank: the view's own choice), ``keys`` are those of the part that has the
    focus. ``is_hidden`` says whether the card of a plan is out of sight. It redraws by itself only while it tells the
    time of one. A line of the person's own stands in for mode, model, context and cost.
    """

    DEFAULT_CSS = """
    Ticker { height: 1; color: $foreground-muted; padding-right: 1; }
    """

    class PlanWanted(Message, namespace="ticker"):
        """The person clicked the line while it told of a plan."""

    def __init__(
        self, *, is_hidden: Callable[[PlanView], bool] = lambda _: False, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__()
        self.agent_id = ""
        self.keys = ""
        self.sign = ("", "")
        """The words for what waits for the person, and their style, as the bottom of the screen has them."""
        self._is_hidden = is_hidden
        self._clock = clock
        self._view = View()
        self._own: Content | None = None
        self._shown = Content()
        self.refresher = Refresher(self, self._draw)

    def present(self, view: View, changed: frozenset[Key] = frozenset()) -> None:  # noqa: ARG002  as every presenter
        """Show how a view stands, now or at most a quarter of a second later."""
        self._view = view
        self.refresher.wish()

    def on_mount(self) -> None:
        """Show what was presented before."""
        self._draw()

    def on_click(self) -> None:
        """Tell that the plan is wanted that the line is about."""
        if self._hidden is not None:
            self.post_message(self.PlanWanted())

    def render(self) -> Content:
        """The line."""
        self._shown = self._line()
        return self._shown

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
        """Draw it, if it has changed."""
        self.refresher.beat(SECONDS_PER_TICK if self._hidden is not None else 0.0)
        if not self._line().is_same(self._shown):
            self.refresh()

    def _line(self) -> Content:
        plan = self._hidden
        lead = "" if plan is None else plan_words(plan, self._clock())
        ends = (self.sign, (self._hint(), "muted"))
        return ticker_line(self._view, self.agent, self.size.width, lead=lead, ends=ends, own=self._own)

    def show_sign(self, words: str, style: str) -> None:
        """Tell that something waits for the person; blank: nothing does."""
        self.sign = (words, style)
        self.refresher.wish()

    @property
    def _hidden(self) -> PlanView | None:
        """The plan that runs, if its card is out of sight."""
        plan = self._view.plan
        return plan if plan is not None and is_live(plan) and self._is_hidden(plan) else None

    def _hint(self) -> str:
        """The keys that a person may not know of now."""
        width = self.screen.size.width
        if self.keys or width < SLIM:
            return self.keys
        if is_live(self._view.plan):
            return AGENTS_KEY
        if width < ROOMY:
            return OVERVIEW_KEY
        return "" if self._view.requests else KEYS


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


def plan_words(plan: PlanView, now: float) -> str:
    """The progress of a plan at ``now`` (unix seconds)."""
    return f"▸ {plan.done}/{plan.total} steps · {clock(plan.clock(now))}"


def ticker_line(
    view: View,
    agent: AgentView | None,
    width: int,
    *,
    lead: str = "",
    ends: Sequence[tuple[str, str]] = (),
    own: Content | None = None,
) -> Content:
    """The line for a view, at most ``width`` cells wide; ``lead`` stands first, ``own`` is the person's part.

    ``ends`` are texts at its right end, with their styles.
    """
    right = [piece for end in ends if end[0] for piece in ((GAP, ""), end)]
    left: Line = [(" ", "")]
    room = max(0, width - cells_of(right) - 1)
    if lead:
        left += [(cut(lead, room), "bold $foreground"), (GAP, "")]
        room = max(0, room - cell_len(lead) - len(GAP))
    shown = drawn(left if own is not None else [*left, *_facts(view, agent, room)])
    if own is not None and room > len(GAP):
        shown += own.truncate(room, ellipsis=True)
    blank = " " * max(0, width - shown.cell_length - cells_of(right))
    return (shown + drawn([(blank, ""), *right]))[:width]


def _facts(view: View, agent: AgentView | None, room: int) -> Line:
    """The parts on the conversation, in at most so many cells."""
    said = _about(view, agent)
    for spare in SPARED_FIRST:
        if sum(cell_len(text) + 3 for text, _ in said.values()) - 3 <= room:
            break
        said.pop(spare, None)
    parts: Line = []
    for text, style in said.values():
        parts += [(" · ", "muted"), (text, style)] if parts else [(text, style)]
    return parts if cells_of(parts) <= room else fit(parts, room)


def mode_of(agent: AgentView) -> tuple[str, str]:
    """The name of an agent's profile where it is of no mode's own, and its mode in words."""
    own = "" if agent.profile in MODES else agent.profile
    if agent.approvals == "all":
        return own, UNASKED
    if agent.approvals == "edits" and agent.profile != "plan":
        return own, MODES["accept-edits"]
    return own, MODES.get(agent.profile, "asks") if agent.profile else ""


MODES: Final = {"default": "asks", "accept-edits": "accepts edits", "plan": "plan mode", "auto-approve": "asks"}
"""The modes of our own profiles in words; the last one asks where its rights were taken back."""
UNASKED: Final = "AUTO-APPROVES EVERYTHING"


def _about(view: View, agent: AgentView | None) -> dict[str, tuple[str, str]]:
    """The parts of the line on a conversation and its agent, by name."""
    said = {} if agent is None else _about_agent(agent)
    if view.spent.calls:
        said["tokens"] = (f"{short(view.spent.tokens)} tok", "")
        if view.spent.cost_usd is not None:
            said["cost"] = (dollars(view.spent.cost_usd), "")
    return said


def _about_agent(agent: AgentView) -> dict[str, tuple[str, str]]:
    own, mode = mode_of(agent)
    thinking = "" if agent.thinking in {"", "off"} else f"thinking {agent.thinking}"
    said = {
        name: (one_line(text, 40), style)
        for name, text, style in (
            ("agent", own, ""),
            ("mode", mode, "bold failed" if mode == UNASKED else ""),
            ("model", agent.model, ""),
            ("thinking", thinking, ""),
        )
        if text
    }
    if agent.context_tokens and agent.context_limit:
        share = agent.context_tokens / agent.context_limit
        said["context"] = (f"{share:.0%} of {short(agent.context_limit)}", pressure(share))
    return said


def pressure(share: float) -> str:
    """The style for a share of something that must not run out."""
    return "failed" if share >= 0.9 else "warn" if share >= 0.7 else ""


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
            self._fail(f"ended with exit {ended.exit_code}: {one_line(ended.stderr, 200) or 'it said nothing'}")

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
