"""``vibe plan``: the grammar of its commands, and who serves each."""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from vibe.cli.arguments import positive_int
from vibe.cli.environment import CliEnvironment
from vibe.cli.parser import OUTPUTS

SERVED_BY = {
    "run": "vibe.cli.commands.plan_run",
    "resume": "vibe.cli.commands.plan_run",
    "validate": "vibe.cli.commands.plan_files",
    "show": "vibe.cli.commands.plan_files",
    "graph": "vibe.cli.commands.plan_files",
    "schema": "vibe.cli.commands.plan_files",
    "list": "vibe.cli.commands.plan_folders",
    "status": "vibe.cli.commands.plan_folders",
}


def add_arguments(subparsers: Any) -> None:
    """Add ``plan`` and its commands to the command line."""
    parser = subparsers.add_parser("plan", help="run plans and look at them")
    commands = parser.add_subparsers(dest="plan_command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a plan file")
    run.add_argument(
        "file", nargs="?", metavar="FILE", help="the plan; '-': from stdin; default: the built-in demonstration"
    )
    run.add_argument("--workdir", metavar="DIR", help="work here instead of in the current directory")
    run.add_argument("--dry-run", action="store_true", help="print order, critical path and budget; run nothing")
    _add_run_options(run)

    resume = commands.add_parser("resume", help="go on with a plan that was paused or killed")
    resume.add_argument("plan", metavar="ID", help="the plan's id or its beginning")
    _add_run_options(resume)

    for name, words in (
        ("validate", "report every problem of a plan file"),
        ("show", "print a plan: its steps and, for one that has run, how they stand"),
        ("graph", "draw a plan's steps and their dependencies"),
    ):
        command = commands.add_parser(name, help=words)
        command.add_argument("plan", metavar="FILE|ID" if name != "validate" else "FILE", help="'-': from stdin")
        if name == "graph":
            command.add_argument("--format", choices=("tree", "mermaid", "dot"), default="tree", help="default: tree")
        else:
            _add_output(command)
    commands.add_parser("schema", help="print the JSON Schema of plan files")
    _add_output(commands.add_parser("list", help="list the plans that have been run here"))
    status = commands.add_parser("status", help="how a plan stands")
    status.add_argument("plan", metavar="ID", help="the plan's id or its beginning")
    _add_output(status)


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Hand over to the command's module."""
    module = importlib.import_module(SERVED_BY[args.plan_command])
    return int(module.run(args, env))


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", choices=("text", "json"), default="text", help="default: text")


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", choices=OUTPUTS, default="text", help="what stdout carries (default: text)")
    parser.add_argument("--max-parallel", type=positive_int, metavar="N", help="run at most N steps side by side")
    parser.add_argument(
        "--decide", action="append", default=[], metavar="ID=OPTION", help="take a decision beforehand; repeatable"
    )
    parser.add_argument("--approve", choices=("edits",), help="let steps edit files in the workspace without asking")
    parser.add_argument(
        "--auto-approve", "--yolo", action="store_true", help="let steps do whatever no rule denies, without asking"
    )
    parser.add_argument("--fail-fast", action="store_true", help="start nothing more once a step has failed")
    parser.add_argument("--model", metavar="ALIAS", help="model of the steps that name none")
    parser.add_argument("--bus", metavar="ADDRESS", help="publish events here, e.g. tcp://127.0.0.1:5555")
    parser.add_argument("--trust", action="store_true", help="load this folder's .vibe, for this run")
