"""The command line parser, which reports an error in one sentence and returns help as text."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn, cast

from vibe import __version__
from vibe.system.errors import UsageError, closest, did_you_mean


class CommandLineError(UsageError):
    """The words of the command line are wrong."""


def pairs(flag: str, given: Iterable[str], shape: str = "NAME=VALUE") -> Iterator[tuple[str, str]]:
    """Yield each name that a flag was given, with its text.

    Raises:
        CommandLineError: one lacks a name or an equals sign.
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
    """``--help``: raises the help text; argparse's own action prints it to the process's stdout."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Raise the help text."""
        raise TextRequested(parser.format_help())


class ShowVersion(argparse.Action):
    """``--version``: raises the version text."""

    def __call__(self, *_: object) -> NoReturn:
        """Raise the version text."""
        raise TextRequested(f"vibe {__version__}\n")


class Parser(argparse.ArgumentParser):
    """An argument parser that raises a one-sentence error instead of printing usage and exiting."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs, "add_help": False})
        self._is_within = False
        """Set while argparse calls itself, once for options and once for the rest."""
        self.add_argument("-h", "--help", action=ShowHelp, nargs=0, help="show this help message and exit")

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]  its overloads come to this
        self, args: Any = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse as argparse does, but also allow options before an optional argument, in a second pass.

        A command rejects unknown words itself, so that the error names that command's help.
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
        self._check_companions(known)
        return known, rest

    def _check_companions(self, args: argparse.Namespace) -> None:
        """Refuse an argument that means nothing by itself: its help begins with the one it goes with."""
        given = [name for action in self._given(args) for name in _names(action)]
        for action in self._given(args):
            companion = re.match(r"with (\S+):", action.help or "")
            if companion and companion[1] not in given:
                raise CommandLineError(f"{_names(action)[-1]} goes with {companion[1]}: add it")

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print, with the closest known word if one was unknown."""
        missing = message.removeprefix("the following arguments are required: ")
        if missing != message:
            message = self._missing(missing)
        message = message.replace("ignored explicit argument", "takes no value, not")
        message = message.replace("expected one argument", "its value is missing: add it")
        has_command = any("|COMMAND" in str(action.metavar) for action in self._actions)
        otherwise = "write -- before a command with options of its own" if has_command else ""
        raise CommandLineError(f"{_with_hint(message, [*self.options()], otherwise)}; see `{self.prog} --help`")

    def _missing(self, names: str) -> str:
        """Return the message for a missing argument; for a missing command, list all commands."""
        if names != "COMMAND":
            *others, last = names.split(", ")
            return f"{', '.join(others)} and {last} are missing: add them" if others else f"{last} is missing: add it"
        commands = [str(word) for action in self._actions for word in action.choices or ()]
        return f"a command is missing: choose from {', '.join(commands)}"

    def options_set(self, args: argparse.Namespace) -> list[str]:
        """Return the options of this command whose value differs from the default."""
        return [action.option_strings[-1] for action in self._given(args) if action.option_strings]

    def _given(self, args: argparse.Namespace) -> list[argparse.Action]:
        """Return the arguments of this command whose value differs from the default."""
        return [one for one in self._actions if getattr(args, one.dest, None) not in (one.default, None, False, (), [])]

    def options(self) -> Iterator[str]:
        """Yield all options of this command and its subcommands, whose unknown words argparse reports from the top."""
        for action in self._actions:
            yield from action.option_strings
            below = cast("object", action.choices)
            for parser in cast("dict[str, object]", below).values() if isinstance(below, dict) else ():
                yield from parser.options() if isinstance(parser, Parser) else ()


ELSEWHERE = {
    "--check-config": "`vibe doctor` checks the settings",
    "--check-upgrade": "update it with the program that installed it",
    "-v": "use `vibe --version`",
    **dict.fromkeys(("-C", "--cd", "--cwd"), "use --workdir"),
    **dict.fromkeys(("-y", "--yes", "--full-auto", "--dangerously-skip-permissions"), "use --auto-approve"),
    "--json": "use --output json",
    "--print": "use -p",
    **dict.fromkeys(("continue", "resume"), "use `vibe --resume ID`"),
}
"""Options and subcommands of Mistral Vibe and similar programs, with what to use instead."""


def _names(action: argparse.Action) -> Sequence[str]:
    """Return all forms of an option, or the name of a positional argument."""
    return action.option_strings or [str(action.metavar)]


def _with_hint(message: str, options: Sequence[str], otherwise: str) -> str:
    unknown = re.match(r"unrecognized arguments: (\S+)", message)
    if unknown:
        word = unknown.group(1).partition("=")[0]
        if word in ELSEWHERE and not otherwise:
            return f"there is no {word}: {ELSEWHERE[word]}"
        return _closest(f"unknown argument {unknown.group(1)[:80]!r}", word, options, otherwise)
    choice = re.match(r"argument (?P<what>\S+): invalid choice: '(?P<word>.*?)' \(choose from (?P<known>.*)\)", message)
    if choice:
        known = re.findall(r"[^\s,']+", choice["known"])
        asked = f"unknown {choice['what'].lower()} {choice['word'][:80]!r}"
        if choice["word"] in ELSEWHERE:
            return f"{asked}: {ELSEWHERE[choice['word']]}"
        return _closest(asked, choice["word"], known, f"choose from {', '.join(known)}")
    return message


def _closest(sentence: str, word: str, known: Sequence[str], otherwise: str) -> str:
    """Append what was probably meant, or else what to do ``otherwise``."""
    hint = did_you_mean(closest(word, known), otherwise)
    return f"{sentence}: {hint}" if hint else sentence
