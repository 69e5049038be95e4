"""Watching a run elsewhere: its events, the keys of whoever looks on, and the words at its end."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio import CancelScope, create_task_group, to_thread

from ipc.errors import IpcError
from planner.plan.status import paused_text
from vibe.app.engine.result_record import EXIT_CODES
from vibe.app.view.plan_view import PlanView
from vibe.app.view.view import View, lose
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.render.event_text import counted, one_line
from vibe.cli.signals import handled_signals
from vibe.cli.terminal.keyboard import Keys
from vibe.cli.terminal.live_tree import LiveTree
from vibe.cli.terminal.run_watcher import RunWatcher
from vibe.core.outcome import Outcome

if TYPE_CHECKING:
    from ipc.subscriber import Subscription


def watch(subscription: Subscription, env: CliEnvironment) -> int:
    """Show a run until it ends, the person leaves or a signal comes; return the run's exit code, 0 or the signal's.

    ``subscription`` is one to all of its events.

    Raises:
        ipc.errors.IpcError: nothing is known of the run, or its events can't be had.
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
    """Hand events and keys on; return the exit code of a signal that came, if one did.

    Raises:
        IpcError: as ``watch``.
    """
    scope = CancelScope()
    problems: list[IpcError] = []

    async def take_in() -> None:
        try:
            async with subscription as records:
                await _hand_on(records, tree)
        except IpcError as error:
            problems.append(error)  # which a task group would wrap
        scope.cancel()

    async with handled_signals(env.host, lambda _which, _count: scope.cancel()) as signals:
        with scope:
            async with create_task_group() as tasks:
                tasks.start_soon(_heed_keys, env, tree, watcher, scope)
                tasks.start_soon(take_in)
    if problems:
        raise problems[0]
    return signals.exit_code


async def _hand_on(records: Subscription, tree: LiveTree) -> None:
    async for record in records:
        if record.event is not None:  # else of a later version
            tree.publish(record.event)


async def _heed_keys(env: CliEnvironment, tree: LiveTree, watcher: RunWatcher, scope: CancelScope) -> None:
    """Hand each key to the watcher, until the person leaves; a keyboard that is not there presses none."""
    with suppress(OSError), Keys(env.stdin.fileno()) as keys:
        while True:
            key = await keys.key()
            if key is None or not await to_thread.run_sync(partial(_press, tree, watcher, key)):
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
        known = outcome in Outcome.__members__.values()
        return EXIT_CODES[Outcome(outcome)] if known else _code_of(plan.status)
    lose(view, source)
    why = "its process died" if subscription.ended == "died" else f"its events {subscription.ended}"
    go_on = f"; `vibe plan resume {plan.id}` continues its plan" if plan is not None and plan.id else ""
    env.stdout.write(f"run {source} ended without a result: {why}{go_on}\n")
    return ExitCode.FAILED


def _plan_end(plan: PlanView) -> str:
    how = paused_text(plan.reason) if plan.status == "paused" else plan.status
    spent = f", {plan.tokens:,} tokens in {counted(plan.spent.calls, 'call')}" if plan.spent.calls else ""
    return one_line(
        f"plan {plan.id} {how}: {plan.done} of {counted(plan.total, 'step')} done in {plan.elapsed(0.0):.1f} s{spent}"
    )


def _code_of(status: str) -> int:
    return ExitCode.DONE if status == "completed" else ExitCode.FAILED
