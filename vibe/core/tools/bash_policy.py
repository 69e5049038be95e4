"""Which shell lines run without asking, which never: decided for every command a line holds, wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from vibe.core.tools._denials import OTHER_RUNNERS, WRAPPERS, becomes_another, find_denied
from vibe.core.tools._named_paths import NamedPath, lexical_doubt, resolved_doubt
from vibe.core.tools._reader_rules import Operands, Reader, find_paths
from vibe.core.tools._readers import PATTERN_SAFE, READERS, find_reader
from vibe.core.tools._repository import repository_doubt
from vibe.core.tools._shell import ShellCommand, ShellLine, Word, parse_line
from vibe.core.tools.base import ToolPermission
from vibe.core.tools.workspace import Workspace

__all__ = [
    "DEFAULT_ALLOWED",
    "DEFAULT_DENIED",
    "DEFAULT_DENIED_STANDALONE",
    "BashVerdict",
    "acts_as_another",
    "classify",
    "reads_only_its_input",
]

DEFAULT_ALLOWED = ("cd", *READERS)
DEFAULT_DENIED = (
    "emacs",
    "gdb",
    "htop",
    "less",
    "lldb",
    "more",
    "nano",
    "nvim",
    "pdb",
    "pico",
    "python -m pdb",
    "python3 -m pdb",
    "screen",
    "tmux",
    "top",
    "vi",
    "view",
    "vim",
    "vimdiff",
)
DEFAULT_DENIED_STANDALONE = (
    "bash", "dash", "fish", "ipython", "irb", "ksh", "node", "python", "python3", "sh", "ssh", "zsh",
)  # fmt: skip

INTERPRETERS = frozenset({
    "awk", "bun", "deno", "gawk", "lua", "make", "mawk", "node", "perl", "php", "python", "python3", "rsync", "ruby",
    "sed", "sort", "tar", "uv", "npx",
})  # fmt: skip
"""An allow list entry that names one of these alone would allow anything; with a further word it counts."""

EXTENDED_GIT = re.compile(r"-[cCp]|--(?:git-dir|work-tree|exec-path|config-env|namespace|paginate|super-prefix).*")

MAX_DEPTH = 5
MAX_FOLDERS = 64
MAX_WORDS = 16
"""The longest entry of an allow list, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BashVerdict:
    """What may happen to a line without asking; ``permission`` None leaves it to the configured level."""

    permission: ToolPermission | None
    reason: str


def classify(
    line: str,
    allowlist: Sequence[str],
    denylist: Sequence[str],
    *,
    standalone: Sequence[str] = (),
    workspace: Workspace | None = None,
) -> BashVerdict:
    """NEVER if any command is denied, ALWAYS if every command is allowed and nothing else happens, else None.

    Entries are argv prefixes (``git log``), compared word by word after quotes are removed; what a built-in entry may
    be given is written in ``_readers``. ``standalone`` programs are denied only where they would wait for someone to
    type. With ``workspace`` the paths in the line are resolved in it; without, only their letters are judged.
    """
    parsed = parse_line(line)
    denied = find_denied(parsed, _prefixes(denylist), frozenset(standalone), MAX_DEPTH)
    if denied:
        return BashVerdict(permission=ToolPermission.NEVER, reason=denied)
    other = acts_as_another(line)
    if other:
        return BashVerdict(permission=None, reason=other)
    doubt = _first_doubt(parsed, _prefixes(allowlist), workspace)
    if doubt:
        return BashVerdict(permission=None, reason=doubt)
    return BashVerdict(permission=ToolPermission.ALWAYS, reason="every command in it is on the allow list")


def acts_as_another(line: str) -> str:
    """Why a person must say yes to a line each time, whatever else was approved; or nothing."""
    other = becomes_another(parse_line(line), MAX_DEPTH)
    return f"{other!r} acts as another user" if other else ""


def _prefixes(entries: Sequence[str]) -> frozenset[tuple[str, ...]]:
    return _split_entries(tuple(entries))


@lru_cache(maxsize=64)
def _split_entries(entries: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(words) for entry in entries if (words := entry.split()))


def _matching(argv: tuple[str, ...], entries: frozenset[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The entries a command begins with."""
    return [argv[:length] for length in range(1, min(len(argv), MAX_WORDS) + 1) if argv[:length] in entries]


@dataclass(frozen=True, slots=True)
class _Judged:
    """What is wrong with a command, or nothing; the paths it names, and whether it is git."""

    doubt: str = ""
    paths: tuple[NamedPath, ...] = ()
    git: bool = False


def _first_doubt(line: ShellLine, allowed: frozenset[tuple[str, ...]], workspace: Workspace | None) -> str:
    """Why a line may not run unasked, or nothing."""
    if line.surprises:
        return line.surprises[0]
    if not line.commands:
        return "it holds no command"
    judged = [_judge(command, allowed) for command in line.commands]
    paths = [NamedPath(text=text) for text in line.inputs]
    for one in judged:
        if one.doubt:
            return one.doubt
        paths += one.paths
    if workspace is None:
        return next((doubt for path in paths if (doubt := lexical_doubt(path))), "")
    folders = _folders(line, workspace)
    if any(one.git for one in judged):
        doubt = next((doubt for folder in folders if (doubt := repository_doubt(folder))), "")
        if doubt:
            return doubt
    return next((doubt for path in paths if (doubt := resolved_doubt(path, workspace, folders))), "")


def _folders(line: ShellLine, workspace: Workspace) -> list[Path]:
    """Every folder a command of the line may find itself in: the root, and wherever a ``cd`` may have led."""
    folders = [workspace.root]
    for command in line.commands:
        if command.argv[:1] == ("cd",) and len(command.argv) == 2:
            folders += [folder / command.argv[1] for folder in folders if len(folders) < MAX_FOLDERS]
    return folders


def _judge(command: ShellCommand, allowed: frozenset[tuple[str, ...]]) -> _Judged:
    if command.argv[:2] in {("git", "--no-pager"), ("git", "-P")}:
        command = replace(command, words=(command.words[0], *command.words[2:]))
    argv = command.argv
    if not argv or command.words[0].pattern or "/" in argv[0]:
        return _Judged("what it runs is only known by running it" if not argv else f"{argv[0]!r} is no plain name")
    program = argv[0]
    found = find_reader(argv)
    if found is not None and _matching(argv, allowed):
        return _judge_reader(command, *found)
    if program == "cd":
        return _judge_cd(command, allowed)
    if program in WRAPPERS or program in OTHER_RUNNERS:
        return _Judged(f"{program!r} runs what it is given")
    matching = [prefix for prefix in _matching(argv, allowed) if " ".join(prefix) not in READERS]
    if program in INTERPRETERS:
        matching = [prefix for prefix in matching if len(prefix) > 1]
    if not matching:
        return _Judged(_not_listed(argv))
    if program == "git" and any(EXTENDED_GIT.fullmatch(word) for word in argv[1:2]):
        return _Judged(f"'git {argv[1]}' may change what git runs")
    rest = command.words[max(map(len, matching)) :]
    unknown = next((word for word in rest if word.text is None), None)
    if unknown is not None:
        return _Judged(f"an argument of {program!r} is only known by running it")
    return _Judged(
        paths=tuple(NamedPath(text=word.text or "", pattern=word.pattern) for word in rest), git=program == "git"
    )


def _not_listed(argv: Sequence[str]) -> str:
    if argv[0] == "git" and len(argv) > 1 and argv[1].startswith("-"):
        return f"'git {argv[1]}' may change what git runs"
    return f"{' '.join(argv[:2])!r} is not on the allow list"


def _judge_cd(command: ShellCommand, allowed: frozenset[tuple[str, ...]]) -> _Judged:
    if ("cd",) not in allowed or len(command.words) != 2 or len(command.argv) != 2 or command.argv[1].startswith("-"):
        return _Judged(f"{' '.join(command.argv)!r} leads to a place only known by running it")
    return _Judged(paths=(NamedPath(text=command.argv[1], pattern=command.words[1].pattern),))


def _judge_reader(command: ShellCommand, reader: Reader, length: int) -> _Judged:
    """Whether all words after the first ``length`` are options it may have and operands of its kind."""
    argv = command.argv
    if len(argv) < len(command.words):
        return _Judged(f"an argument of {argv[0]!r} is only known by running it")
    words = argv[length:]
    unsafe = next((w for w in command.words[length:] if w.pattern and _may_become_option(w, argv[0])), None)
    if unsafe is not None:
        return _Judged(f"{unsafe.text!r} may become an option")
    doubt = reader.check(words) if reader.check else ""
    if doubt:
        return _Judged(doubt)
    if argv[0] == "find":
        doubt, starts = find_paths(words)
        return _Judged(doubt, tuple(NamedPath(text=start) for start in starts))
    if reader.operands is Operands.TEXT and not reader.options:
        return _Judged(paths=_expanded(command))
    parsed = _parse_options(words, reader)
    if isinstance(parsed, str):
        return _Judged(f"'{' '.join(argv[:length])} {parsed}' may do more than look")
    doubt = _doubt_operands(parsed, reader)
    return _Judged(
        doubt and f"'{' '.join(argv[:length])}' {doubt}", _reader_paths(parsed, reader, command), argv[0] == "git"
    )


def _may_become_option(word: Word, program: str) -> bool:
    """Whether a file named like an option could stand where the pattern stood, and that would matter."""
    text = word.text or ""
    return program not in PATTERN_SAFE and not re.match(r"[\w./]", text)


@dataclass(frozen=True, slots=True)
class _Parsed:
    given: frozenset[str]
    values: tuple[str, ...]
    operands: tuple[str, ...]


def _parse_options(words: Sequence[str], reader: Reader) -> _Parsed | str:
    """The words as a program's own parser would take them; else the first option that is not known."""
    given: set[str] = set()
    values: list[str] = []
    operands: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word == "--":
            operands += words[index:]
            break
        if not word.startswith("-") or word == "-":
            operands.append(word)
            continue
        if "-#" in reader.options and re.fullmatch(r"-\d+", word):
            continue
        taken = _take_long(word, reader) if word.startswith("--") else _take_short(word, reader)
        if taken is None:
            return word
        names, value, needs = taken
        given |= names
        if value:
            values.append(value)
        if needs:
            values += words[index : index + 1]
            index += 1
    return _Parsed(frozenset(given), tuple(values), tuple(operands))


_Taken: TypeAlias = "tuple[frozenset[str], str, bool] | None"
"""Option names, an attached value, whether the next word is the value."""


def _take_long(word: str, reader: Reader) -> _Taken:
    name, equals, value = word.partition("=")
    kind = reader.options.get(name)
    if kind is None or (equals and not kind):
        return None
    return frozenset({name}), value, kind == "=" and not equals


def _take_short(word: str, reader: Reader) -> _Taken:
    names: set[str] = set()
    for position in range(1, len(word)):
        name = f"-{word[position]}"
        kind = reader.options.get(name)
        if kind is None:
            return (frozenset({word}), "", False) if reader.options.get(word) == "" else None
        names.add(name)
        if kind:
            rest = word[position + 1 :]
            return frozenset(names), rest, kind == "=" and not rest
    return frozenset(names), "", False


def _doubt_operands(parsed: _Parsed, reader: Reader) -> str:
    operands = parsed.operands
    if reader.listing and operands and not parsed.given & reader.listing:
        return f"with {operands[0]!r} may create it"
    if reader.operands is Operands.NONE and operands:
        return f"with {operands[0]!r} may do more than look"
    if reader.operands is Operands.ONE_PATH and len(operands) > 1:
        return f"writes to {operands[1]!r}"
    return ""


def _expanded(command: ShellCommand) -> tuple[NamedPath, ...]:
    """The words that become names of files, though the program takes them for text."""
    return tuple(NamedPath(text=word.text or "", pattern=True) for word in command.words if word.pattern)


def _reader_paths(parsed: _Parsed, reader: Reader, command: ShellCommand) -> tuple[NamedPath, ...]:
    if reader.operands in {Operands.TEXT, Operands.NONE}:
        return _expanded(command)
    operands = list(parsed.operands)
    if reader.operands is Operands.PATTERN and not parsed.given & reader.patterns:
        operands = operands[1:]
    whole = "*" in reader.recursive or bool(parsed.given & reader.recursive)
    if whole and not operands and not command.fed:
        operands.append(".")
    patterns = {word.text for word in command.words if word.pattern}
    visible = reader.visible and not parsed.given & {"-g", "--glob", "--iglob"}
    paths = [
        NamedPath(text=text, pattern=text in patterns, whole=whole, visible=visible, follows=reader.follows)
        for text in operands
        if text != "-"
    ]
    if reader.operands is Operands.PATTERN:
        return tuple(paths)
    return (*paths, *(NamedPath(text=value) for value in parsed.values))


def reads_only_its_input(command: ShellCommand) -> bool:
    """Whether it reads nothing but what is piped into it."""
    if not command.fed:
        return False
    judged = _judge(command, _prefixes(DEFAULT_ALLOWED))
    return not judged.doubt and not judged.paths and not judged.git and command.argv[:1] != ("cd",)
