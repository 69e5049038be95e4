"""``vibe plan run`` and ``vibe plan resume``: run a plan, show it while it runs, and say how it ended."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ipc.commands import Pause
from planner.plan.diagnostics import InputsInvalidError
from planner.plan.inputs import input_values
from planner.plan.loader import LoadedPlan
from planner.store.folder import ApprovalSetting, PlanRunOptions, find_plan
from vibe.app.engine.host import Host, allow_open_files, existing_folder
from vibe.app.engine.request_board import AN_HOUR
from vibe.app.plan.command_consent import PlanNotAcceptedError
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.dry_run import dry_run
from vibe.app.plan.library import WATCHED_SLOWED
from vibe.app.plan.prepare import unfinished_run
from vibe.app.plan.run import PlanRun, PlanSession, open_plan
from vibe.cli.commands.plan_files import path_of, read_plan
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import CommandLineError, pairs
from vibe.cli.signals import handled_signals
from vibe.cli.streams import forgive
from vibe.front.ci_log import write_command
from vibe.front.dry_run_text import dry_run_lines
from vibe.front.next_command import hint
from vibe.front.output import TROUBLE, EventLines, json_line, line_of, write_document
from vibe.front.plan_summary import summary_text
from vibe.front.progress import ProgressLines
from vibe.system.awake_loop import run_awake

if TYPE_CHECKING:
    from vibe.cli.commands.input_stream import InputLines

NO_PLAN = (
    "no plan given: name its file (`vibe plan run plan.json`), write one (`vibe plan new GOAL -o plan.json`), or try "
    "the demonstration (`vibe plan run --demo`)"
)

TERMINATION_GRACE_SECONDS = 5.0
"""Seconds that running steps have after SIGTERM to finish their turn.

Callers that send SIGTERM usually kill after about ten seconds.
"""


def run(args: Arguments, env: CliEnvironment) -> int:
    """Run or resume a plan, and return the exit code of the record."""
    if args.subcommand == "run":
        _check_new(args)
    options = _options(args, env)
    leave_reports = [_report_writer(file, args, env) for file in args.report]
    if env.owns_process:
        allow_open_files()
    forgive(env.stdout)  # the work continues without a reader
    resumed = args.plan if args.subcommand == "resume" else _run_to_resume(args, options, env)
    if resumed is not None:
        ended = _run(resumed, options, args, env)
    else:
        loaded = read_plan(args.file, env)
        options = _with_inputs(loaded, options, args, env)
        if args.dry_run:
            return _dry_run(loaded, options, args, env)
        try:
            ended = _run(loaded, options, args, env)
        except PlanNotAcceptedError as error:
            from vibe.cli.terminal.person import accept_commands

            if args.input or not accept_commands(error.lines, error.writes, env):
                env.stderr.write(f"vibe: {error}\n")
                return ExitCode.BLOCKED
            ended = _run(loaded, replace(options, accepted=True), args, env)
    if args.output == "text":
        env.stdout.write(summary_text(ended))
    else:
        write_document(ended.record.as_document(), env.stdout, indent=2 if args.output == "json" else None)
    if ended.record.plan_id is not None:
        env.stdout.flush()  # the record is out even if a report fails
        for leave in leave_reports:
            leave(ended.record.plan_id)
    return ended.record.exit_code


def _check_new(args: Arguments) -> None:
    """Check that the arguments fit together.

    Raises:
        CommandLineError: they don't.
    """
    if (args.file is None) is not args.demo:
        raise CommandLineError(NO_PLAN if args.file is None else "--demo runs the built-in plan: leave FILE out")
    if args.dry_run and args.detach:
        raise CommandLineError("--dry-run runs nothing: leave --detach out")
    if args.input and (args.file == "-" or args.dry_run):
        raise CommandLineError("--input json takes commands from standard input: name a file, and leave --dry-run out")


def _run_to_resume(args: Arguments, options: PlanRunOptions, env: CliEnvironment) -> str | None:
    """Return the id of the plan that ``--resume`` means, or None if there is none or a new run is wanted."""
    if not args.resume:
        return None
    if args.file == "-" or args.dry_run or args.only or args.reuse:
        raise CommandLineError(
            "--resume continues the last run of a FILE; it can't be combined with --dry-run, --only or --reuse"
        )
    return unfinished_run(env.home, read_plan(args.file, env), options)


def _run(plan: LoadedPlan | str, options: PlanRunOptions, args: Arguments, env: CliEnvironment) -> PlanRun:
    lines: InputLines | None = None
    if args.input:
        from vibe.cli.commands.input_stream import InputLines  # noqa: PLC0415  few programs steer plans

        lines = InputLines(env)
    person = lines.person if lines else AN_HOUR if env.detached is not None and not args.wait else None
    with _audience(args, env) as watching:
        audience = watching
        if person is not None:
            audience = replace(audience, approver=person, user_input=person.answer, decide=person.decide)
        if env.detached is not None:
            audience = replace(audience, listeners=[*audience.listeners, env.detached])
        return run_awake(run_with_signals, plan, options, env, audience, lines)


async def run_with_signals(
    plan: LoadedPlan | str, options: PlanRunOptions, host: Host, audience: Audience, lines: InputLines | None = None
) -> PlanRun:
    """Run a plan, or resume the plan with this id; signals pause it, and commands may arrive by ``lines``.

    Raises:
        UsageError, EnvironmentFailure, ipc.errors.IpcError: as for ``open_plan`` and ``PlanSession.run``.
    """
    session = await open_plan(plan, options, host, audience)
    async with handled_signals(host, partial(_on_signal, session)) as signals:
        # Objects that exist by now live until the run ends, so the collector need not search thousands of steps again.
        before_start = gc.freeze if host.owns_process else None
        ended = await (lines.run(session, before_start) if lines else session.run(before_start))
        return replace(ended, record=ended.record.after_signal(signals.exit_code))


def _on_signal(session: PlanSession, which: signal.Signals, count: int) -> None:
    """Pause the plan at the first signal and stop running steps at the next. Both leave it resumable."""
    grace = 0.0 if count > 1 else None if which is signal.SIGINT else TERMINATION_GRACE_SECONDS
    session.control.submit(Pause(grace_seconds=grace, by=which.name))


def _report_writer(file: str, args: Arguments, env: CliEnvironment) -> Callable[[str], None]:
    """Return a function that writes the report of the plan with a given id to ``file``.

    Raises:
        UsageError: the file's name doesn't tell the format, no report can be written there, or there is no such plan.
    """
    from vibe.app.plan.report import (  # noqa: PLC0415  few runs write one
        ReportFormat,
        report_to_github,
        write_report,
    )

    if file == "github":
        command = partial(write_command, env.stderr)
        return lambda plan_id: report_to_github(find_plan(env.home, plan_id), env.environ, command)
    plan = find_plan(env.home, args.plan).settings().origin if args.subcommand == "resume" else args.file or ""
    form, path = ReportFormat.of_file("--report", file), env.file_to_write("--report", file, plan)
    return lambda plan_id: write_report(find_plan(env.home, plan_id), path, form, env.environ)


def _dry_run(loaded: LoadedPlan, options: PlanRunOptions, args: Arguments, env: CliEnvironment) -> int:
    if args.report:
        env.tell("no report is written: --dry-run runs nothing")
    found = dry_run(loaded, options, env)
    if args.output == "text":
        env.write_lines(dry_run_lines(found))
    else:
        write_document(found.as_document(), env.stdout, indent=2 if args.output == "json" else None)
    return found.exit_code


def _options(args: Arguments, env: CliEnvironment) -> PlanRunOptions:
    approvals = ApprovalSetting.AUTO if args.auto_approve else ApprovalSetting(args.approve or ApprovalSetting.ASK)
    args.workdir = getattr(args, "workdir", None) or existing_folder("--workdir", None, env.cwd)
    file = getattr(args, "file", "-")
    path = env.cwd / "-" if file == "-" else path_of(file, env, args.workdir, trust=args.trust)
    args.file = str(path) if file not in {None, "-"} else file
    args.inputs = _inputs(getattr(args, "inputs", []))
    args.only = tuple(step for given in getattr(args, "only", ()) for step in given.split(",") if step)
    return PlanRunOptions(
        plan_folder=path.parent,
        approvals=approvals,
        decisions=_decisions(args.decide),
        slowed=WATCHED_SLOWED if file is None and _is_watched(args, env) else 1.0,
        **args.named_in(PlanRunOptions),
    )


def _inputs(given: list[str]) -> dict[str, str]:
    """Parse ``name=value`` flags."""
    values: dict[str, str] = {}
    for name, value in pairs("--with", given):
        if name in values:
            raise CommandLineError(f"--with {name} is given twice: give one value")
        values[name] = value
    return values


def _with_inputs(loaded: LoadedPlan, options: PlanRunOptions, args: Arguments, env: CliEnvironment) -> PlanRunOptions:
    """Return the options with a value for every input; a person at the terminal is asked for missing ones.

    Raises:
        InputsInvalidError: nobody can be asked, or a given value is wrong.
    """
    try:
        input_values(loaded.plan.inputs, options.inputs, loaded.where)
    except InputsInvalidError as error:
        if not error.missing or args.output != "text" or not (env.stdin.isatty() and env.stdout.isatty()):
            raise
        from vibe.cli.terminal.person import ask_inputs

        answers = ask_inputs([one for one in loaded.plan.inputs if one.name in error.missing], env)
        if answers is None:
            raise
        return replace(options, inputs={**options.inputs, **answers})
    return options


def _decisions(given: list[str]) -> dict[str, tuple[str, ...]]:
    """Parse ``id=option`` flags; one may be repeated for a decision that takes several options."""
    decisions: dict[str, tuple[str, ...]] = {}
    for decision_id, option in pairs("--decide", given, "ID=OPTION"):
        if not option:
            raise CommandLineError(f"--decide {decision_id}=: name the option")
        decisions[decision_id] = (*decisions.get(decision_id, ()), option)
    return decisions


def _is_watched(args: Arguments, env: CliEnvironment) -> bool:
    """Return whether a person sees a live tree."""
    is_terminal = env.stdout.isatty() and env.stdin.isatty() and env.environ.get("TERM", "dumb") != "dumb"
    return is_terminal and args.output == "text" and not args.show_output


@contextmanager
def _audience(args: Arguments, env: CliEnvironment) -> Generator[Audience]:
    """Yield the run's audience: JSON lines, a live tree with a person at the keyboard, or plain lines."""
    hints = [EventLines(env.stderr if args.output == "json" else env.stdout, hint)] if args.wait or env.detached else []
    if args.output == "streaming":
        yield Audience(listeners=[EventLines(env.stdout, json_line)], waits=args.wait)
    elif args.output == "json":
        yield Audience(listeners=[EventLines(env.stderr, partial(line_of, TROUBLE)), *hints], waits=args.wait)
    elif _is_watched(args, env):
        from vibe.cli.terminal.live_tree import LiveTree  # noqa: PLC0415  only people need it
        from vibe.cli.terminal.person import asking

        with LiveTree(env.stdout, environ=env.environ) as tree:
            queue, person = asking(env, tree)
            yield Audience(listeners=[tree, queue], approver=person, user_input=person.answer, decide=person.decide)
    else:
        yield Audience(listeners=[ProgressLines(env.stdout, output=args.show_output), *hints], waits=args.wait)
