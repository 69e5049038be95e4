"""``vibe plan``: the grammar of its commands, and the module of each."""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from vibe.cli.arguments import add_common, positive_int, positive_number
from vibe.cli.environment import CliEnvironment
from vibe.cli.parser import OUTPUTS

PLAN_HELP = "the plan's id or a prefix, or 'latest'"

SERVED_BY = {
    "new": ("new",),
    "run": ("run", "resume"),
    "files": ("validate", "show", "graph", "schema", "diff"),
    "logs": ("logs",),
    "report": ("report",),
    "folders": ("list", "status"),
    "control": ("pause", "cancel", "decide", "approve", "retry", "skip", "steer"),
    "rewind": ("rewind",),
    "edit": ("edit",),
    "clean": ("clean",),
}
"""The commands that each module carries out; its name follows ``plan_``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the commands of ``plan`` to its parser."""
    commands = parser.add_subparsers(dest="plan_command", required=True, metavar="COMMAND")

    _add_new(commands)
    run = commands.add_parser("run", help="run a plan file")
    run.add_argument("file", nargs="?", metavar="FILE", help="the plan; '-': from stdin")
    run.add_argument("--demo", action="store_true", help="run the built-in demonstration instead of a FILE")
    add_common(run, "workdir")
    run.add_argument("--dry-run", action="store_true", help="print order, critical path and budget; run nothing")
    run.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="STEP",
        help="run this step, or the steps with a tag (tag:NAME), and what they depend on; repeatable, or A,B",
    )
    run.add_argument(
        "--resume", action="store_true", help="continue the last run of this file here, if it has not ended"
    )
    run.add_argument("--reuse", metavar="ID", help="reuse results of that plan's unchanged steps")
    run.add_argument(
        "--accept-commands",
        action="store_true",
        help="accept the commands in this plan, which a model wrote",
    )
    run.add_argument(
        "--allow-dirty",
        action="store_true",
        help="let worktree steps start from uncommitted changes",
    )
    _add_run_options(run)

    resume = commands.add_parser("resume", help="continue a plan that was paused or killed")
    resume.add_argument("plan", metavar="ID", help=PLAN_HELP)
    _add_run_options(resume)

    for name, words in (
        ("validate", "report every problem of a plan file"),
        ("show", "print a plan: its steps, and their status if it has run"),
        ("graph", "draw a plan's steps and their dependencies"),
    ):
        command = commands.add_parser(name, help=words)
        command.add_argument("plan", metavar="FILE|ID" if name != "validate" else "FILE", help="'-': from stdin")
        if name == "graph":
            command.add_argument(
                "--format", choices=("tree", "mermaid", "dot", "svg"), default="tree", help="default: tree"
            )
        else:
            add_common(command, "output")
    commands.add_parser("schema", help="print the JSON Schema of plan files")
    add_common(commands.add_parser("list", help="list all plans that have run, in any folder"), "output")
    status = commands.add_parser("status", help="show a plan's status")
    status.add_argument("plan", metavar="ID", help=PLAN_HELP)
    add_common(status, "output")
    logs = commands.add_parser("logs", help="show the output of a plan's commands, checks and agents")
    logs.add_argument("plan", metavar="ID", help=PLAN_HELP)
    logs.add_argument("step", nargs="?", metavar="STEP", help="of this step only")
    logs.add_argument("--follow", action="store_true", help="keep printing while the plan runs")
    _add_report(commands)
    _add_clean(commands)
    _add_control(commands)


def _add_control(commands: Any) -> None:
    """Add the commands to a plan that has been started, whether it runs or not."""
    words = {
        "pause": "pause a running plan: its steps stop at the end of their turn",
        "cancel": "cancel a plan or one of its steps, for good",
        "decide": "answer a decision a plan waits for",
        "approve": "approve or deny a tool call of a running plan",
        "retry": "rerun a step; if the plan is not running, also its dependents, on the next resume",
        "skip": "skip a step: its dependents still run",
        "steer": "send a message to the agent of a running step, read before its next turn",
        "rewind": "like retry, with the files as they were before the step",
        "edit": "change a plan's steps or budget, while it runs or between runs; default: in an editor",
    }
    parsers = {name: commands.add_parser(name, help=text) for name, text in words.items()}
    for parser in parsers.values():
        parser.add_argument("plan", metavar="ID", help=PLAN_HELP)
    parsers["pause"].add_argument(
        "--now", action="store_true", help="stop running steps at once, not at the end of their turn"
    )
    parsers["decide"].add_argument("decision", metavar="DECISION", help="as `vibe plan status ID` lists it")
    parsers["decide"].add_argument("options", metavar="OPTION", nargs="+", help="what to choose")
    approve = parsers["approve"]
    approve.add_argument("request", metavar="REQUEST", help="the request's id or a prefix, as the run prints it")
    approve.add_argument("--deny", action="store_true", help="deny it")
    approve.add_argument("--reason", default="", metavar="TEXT", help="what the model is told")
    for name in ("retry", "rewind", "skip", "steer"):
        parsers[name].add_argument("step", metavar="STEP", help="its id")
    add_common(parsers["rewind"], "wait")
    parsers["cancel"].add_argument("step", metavar="STEP", nargs="?", help="only this step; the others continue")
    parsers["steer"].add_argument("text", metavar="TEXT", nargs="+", help="what to tell it")
    source = parsers["edit"].add_mutually_exclusive_group()
    source.add_argument("--operations", metavar="FILE", help="a JSON list of operations; '-': from stdin")
    source.add_argument("--file", metavar="FILE", help="the new plan; differences are applied")
    source.add_argument("--ask", metavar="SENTENCE", help="let a model write the change, for you to confirm")
    parsers["edit"].add_argument("--yes", action="store_true", help="with --ask: apply the change without confirmation")
    parsers["edit"].add_argument("--max-tokens", type=positive_int, metavar="N", help="token limit of the whole plan")
    parsers["edit"].add_argument(
        "--max-price", type=positive_number, metavar="USD", help="price limit of the whole plan"
    )
    parsers["edit"].add_argument(
        "--max-seconds", type=positive_number, metavar="S", help="time limit of the whole plan"
    )
    parsers["edit"].add_argument("--reason", default="", metavar="TEXT", help="the reason, for the plan's history")
    parsers["edit"].add_argument("--trust", action="store_true", help="let steps use the workspace's .vibe")
    for parser in parsers.values():
        add_common(parser, "output")


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Hand over to the command's module."""
    subject = next(subject for subject, commands in SERVED_BY.items() if args.plan_command in commands)
    module = importlib.import_module(f"vibe.cli.commands.plan_{subject}")
    return int(module.run(args, env))


def _add_report(commands: Any) -> None:
    report = commands.add_parser("report", help="write a report: steps, time, cost, decisions, changes")
    report.add_argument("plan", metavar="ID", help=PLAN_HELP)
    report.add_argument(
        "--format", choices=("md", "html", "json", "junit"), help="default: by the extension of FILE, else md"
    )
    report.add_argument("-o", dest="file", metavar="FILE", help="write it to this file")
    diff = commands.add_parser("diff", help="compare the steps of two plans, and say why they differ")
    diff.add_argument("one", metavar="A", help="a plan file or a plan's id")
    diff.add_argument("other", metavar="B", help="a plan file or a plan's id")
    add_common(diff, "output")


def _add_new(commands: Any) -> None:
    new = commands.add_parser("new", help="write a plan for a goal, without running it")
    new.add_argument("goal", nargs="+", metavar="GOAL", help="what the plan must achieve; '-': from stdin")
    new.add_argument("--from", dest="base", metavar="PLAN", help="change this plan file instead, as GOAL says")
    new.add_argument("-o", dest="to", metavar="FILE", help="write the plan here; default: to stdout")
    new.add_argument("--workdir", metavar="DIR", help="plan for this folder instead of the current directory")
    add_common(new, "output")
    new.add_argument("--model", metavar="ALIAS", help="model that plans")
    add_common(new, "max-tokens", "max-price", "bus", "trust")


def _add_clean(commands: Any) -> None:
    clean = commands.add_parser("clean", help="remove worktrees, branches and sample copies of ended plans")
    clean.add_argument("plans", nargs="*", metavar="ID", help="a plan's id or a prefix")
    clean.add_argument("--all", action="store_true", help="clean all ended plans")
    clean.add_argument("--records", action="store_true", help="also delete the plans' records, results and logs")
    clean.add_argument("--dry-run", action="store_true", help="list what would be removed; remove nothing")
    add_common(clean, "output")


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", choices=OUTPUTS, default="text", help="format of stdout (default: text)")
    parser.add_argument("--max-parallel", type=positive_int, metavar="N", help="run at most N steps in parallel")
    parser.add_argument(
        "--decide", action="append", default=[], metavar="ID=OPTION", help="decide beforehand; repeatable"
    )
    parser.add_argument("--approve", choices=("edits",), help="let steps edit files in the workspace without asking")
    add_common(parser, "auto-approve", "network")
    parser.add_argument(
        "--wait",
        action="store_true",
        help="wait for decisions and approvals, given with `vibe plan decide` and `approve` from another terminal, "
        "and without end for others that write in this folder",
    )
    parser.add_argument("--fail-fast", action="store_true", help="start no more steps once one has failed")
    parser.add_argument(
        "--executor",
        metavar="NAME",
        help="where agents work: 'local', in this process, or 'process', each in its own "
        "(default: local; resume: as before)",
    )
    parser.add_argument("--model", metavar="ALIAS", help="model for steps that name none")
    add_common(parser, "bus", "trust")
    parser.add_argument(
        "--show-output", action="store_true", help="print the output of commands and checks live; lines, no tree"
    )
    parser.add_argument(
        "--report",
        action="append",
        default=[],
        metavar="FILE",
        help="write a report here at the end: .md, .html, .json or .xml (JUnit); "
        "'github': annotations and step summary; repeatable",
    )
