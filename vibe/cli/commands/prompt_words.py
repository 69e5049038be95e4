"""The words of ``vibe -p PROMPT``; apart from what carries them out, so that ``vibe --help`` loads nothing else."""

from __future__ import annotations

import argparse

from vibe.cli.arguments import add_common, positive_int, positive_number
from vibe.cli.command_table import COMMANDS
from vibe.cli.parser import OUTPUTS, ShowVersion


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the words of a prompt run, and the list of commands to the help."""
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:<{width}}  {about}" for name, about in COMMANDS.items())
    parser.epilog = f"commands:\n{listed}\n\nSee `vibe COMMAND --help` for each."
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("words", nargs="*", metavar="PROMPT", help="what to do; '-': wait for stdin")
    parser.add_argument(
        "-p", "--prompt", nargs="?", const="", metavar="PROMPT", help="answer and exit; '-': from stdin"
    )
    parser.add_argument("--plain", action="store_true", help="chat at the terminal, line by line")
    parser.add_argument("--attach", metavar="SOURCE", help="watch, answer and steer a run of another process")
    parser.add_argument("--setup", action="store_true", help="set up provider, key, model and theme first")
    parser.add_argument("--prompt-file", metavar="FILE", help="read the prompt from this file; answer and exit")
    parser.add_argument("--output", choices=OUTPUTS, default="text", help="format of stdout (default: text)")
    parser.add_argument(
        "--output-dir",
        metavar="DIR",
        help="write result.json, events.jsonl and messages.jsonl here, replacing those of an earlier run",
    )
    parser.add_argument("--agent", metavar="NAME", help="agent profile (default: default_agent)")
    parser.add_argument("--model", metavar="ALIAS", help="model to use")
    parser.add_argument(
        "--auto-approve", "--yolo", action="store_true", help="run everything no rule denies, without asking"
    )
    add_common(parser, "network")
    parser.add_argument("--max-turns", type=positive_int, metavar="N", help="stop after N model calls")
    add_common(parser, "max-tokens", "max-price")
    parser.add_argument("--time-limit", type=positive_number, metavar="SECONDS", help="stop after SECONDS")
    add_common(parser, "wait")
    parser.add_argument(
        "--enabled-tools",
        action="append",
        metavar="PATTERN",
        help="only these tools (name, glob or re:...); repeatable",
    )
    parser.add_argument(
        "-c", "--continue", dest="resume", action="store_const", const="", help="continue the last session here"
    )
    parser.add_argument(
        "--resume", nargs="?", const="", metavar="ID", help="continue the session with this id, or the last"
    )
    add_common(parser, "workdir", "add-dir", "trust")
    parser.add_argument("--version", "-V", action=ShowVersion, nargs=0, help="print the version")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
