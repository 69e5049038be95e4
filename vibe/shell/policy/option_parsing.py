"""The words of a program, told apart by its row: options, their values, and what the others name.

How a row is read: ``-ab`` are the options ``-a`` and ``-b``; ``-n=`` takes a value, attached or as the next word;
``--long`` takes none, ``--long=`` takes one, ``--long?`` takes one only after ``=``; ``-n:`` takes the next word, and
what is glued to it are further options; ``-ps!`` is one option of several letters; ``-#`` is a number such as ``-20``.
Abbreviations of long options are not known, and so asked about. A test asks every program in the tables whether that is
so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from msgspec import Struct

from vibe.shell.policy.parser import ShellCommand, Word
from vibe.shell.policy.paths import NamedPath

PATTERN_SAFE = frozenset({"ls", "cat", "head", "tail", "wc", "stat", "du", "md5sum", "sha1sum", "sha256sum",
                          "sha512sum", "echo", "basename", "dirname", "nl", "tac"})  # fmt: skip
"""Programs without any option that writes or runs something: a file named like an option can do no harm there."""


T = TypeVar("T")


def by_name(rows: Mapping[str, T]) -> Mapping[str, T]:
    """Rows by each of the names that stand before them, with commas between."""
    return MappingProxyType({name: row for names, row in rows.items() for name in names.split(", ")})


class Operands(Enum):
    """The kind of things named by those words of a command that are no options."""

    NONE = "none"
    TEXT = "text"
    WORDS = "text, be it like options"
    PATHS = "paths"
    ONE_PATH = "one path"
    """A second one would be written to."""
    PATTERN = "pattern, then paths"
    REVISIONS = "revisions and paths"


@dataclass(frozen=True)
class OptionRow:
    """A program's options as one text, each with a sign for what follows it."""

    row: str = ""

    @cached_property
    def options(self) -> Mapping[str, str]:
        """Option to what follows it."""
        return options_in(self.row)


@dataclass(frozen=True)
class Reader(OptionRow):
    """A program (or subcommand) that only reads when it is given nothing but the options of its ``row``.

    ``patterns``: options that give the pattern, so that all operands are paths. ``recursive``: options that make it
    read the files below a folder (``*``: always), ``visible``: hidden ones only if asked to, ``follows``: also where
    links lead (``*``: always). ``listing``: options without which an operand would create something. ``clusters``:
    ``-ab`` is ``-a -b``. ``stops``: the first operand ends them. ``fixed_first``: the first word may be no pattern.
    ``check`` says what is wrong with all the words, or nothing; ``script`` what is wrong with a pattern; ``own`` is for
    words that are no options and operands: what is wrong, and the paths they name.
    """

    operands: Operands = Operands.PATHS
    _: KW_ONLY
    patterns: str = ""
    recursive: str = ""
    visible: bool = False
    follows: str = ""
    listing: str = ""
    clusters: bool = True
    stops: bool = False
    fixed_first: bool = False
    check: Callable[[Sequence[str]], str] | None = None
    script: Callable[[str], str] | None = None
    own: Callable[[Sequence[str]], tuple[str, Sequence[str]]] | None = None


def options_in(row: str) -> Mapping[str, str]:
    """The options of a row, each with what follows it: nothing, ``=``, ``?`` or ``:``."""
    found: dict[str, str] = {}
    for word in row.split():
        mark = word[-1] if word[-1] in "=?:!" else ""
        name = word.removesuffix(mark)
        if name.startswith("--") or mark == "!" or len(name) == 2:
            found[name] = mark.strip("!")
        else:
            found.update(dict.fromkeys((f"-{letter}" for letter in name[1:]), mark))
    return MappingProxyType(found)


PUBLIC = frozenset({
    "-", "/etc/debian_version", "/etc/lsb-release", "/etc/os-release", "/etc/timezone", "/proc/cpuinfo",
    "/proc/loadavg", "/proc/meminfo", "/proc/uptime", "/proc/version", "/usr/lib/os-release",
})  # fmt: skip
"""Files that may be read outside the workspace: they say what system this is, and nothing of who uses it."""


HEEDS_NAMES = frozenset({"[", "bat", "batcat", "git", "less", "more", "seq", "shuf", "strings", "test", "xxd", "zcat"})
"""Programs for which the name of a file may mean more than the file."""


class Judged(Struct, frozen=True):
    """The judgement of a command: what is wrong with it, or nothing; the paths it names; whether it is git."""

    doubt: str = ""
    paths: tuple[NamedPath, ...] = ()
    git: bool = False


def judge_reader(command: ShellCommand, reader: Reader, length: int) -> Judged:
    """Return whether all words after the first ``length`` are options it may have and operands of its kind."""
    argv = command.argv
    if len(argv) < len(command.words):
        return Judged(f"an argument of {argv[0]!r} is known only at run time")
    words = argv[length:]
    unsafe = next((w for w in command.words[length:] if w.pattern and _may_become_option(w, argv[0], reader)), None)
    if unsafe is not None:
        return Judged(f"{unsafe.text!r} may become an option")
    doubt = reader.check(words) if reader.check else ""
    if doubt:
        return Judged(doubt)
    if reader.fixed_first and command.words[length : length + 1] and command.words[length].pattern:
        return Judged(f"{words[0]!r} may become the name of a file, and that names a variable")
    if reader.own is not None:
        doubt, named = reader.own(words)
        return Judged(doubt, (*_named(named, command), *_expanded(command)))
    if reader.operands is Operands.WORDS:
        return Judged(paths=_expanded(command))
    parsed = parse_options(words, reader)
    if isinstance(parsed, str):
        return Judged(f"'{' '.join(argv[:length])} {parsed}' may do more than look")
    doubt = _doubt_operands(parsed, reader, command.words) or _doubt_scripts(parsed, reader, command.words)
    return Judged(
        doubt and f"'{' '.join(argv[:length])}' {doubt}", _reader_paths(parsed, reader, command), argv[0] == "git"
    )


def begins_with_pattern(command: ShellCommand) -> bool:
    """Return whether only a look at the files can tell that no word of it becomes an option."""
    open_words = (word for word in command.words if word.pattern and (word.text or "")[:1] in {"*", "?"})
    return command.argv[:1] != () and command.argv[0] not in PATTERN_SAFE and any(open_words)


def _may_become_option(word: Word, program: str, reader: Reader) -> bool:
    """Return whether a file named like an option could stand where the pattern stood, and that would matter.

    Where a program takes plain paths, the names that the pattern stands for are looked at instead.
    """
    text = word.text or ""
    if program in PATTERN_SAFE or re.match(r"[\w./@]|--[\w-]+=", text):
        return False
    takes_paths = reader.operands in {Operands.PATHS, Operands.PATTERN} and reader.own is None
    return not takes_paths or program in HEEDS_NAMES or text[:1] not in {"*", "?"}


class Parsed(Struct, frozen=True):
    """The options given, their values, the other words, and the values that are patterns."""

    given: frozenset[str]
    values: tuple[str, ...]
    operands: tuple[str, ...]
    patterns: tuple[str, ...]

    def has(self, options: str) -> bool:
        """Return whether one of these is given; ``*``: always."""
        return options == "*" or not self.given.isdisjoint(options.split())


def parse_options(words: Sequence[str], reader: Reader) -> Parsed | str:
    """The words as a program's own parser would take them; else the first option that is not known.

    A value that looks like an option is none: should the program take it for one after all, it would be overlooked.
    """
    given: set[str] = set()
    values: list[str] = []
    operands: list[str] = []
    patterns: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word == "--":
            operands += words[index:]
            break
        if not word.startswith("-") or word == "-":
            operands.append(word)
            if reader.stops:
                operands += words[index:]
                break
            continue
        if "-#" in reader.options and re.fullmatch(r"-\d+", word):
            continue
        taken = _take_long(word, reader) if word.startswith("--") else _take_short(word, reader)
        if taken is None:
            return word
        names, value, needs = taken
        found = _values(value, words[index : index + 1]) if needs or value else []
        if found is None:
            return f"{word} {words[index]}"
        index += needs
        given |= names
        values += found
        if not names.isdisjoint(reader.patterns.split()):
            patterns += found
    return Parsed(frozenset(given), tuple(values), tuple(operands), tuple(patterns))


OPTION_LIKE = re.compile(r"-(?!$|[0-9]+$)")
"""Not ``-``, which stands for a stream, and no number, which does no harm as an option."""


def _values(glued: str, following: Sequence[str]) -> list[str] | None:
    """Return what an option takes; None if that looks like another option."""
    if glued:
        return [glued]
    return None if any(OPTION_LIKE.match(value) for value in following) else list(following)


_Taken: TypeAlias = "tuple[frozenset[str], str, bool] | None"
"""Option names, an attached value, whether the next word is the value."""


def _take_long(word: str, reader: Reader) -> _Taken:
    name, equals, value = word.partition("=")
    kind = reader.options.get(name)
    if kind is None or (equals and not kind):
        return None
    return frozenset({name}), value, kind in {"=", ":"} and not equals


def _take_short(word: str, reader: Reader) -> _Taken:
    names: set[str] = set()
    for position in range(1, len(word)):
        name = f"-{word[position]}"
        kind = reader.options.get(name)
        rest = word[position + 1 :]
        if kind is None or (rest and (kind == ":" or (not kind and not reader.clusters))):
            return (frozenset({word}), "", False) if reader.options.get(word) == "" else None
        names.add(name)
        if kind:
            return frozenset(names), rest, kind != "?" and not rest
    return frozenset(names), "", False


def _doubt_operands(parsed: Parsed, reader: Reader, words: Sequence[Word]) -> str:
    operands = parsed.operands
    if reader.listing and operands and not parsed.has(reader.listing):
        return f"with {operands[0]!r} may create it"
    if reader.operands is Operands.NONE and operands:
        return f"with {operands[0]!r} may do more than look"
    if reader.operands is Operands.ONE_PATH and len(operands) > 1:
        return f"writes to {operands[1]!r}"
    if reader.operands is Operands.ONE_PATH and any(word.pattern for word in words):
        return "writes to the second of the names that a pattern stands for"
    return ""


def _doubt_scripts(parsed: Parsed, reader: Reader, words: Sequence[Word]) -> str:
    """The fault of the scripts; a name that a pattern stands for may take the place of one, or move it."""
    if reader.script is None:
        return ""
    scripts, files = parsed.patterns, parsed.operands
    if not parsed.has(reader.patterns):
        scripts, files = files[:1], files[1:]
    if any(word.pattern and word.text not in files for word in words):
        return "runs a script that may become the name of a file"
    return next((doubt for script in scripts if (doubt := reader.script(script))), "") if scripts else "has no script"


def _named(texts: Sequence[str], command: ShellCommand, **read: bool) -> list[NamedPath]:
    patterns = {word.text for word in command.words if word.pattern}
    return [NamedPath(text=text, pattern=text in patterns, **read) for text in texts]


def _expanded(command: ShellCommand) -> tuple[NamedPath, ...]:
    """The words that become names of files, though the program takes them for text."""
    return tuple(NamedPath(text=word.text or "", pattern=True) for word in command.words if word.pattern)


def _reader_paths(parsed: Parsed, reader: Reader, command: ShellCommand) -> tuple[NamedPath, ...]:
    if reader.operands in {Operands.TEXT, Operands.NONE}:
        return _expanded(command)
    operands = list(parsed.operands)
    if reader.operands is Operands.PATTERN and not parsed.has(reader.patterns):
        operands = operands[1:]
    whole = parsed.has(reader.recursive)
    if whole and not operands and not (command.fed and reader.recursive == "*"):
        operands.append(".")
    visible = reader.visible and not parsed.has("-g --glob --iglob -. --hidden")
    named = [text for text in operands if text not in PUBLIC]
    paths = _named(named, command, whole=whole, visible=visible, follows=parsed.has(reader.follows))
    paths += _expanded(command)
    if reader.operands is Operands.PATTERN:
        return tuple(paths)
    return (*paths, *(NamedPath(text=value) for value in parsed.values if value not in PUBLIC))
