"""``vibe plan rewind``: a plan and its files as they were before a step."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio

from planner.store.folder import find_plan
from vibe.app.engine.turns import in_turn
from vibe.app.plan.commands import Done
from vibe.app.plan.rewind import PlanRewind, rewind_plan
from vibe.cli.commands.plan_control import write_done
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.core.config.paths import in_utf8
from vibe.front.event_text import one_line

SHOWN_FILES = 20


def run(args: Arguments, env: CliEnvironment) -> int:
    """Rewind the plan, and print the changes of its files."""
    workspace = Path(find_plan(env.home, args.plan).settings().workspace)
    act = partial(rewind_plan, env.host, args.plan, args.step)
    rewound = anyio.run(in_turn, env.host, workspace, "vibe plan rewind", env.tell, act)
    files = rewound.files
    done = Done(
        plan_id=rewound.plan_id,
        message=f"rewound to before {args.step!r}; will run again: {', '.join(rewound.steps)}",
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
    write_done(done, args, env, _lines(rewound))
    return ExitCode.FAILED if files.skipped else ExitCode.DONE


def _lines(rewound: PlanRewind) -> list[str]:
    files = rewound.files
    lines = [f"restored {one_line(path, 300)}" for path in files.restored]
    lines += [f"removed {one_line(path, 300)}" for path in files.deleted]
    if len(lines) > SHOWN_FILES:
        lines[SHOWN_FILES:] = [f"… and {len(lines) - SHOWN_FILES:,} more files"]
    lines += [
        f"changed by someone else: {one_line(conflict.path, 300)}: kept as {one_line(in_utf8(conflict.saved_as), 600)}"
        for conflict in files.conflicts
    ]
    lines += [f"not restored: {one_line(path, 300)}: {one_line(why)}" for path, why in files.skipped.items()]
    lines += [f"the merge of {step_id} stays on the branch: undo it with git revert" for step_id in rewound.merged]
    return lines or ["no files restored"]
