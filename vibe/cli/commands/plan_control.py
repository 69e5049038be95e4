"""``vibe plan pause|cancel|decide|approve|retry|skip|steer``: commands to a plan that has been started."""

from __future__ import annotations

import argparse
from functools import partial

import anyio

from ipc.commands import Approve, StepAction
from planner.store.folder import find_plan
from vibe.app.plan import commands as plan_commands
from vibe.app.plan.commands import Done
from vibe.app.plan.prepare import RESUMABLE
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.front.event_text import one_line

MESSAGE_LENGTH = 2_000


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Carry out the command, and print the result."""
    host = env.host
    match args.plan_command:
        case "pause":
            command = partial(plan_commands.pause, host, args.plan, grace_seconds=0.0 if args.now else None)
        case "cancel" if args.step is None:
            command = partial(plan_commands.cancel, host, args.plan)
        case "decide":
            command = partial(plan_commands.decide, host, args.plan, args.decision, args.options)
        case "approve":
            answer = Approve(request_id=args.request, allow=not args.deny, reason=args.reason)
            command = partial(plan_commands.approve, host, args.plan, answer)
        case "steer":
            command = partial(plan_commands.steer, host, args.plan, args.step, " ".join(args.text))
        case action:
            command = partial(plan_commands.act_on_step, host, args.plan, args.step, StepAction(action))
    done = anyio.run(command)
    write_done(done, args.output, env)
    return ExitCode.DONE


def write_done(done: Done, output: str, env: CliEnvironment, lines: tuple[str, ...] = ()) -> None:
    """Write the result, ``lines`` below it, and the command that continues the plan if it does not run."""
    next_command = _next_command(done, env)
    if output == "json":
        document = {
            "plan_id": done.plan_id,
            "message": done.message,
            "running": done.running,
            **done.data,
            "next": next_command,
        }
        env.write_json(document)
        return
    text = [f"plan {done.plan_id}: {one_line(done.message, MESSAGE_LENGTH)}", *lines]
    text += [f"continue with: {next_command}"] if next_command else []
    env.stdout.write("\n".join(text) + "\n")


def _next_command(done: Done, env: CliEnvironment) -> str | None:
    """Return the command that runs the rest of a plan that does not run; None if it runs or has no rest."""
    if done.running:
        return None
    goes_on = find_plan(env.home, done.plan_id).state().status in RESUMABLE
    return f"vibe plan resume {done.plan_id}" if goes_on else None
