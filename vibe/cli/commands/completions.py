"""``vibe completions SHELL``: a script that has the shell complete commands, flags and their values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources

from vibe.cli.command_table import COMMANDS
from vibe.cli.commands.whole_parser import parser_of
from vibe.cli.environment import CliEnvironment
from vibe.cli.parser import Parser

PLACEHOLDER = re.compile(r"^ *# (VALUES|WORDS):.*$", re.MULTILINE)


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Print the script."""
    words, values = _known()
    if args.shell == "fish":
        env.stdout.write(_filled("fish", _fish(words, values)))
    else:
        opening = _text("zsh") if args.shell == "zsh" else ""
        env.stdout.write(opening + _filled("bash", _bash(words, values)))
    return 0


def _text(shell: str) -> str:
    return resources.files("vibe.cli.commands").joinpath(f"completions.{shell}").read_text(encoding="utf-8")


def _filled(shell: str, known: Mapping[str, Sequence[str]]) -> str:
    """The script of a shell, with lines in place of the comments that stand for them."""
    return PLACEHOLDER.sub(lambda found: "\n".join(known[found[1]]), _text(shell))


def _known() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the words that may follow each command, and each of its options that takes a value.

    No words after an option: a file, or anything.
    """
    words: dict[str, list[str]] = {}
    values: dict[str, list[str]] = {}
    for line, parser in _parsers():
        words[line] = [*(COMMANDS if not line else ()), *parser.own_words()]
        values |= {f"{line} {option}": choices for option, choices in parser.option_values().items()}
    words["help"] = list(COMMANDS)
    return words, values


def _parsers() -> Iterator[tuple[str, Parser]]:
    yield "", parser_of(())
    for command in COMMANDS:
        for parser in parser_of((command,)).parsers_below():
            yield parser.prog.removeprefix("vibe "), parser


def _grouped(values: Mapping[str, Sequence[str]]) -> Iterator[tuple[list[str], Sequence[str]]]:
    """The options that take the same values, together."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for line, choices in values.items():
        groups.setdefault(tuple(choices), []).append(line)
    for choices, lines in groups.items():
        yield lines, choices


def _bash(words: Mapping[str, Sequence[str]], values: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    chosen: list[str] = []
    for lines, choices in _grouped(values):
        patterns = "|".join(map('"{}"'.format, lines))
        chosen.append(f'            {patterns}) words="{" ".join(choices)}"; break ;;')
    known = [f'            "{line}") words="{" ".join(below)}" ;;' for line, below in words.items()]
    return {"WORDS": known, "VALUES": chosen}


def _fish(words: Mapping[str, Sequence[str]], values: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    chosen: list[str] = []
    for lines, choices in _grouped(values):
        chosen.append(f"            case {' '.join(map(repr, lines))}")
        chosen += [_printed(choices)] if choices else []
        chosen.append("                return")
    known = [f"            case '{line}'\n{_printed(below)}" for line, below in words.items()]
    return {"WORDS": known, "VALUES": chosen}


def _printed(words: Sequence[str]) -> str:
    return f"                printf '%s\\n' {' '.join(words)}"
