"""Watches a run elsewhere: its picture, the steps that a person opens in it, and the words at its end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import anyio

from ipc.errors import IpcError
from planner.plan.status import status_text
from vibe.app.engine.result_record import EXIT_CODES
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.signals import cancelled_by_signals
from vibe.cli.terminal.keyboard import Keys
from vibe.cli.terminal.live_tree import LiveTree, plan_picture, texts_of
from vibe.core.messages import Outcome
from vibe.front.cells import Line, fit
from vibe.front.fleet import transcript_tail
from vibe.system.plain_text import counted, one_line
from vibe.view.agent_view import AgentView
from vibe.view.figures import took
from vibe.view.plan_view import PlanView
from vibe.view.view import View, lose

if TYPE_CHECKING:
    from rich.text import Text

    from ipc.subscriber import Subscription


TREE_KEYS = " ↑↓ or its number: choose · q: leave (the run continues) · Enter: open it"
OPEN_KEYS = " ↑↓: scroll · Esc: back · q: back"
CHAT_KEYS = " ↑↓: scroll · q: leave (the run continues)"


class RunWatcher:
    """Draws a view and handles keys; both are called from threads while the view stands still.

    ``step_id`` is the chosen step, blank if there is none. If ``is_open``, its transcript is shown in place of the
    plan. A run without a plan shows the transcript of its own agent.
    """

    def __init__(self) -> None:
        self.step_id = ""
        self.is_open = False
        self._typed = ""
        self._scrolled = 0

    def draw(self, view: View, now: float, width: int, height: int) -> Sequence[Text]:
        """Return the lines to show at ``now`` (unix seconds)."""
        plan = view.plan
        if plan is None or not plan.total:
            main = view.main
            return self._transcript(_about_agent(main), [] if main is None else [main], CHAT_KEYS, width, height)
        step = plan.steps.get(self.step_id)
        if self.is_open and step is not None:
            heading = f"{step.id}: {step.title} · {step.status}"
            if step.doing():
                heading += f" · {step.doing()}"
            return self._transcript(heading, list(step.agents.values()), OPEN_KEYS, width, height)
        lines = plan_picture(view, now, width, height - 1, chosen=self.step_id)
        return [*lines, *texts_of([fit([(TREE_KEYS, "muted")], width)])]

    def press(self, key: str, view: View) -> bool:
        """Act on a key; return False if the person leaves."""
        plan = view.plan
        if plan is None or not plan.total or self.is_open:
            return self._press_in_transcript(key)
        if key in {"q", "escape"}:
            return False
        if key in {"enter", "t"}:
            self._choose(plan, self.step_id or next(iter(plan.running), next(iter(plan.steps))))
            self.is_open, self._scrolled = True, 0
        elif key in {"up", "down"}:
            self._move(plan, -1 if key == "up" else 1)
        elif key.isdecimal():
            self._type(plan, key)
        return True

    def _press_in_transcript(self, key: str) -> bool:
        if key == "up":
            self._scrolled += 1
        elif key == "down":
            self._scrolled = max(0, self._scrolled - 1)
        elif key in {"q", "escape"}:
            if not self.is_open:
                return False
            self.is_open = False
        return True

    def _choose(self, plan: PlanView, step_id: str) -> None:
        self.step_id, self._typed = step_id if step_id in plan.steps else "", ""

    def _move(self, plan: PlanView, by: int) -> None:
        ids = list(plan.steps)
        at = ids.index(self.step_id) + by if self.step_id in plan.steps else (0 if by > 0 else len(ids) - 1)
        self._choose(plan, ids[max(0, min(at, len(ids) - 1))])

    def _type(self, plan: PlanView, digit: str) -> None:
        """Choose a step by its number; digits typed one after the other form one number."""
        ids = list(plan.steps)
        for typed in (self._typed + digit, digit):
            if 0 < int(typed) <= len(ids):
                self._choose(plan, ids[int(typed) - 1])
                self._typed = typed
                return

    def _transcript(
        self, heading: str, agents: Sequence[AgentView], keys: str, width: int, height: int
    ) -> Sequence[Text]:
        room = max(1, height - 2)
        lines = transcript_tail(agents, width, room + self._scrolled, whole=True)
        if len(lines) < room + self._scrolled and any(agent.transcript.older for agent in agents):
            lines.insert(0, [("  (earlier output is in the run's journal)", "muted")])
        lines = lines or [[("  nothing yet", "muted")]]
        self._scrolled = min(self._scrolled, max(0, len(lines) - room))
        end = len(lines) - self._scrolled
        title: Line = [(f" {one_line(heading, max(8, width - 1))}", "bold")]
        return texts_of(fit(line, width) for line in [title, *lines[max(0, end - room) : end], [(keys, "muted")]])


def _about_agent(agent: AgentView | None) -> str:
    if agent is None:
        return "no events yet"
    return " · ".join(filter(None, (agent.profile or "agent", agent.model, agent.doing())))


def watch(subscription: Subscription, env: CliEnvironment) -> int:
    """Show a run until it ends, the person leaves or a signal arrives.

    Return the run's exit code, 0 if the person left, or the signal's. ``subscription`` must cover all events of the
    run.

    Raises:
        ipc.errors.IpcError: nothing is known of the run, or its events are not available.
    """
    watcher = RunWatcher()
    tree = LiveTree(env.stdout, environ=env.environ, picture=watcher.draw)
    with tree:
        signal_exit = anyio.run(_follow, subscription, tree, watcher, env)
    if signal_exit is not None:
        return signal_exit
    if subscription.ended is None:
        return ExitCode.DONE
    with tree.seen() as view:
        return _tell_end(view, subscription, env)


async def _follow(subscription: Subscription, tree: LiveTree, watcher: RunWatcher, env: CliEnvironment) -> int | None:
    """Pass on events and keys; return the exit code of a signal, or None if there was none.

    Raises:
        IpcError: as ``watch``.
    """
    problem: IpcError | None = None
    async with cancelled_by_signals(env) as signals, anyio.create_task_group() as tasks:
        tasks.start_soon(_heed_keys, env, tree, watcher, tasks.cancel_scope)
        try:
            async with subscription as records:
                await records.pass_on(tree.publish)
        except IpcError as error:
            problem = error  # raised below, because the task group would wrap it
        tasks.cancel_scope.cancel()
    if problem is not None:
        raise problem
    return signals.exit_code


async def _heed_keys(env: CliEnvironment, tree: LiveTree, watcher: RunWatcher, scope: anyio.CancelScope) -> None:
    """Pass each key to the watcher until the person leaves; without a keyboard there are no keys."""
    with suppress(OSError), Keys(env.stdin.fileno(), escape=True) as keys:
        while True:
            key = await keys.key()
            if key is None or not await anyio.to_thread.run_sync(partial(_press, tree, watcher, key)):
                scope.cancel()
                return


def _press(tree: LiveTree, watcher: RunWatcher, key: str) -> bool:
    with tree.seen() as view:
        return watcher.press(key, view)


def _tell_end(view: View, subscription: Subscription, env: CliEnvironment) -> int:
    """Say how the run ended, and return its exit code."""
    source = subscription.source or ""
    run, plan = view.runs.get(source), view.plan
    if run is not None and run.exit_code is not None:
        env.stdout.write(f"run {source} ended: {run.outcome}\n")
        return run.exit_code
    if plan is not None and plan.ended_at is not None and plan.source == source:
        env.stdout.write(_plan_end(plan) + "\n")
        outcome = plan.outcome
        if outcome in Outcome.__members__.values():
            return EXIT_CODES[Outcome(outcome)]
        return ExitCode.DONE if plan.status == "completed" else ExitCode.FAILED
    lose(view, source)
    why = "its process died" if subscription.ended == "died" else f"its events {subscription.ended}"
    go_on = f"; `vibe plan resume {plan.id}` continues its plan" if plan is not None and plan.id else ""
    env.stdout.write(f"run {source} ended without a result: {why}{go_on}\n")
    return ExitCode.FAILED


def _plan_end(plan: PlanView) -> str:
    how = status_text(plan.status, plan.reason) if plan.status == "paused" else plan.status
    spent = f", {plan.tokens:,} tokens in {counted(plan.spent.calls, 'call')}" if plan.spent.calls else ""
    return one_line(
        f"plan {plan.id} {how}: {plan.done} of {counted(plan.total, 'step')} done in {took(plan.elapsed(0.0))}{spent}"
    )
