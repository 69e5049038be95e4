"""Which shell lines may run unasked where nothing can be written, reached or read that is secret."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from vibe.shell.policy.builtins import bare
from vibe.shell.policy.carried_text import texts
from vibe.shell.policy.parser import ShellLine, Word
from vibe.shell.policy.paths import MAX_PATH, path_parts
from vibe.shell.policy.read_only_commands import READERS, find_reader
from vibe.shell.policy.words import UNKNOWN_STEP, Patience, Place
from vibe.shell.policy.wrappers import Words, name_of, positions
from vibe.shell.port import Roots
from vibe.shell.sandbox.secret_names import is_sensitive

PASSING_ON = frozenset({"command", "env", "nice", "nohup", "stdbuf", "time", "timeout", "xargs"})
"""Wrappers that only run a reader differently."""

OF_THE_SHELL = frozenset({
    ":", "[", "break", "cd", "continue", "exit", "read", "return", "set", "shift", "sleep", "wait",
})  # fmt: skip
READ_WHEN_CONFINED = frozenset({
    "awk", "bat", "batcat", "bc", "bzcat", "cal", "cloc", "egrep", "fd", "fdfind", "fgrep", "gawk", "getconf", "iconv",
    "jq", "ldd", "mawk", "nm", "numfmt", "objdump", "pr", "readelf", "scc", "sdiff", "shuf", "size", "tar", "tokei",
    "tput", "unzip", "xmllint", "xzcat", "yq", "zcat", "zgrep", "zipinfo", "zstdcat",
})  # fmt: skip
"""Programs whose everyday use is reading, though they can write or run others when nothing stops them."""
GIT_WHEN_CONFINED = frozenset({
    "check-attr", "check-mailmap", "cherry", "diff-files", "diff-index", "diff-tree", "fsck", "name-rev", "range-diff",
    "submodule", "symbolic-ref", "var", "verify-commit", "verify-tag", "whatchanged",
})  # fmt: skip
RUNNING_GIT = frozenset({"cloc", "git", "go", "uv"})
"""Programs that are git, or start it."""
BEGINNINGS_WHEN_CONFINED = frozenset(
    tuple(row.split())
    for row in (
        "cargo --list", "cargo --version", "cargo -V", "cargo metadata", "cargo tree", "go doc", "go env", "go help",
        "go list", "go mod graph", "go version", "gofmt -d", "gofmt -l", "make --dry-run", "make -n", "make -p",
        "ruff check", "rustc --version", "rustc -V", "rustc -vV", "rustfmt --version", "rustup show",
        "rustup --version", "uv pip freeze", "uv pip list", "uv pip show", "uv pip tree", "uv python list", "uv tree",
    )
)  # fmt: skip
"""Looks of build tools, which may take a program from the workspace, or write what they found out."""
SINGLE = frozenset(row for row in READERS if " " not in row)


def may_read_confined(
    line: ShellLine, workspace: Roots, start: Place, patience: Patience, *, any_program: bool
) -> bool:
    """Return whether a line that would be asked about may run in a read-only sandbox instead.

    It does where all its programs are known to read, though not all their words are understood; with ``any_program``
    whatever they are. What names a secret or a place outside is asked about all the same: it would not be there.

    Raises:
        TooComplexError: there is too much to look at.
    """
    if line.opaque or line.barred or not line.commands:
        return False
    folder = workspace.root.joinpath(*start)
    for command in map(bare, line.commands):
        words = tuple(word.text for word in command.words)
        if not any_program and not _only_readers(words):
            return False
        if any(_leads_away(word, folder, workspace, patience) for word in dict.fromkeys(command.words)):
            return False
    return not any(_leads_away(Word(text=text), folder, workspace, patience) for text in line.inputs)


def places_of_git(line: ShellLine) -> Iterator[Place]:
    """Yield where the line runs git, or what starts it, and where its words may make another program do so."""
    for command in map(bare, line.commands):
        words = tuple(word.text for word in command.words)
        start = next((at for at in positions(words) if name_of(words[at]) in RUNNING_GIT), None)
        if start is None:
            if any("git" in (word or "") for word in words[1:]) and not _only_readers(words):
                yield from command.places
            continue
        moved = any((word or "-C").startswith(("-C", "--c", "-execdir")) for word in words[:start])
        moved = moved or any((word or "-").startswith("-") for word in words[start + 1 : start + 2])
        yield from ((*place, UNKNOWN_STEP) if moved else place for place in command.places)


def _only_readers(words: Words) -> bool:
    if not words[0] or "/" in words[0]:
        return False
    commands = [words[start:] for start in positions(words) if not (words[start] or "").startswith("-")]
    return all(_is_reader(inner) and not any(True for _ in texts(inner)) for inner in commands)


def _is_reader(words: Words) -> bool:
    program = words[0]
    if program is None or "/" in program:
        return False
    if program in OF_THE_SHELL or program in PASSING_ON or program in SINGLE or program in READ_WHEN_CONFINED:
        return True
    argv = tuple(word for word in words[:3] if word is not None)
    if any(argv[:length] in BEGINNINGS_WHEN_CONFINED for length in (2, 3)):
        return True
    return find_reader(argv) is not None or (program == "git" and argv[1:2] != () and argv[1] in GIT_WHEN_CONFINED)


def _leads_away(word: Word, folder: Path, workspace: Roots, patience: Patience) -> bool:
    """Return whether a word names a secret, or something that is there and outside the workspace."""
    if word.text is None:
        return False
    for part in path_parts(word.text):
        patience.check()
        if part.startswith("~") and (word.pattern or part != word.text):
            return True
        if is_sensitive(PurePosixPath(part)) or is_sensitive(PurePosixPath(part.rpartition(":")[2])):
            return True
        path = Path(os.path.realpath(folder / part)) if "\0" not in part and len(part) < MAX_PATH else None
        if path is None or (path.exists() and not workspace.contains(path)):
            return True
        if is_sensitive(path):
            return True
    return word.pattern and re.search(r"\.\.|(?:^|/)\.[^/]*[*?\[]|^/", word.text) is not None
