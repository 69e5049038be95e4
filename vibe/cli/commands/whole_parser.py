"""The parser of a command line, by its first word; a misspelled command is not taken as a prompt."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from vibe.cli.arguments import add_common, positive_int, positive_number
from vibe.cli.commands.command_words import WORDS
from vibe.cli.parser import OUTPUTS, CommandLineError, Parser, ShowVersion
from vibe.system.plain_text import closest, did_you_mean

COMMANDS = {
    "plan": "create, run and inspect plans",
    "agents": "list the agent profiles",
    "setup": "choose a provider and a model, save the key, and test it",
    "config": "show and change settings",
    "models": "list configured models and what their providers offer",
    "tools": "list the tools",
    "events": "follow runs on this machine and answer their requests",
    "memory": "show and change what later conversations remember",
    "skills": "list the skills",
    "trust": "choose which folders' .vibe may be loaded",
    "session": "show, export and rewind saved conversations",
    "mcp": "manage MCP servers, or serve as one",
    "permissions": "explain whether a tool call is allowed",
    "doctor": "check settings, keys, sandbox and programs",
    "completions": "print a completion script for a shell",
    "help": "show help for a command",
    "migrate": "remove settings of Mistral Vibe that have no effect here",
}
"""Each is served by the module of its name in ``vibe.cli.commands``; anything else is a prompt."""


def add_prompt_arguments(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument(
        "--image", action="append", default=[], metavar="FILE", help="an image for the prompt; repeatable"
    )
    parser.add_argument("--agent", metavar="NAME", help="agent profile (default: default_agent)")
    parser.add_argument("--model", metavar="ALIAS", help="model to use")
    add_common(parser, "auto-approve", "network")
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
    add_prompt_arguments(parser)
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
