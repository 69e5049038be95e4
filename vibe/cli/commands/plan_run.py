"""``vibe plan run`` and ``vibe plan resume``: run a plan, show it while it runs, and say how it ended."""

from __future__ import annotations

import gc
import json
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from ipc.commands import Pause
from planner.plan.loader import LoadedPlan
from planner.store.folder import ApprovalSetting, PlanRunOptions, find_plan
from vibe.app.engine.host import Host, allow_open_files
from vibe.app.plan.command_consent import PlanNotAcceptedError
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.dry_run import dry_run
from vibe.app.plan.prepare import unfinished_run
from vibe.app.plan.quickstart import WATCHED_SLOWED, quickstart_file
from vibe.app.plan.run import PlanRun, PlanSession, open_plan
from vibe.cli.commands.plan_files import read_plan
from vibe.cli.environment import Arguments, CliEnvironment, existing_folder
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import CommandLineError
from vibe.cli.signals import handled_signals
from vibe.cli.streams import forgive
from vibe.front.dry_run_text import dry_run_lines
from vibe.front.next_command import hint
from vibe.front.output import TROUBLE, EventLines, json_line, line_of, write_record
from vibe.front.plan_summary import summary_text
from vibe.front.progress import ProgressLines
from vibe.system.awake_loop import run_awake

NO_PLAN = (
    "no plan given: name its file (`vibe plan run plan.json`), write one (`vibe plan new GOAL -o plan.json`), or try "
    "the demonstration (`vibe plan run --demo`)"
)

TERMINATION_GRACE_SECONDS = 5.0
"""After SIGTERM: how long running steps have to reach the end of their turn. Callers kill after about ten."""
PAUSING = "pausing: agents stop at a safe point, about 5 s; an open question must be answered; Ctrl-C again stops now"


def run(args: Arguments, env: CliEnvironment) -> int:
    """Run or resume, and return the exit code of the record."""
    if args.subcommand == "run" and (args.file is None) is not args.demo:
        raise CommandLineError(NO_PLAN if args.file is None else "--demo runs the built-in plan: leave FILE out")
    options = _options(args, env)
    leave_reports = [_report(file, env) for file in args.report]
    if env.owns_process:
        allow_open_files()
    forgive(env.stdout)  # the work goes on without a reader
    resumed = args.plan if args.subcommand == "resume" else _run_to_resume(args, options, env)
    if resumed is not None:
        ended = _run(resumed, options, args, env)
    else:
        loaded = read_plan(args.file, env)
        if args.dry_run:
            return _dry_run(loaded, options, args.output, env)
        try:
            ended = _run(loaded, options, args, env)
        except PlanNotAcceptedError as error:
            from vibe.cli.terminal.person import accept_commands

            if not accept_commands(error.lines, error.writes, env):
                env.stderr.write(f"vibe: {error}\n")
                return ExitCode.BLOCKED
            ended = _run(loaded, replace(options, accepted=True), args, env)
    if args.output == "text":
        env.stdout.write(summary_text(ended))
    else:
        write_record(ended.record, env.stdout, indent=2 if args.output == "json" else None)
    if ended.record.plan_id is not None:
        env.stdout.flush()  # whatever becomes of the reports, the record is out
        for leave in leave_reports:
            leave(ended.record.plan_id)
    return ended.record.exit_code


def _run_to_resume(args: Arguments, options: PlanRunOptions, env: CliEnvironment) -> str | None:
    """Return the id of the plan that ``--resume`` means; None: there is none, or a new run is wanted."""
    if not args.resume:
        return None
    if args.file == "-" or args.dry_run or args.only or args.reuse:
        raise CommandLineError(
            "--resume continues the last run of a FILE; it can't be combined with --dry-run, --only or --reuse"
        )
    return unfinished_run(env.home, read_plan(args.file, env), options.workdir)


def _run(plan: LoadedPlan | str, options: PlanRunOptions, args: Arguments, env: CliEnvironment) -> PlanRun:
    with _audience(args, env) as audience:
        return run_awake(carried_out, plan, options, env, audience)


async def carried_out(plan: LoadedPlan | str, options: PlanRunOptions, host: Host, audience: Audience) -> PlanRun:
    """Run a plan, or go on with the one of that id; signals pause it.

    Raises:
        UsageError, EnvironmentFailure, ipc.errors.IpcError: as ``open_plan`` and ``PlanSession.run``.
    """
    session = await open_plan(plan, options, host, audience)
    async with handled_signals(host, partial(_on_signal, session)) as signals:
        # What is there by the start lives to the end of the run: never look through thousands of steps again.
        ended = await session.run(before_start=gc.freeze if host.owns_process else None)
        return replace(ended, record=ended.record.after_signal(signals.exit_code))


def _on_signal(session: PlanSession, which: signal.Signals, count: int) -> None:
    """Pause the plan at the first signal; stop what still runs at a further one. It can be resumed either way."""
    first_interrupt = count == 1 and which is signal.SIGINT
    if first_interrupt:
        session.warn("pausing", PAUSING)
    grace = None if first_interrupt else TERMINATION_GRACE_SECONDS if count == 1 else 0.0
    session.control.submit(Pause(grace_seconds=grace, by=which.name))


def _report(file: str, env: CliEnvironment) -> Callable[[str], None]:
    """Return the function that writes the report of a plan, by its id, to ``file``.

    Raises:
        UsageError: the file's name does not say what it is to hold.
        CommandLineError: its folder is not there.
    """
    from vibe.cli.commands.plan_report import format_of, report_path, report_to_github, write_report

    if file == "github":
        return lambda plan_id: report_to_github(find_plan(env.home, plan_id), env)
    form, path = format_of("--report", file), report_path("--report", file, env)
    return lambda plan_id: write_report(find_plan(env.home, plan_id), path, form, env)


def _dry_run(loaded: LoadedPlan, options: PlanRunOptions, output: str, env: CliEnvironment) -> int:
    found = dry_run(loaded, options, env)
    if output == "text":
        env.write_lines(dry_run_lines(found))
    else:
        env.stdout.write(json.dumps(found.as_document(), indent=2 if output == "json" else None) + "\n")
    return found.exit_code


def _options(args: Arguments, env: CliEnvironment) -> PlanRunOptions:
    approvals = ApprovalSetting.AUTO if args.auto_approve else ApprovalSetting(args.approve or ApprovalSetting.ASK)
    file = getattr(args, "file", "-")
    args.workdir = getattr(args, "workdir", None) or existing_folder("--workdir", None, env.cwd)
    args.only = tuple(step for given in getattr(args, "only", ()) for step in given.split(",") if step)
    path = quickstart_file() if file is None else env.cwd / Path(file).expanduser()
    return PlanRunOptions(
        plan_folder=env.cwd if file == "-" else path.parent,
        approvals=approvals,
        decisions=_decisions(args.decide),
        slowed=WATCHED_SLOWED if file is None and _is_watched(args, env) else 1.0,
        **args.named_in(PlanRunOptions),
    )


def _decisions(given: list[str]) -> dict[str, tuple[str, ...]]:
    """``id=option`` flags, each repeatable for decisions that take several options."""
    decisions: dict[str, tuple[str, ...]] = {}
    for flag in given:
        decision_id, equals, option = flag.partition("=")
        if not (decision_id and equals and option):
            raise CommandLineError(f"--decide {flag}: write it as --decide ID=OPTION")
        decisions[decision_id] = (*decisions.get(decision_id, ()), option)
    return decisions


def _is_watched(args: Arguments, env: CliEnvironment) -> bool:
    """Return whether a person sees a live tree."""
    is_terminal = env.stdout.isatty() and env.stdin.isatty() and env.environ.get("TERM", "dumb") != "dumb"
    return is_terminal and args.output == "text" and not args.show_output


@contextmanager
def _audience(args: Arguments, env: CliEnvironment) -> Generator[Audience]:
    """Yield the run's audience: JSON lines, a live tree with a person at the keyboard, or plain lines."""
    if args.output == "streaming":
        yield Audience(listeners=[EventLines(env.stdout, json_line)], waits=args.wait)
    elif args.output == "json":
        hints = [EventLines(env.stderr, hint)] if args.wait else []
        yield Audience(listeners=[EventLines(env.stderr, partial(line_of, TROUBLE)), *hints], waits=args.wait)
    elif _is_watched(args, env):
        from vibe.cli.terminal.live_tree import LiveTree  # noqa: PLC0415  for people alone
        from vibe.cli.terminal.person import asking

        with LiveTree(env.stdout, environ=env.environ) as tree:
            queue, person = asking(env, tree)
            yield Audience(listeners=[tree, queue], approver=person, user_input=person.answer, decide=person.decide)
    else:
        hints = [EventLines(env.stdout, hint)] if args.wait else []
        yield Audience(listeners=[ProgressLines(env.stdout, output=args.show_output), *hints], waits=args.wait)
