"""What a shell line must never run, and what it runs in the name of another: seen through every wrapper and script."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vibe.core.tools._shell import ShellCommand, ShellLine, parse_line

SHELLS = frozenset({"ash", "bash", "dash", "fish", "ksh", "sh", "zsh"})

WRAPPERS: dict[str, tuple[str, int]] = {
    "builtin": ("", 0),
    "busybox": ("", 0),
    "chroot": ("", 1),
    "command": ("", 0),
    "coproc": ("", 0),
    "flock": ("wE", 1),
    "doas": ("uC", 0),
    "env": ("uC", 0),
    "exec": ("a", 0),
    "ionice": ("cnp", 0),
    "nice": ("n", 0),
    "nohup": ("", 0),
    "numactl": ("CNmpi", 0),
    "parallel": ("jIN", 0),
    "setsid": ("", 0),
    "stdbuf": ("ioe", 0),
    "taskset": ("p", 1),
    "strace": ("oepPs", 0),
    "sudo": ("ughpCDRTU", 0),
    "time": ("fo", 0),
    "timeout": ("sk", 1),
    "unshare": ("SGRw", 0),
    "watch": ("nd", 0),
    "xargs": ("IinPLdEsa", 0),
}
"""Programs that run the command they are given: their short options that take a value, and what comes before it."""

OTHER_RUNNERS = frozenset({
    ".", "alias", "bind", "builtin", "complete", "enable", "eval", "exec", "fc", "hash", "let", "mapfile", "pkexec",
    "read", "readarray", "run0", "script", "set", "shopt", "source", "ssh", "su", "trap", "unalias", *SHELLS,
})  # fmt: skip
"""What runs its words, or changes what later words mean."""

BECOMES_ANOTHER = frozenset({"doas", "pkexec", "run0", "su", "sudo"})

INTERACTIVE_FLAG = re.compile(r"-[ilq]+|--login|--interactive|--norc|--noprofile")


def find_denied(line: ShellLine, denied: frozenset[tuple[str, ...]], standalone: frozenset[str], depth: int) -> str:
    """Why the line must never run, or nothing; ``depth``: how many scripts within scripts are read."""
    for command, argv in _all_argv(line):
        if any(_starts_with(argv, prefix) for prefix in denied):
            return f"{' '.join(argv[:3])!r} is on the deny list"
        if _waits_for_typing(argv, standalone, command):
            return f"{program_of(argv)!r} would wait for someone to type; give it a script, a file or -c"
    inner = (find_denied(below, denied, standalone, depth - 1) for below in _lines_within(line, depth))
    return next((found for found in inner if found), "")


def becomes_another(line: ShellLine, depth: int) -> str:
    """The program that makes a command of the line act as another user, or nothing."""
    for _, argv in _all_argv(line):
        if program_of(argv) in BECOMES_ANOTHER:
            return program_of(argv)
    inner = (becomes_another(below, depth - 1) for below in _lines_within(line, depth))
    return next((found for found in inner if found), "")


def _all_argv(line: ShellLine) -> Iterator[tuple[ShellCommand, tuple[str, ...]]]:
    for command in line.commands:
        for argv in _layers(command.argv):
            yield command, argv


def _lines_within(line: ShellLine, depth: int) -> Iterator[ShellLine]:
    """The lines that the commands of a line carry for a shell."""
    if depth:
        for _, argv in _all_argv(line):
            yield from map(parse_line, _scripts(argv, line))


def _starts_with(argv: Sequence[str], prefix: Sequence[str]) -> bool:
    """Whether ``argv`` begins with ``prefix``; a bare program name matches it in any folder."""
    if len(argv) < len(prefix):
        return False
    name = argv[0] if "/" in prefix[0] else program_of(argv)
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
    program = program_of(argv)
    if program == "git":
        return _without_git_options(argv)
    if program == "find":
        starts = [index + 1 for index, word in enumerate(argv) if word in {"-exec", "-execdir", "-ok", "-okdir"}]
        return [argv[start:] for start in starts]
    if program not in WRAPPERS:
        return []
    valued, positionals = WRAPPERS[program]
    found: list[tuple[str, ...]] = []
    index = 1
    while index < len(argv):
        word = argv[index]
        if word.startswith("--") and "=" not in word:
            found.append(argv[index + 2 :])  # in case it takes a value
            index += 1
        elif word.startswith("-") and word != "-":
            index += 2 if len(word) == 2 and word[1] in valued else 1
        elif program in {"env", "sudo", "doas"} and re.match(r"\w+=", word):
            index += 1
        elif positionals:
            positionals -= 1
            index += 1
        else:
            break
    return [*found, argv[index:]]


GIT_VALUED = frozenset({
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--exec-path",
    "--config-env",
    "--super-prefix",
})


def _without_git_options(argv: tuple[str, ...]) -> list[tuple[str, ...]]:
    """``git -C x push`` as ``git push``."""
    index = 1
    while index < len(argv) and argv[index].startswith("-"):
        index += 2 if argv[index] in GIT_VALUED else 1
    return [(argv[0], *argv[index:])] if 1 < index < len(argv) else []


def _scripts(argv: tuple[str, ...], line: ShellLine) -> Iterator[str]:
    """The shell text a command carries in its arguments, or that the line feeds to it."""
    own = _script(argv)
    if own:
        yield own
    elif program_of(argv) in SHELLS and len(argv) < 3:
        yield from line.fed_texts
        for command in line.commands:
            if command.argv[:1] in {("echo",), ("printf",)}:
                yield " ".join(word for word in command.argv[1:] if not word.startswith("-")).replace("\\n", "\n")


def _script(argv: tuple[str, ...]) -> str:
    """The shell text a command carries in its arguments: ``sh -c TEXT``, ``eval TEXT``."""
    program = program_of(argv)
    if program in {"eval", "trap"}:
        return " ".join(argv[1:]) if program == "eval" else "".join(argv[1:2])
    if program == "env":
        split = next((index for index, word in enumerate(argv) if word in {"-S", "--split-string"}), 0)
        glued = next(
            (word.partition("=")[2] or word[2:] for word in argv if word.startswith(("-S", "--split-string="))), ""
        )
        return " ".join(argv[split + 1 :]) if split else glued
    if program in {*SHELLS, "su", "script", "flock", "runuser"}:
        flags = [index for index, word in enumerate(argv) if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", word)]
        return argv[flags[0] + 1] if flags and len(argv) > flags[0] + 1 else ""
    return ""


def _waits_for_typing(argv: tuple[str, ...], standalone: frozenset[str], command: ShellCommand) -> bool:
    program = program_of(argv)
    if not standalone & {program, program.rstrip("0123456789.")} or command.fed:
        return False
    if len(command.argv) < len(command.words):
        return False
    rest = [word for word in argv[1:] if not INTERACTIVE_FLAG.fullmatch(word)]
    if program == "ssh":
        return len([word for word in rest if not word.startswith("-")]) < 2 and "-V" not in rest
    return not rest


def runs_others(argv: Sequence[str]) -> bool:
    """Whether a command runs its words, or changes what later words mean."""
    return program_of(argv) in WRAPPERS or program_of(argv) in OTHER_RUNNERS


def program_of(argv: Sequence[str]) -> str:
    """The name of what a command runs, without its folder."""
    return argv[0].rsplit("/", 1)[-1] if argv else ""
