"""The parser of a command line: what is wrong is one sentence, and help is text."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn, cast

from vibe import __version__
from vibe.system.errors import UsageError, closest, did_you_mean

FEW = 5
"""Possible words that an error lists."""


class CommandLineError(UsageError):
    """The words of the command line are wrong."""


def pairs(flag: str, given: Iterable[str], shape: str = "NAME=VALUE") -> Iterator[tuple[str, str]]:
    """Yield the names that a flag gave, each with the text for it.

    Raises:
        CommandLineError: one has none.
    """
    for word in given:
        name, equals, text = word.partition("=")
        if not (name and equals):
            raise CommandLineError(f"{flag} {name or word}: write it as {flag} {shape}")
        yield name, text


class TextRequested(Exception):
    """The words ask for a ``text`` instead of work."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class ShowHelp(argparse.Action):
    """``--help``: leaves with the parser's help; argparse's own prints it on the process's stdout."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Raise it."""
        raise TextRequested(parser.format_help())


class ShowVersion(argparse.Action):
    """``--version``: leaves with the version."""

    def __call__(self, *_: object) -> NoReturn:
        """Raise it."""
        raise TextRequested(f"vibe {__version__}\n")


class Parser(argparse.ArgumentParser):
    """An argument parser that raises one sentence instead of printing usage and leaving."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs, "add_help": False})
        self._is_within = False
        """Argparse calls itself, once for options and once for the rest."""
        self.add_argument("-h", "--help", action=ShowHelp, nargs=0, help="show this help message and exit")

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]  its overloads come to this
        self, args: Any = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """As argparse, but options may stand before an argument that may be left out, which takes another go.

        A command refuses the words it does not know itself, so that the error names its help.
        """
        known, rest = super().parse_known_args(args, namespace)
        if self._is_within:
            return known, rest
        if rest and not any(action.nargs == argparse.PARSER for action in self._actions):
            vars(known).clear()
            self._is_within = True
            known, rest = self.parse_known_intermixed_args(args, known)
            self._is_within = False
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return known, rest

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would have printed, with the closest word where one was unknown."""
        missing = message.removeprefix("the following arguments are required: ")
        if missing != message:
            message = self._missing(missing)
        raise CommandLineError(f"{_with_hint(message, self.options())}; see `{self.prog} --help`")

    def _missing(self, names: str) -> str:
        """Return the word that is missing; where it is a command, all of them."""
        if names != "COMMAND":
            return f"{names} is missing: add it"
        commands = [str(word) for action in self._actions for word in action.choices or ()]
        return f"a command is missing: choose from {', '.join(commands)}"

    def told(self, args: argparse.Namespace) -> list[str]:
        """Return the options of this command that have another value than without a word."""
        return [
            action.option_strings[-1]
            for action in self._actions
            if action.option_strings and getattr(args, action.dest, None) not in (action.default, None, False, (), [])
        ]

    def options(self) -> list[str]:
        """Every option of this command and, since argparse reports unknown words from the top, of those below it."""
        words: list[str] = []
        for action in self._actions:
            words += action.option_strings
            below = cast("object", action.choices)
            for parser in cast("dict[str, object]", below).values() if isinstance(below, dict) else ():
                words += parser.options() if isinstance(parser, Parser) else []
        return words


ELSEWHERE = {
    "--check-config": "`vibe doctor` checks the settings",
    "--check-upgrade": "update it with the program that installed it",
    "-v": "use `vibe --version`",
}
"""Options of Mistral Vibe, and what to do here."""


def _with_hint(message: str, options: Sequence[str]) -> str:
    unknown = re.match(r"unrecognized arguments: (\S+)", message)
    if unknown:
        word = unknown.group(1).partition("=")[0]
        if word in ELSEWHERE:
            return f"there is no {word}: {ELSEWHERE[word]}"
        return _closest(f"unknown argument {unknown.group(1)!r}", word, options)
    choice = re.match(r"argument (?P<what>\S+): invalid choice: '(?P<word>.*?)' \(choose from (?P<known>.*)\)", message)
    if choice:
        known = re.findall(r"[^\s,']+", choice["known"])
        return _closest(f"unknown {choice['what'].lower()} {choice['word']!r}", choice["word"], known, most=FEW)
    return message


def _closest(sentence: str, word: str, known: Sequence[str], *, most: int = 0) -> str:
    """With what was probably meant, else with all that is known if that is no more than ``most``."""
    hint = did_you_mean(closest(word, known), f"choose from {', '.join(known)}" if len(known) <= most else "")
    return f"{sentence}: {hint}" if hint else sentence
