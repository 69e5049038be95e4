"""``vibe help [COMMAND...]``: the same text as ``--help`` after the same words."""

from __future__ import annotations

from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.grammar import parser_of
from vibe.cli.parser import TextRequested


def run(args: Arguments, env: CliEnvironment) -> None:
    """Print the help."""
    try:
        parser_of(args.words[:1]).parse_args([*args.words, "--help"])
    except TextRequested as shown:
        env.stdout.write(shown.text)
