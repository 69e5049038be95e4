"""Splits the words of a command into options, values and operands, as described by the program's row.

Each entry of a row describes options:

- ``-ab``: the options ``-a`` and ``-b``.
- ``-n=``: takes a value, attached or as the next word.
- ``-n:``: takes the next word as its value. Letters attached to it are further options.
- ``--long``, ``--long=``, ``--long?``: takes no value, takes one, takes one only after ``=``.
- ``-ps!``: one option of several letters.
- ``-#``: a number such as ``-20``.

Abbreviations of long options are treated as unknown, so they need approval. A test checks the rows by running the
programs.
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

from vibe.shell.policy.paths import NamedPath
from vibe.shell.policy.words import ShellCommand, Word

PATTERN_SAFE = frozenset({"ls", "cat", "head", "tail", "wc", "stat", "du", "md5sum", "sha1sum", "sha256sum",
                          "sha512sum", "echo", "basename", "dirname", "nl", "tac"})  # fmt: skip
"""Programs that have no option that writes or runs something, so a file named like an option can do no harm."""


T = TypeVar("T")


def by_name(rows: Mapping[str, T]) -> Mapping[str, T]:
    """Split keys such as ``"bat, batcat"``, so that each name maps to the row."""
    return MappingProxyType({name: row for names, row in rows.items() for name in names.split(", ")})


class Operands(Enum):
    """The kind of things that the operands of a command name."""

    NONE = "none"
    TEXT = "text"
    WORDS = "text, be it like options"
    PATHS = "paths"
    ONE_PATH = "one path"
    """The program would write to a second one."""
    PATTERN = "pattern, then paths"
    REVISIONS = "revisions and paths"


@dataclass(frozen=True)
class OptionRow:
    """The options of a program in one text, each with a mark for its value, as the module's docstring describes."""

    row: str = ""

    @cached_property
    def options(self) -> Mapping[str, str]:
        """The options, each with its mark."""
        return options_in(self.row)


@dataclass(frozen=True)
class Reader(OptionRow):
    """A program or subcommand that only reads, given no other options than those of its ``row``.

    Attributes:
        operands: What the operands name.
        patterns: Options that give the pattern, so that all operands are paths.
        recursive: Options that make it read the files below a folder; ``*`` means always.
        visible: Hidden files below a folder are read only on request.
        follows: Options that make it follow links below a folder; ``*`` means always.
        listing: Options without which an operand would create something.
        clusters: ``-ab`` means ``-a -b``.
        stops: The first operand ends the options.
        fixed_first: The first word must not be a pattern.
        check: Returns what is wrong with the words, or "".
        script: Returns what is wrong with a pattern or script, or "".
        own: Reads words that don't follow the rules for options. Returns what is wrong, or "", and the paths named.
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
    """Return the options of a row, each with its mark: nothing, ``=``, ``?`` or ``:``."""
    found: dict[str, str] = {}
    for word in row.split():
        mark = word[-1] if word[-1] in "=?:!" else ""
        name = word.removesuffix(mark)
        if name.startswith("--") or mark == "!" or len(name) == 2:
            found[name] = mark.strip("!")
        else:
            found.update(dict.fromkeys((f"-{letter}" for letter in name[1:]), mark))
    return MappingProxyType(found)


PUBLIC_FILES = frozenset({
    "-", "/etc/debian_version", "/etc/lsb-release", "/etc/os-release", "/etc/timezone", "/proc/cpuinfo",
    "/proc/loadavg", "/proc/meminfo", "/proc/uptime", "/proc/version", "/usr/lib/os-release",
})  # fmt: skip
"""Files outside the workspace that may be read, because they describe the system and not its users."""


READS_NAMES = frozenset({"[", "bat", "batcat", "git", "less", "more", "seq", "shuf", "strings", "test", "xxd", "zcat"})
"""Programs for which a file name may mean more than the file."""


class Judgement(Struct, frozen=True):
    """The judgement of a command: what is wrong with it, or ""; the paths it names; and whether it is git."""

    doubt: str = ""
    paths: tuple[NamedPath, ...] = ()
    git: bool = False


def judge_reader(command: ShellCommand, reader: Reader, length: int) -> Judgement:
    """Judge whether all words after the first ``length`` are options and operands that the reader may be given."""
    argv = command.argv
    if len(argv) < len(command.words):
        return Judgement(f"an argument of {argv[0]!r} is known only at run time")
    words = argv[length:]
    unsafe = next((w for w in command.words[length:] if w.pattern and _may_become_option(w, argv[0], reader)), None)
    if unsafe is not None:
        return Judgement(f"{unsafe.text!r} may become an option")
    doubt = reader.check(words) if reader.check else ""
    if doubt:
        return Judgement(doubt)
    if reader.fixed_first and command.words[length : length + 1] and command.words[length].pattern:
        return Judgement(f"{words[0]!r} may become the name of a file, and that names a variable")
    if reader.own is not None:
        doubt, named = reader.own(words)
        return Judgement(doubt, (*_named(named, command), *_expanded(command)))
    if reader.operands is Operands.WORDS:
        return Judgement(paths=_expanded(command))
    parsed = parse_options(words, reader)
    if isinstance(parsed, str):
        return Judgement(f"'{' '.join(argv[:length])} {parsed}' may do more than look")
    doubt = _doubt_operands(parsed, reader, command.words) or _doubt_scripts(parsed, reader, command.words)
    return Judgement(
        doubt and f"'{' '.join(argv[:length])}' {doubt}", _reader_paths(parsed, reader, command), argv[0] == "git"
    )


def _may_become_option(word: Word, program: str, reader: Reader) -> bool:
    """Return whether the pattern may expand to a file named like an option, and that would matter.

    For programs that take plain paths, the names the pattern expands to are checked elsewhere instead.
    """
    text = word.text or ""
    if program in PATTERN_SAFE or re.match(r"[\w./@]|--[\w-]+=", text):
        return False
    takes_paths = reader.operands in {Operands.PATHS, Operands.PATTERN} and reader.own is None
    return not takes_paths or program in READS_NAMES or text[:1] not in {"*", "?"}


class ParsedOptions(Struct, frozen=True):
    """The options given, their values, the operands, and those of the values that are patterns."""

    given: frozenset[str]
    values: tuple[str, ...]
    operands: tuple[str, ...]
    patterns: tuple[str, ...]

    def has(self, options: str) -> bool:
        """Return whether one of these options is given; always True for ``*``."""
        return options == "*" or not self.given.isdisjoint(options.split())


def parse_options(words: Sequence[str], reader: Reader) -> ParsedOptions | str:
    """Parse words as the program would. If there is an unknown option, return the first one.

    A value that looks like an option makes its option unknown. Should the program read it as an option after all, that
    option would otherwise go unchecked.
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
        parsed = _parse_long(word, reader) if word.startswith("--") else _parse_short(word, reader)
        if parsed is None:
            return word
        names, attached, takes_next = parsed
        found = _values(attached, words[index : index + 1]) if takes_next or attached else []
        if found is None:
            return f"{word} {words[index]}"
        index += takes_next
        given |= names
        values += found
        if not names.isdisjoint(reader.patterns.split()):
            patterns += found
    return ParsedOptions(frozenset(given), tuple(values), tuple(operands), tuple(patterns))


OPTION_LIKE = re.compile(r"-(?!$|[0-9]+$)")
"""A word that looks like an option, except ``-`` for a stream and numbers, which do no harm as options."""


def _values(attached: str, following: Sequence[str]) -> list[str] | None:
    """Return the value that an option takes, or None if it looks like another option."""
    if attached:
        return [attached]
    return None if any(OPTION_LIKE.match(value) for value in following) else list(following)


_ParsedOption: TypeAlias = "tuple[frozenset[str], str, bool] | None"
"""The names of the options in a word, an attached value, and whether the next word is the value."""


def _parse_long(word: str, reader: Reader) -> _ParsedOption:
    name, equals, value = word.partition("=")
    kind = reader.options.get(name)
    if kind is None or (equals and not kind):
        return None
    return frozenset({name}), value, kind in {"=", ":"} and not equals


def _parse_short(word: str, reader: Reader) -> _ParsedOption:
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


def _doubt_operands(parsed: ParsedOptions, reader: Reader, words: Sequence[Word]) -> str:
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


def _doubt_scripts(parsed: ParsedOptions, reader: Reader, words: Sequence[Word]) -> str:
    """Return what is wrong with the scripts, or "".

    Patterns elsewhere in the command are refused, because a name they expand to may replace or shift a script.
    """
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
    """Return the patterns, which the shell expands to file names even if the program takes text."""
    return tuple(NamedPath(text=word.text or "", pattern=True) for word in command.words if word.pattern)


def _reader_paths(parsed: ParsedOptions, reader: Reader, command: ShellCommand) -> tuple[NamedPath, ...]:
    if reader.operands in {Operands.TEXT, Operands.NONE}:
        return _expanded(command)
    operands = list(parsed.operands)
    if reader.operands is Operands.PATTERN and not parsed.has(reader.patterns):
        operands = operands[1:]
    whole = parsed.has(reader.recursive)
    if whole and not operands and not (command.fed and reader.recursive == "*"):
        operands.append(".")
    visible = reader.visible and not parsed.has("-g --glob --iglob -. --hidden")
    named = [text for text in operands if text not in PUBLIC_FILES]
    paths = _named(named, command, whole=whole, visible=visible, follows=parsed.has(reader.follows))
    paths += _expanded(command)
    if reader.operands is Operands.PATTERN:
        return tuple(paths)
    return (*paths, *(NamedPath(text=value) for value in parsed.values if value not in PUBLIC_FILES))
