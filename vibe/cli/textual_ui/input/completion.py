"""Completion of a prompt: the word that can be completed, the order of what fits, and the text to put in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from vibe.cli.textual_ui.input.fuzzy import cost

_COMMAND = re.compile(r"/(\S*)$")
_ARGUMENT = re.compile(r"/(\S+)\s+((?:.*\s)?(\S*))$")
_FILE = re.compile(r'(?<!\S)@(?:"(?P<quoted>[^"]*)|(?P<plain>[^\s"]*))$')
_NEEDS_QUOTES = re.compile(r"\s|[.,;:!?)\]}]$")


class CompletionKind(Enum):
    """The kinds of words that can be completed."""

    COMMAND = "command"
    ARGUMENT = "argument"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedWord:
    """A word before the cursor: ``length`` counts its characters, ``typed`` are those to look for.

    For an argument, ``command`` is the command's name, and ``text`` all that follows it.
    """

    kind: CompletionKind
    typed: str
    length: int
    command: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Something to put in for the word; ``label`` and ``about`` are shown."""

    insert: str
    label: str
    about: str = ""


def word_at(line: str, *, is_first: bool, is_shell: bool) -> CompletedWord | None:
    """Return the word at the end of a line up to the cursor that can be completed.

    Commands stand at the beginning of the first line; a line for the shell has no completion.
    """
    if is_shell:
        return None
    if found := _FILE.search(line):
        typed = found["plain"] if found["quoted"] is None else found["quoted"]
        return CompletedWord(kind=CompletionKind.FILE, typed=typed, length=len(found.group()))
    if not is_first:
        return None
    if found := _COMMAND.match(line):
        return CompletedWord(kind=CompletionKind.COMMAND, typed=found[1], length=len(line))
    if found := _ARGUMENT.match(line):
        kind = CompletionKind.ARGUMENT
        return CompletedWord(kind=kind, typed=found[3], length=len(found[3]), command=found[1], text=found[2])
    return None


def mention_of(path: str) -> str:
    """Return a path as prompts mention it."""
    return f'@"{path}"' if _NEEDS_QUOTES.search(path) else f"@{path}"


def best(typed: str, names: Sequence[str]) -> list[int]:
    """Return the places of the names that fit, the best first, equals in their order; all fit nothing."""
    if not typed:
        return list(range(len(names)))
    wanted = typed.lower()
    costs = ((cost(wanted, name.lower()), place) for place, name in enumerate(names))
    return [place for _, place in sorted((found, place) for found, place in costs if found is not None)]
