"""``vibe help [COMMAND...]``: what ``--help`` after the same words prints."""

from __future__ import annotations

import argparse
from typing import Any

from vibe.cli.commands.whole_parser import parser_of
from vibe.cli.environment import CliEnvironment
from vibe.cli.parser import Shown


def add_arguments(subparsers: Any) -> None:
    """Add ``help`` to the command line."""
    parser = subparsers.add_parser("help", help="tell more of a command")
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="such as plan, or plan run; default: all of them")


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Print the help."""
    try:
        parser_of(args.words[:1]).parse_args([*args.words, "--help"])
    except Shown as shown:
        env.stdout.write(shown.text)
    return 0
