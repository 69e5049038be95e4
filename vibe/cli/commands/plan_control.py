"""``vibe plan pause|cancel|decide|approve|retry|skip|steer``: commands to a plan that has been started."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio

from ipc.commands import Approve, StepAction
from planner.store.folder import find_plan
from vibe.app.plan import commands as plan_commands
from vibe.app.plan.commands import Done
from vibe.app.plan.prepare import RESUMABLE
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.front.event_text import one_line

MESSAGE_LENGTH = 2_000


def run(args: Arguments, env: CliEnvironment) -> None:
    """Carry out the command, and print the result."""
    host = env.host
    match args.subcommand:
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
    write_done(done, args, env)


def write_done(done: Done, args: Arguments, env: CliEnvironment, lines: Sequence[str] = ()) -> None:
    """Write the result, ``lines`` below it, and the command that continues the plan if it does not run."""
    goes_on = _next_command(done, env)
    document = {"plan_id": done.plan_id, "message": done.message, "running": done.running, **done.data, "next": goes_on}
    text = [f"plan {done.plan_id}: {one_line(done.message, MESSAGE_LENGTH)}", *lines]
    env.answer(args, document, [*text, *([f"continue with: {goes_on}"] if goes_on else ())])


def _next_command(done: Done, env: CliEnvironment) -> str | None:
    """Return the command that runs the rest of a plan that does not run; None if it runs or has no rest."""
    if done.running:
        return None
    goes_on = find_plan(env.home, done.plan_id).state().status in RESUMABLE
    return f"vibe plan resume {done.plan_id}" if goes_on else None
