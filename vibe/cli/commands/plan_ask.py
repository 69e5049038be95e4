"""``vibe plan edit ID --ask SENTENCE``: a model says how a plan would change, and it changes once a person says yes."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import anyio

from ipc.events import ToolCallEvent, WarningEvent
from planner.store.folder import find_plan
from vibe.app.plan import commands as plan_commands
from vibe.app.plan.author import PlanningRequest
from vibe.app.plan.change_proposal import ProposedChange
from vibe.app.plan.commands import Done
from vibe.cli.commands.plan_control import write_done
from vibe.cli.commands.planning_runs import proposed
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import CommandLineError
from vibe.cli.render.event_text import one_line
from vibe.cli.render.output import TROUBLE, LineSink

LINE_LENGTH = 2_000
YES = frozenset({"y", "yes"})


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Have the change proposed, show it, and carry it out after a yes."""
    asks = args.output == "text" and env.stdin.isatty() and env.stderr.isatty()
    if not (asks or args.yes):
        raise CommandLineError("--ask: no one can confirm the change: add --yes, or run it at a terminal")
    folder = find_plan(env.home, args.plan)
    request = PlanningRequest(
        subject=args.ask,
        workdir=Path(folder.settings().workspace),
        trust=args.trust,
        wanted_by="vibe plan edit --ask",
    )
    trouble = (WarningEvent,) if args.output == "text" else TROUBLE
    listener = LineSink(env.stderr, (*trouble, ToolCallEvent) if asks else trouble)
    record, change = anyio.run(proposed, request, folder, env.host, [listener])
    if change is None:
        env.stderr.write(
            f"vibe: no change: {one_line(record.detail or record.reason or 'no reason given', LINE_LENGTH)}\n"
        )
        return record.exit_code
    if not change.operations:
        why = one_line(change.reason or "the plan already says so", LINE_LENGTH)
        write_done(Done(plan_id=folder.plan_id, message=f"nothing to change: {why}", running=False), args.output, env)
        return ExitCode.DONE
    lines = tuple(_lines(change))
    if asks and not args.yes:
        env.stderr.write("\n".join(lines) + "\n")
        if not _says_yes(env):
            env.stderr.write(f"vibe: plan {folder.plan_id} was not changed\n")
            return ExitCode.BLOCKED
    done = anyio.run(
        partial(plan_commands.revise, env.host, args.plan, change.operations, args.reason or args.ask, trust=args.trust)
    )
    write_done(done, args.output, env, lines if args.yes else ())
    return ExitCode.DONE


def _lines(change: ProposedChange) -> list[str]:
    """The change, and the commands that it brings, which a person should read."""
    lines = [f"  {one_line(line, LINE_LENGTH)}" for line in change.diff]
    if change.commands:
        lines += ["It would run:"]
        lines += [
            f"  {one.step_id}{' (check)' if one.check else ''}: {one_line(one.line, LINE_LENGTH)}"
            for one in change.commands
        ]
    return [*lines, f"because: {one_line(change.reason, LINE_LENGTH)}"] if change.reason else lines


def _says_yes(env: CliEnvironment) -> bool:
    env.stderr.write("Apply this change? [y/N] ")
    env.stderr.flush()
    return env.stdin.readline().strip().lower() in YES
