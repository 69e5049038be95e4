"""``vibe help [COMMAND...]``: the same text as ``--help`` after the same words."""

from __future__ import annotations

import argparse

from vibe.cli.commands.whole_parser import parser_of
from vibe.cli.environment import CliEnvironment
from vibe.cli.parser import TextRequested


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Print the help."""
    try:
        parser_of(args.words[:1]).parse_args([*args.words, "--help"])
    except TextRequested as shown:
        env.stdout.write(shown.text)
    return 0
