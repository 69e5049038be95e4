"""``vibe plan``: the grammar of its commands, and the module of each."""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from vibe.cli.arguments import add_common, positive_int, positive_number
from vibe.cli.environment import CliEnvironment
from vibe.cli.parser import OUTPUTS

PLAN_HELP = "the plan's id, its beginning, or 'latest'"

SERVED_BY = {
    "new": "vibe.cli.commands.plan_new",
    "run": "vibe.cli.commands.plan_run",
    "resume": "vibe.cli.commands.plan_run",
    "validate": "vibe.cli.commands.plan_files",
    "show": "vibe.cli.commands.plan_files",
    "graph": "vibe.cli.commands.plan_files",
    "schema": "vibe.cli.commands.plan_files",
    "logs": "vibe.cli.commands.plan_logs",
    "report": "vibe.cli.commands.plan_report",
    "diff": "vibe.cli.commands.plan_diff",
    "list": "vibe.cli.commands.plan_folders",
    "status": "vibe.cli.commands.plan_folders",
    "pause": "vibe.cli.commands.plan_control",
    "cancel": "vibe.cli.commands.plan_control",
    "decide": "vibe.cli.commands.plan_control",
    "approve": "vibe.cli.commands.plan_control",
    "retry": "vibe.cli.commands.plan_control",
    "skip": "vibe.cli.commands.plan_control",
    "steer": "vibe.cli.commands.plan_control",
    "rewind": "vibe.cli.commands.plan_rewind",
    "edit": "vibe.cli.commands.plan_edit",
    "clean": "vibe.cli.commands.plan_clean",
}


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
    run.add_argument("--reuse", metavar="ID", help="take over the results of that plan's steps that are unchanged")
    run.add_argument(
        "--accept-commands",
        action="store_true",
        help="you have read the commands of this plan that a model wrote: let them run",
    )
    run.add_argument(
        "--allow-dirty",
        action="store_true",
        help="let steps with a worktree start from what is not committed in the workspace, too",
    )
    _add_run_options(run)

    resume = commands.add_parser("resume", help="continue a plan that was paused or killed")
    resume.add_argument("plan", metavar="ID", help=PLAN_HELP)
    _add_run_options(resume)

    for name, words in (
        ("validate", "report every problem of a plan file"),
        ("show", "print a plan: its steps and, for one that has run, how they stand"),
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
    add_common(commands.add_parser("list", help="list the plans that have been run, in whatever folder"), "output")
    status = commands.add_parser("status", help="how a plan stands")
    status.add_argument("plan", metavar="ID", help=PLAN_HELP)
    add_common(status, "output")
    logs = commands.add_parser("logs", help="all that a plan's commands, checks and agents printed")
    logs.add_argument("plan", metavar="ID", help=PLAN_HELP)
    logs.add_argument("step", nargs="?", metavar="STEP", help="of this step only")
    logs.add_argument("--follow", action="store_true", help="go on printing while the plan runs")
    _add_report(commands)
    _add_clean(commands)
    _add_control(commands)


def _add_control(commands: Any) -> None:
    """Add the commands to a plan that has been started, whether it runs or not."""
    words = {
        "pause": "have a running plan paused: its steps stop at the end of their turn",
        "cancel": "end a plan, or one step of it, for good; what runs is stopped",
        "decide": "decide something that a plan waits for",
        "approve": "say yes, or no, to a tool call that a running plan asks about",
        "retry": "have a step done again; if nobody runs the plan, with what depends on it, by the next resume",
        "skip": "do without a step: what depends on it runs",
        "steer": "tell the agent of a running step something, which it reads before its next turn",
        "rewind": "as retry, on the files as they were before the step",
        "edit": "change a plan's steps or budget, while it runs or between two runs; default: in an editor",
    }
    parsers = {name: commands.add_parser(name, help=text) for name, text in words.items()}
    for parser in parsers.values():
        parser.add_argument("plan", metavar="ID", help=PLAN_HELP)
    parsers["pause"].add_argument(
        "--now", action="store_true", help="stop running steps at once, not at their turn's end"
    )
    parsers["decide"].add_argument("decision", metavar="DECISION", help="as `vibe plan status ID` lists it")
    parsers["decide"].add_argument("options", metavar="OPTION", nargs="+", help="what to choose")
    approve = parsers["approve"]
    approve.add_argument("request", metavar="REQUEST", help="the request's id or its beginning, as the run prints it")
    approve.add_argument("--deny", action="store_true", help="say no")
    approve.add_argument("--reason", default="", metavar="TEXT", help="what the model is told")
    for name in ("retry", "rewind", "skip", "steer"):
        parsers[name].add_argument("step", metavar="STEP", help="its id")
    parsers["cancel"].add_argument("step", metavar="STEP", nargs="?", help="this step only; the others go on")
    parsers["steer"].add_argument("text", metavar="TEXT", nargs="+", help="what to tell it")
    source = parsers["edit"].add_mutually_exclusive_group()
    source.add_argument("--operations", metavar="FILE", help="a JSON list of operations; '-': from stdin")
    source.add_argument("--file", metavar="FILE", help="the plan as it is to be; what differs is changed")
    source.add_argument("--ask", metavar="SENTENCE", help="have a model say how; it is shown, and waits for a yes")
    parsers["edit"].add_argument("--yes", action="store_true", help="with --ask: change the plan without asking")
    parsers["edit"].add_argument("--max-tokens", type=positive_int, metavar="N", help="tokens of the whole plan")
    parsers["edit"].add_argument("--max-price", type=positive_number, metavar="USD", help="price of the whole plan")
    parsers["edit"].add_argument("--max-seconds", type=positive_number, metavar="S", help="time of the whole plan")
    parsers["edit"].add_argument(
        "--reason", default="", metavar="TEXT", help="why, for whoever reads the plan's history"
    )
    parsers["edit"].add_argument("--trust", action="store_true", help="steps may use what the workspace's .vibe brings")
    for parser in parsers.values():
        add_common(parser, "output")


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Hand over to the command's module."""
    module = importlib.import_module(SERVED_BY[args.plan_command])
    return int(module.run(args, env))


def _add_report(commands: Any) -> None:
    report = commands.add_parser("report", help="what a plan came to: steps, time, cost, decisions, changes")
    report.add_argument("plan", metavar="ID", help=PLAN_HELP)
    report.add_argument(
        "--format", choices=("md", "html", "json", "junit"), help="default: what the name of FILE ends with, else md"
    )
    report.add_argument("-o", dest="file", metavar="FILE", help="write it to this file")
    diff = commands.add_parser("diff", help="which steps of two plans are the same, and why the others are not")
    diff.add_argument("one", metavar="A", help="a plan file or a plan's id")
    diff.add_argument("other", metavar="B", help="a plan file or a plan's id")
    add_common(diff, "output")


def _add_new(commands: Any) -> None:
    new = commands.add_parser("new", help="have a plan written for a goal; nothing is run")
    new.add_argument("goal", nargs="+", metavar="GOAL", help="what the plan must achieve; '-': from stdin")
    new.add_argument(
        "--from", dest="base", metavar="PLAN", help="change this plan file instead; GOAL says how, in a sentence"
    )
    new.add_argument("-o", dest="to", metavar="FILE", help="write the plan here; default: to stdout")
    new.add_argument("--workdir", metavar="DIR", help="plan for this folder instead of the current directory")
    add_common(new, "output")
    new.add_argument("--model", metavar="ALIAS", help="model that plans")
    add_common(new, "max-tokens", "max-price", "bus", "trust")


def _add_clean(commands: Any) -> None:
    clean = commands.add_parser(
        "clean", help="remove the worktrees, branches and copies of samples that ended plans left"
    )
    clean.add_argument("plans", nargs="*", metavar="ID", help="a plan's id or its beginning")
    clean.add_argument("--all", action="store_true", help="of all plans that have ended")
    clean.add_argument(
        "--records", action="store_true", help="and all that is known of these plans: records, results, logs"
    )
    clean.add_argument("--dry-run", action="store_true", help="say what there is; remove nothing")
    add_common(clean, "output")


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", choices=OUTPUTS, default="text", help="what stdout carries (default: text)")
    parser.add_argument("--max-parallel", type=positive_int, metavar="N", help="run at most N steps side by side")
    parser.add_argument(
        "--decide", action="append", default=[], metavar="ID=OPTION", help="decide beforehand; repeatable"
    )
    parser.add_argument("--approve", choices=("edits",), help="let steps edit files in the workspace without asking")
    parser.add_argument(
        "--auto-approve", "--yolo", action="store_true", help="let steps do whatever no rule denies, without asking"
    )
    add_common(parser, "network")
    parser.add_argument(
        "--wait",
        action="store_true",
        help="wait for decisions and approvals: `vibe plan decide` and `approve` give them from another terminal",
    )
    parser.add_argument("--fail-fast", action="store_true", help="start nothing more once a step has failed")
    parser.add_argument(
        "--executor",
        metavar="NAME",
        help="where agents work: 'local', in this process, or 'process', each in its own "
        "(default: local; resume: as before)",
    )
    parser.add_argument("--model", metavar="ALIAS", help="model of the steps that name none")
    add_common(parser, "bus", "trust")
    parser.add_argument(
        "--show-output", action="store_true", help="print what commands and checks print, as they do; lines, no tree"
    )
    parser.add_argument(
        "--report",
        action="append",
        default=[],
        metavar="FILE",
        help="leave a report here at the end: .md, .html, .json or .xml (JUnit); "
        "'github': annotations and step summary; repeatable",
    )
