"""Descriptions of programs that only read: options, what other words name, and what to check besides.

How a row is read: ``-ab`` are the options ``-a`` and ``-b``; ``-n=`` takes a value, attached or as the next word;
``--long`` takes none, ``--long=`` takes one, ``--long?`` takes one only after ``=``; ``-n:`` takes the next word, and
what is glued to it are further options; ``-#`` is a number such as ``-20``. Abbreviations of long options are not
known, and so asked about. A test asks every program in the tables whether that is so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A program (or subcommand) that only reads when it is given nothing but ``options``.

    ``patterns``: options that give the pattern, so that all operands are paths. ``recursive``: options that make it
    read the files below a folder (``*``: always), ``visible``: hidden ones only if asked to, ``follows``: also where
    links lead (``*``: always). ``listing``: options without which an operand would create something. ``clusters``:
    ``-ab`` is ``-a -b``. ``stops``: the first operand ends them. ``fixed_first``: the first word may be no pattern.
    ``check`` says what is wrong with all the words, or nothing; ``script`` what is wrong with a pattern; ``own`` is for
    words that are no options and operands: what is wrong, and the paths they name.
    """

    options: Mapping[str, str]
    operands: Operands = Operands.PATHS
    patterns: frozenset[str] = frozenset()
    recursive: frozenset[str] = frozenset()
    visible: bool = False
    follows: frozenset[str] = frozenset()
    listing: frozenset[str] = frozenset()
    clusters: bool = True
    stops: bool = False
    fixed_first: bool = False
    check: Callable[[Sequence[str]], str] | None = None
    script: Callable[[str], str] | None = None
    own: Callable[[Sequence[str]], tuple[str, Sequence[str]]] | None = None


def options_in(row: str) -> Mapping[str, str]:
    """Option to what follows it: nothing, ``=``, ``?`` or ``:``."""
    found: dict[str, str] = {}
    for word in row.split():
        mark = word[-1] if word[-1] in "=?:" else ""
        name = word.removesuffix(mark)
        if name.startswith("--") or name == "-#" or len(name) == 2:
            found[name] = mark
        else:
            found.update(dict.fromkeys((f"-{letter}" for letter in name[1:]), mark))
    return MappingProxyType(found)


def only(*allowed: str) -> Callable[[Sequence[str]], str]:
    """Nothing but these very words."""
    known = frozenset(allowed)

    def check(words: Sequence[str]) -> str:
        return next((f"{word!r} may do more than look" for word in words if word not in known), "")

    return check


def matching(pattern: str) -> Callable[[Sequence[str]], str]:
    """Nothing but words that match."""
    compiled = re.compile(pattern, re.DOTALL)

    def check(words: Sequence[str]) -> str:
        return next((f"{word!r} may do more than look" for word in words if not compiled.fullmatch(word)), "")

    return check


FIND_TESTS = frozenset({
    "-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-regextype", "-type", "-maxdepth",
    "-mindepth", "-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin", "-size", "-perm", "-user", "-group",
    "-links", "-printf", "-newer", "-anewer", "-cnewer", "-newermt", "-lname", "-ilname", "-iwholename", "-xtype",
    "-inum", "-used", "-fstype",
})  # fmt: skip
FIND_WORDS = frozenset({
    "-empty", "-print", "-print0", "-prune", "-not", "-o", "-or", "-a", "-and", "-readable", "-writable",
    "-executable", "-depth", "-xdev", "-mount", "-ls", "-quit", "-true", "-false", "-nouser", "-nogroup", "-daystart",
    "-ignore_readdir_race", "-noleaf", "!", "(", ")", ",",
})  # fmt: skip
PRINTF_WIDE = re.compile(r"%[^%A-Za-z]*(?:\*|\d{5})")
HUGE = re.compile(
    r"[+-]?(?:0x[\da-f.p+-]+|\d{8,}.*|\d*\.\d{5,}|[\d.]+e.*|inf\w*|nan\w*)|\d+-\d{8,}|-i\d+-\d{8,}|.*=\d+-\d{8,}",
    re.IGNORECASE,
)
PRINTF_STORE = re.compile(r"%[^A-Za-z%]*[hlLjzt]*n")
XXD_FLAGS = frozenset({"-a", "-b", "-C", "-d", "-e", "-E", "-i", "-p", "-ps", "-u"})
XXD_VALUED = re.compile(r"-[cglos]")
XXD_NUMBER = re.compile(r"[+-]?(?:0x[0-9a-f]+|[0-9]+)")
JQ_REACH = re.compile(
    r"(?<![\w.])env\b|\.\.env\b|\d\.env\b|\bENV\b|\bimport\b|\binclude\b|\bget_search_list\b|\bmodulemeta\b"
)
TEST_OPERATORS = frozenset({
    "-e", "-f", "-d", "-s", "-r", "-w", "-x", "-L", "-h", "-n", "-z", "-a", "-o", "-eq", "-ne", "-lt", "-le", "-gt",
    "-ge", "-nt", "-ot", "-b", "-c", "-p", "-S",
})  # fmt: skip


def find_paths(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return what is wrong with the words of ``find``, or nothing, and the folders it starts from."""
    starts: list[str] = []
    index = 0
    while index < len(words) and not words[index].startswith(("-", "(", "!", ",")):
        starts.append(words[index])
        index += 1
    while index < len(words):
        word = words[index]
        if word in FIND_TESTS:
            index += 2
        elif word in FIND_WORDS:
            index += 1
        else:
            return f"'find {word}' may do more than look", starts
    return "", starts


def check_test(words: Sequence[str]) -> str:
    """Return why `test` may run something, given these words; empty: it can't."""
    unknown = (word for word in words if word.startswith("-") and word not in TEST_OPERATORS)
    return next((f"'test {word}' may run something" for word in unknown), "")


def check_printf(words: Sequence[str]) -> str:
    """``-v`` and ``%n`` store into a variable, whose subscript the shell evaluates."""
    if words and (words[0].startswith("-") or PRINTF_STORE.search(words[0]) or PRINTF_WIDE.search(words[0])):
        return f"'printf {words[0]}' may do more than print"
    return ""


def check_counting(words: Sequence[str]) -> str:
    """Return what is wrong with numbers too large to wait for, and steps of nothing."""
    huge = next((word for word in words if HUGE.fullmatch(word)), None)
    if huge is None and len(words) > 2 and re.fullmatch(r"[+-]?0*+(?:\.0*+)?", words[-2]):
        huge = words[-2]
    return "" if huge is None else f"counting with {huge!r} may never end"


def check_strings(words: Sequence[str]) -> str:
    """``@FILE`` stands for the words in a file."""
    return next((f"'strings {word}' takes its words from a file" for word in words if word.startswith("@")), "")


def check_jq(script: str) -> str:
    """Return what a jq script reads besides its input; empty: nothing."""
    return "reads variables or modules" if JQ_REACH.search(script) else ""


def check_xxd(words: Sequence[str]) -> str:
    """It reads the first letter of an option and passes over most others; after a file all words are files."""
    index = 0
    while index < len(words) and words[index].startswith("-"):
        word = words[index]
        number = word[2:] or "".join(words[index + 1 : index + 2])
        index += 2 if XXD_VALUED.fullmatch(word) else 1
        if word not in XXD_FLAGS and not (XXD_VALUED.match(word) and XXD_NUMBER.fullmatch(number)):
            return f"'xxd {word}' may do more than look"
    return f"xxd writes to {words[index + 1]!r}" if len(words) > index + 1 else ""


DATE_WORDS = re.compile(r"[\w+@-][\w :+,./-]*")
DATE_OPTIONS = re.compile(
    r"\+.*|-uR?|-Ru?|-I[a-z]*|--(?:utc|universal|rfc-email|iso-8601(?:=[a-z]+)?|rfc-3339=[a-z]+)", re.DOTALL
)


def read_date(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """A word of its own would set the clock; a text may name a file with a time zone."""
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word in {"-d", "--date"} and index < len(words):
            given = words[index]
            index += 1
        elif word.startswith(("--date=", "-d")):
            given = word.removeprefix("--date=").removeprefix("-d")
        elif DATE_OPTIONS.fullmatch(word):
            continue
        else:
            return f"'date {word}' may do more than look", ()
        if not DATE_WORDS.fullmatch(given) or "TZ" in given or re.match(r"-(?!\d)", given):
            return f"'date -d {given}' may do more than look", ()
    return "", ()


TAR_LIST = re.compile(r"-?(?=[a-zA-Z]*t)[tvzjJ]+f")


def list_tar(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """``-tf ARCHIVE [MEMBER...]``; an archive with a colon is fetched by a program."""
    if len(words) < 2 or not TAR_LIST.fullmatch(words[0]) or re.search(r"[:*?\[{]", words[1]):
        return "'tar' may do more than list", ()
    if any(word.startswith("-") for word in words[1:]):
        return "'tar' with further options may do more than list", ()
    return "", words[1:2]


def list_zip(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """``-l ARCHIVE [MEMBER...]``; a name that is a pattern stands for other archives."""
    if len(words) < 2 or words[0] not in {"-l", "-lv", "-v", "-Z1", "-lq"} or re.search(r"[*?\[\\]", words[1]):
        return "'unzip' may do more than list", ()
    if any(word.startswith("-") for word in words[1:]):
        return "'unzip' with further options may do more than list", ()
    return "", [words[1] + ending for ending in ("", ".zip", ".ZIP")]


def check_bat(words: Sequence[str]) -> str:
    """``cache`` writes, and a pager is a program."""
    pagers = [word for word in words if word.startswith("--paging") and word != "--paging=never"]
    return "'bat' may do more than look" if pagers or "cache" in words else ""


def check_pager(words: Sequence[str]) -> str:
    """``+`` brings commands."""
    return next((f"{word!r} may be a command for the pager" for word in words if word.startswith("+")), "")


GIT_KEY = re.compile(
    r"(?:user|core|init|pull|push|merge|rebase|commit|branch|remote|diff|log|color|status)\.[\w./-]+", re.IGNORECASE
)


def git_setting(words: Sequence[str]) -> str:
    """One name and no value; others may hold a secret."""
    names = words[1:] if words[:1] in {("--local",), ("--global",)} else words
    return "" if len(names) == 1 and GIT_KEY.fullmatch(names[0]) else "'git config' may show a secret or set something"


def something(check: Callable[[Sequence[str]], str]) -> Callable[[Sequence[str]], str]:
    """Not without any word."""
    return lambda words: check(words) if words else "without a name it prints everything"


def reader(row: str, operands: Operands = Operands.PATHS) -> Reader:
    """Return the rules of a program whose options stand in ``row``."""
    return Reader(options=options_in(row), operands=operands)


def whole_words(row: str, operands: Operands = Operands.PATHS) -> Reader:
    """A program that does not read ``-ab`` as ``-a -b``."""
    return Reader(options=options_in(row), operands=operands, clusters=False)
