"""``vibe plan edit``: changes the steps of a plan that has been started, while it runs or between two runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import anyio

from planner.plan.diagnostics import PlanInvalidError
from planner.plan.loader import LoadedPlan, read_plan_file, with_inputs
from planner.plan.model import PlanBudget
from planner.plan.operations import Operation, SetBudget, operation_text, read_operations
from planner.plan.revision import operations_between
from planner.plan.strict_json import MAX_BYTES, JsonRefused, decode, parse
from planner.store.current_plan import effective_plan
from planner.store.folder import find_plan
from vibe.app.plan.commands import revise
from vibe.cli.commands.plan_control import write_command_report
from vibe.cli.editor import open_editor
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.parser import CommandLineError
from vibe.shell.sandbox.temporary import brief_folder
from vibe.system.errors import UsageError, VibeError, error_as, os_error_as
from vibe.system.plain_text import one_line, plain

OPERATION_LENGTH = 400


def run(args: Arguments, env: CliEnvironment) -> int | None:
    """Read the change, apply it, and print it."""
    limits = {name: getattr(args, name) for name in PlanBudget.model_fields if getattr(args, name) is not None}
    if args.ask is not None:
        if limits:
            raise CommandLineError("--ask can't change limits: give them without --ask")
        from vibe.cli.commands.plan_new import run_ask  # noqa: PLC0415  only this needs a model

        return run_ask(args, env)
    if args.operations is not None:
        return _apply(args, _read_operations(args.operations, env), env)
    current = effective_plan(find_plan(env.home, args.plan))
    if limits:
        if args.file is not None:
            raise CommandLineError("give the limits in FILE, or as flags, not both")
        before = current.plan.budget or PlanBudget()
        return _apply(args, (SetBudget(budget=before.model_copy(update=limits)),), env)
    if args.file is not None:
        return _apply_file(args, env.path(args.file), current, env)
    if not (env.stdin.isatty() and env.stdout.isatty()):
        raise CommandLineError("no terminal for an editor: give --operations FILE or --file FILE")
    return _edit(args, current, env)


def _read_operations(name: str, env: CliEnvironment) -> tuple[Operation, ...]:
    where = "standard input" if name == "-" else name
    advice = "give a file with a JSON list of operations"
    with (
        os_error_as(lambda error: UsageError(f"{where} can't be read ({error.strerror}): {advice}")),
        nullcontext(env.stdin.buffer) if name == "-" else env.path(name).open("rb") as file,
    ):
        source = file.read(MAX_BYTES + 1)
    with error_as(JsonRefused, lambda error: PlanInvalidError(where, error.problems)):
        return read_operations(parse(decode(source)))


def _apply(args: Arguments, operations: Sequence[Operation], env: CliEnvironment) -> None:
    done = anyio.run(partial(revise, env, args.plan, operations, args.reason, trust=args.trust))
    lines = [f"  {one_line(operation_text(operation), OPERATION_LENGTH)}" for operation in operations]
    write_command_report(done, args, env, lines)


def _apply_file(args: Arguments, path: Path, current: LoadedPlan, env: CliEnvironment) -> None:
    """Apply the differences between the current plan and the one in a file."""
    wanted = with_inputs(read_plan_file(path), current.plan.values())
    _apply(args, operations_between(current.plan, wanted.plan), env)


# --- in an editor -------------------------------------------------------------------------------------------------


def _edit(args: Arguments, current: LoadedPlan, env: CliEnvironment) -> None:
    """Open the plan in an editor, and reopen it with the person's text for as long as something is wrong with it."""
    text = json.dumps(json.loads(current.source_bytes), indent=2, ensure_ascii=False) + "\n"
    with brief_folder(env.environ.get("TMPDIR")) as folder:
        path = folder / "plan.json"
        path.write_text(text, encoding="utf-8")
        while True:
            open_editor(path, env, instead=", or give --operations or --file")
            try:
                return _apply_file(args, path, current, env)
            except VibeError as error:
                env.stderr.write(f"{plain(str(error))}\n")
            answer = env.ask("Enter opens the editor again, q quits: ")
            if not answer or answer.strip().lower() in {"q", "quit"}:
                raise UsageError(f"plan {args.plan} was not changed")
