"""``vibe plan pause|cancel|decide|approve|retry|skip|steer|rewind``: control a plan that has been started."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio

from ipc.commands import Act, Approve, Cancel, Decide, Pause, Steer, StepAction
from planner.plan.status import OPEN_STATUSES
from planner.store.folder import find_plan
from vibe.app.plan.commands import CommandReport, give
from vibe.app.plan.rewind import PlanRewind, rewind_plan
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.core.config.paths import in_utf8
from vibe.front.listings import restored_lines
from vibe.system.plain_text import one_line

MESSAGE_LENGTH = 2_000


def run(args: Arguments, env: CliEnvironment) -> None:
    """Carry out the command and print the result."""
    match args.subcommand:
        case "pause":
            command = Pause(grace_seconds=0.0 if args.now else None)
        case "cancel" if args.step is None:
            command = Cancel()
        case "decide":
            command = Decide(decision_id=args.decision, selections=tuple(args.options))
        case "approve":
            command = Approve(request_id=args.request, allow=not args.deny, reason=args.reason)
        case "steer":
            command = Steer(step_id=args.step, text=" ".join(args.text))
        case action:
            message = args.message if action == "retry" else ""
            command = Act(step_id=args.step, action=StepAction(action), message=message)
    write_command_report(anyio.run(give, env, args.plan, command), args, env)


def write_command_report(done: CommandReport, args: Arguments, env: CliEnvironment, lines: Sequence[str] = ()) -> None:
    """Print the result, ``lines`` below it, and the command that resumes the plan if it isn't running."""
    is_left = not done.running and find_plan(env.home, done.plan_id).state().status in OPEN_STATUSES
    goes_on = f"vibe plan resume {done.plan_id}" if is_left else None
    document = {"plan_id": done.plan_id, "message": done.message, "running": done.running, **done.data, "next": goes_on}
    text = [f"plan {done.plan_id}: {one_line(done.message, MESSAGE_LENGTH)}", *lines]
    env.answer(args, document, [*text, *([f"continue with: {goes_on}"] if goes_on else ())])


def run_rewind(args: Arguments, env: CliEnvironment) -> int:
    """Rewind the plan, and print what happened to its files."""
    workspace = Path(find_plan(env.home, args.plan).settings().workspace)
    act = partial(rewind_plan, env, args.plan, args.step)
    rewound = anyio.run(env.as_writer().turn([workspace], "vibe plan rewind").act, env.tell, act)
    files = rewound.files
    done = CommandReport(
        plan_id=rewound.plan_id,
        message=f"rewound to before {args.step!r}; to run again: {', '.join(rewound.steps)}",
        running=False,
        data={
            "steps": list(rewound.steps),
            "restored": list(files.restored),
            "deleted": list(files.deleted),
            "set_aside": {conflict.path: in_utf8(conflict.saved_as) for conflict in files.conflicts},
            "skipped": list(files.skipped),
            "reasons": dict(files.skipped),
            "merged": list(rewound.merged),
        },
    )
    write_command_report(done, args, env, _rewound(rewound))
    return ExitCode.FAILED if files.skipped else ExitCode.DONE


def _rewound(rewound: PlanRewind) -> list[str]:
    lines = restored_lines(rewound.files)
    lines += [f"the merge of {step_id} stays on the branch: undo it with git revert" for step_id in rewound.merged]
    return lines or ["no files restored"]
