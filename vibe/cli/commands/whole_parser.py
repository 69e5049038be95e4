"""The parser of a command line, by its first word; a misspelled command is not taken as a prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vibe.cli.command_table import COMMANDS
from vibe.cli.commands.command_words import WORDS
from vibe.cli.commands.prompt_words import add_arguments as add_prompt_words
from vibe.cli.parser import CommandLineError, Parser
from vibe.core.plain_text import closest, did_you_mean

ASKING = ("-p", "--prompt", "--prompt-file")
NO_MORE_WORDS = 2
NEAR = 0.75
ELSEWHERE = {
    "auth": "use `vibe setup`",
    "chat": "use `vibe -p PROMPT`",
    "exec": "use `vibe -p PROMPT`",
    "init": "use `vibe setup` to choose provider, key and model",
    "login": "use `vibe setup`",
    "resume": "use `vibe --resume [ID] -p PROMPT`, or `vibe plan resume ID`",
    "run": "use `vibe plan run FILE`",
    "update": "update it with the program that installed it",
    "upgrade": "update it with the program that installed it",
    "version": "use `vibe --version`",
}
"""Commands that other programs of the kind have, and what to do here."""


def parser_of(words: Sequence[str]) -> Parser:
    """Return the parser of the command that the words begin with, else that of a prompt.

    Raises:
        CommandLineError: they begin with what is meant as a command, and is none.
    """
    parser = Parser(prog="vibe", description="A coding agent that plans and executes.")
    if words and words[0] in COMMANDS:
        about = COMMANDS[words[0]]
        commands = parser.add_subparsers(dest="command", parser_class=Parser)
        WORDS[words[0]](commands.add_parser(words[0], description=f"{about[0].upper()}{about[1:]}."))
        return parser
    refusal = _refusal(words)
    if refusal:
        raise CommandLineError(f"{refusal} (a prompt is given with `vibe -p PROMPT`; see `vibe --help`)")
    add_prompt_words(parser)
    return parser


def _refusal(words: Sequence[str]) -> str | None:
    """Return an error's sentence if the words begin with a single word that is meant as a command and is none."""
    if not words or not re.fullmatch(r"[A-Za-z][A-Za-z-]*", words[0]) or any(word in ASKING for word in words):
        return None
    word = words[0].lower()
    near = closest(word, COMMANDS, cutoff=NEAR)
    if near:
        return f"unknown command {words[0]!r}: {did_you_mean(near)}"
    if word in ELSEWHERE and len([given for given in words if not given.startswith("-")]) <= NO_MORE_WORDS:
        return f"unknown command {words[0]!r}: {ELSEWHERE[word]}"
    return None
