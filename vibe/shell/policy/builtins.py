"""Commands that are words of the shell itself, and where a word may stand that only running tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from vibe.shell.policy.words import LOCAL_NAME, ShellCommand, Word

SAYING = frozenset({"echo", "true", "false", ":", "expr"})
"""They do no more than print what they are given, whatever that is."""


SHELL_WORDS: Mapping[str, re.Pattern[str]] = MappingProxyType({
    ":": re.compile(r".*", re.DOTALL),
    **dict.fromkeys(("break", "continue", "exit"), re.compile(r"\d*")),
    "read": re.compile(rf"(?:(?:-r|{LOCAL_NAME.pattern})(?:\0|\Z))*"),
    "set": re.compile(r"(?:[-+](?:[eu]++|[eu]*o[\0 ]pipefail)(?:[\0 ]|\Z))+"),
    "sleep": re.compile(r"\d{0,2}(?:\.\d+)?s?"),
})
"""By name, and the words after it, with which it does nothing else."""


def is_shell_word(command: ShellCommand) -> bool:
    """Return whether a command only controls the flow of the line it stands in."""
    argv = command.argv
    if len(argv) != len(command.words) or any(word.pattern for word in command.words):
        return False
    return argv[:1] != () and argv[0] in SHELL_WORDS and bool(SHELL_WORDS[argv[0]].fullmatch("\0".join(argv[1:])))


FOLDER_BELOW = re.compile(r"(?!(?:.*/)?\.\.(?:/|$))[\w.][\w./-]*")


def bare(command: ShellCommand) -> ShellCommand:
    """The command that ``time`` measures, git without options about paging, and in the folder of ``-C``.

    Any other as it is.
    """
    words = command.words
    while len(words) > 1 and words[0].text == "time" and not words[0].pattern and _is_measured(words[1].text):
        words = words[1:]
    places = command.places
    while len(words) > 1 and words[0].text == "git":
        if words[1].text in {"--no-pager", "-P"}:
            words = (words[0], *words[2:])
        elif len(words) > 3 and words[1].text == "-C" and FOLDER_BELOW.fullmatch(folder := words[2].text or ""):
            words = (words[0], *words[3:])
            places = frozenset((*place, folder) for place in places)
        else:
            break
    return command if words is command.words else replace(command, words=words, places=places)


def _is_measured(name: str | None) -> bool:
    """Return whether ``time`` stands before a program.

    What would change how the line goes on is followed only without it.
    """
    return name is not None and not name.startswith("-") and name != "cd" and name not in SHELL_WORDS


def with_stand_ins(command: ShellCommand) -> ShellCommand:
    """The command with a plain word for each that only running tells, where any word would do; else as it is."""
    if all(word.text is not None for word in command.words) or not command.argv:
        return command
    if not all(word.harmless for word in command.words if word.text is None):
        return command
    program, *rest = command.words
    if program.text not in SAYING and not (
        (program.text == "printf" and rest[0].text is not None) or (program.text == "test" and _compares(rest))
    ):
        return command
    stand_ins = (Word(text="1" if word.number else "x") if word.text is None else word for word in command.words)
    return replace(command, words=tuple(stand_ins))


def _compares(words: list[Word]) -> bool:
    """Return whether ``test`` only compares texts or numbers."""
    if len(words) == 2 and words[0].text in {"-n", "-z"}:
        return True
    if len(words) != 3:
        return False
    left, operator, right = words
    numbers = all(word.number or (word.text or "").isdecimal() for word in (left, right))
    return operator.text in {"=", "!="} or (numbers and operator.text in {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
