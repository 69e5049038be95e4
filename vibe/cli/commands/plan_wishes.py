"""``vibe plan pause|cancel|decide|approve|retry``: what becomes of a plan that was begun."""

from __future__ import annotations

import argparse
import json
from functools import partial

import anyio

from ipc.commands import Approve
from planner.store.folder import find_plan
from vibe.app.plan import commands as wishes
from vibe.app.plan.commands import Done
from vibe.app.plan.prepare import RESUMABLE
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.render.event_text import one_line

MESSAGE_LENGTH = 2_000


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Do it, and print what happened."""
    host = env.host
    match args.plan_command:
        case "pause":
            wish = partial(wishes.pause, host, args.plan, grace_seconds=0.0 if args.now else None)
        case "cancel":
            wish = partial(wishes.cancel, host, args.plan)
        case "decide":
            wish = partial(wishes.decide, host, args.plan, args.decision, args.options)
        case "approve":
            answer = Approve(request_id=args.request, allow=not args.deny, reason=args.reason)
            wish = partial(wishes.approve, host, args.plan, answer)
        case _:
            wish = partial(wishes.retry, host, args.plan, args.step)
    done = anyio.run(wish)
    write_done(done, args.output, env)
    return ExitCode.DONE


def write_done(done: Done, output: str, env: CliEnvironment, lines: tuple[str, ...] = ()) -> None:
    """What happened to a plan, and the command that goes on with it if nobody does; ``lines`` come in between."""
    next_command = _next_command(done, env)
    if output == "json":
        document = {
            "plan_id": done.plan_id,
            "message": done.message,
            "running": done.running,
            **done.data,
            "next": next_command,
        }
        env.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        return
    text = [f"plan {done.plan_id}: {one_line(done.message, MESSAGE_LENGTH)}", *lines]
    text += [f"continue with: {next_command}"] if next_command else []
    env.stdout.write("\n".join(text) + "\n")


def _next_command(done: Done, env: CliEnvironment) -> str | None:
    """Return what runs the rest of a plan that nobody runs."""
    if done.running:
        return None
    goes_on = find_plan(env.home, done.plan_id).state().status in RESUMABLE
    return f"vibe plan resume {done.plan_id}" if goes_on else None
