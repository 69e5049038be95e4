"""Which shell lines run without asking, which never: decided for every command a line holds, wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vibe.core.tools._shell import ShellCommand, ShellLine, Word, parse_line
from vibe.core.tools.base import ToolPermission

__all__ = [
    "DEFAULT_ALLOWED",
    "DEFAULT_DENIED",
    "DEFAULT_DENIED_STANDALONE",
    "BashVerdict",
    "classify",
    "known_commands",
]

DEFAULT_ALLOWED = (
    "date",
    "echo",
    "false",
    "git branch --show-current",
    "git diff",
    "git log",
    "git show",
    "git status",
    "ls",
    "pwd",
    "true",
    "uname",
    "wc",
    "whoami",
)
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

SHELLS = frozenset({"ash", "bash", "dash", "fish", "ksh", "sh", "zsh"})

WRAPPERS: dict[str, tuple[str, int]] = {
    "builtin": ("", 0),
    "busybox": ("", 0),
    "chroot": ("", 1),
    "command": ("", 0),
    "coproc": ("", 0),
    "doas": ("uC", 0),
    "env": ("uC", 0),
    "exec": ("a", 0),
    "ionice": ("cnp", 0),
    "nice": ("n", 0),
    "nohup": ("", 0),
    "parallel": ("jIN", 0),
    "setsid": ("", 0),
    "stdbuf": ("ioe", 0),
    "strace": ("oepPs", 0),
    "sudo": ("ughpCDRTU", 0),
    "time": ("fo", 0),
    "timeout": ("sk", 1),
    "watch": ("nd", 0),
    "xargs": ("IinPLdEsa", 0),
}
"""Programs that run the command they are given: their short options that take a value, and what comes before it."""

OTHER_RUNNERS = frozenset({".", "eval", "find", "source", "ssh", "su", "trap", *SHELLS})

INTERPRETERS = frozenset({
    "awk", "bun", "deno", "gawk", "lua", "make", "mawk", "node", "perl", "php", "python", "python3", "rsync", "ruby",
    "sed", "sort", "tar", "uv", "npx",
})  # fmt: skip
"""An allow list entry that names one of these alone would allow anything; with a further word it counts."""

PATHLESS = frozenset({"date", "echo", "false", "pwd", "true", "uname", "whoami"})
"""Programs whose arguments name no files."""

GIT_READERS = frozenset({"diff", "log", "show", "status"})
GIT_OPTION = re.compile(
    r"-(?:[0-9]+|[bgimprstuvwzMCDRWS]+|n[0-9]*|[SGU].*)|--(?:abbrev(?:-commit)?|after|ahead-behind|all|author|before|"
    r"branch|branches|cached|check|color|compact-summary|date|decorate|diff-filter|dirstat|find-renames|first-parent|"
    r"follow|format|graph|grep|ignore-all-space|ignore-blank-lines|ignore-space-change|ignored|invert-grep|long|"
    r"max-count|merge-base|merges|minimal|name-only|name-status|no-abbrev|no-color|no-decorate|no-ext-diff|no-merges|"
    r"no-patch|no-renames|no-textconv|numstat|oneline|patch|patience|porcelain|pretty|raw|relative-date|remotes|"
    r"reverse|short|shortstat|show-stash|since|skip|staged|stat|summary|tags|unified|until|untracked-files|word-diff)"
    r"(?:=.*)?|--",
    re.DOTALL,
)
DATE_ARGUMENT = re.compile(r"\+.*|-u|-R|-I[a-z]*|--utc|--universal|--rfc-email|--iso-8601(?:=[a-z]+)?", re.DOTALL)

INTERACTIVE_FLAG = re.compile(r"-[ilq]+|--login|--interactive|--norc|--noprofile")
MAX_DEPTH = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BashVerdict:
    """What may happen to a line without asking; ``permission`` None leaves it to the configured level."""

    permission: ToolPermission | None
    reason: str


def classify(
    line: str, allowlist: Sequence[str], denylist: Sequence[str], *, standalone: Sequence[str] = ()
) -> BashVerdict:
    """NEVER if any command is denied, ALWAYS if every command is allowed and nothing else happens, else None.

    Entries are argv prefixes (``git log``), compared word by word after quotes are removed. ``standalone`` programs
    are denied only where they would wait for someone to type.
    """
    parsed = parse_line(line)
    denied = _find_denied(parsed, _prefixes(denylist), frozenset(standalone), MAX_DEPTH)
    if denied:
        return BashVerdict(permission=ToolPermission.NEVER, reason=denied)
    allowed = _prefixes(allowlist)
    doubts = [*parsed.surprises, *(doubt for command in parsed.commands if (doubt := _doubt(command, allowed)))]
    if not parsed.commands:
        doubts.append("it holds no command")
    if doubts:
        return BashVerdict(permission=None, reason=doubts[0])
    return BashVerdict(permission=ToolPermission.ALWAYS, reason="every command in it is on the allow list")


def known_commands(line: str) -> tuple[tuple[str, ...], ...] | None:
    """The argv of every command of a line, for remembering a yes; None if running it may do more than they say."""
    parsed = parse_line(line)
    if parsed.surprises or not parsed.commands:
        return None
    if any(word.text is None or word.pattern for command in parsed.commands for word in command.words):
        return None
    if any(_runs_others(command.argv) for command in parsed.commands):
        return None
    return tuple(command.argv for command in parsed.commands)


def _prefixes(entries: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(words) for entry in entries if (words := entry.split())]


def _program(argv: Sequence[str]) -> str:
    return argv[0].rsplit("/", 1)[-1] if argv else ""


# --- denied ---


def _find_denied(line: ShellLine, denied: Sequence[tuple[str, ...]], standalone: frozenset[str], depth: int) -> str:
    """Why the line must never run, or nothing."""
    for command in line.commands:
        for argv in _layers(command.argv):
            if any(_starts_with(argv, prefix) for prefix in denied):
                return f"{' '.join(argv[:3])!r} is on the deny list"
            if _waits_for_typing(argv, standalone, command):
                return f"{_program(argv)!r} would wait for someone to type; give it a script, a file or -c"
            script = _script(argv)
            if script and depth and (found := _find_denied(parse_line(script), denied, standalone, depth - 1)):
                return found
    return ""


def _starts_with(argv: Sequence[str], prefix: Sequence[str]) -> bool:
    """Whether ``argv`` begins with ``prefix``; a bare program name matches it in any folder."""
    if len(argv) < len(prefix):
        return False
    name = argv[0] if "/" in prefix[0] else _program(argv)
    return name == prefix[0] and tuple(argv[1 : len(prefix)]) == tuple(prefix[1:])


def _layers(argv: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The command, the command it runs, and so on: ``sudo env vim`` is ``sudo ...``, ``env vim`` and ``vim``."""
    pending = [argv]
    while pending:
        current = pending.pop()
        if current:
            yield current
            pending.extend(_inner(current))


def _inner(argv: tuple[str, ...]) -> list[tuple[str, ...]]:
    program = _program(argv)
    if program == "find":
        starts = [index + 1 for index, word in enumerate(argv) if word in {"-exec", "-execdir", "-ok", "-okdir"}]
        return [argv[start:] for start in starts]
    if program not in WRAPPERS:
        return []
    valued, positionals = WRAPPERS[program]
    index = 1
    while index < len(argv):
        word = argv[index]
        if word.startswith("-") and word != "-":
            index += 2 if len(word) == 2 and word[1] in valued else 1
        elif program in {"env", "sudo", "doas"} and re.match(r"\w+=", word):
            index += 1
        elif positionals:
            positionals -= 1
            index += 1
        else:
            break
    return [argv[index:]]


def _script(argv: tuple[str, ...]) -> str:
    """The shell text a command carries in its arguments: ``sh -c TEXT``, ``eval TEXT``."""
    program = _program(argv)
    if program in {"eval", "trap"}:
        return " ".join(argv[1:]) if program == "eval" else "".join(argv[1:2])
    if program in SHELLS:
        flags = [index for index, word in enumerate(argv) if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", word)]
        return argv[flags[0] + 1] if flags and len(argv) > flags[0] + 1 else ""
    return ""


def _waits_for_typing(argv: tuple[str, ...], standalone: frozenset[str], command: ShellCommand) -> bool:
    program = _program(argv)
    if not standalone & {program, program.rstrip("0123456789.")} or command.fed:
        return False
    if len(command.argv) < len(command.words):
        return False
    rest = [word for word in argv[1:] if not INTERACTIVE_FLAG.fullmatch(word)]
    if program == "ssh":
        return len([word for word in rest if not word.startswith("-")]) < 2 and "-V" not in rest
    return not rest


# --- allowed ---


def _doubt(command: ShellCommand, allowed: Sequence[tuple[str, ...]]) -> str:
    """Why a command may not run unasked, or nothing."""
    argv = command.argv
    if not argv or command.words[0].pattern or "/" in argv[0]:
        return "what it runs is only known by running it" if not argv else f"{argv[0]!r} is not a plain program name"
    program = argv[0]
    if program in WRAPPERS or program in OTHER_RUNNERS:
        return f"{program!r} runs what it is given"
    matching = [prefix for prefix in allowed if argv[: len(prefix)] == prefix]
    if program in INTERPRETERS:
        matching = [prefix for prefix in matching if len(prefix) > 1]
    if not matching:
        return f"{' '.join(argv[:2])!r} is not on the allow list"
    rest = command.words[max(map(len, matching)) :]
    return _doubt_arguments(argv, rest)


def _doubt_arguments(argv: tuple[str, ...], rest: Sequence[Word]) -> str:
    program = argv[0]
    for word in rest:
        if word.text is None:
            return f"an argument of {program!r} is only known by running it"
        if program not in PATHLESS and _leads_out(word.text):
            return f"{word.text!r} may lead outside the workspace"
        if program == "date" and not DATE_ARGUMENT.fullmatch(word.text):
            return f"'date {word.text}' may do more than show the date"
    if program == "git":
        return _doubt_git(argv, rest)
    return ""


def _doubt_git(argv: tuple[str, ...], rest: Sequence[Word]) -> str:
    subcommand = argv[1] if len(argv) > 1 else ""
    if subcommand.startswith("-"):
        return f"'git {subcommand}' may change what git runs"
    if subcommand not in GIT_READERS:
        return ""
    for word in rest:
        text = word.text or ""
        if word.pattern and not text[:1].isalnum():
            return f"{text!r} may become an option"
        if text.startswith("-") and not GIT_OPTION.fullmatch(text):
            return f"'git {subcommand} {text}' may write or run something"
    return ""


def _leads_out(text: str) -> bool:
    """Whether an argument may name something outside: absolute, a home folder, or upwards."""
    if text == "/dev/null":
        return False
    parts = re.split(r"[=:,]", re.sub(r"^-\w(?=[/~.])", "", text))
    return any(part.startswith(("/", "~")) or ".." in part.split("/") for part in parts)


def _runs_others(argv: tuple[str, ...]) -> bool:
    program = _program(argv)
    return program in WRAPPERS or program in OTHER_RUNNERS
