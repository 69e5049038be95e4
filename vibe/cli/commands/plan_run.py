"""``vibe plan run`` and ``vibe plan resume``: run a plan, show it while it runs, and say how it ended."""

from __future__ import annotations

import argparse
import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio

from planner.loader import LoadedPlan, load_plan, read_plan_file
from planner.records import Approvals
from vibe.app.host import Host
from vibe.app.run_plan import Audience, PlanRun, PlanRunOptions, resume_plan, run_new_plan
from vibe.cli.arguments import existing_folder
from vibe.cli.environment import CliEnvironment
from vibe.cli.examples import quickstart_file
from vibe.cli.output import TROUBLE, JsonLinesSink, LineSink, write_record
from vibe.cli.parser import CommandLineError
from vibe.cli.plan_summary import dry_run_facts, write_dry_run, write_summary
from vibe.cli.progress import ProgressLines
from vibe.cli.streams import forgive


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Run or resume, and return the exit code of the record."""
    options = _options(args, env)
    host = Host(home=env.home, environ=env.environ, runtime_dir=env.runtime_dir)
    forgive(env.stdout)  # the work goes on when nobody reads of it any more
    if args.plan_command == "resume":
        with _audience(args.output, env) as audience:
            ended = anyio.run(resume_plan, args.plan, options, host, audience)
    else:
        loaded = read_plan(args.file, env)
        if args.dry_run:
            _write_dry_run(loaded, args.output, env)
            return 0
        with _audience(args.output, env) as audience:
            ended = anyio.run(run_new_plan, loaded, options, host, audience)
    _print(ended, args.output, env)
    return ended.record.exit_code


def _write_dry_run(loaded: LoadedPlan, output: str, env: CliEnvironment) -> None:
    if output == "text":
        write_dry_run(loaded, env.stdout)
    else:
        env.stdout.write(json.dumps(dry_run_facts(loaded), indent=2 if output == "json" else None) + "\n")


def read_plan(file: str | None, env: CliEnvironment) -> LoadedPlan:
    """The plan of a FILE argument: a path, ``-`` for stdin, None for the built-in demonstration.

    Raises:
        PlanInvalidError: it is no valid plan.
    """
    if file == "-":
        return load_plan(env.stdin.buffer.read(), where="standard input")
    return read_plan_file(quickstart_file() if file is None else env.cwd / Path(file).expanduser())


def _options(args: argparse.Namespace, env: CliEnvironment) -> PlanRunOptions:
    approvals = Approvals.AUTO if args.auto_approve else Approvals(args.approve or Approvals.ASK)
    file = getattr(args, "file", "-")
    path = quickstart_file() if file is None else env.cwd / Path(file).expanduser()
    return PlanRunOptions(
        workdir=existing_folder("--workdir", getattr(args, "workdir", None), env.cwd),
        plan_folder=env.cwd if file == "-" else path.parent,
        approvals=approvals,
        max_parallel=args.max_parallel,
        decisions=_decisions(args.decide),
        model=args.model,
        fail_fast=args.fail_fast,
        trust=args.trust,
        bus_address=args.bus,
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


@contextmanager
def _audience(output: str, env: CliEnvironment) -> Generator[Audience]:
    """Who watches: JSON lines, a live tree with somebody at the keyboard, or plain lines."""
    if output == "streaming":
        yield Audience(listeners=[JsonLinesSink(env.stdout)])
    elif output == "json":
        yield Audience(listeners=[LineSink(env.stderr, TROUBLE)])
    elif env.stdout.isatty() and env.stdin.isatty() and env.environ.get("TERM", "dumb") != "dumb":
        from vibe.cli.live_tree import LiveTree  # noqa: PLC0415  rich is only loaded for a terminal
        from vibe.cli.terminal_approver import TerminalApprover  # noqa: PLC0415  as above

        with LiveTree(env.stdout, environ=env.environ) as tree:
            yield Audience(listeners=[tree], approver=TerminalApprover(tree, env))
    else:
        yield Audience(listeners=[ProgressLines(env.stdout)])


def _print(ended: PlanRun, output: str, env: CliEnvironment) -> None:
    if output == "text":
        write_summary(ended, env.stdout)
    else:
        write_record(ended.record, env.stdout, indent=2 if output == "json" else None)
