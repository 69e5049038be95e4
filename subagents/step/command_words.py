"""Reads check lines as a shell would: their words, and what paths, tests and modules these may stand for."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

MAX_MATCHES = 500

TEST_FOLDERS = frozenset({"test", "tests", "spec", "specs", "__tests__", "testing", "e2e"})
TEST_NAME = re.compile(r"(?:test_.+|.+[._-](?:test|tests|spec)|conftest|tests?)(?:\.[a-z]+)?", re.IGNORECASE)
INTERPRETER = re.compile(r"(?:ba|da|z|k|fi)?sh|python[\d.]*|node|deno|bun|ruby|perl|php|Rscript|pwsh|source|\.")
ENTERING = frozenset({"cd", "-C", "--directory", "--prefix", "--cwd"})
BREAK = re.compile(r"[();|&]+")
INNER_COMMAND = re.compile(r"\$\(|`|[<>]\(")

LOOKING = frozenset({
    ":", "[", "[[", "cat", "cd", "cmp", "comm", "cut", "diff", "echo", "egrep", "exit", "false", "fgrep", "file",
    "grep", "head", "jq", "ls", "md5sum", "printf", "pwd", "rg", "sha256sum", "sort", "stat", "tail", "test", "tr",
    "true", "uniq", "wc",
})  # fmt: skip
"""Programs that look at files and run nothing."""


def looks_like_test(name: str) -> bool:
    """Return whether a path is one of a test, by its name or a folder's."""
    *folders, last = name.split("/")
    return bool(TEST_NAME.fullmatch(last)) or any(folder.lower() in TEST_FOLDERS for folder in folders)


@dataclass(frozen=True, slots=True)
class CommandWord:
    """A word of a line; ``runs``: it is a program, or what an interpreter is given."""

    text: str
    runs: bool


def words_of(line: str, root: Path) -> tuple[list[CommandWord], list[Path]]:
    """The words of a line, those of lines in quotes too, and the folders they may be meant from."""
    words: list[CommandWord] = []
    folders = [root]
    starts, given, before = True, False, ""
    for text in _split(line):
        if BREAK.fullmatch(text):
            starts, given, before = True, False, ""
            continue
        if re.search(r"\s", text):
            inner, more = words_of(text, root)
            words += inner
            folders += more[1:]
        entered = root / text
        if before in ENTERING and entered.is_dir():
            folders.append(normal(entered))
        else:
            words.append(CommandWord(text, runs=starts or given))
        given = (starts and bool(INTERPRETER.fullmatch(text.rsplit("/", 1)[-1]))) or (given and text.startswith("-"))
        starts = starts and _sets_variable(text)
        before = text
    return words, folders


def only_looks(lines: Iterable[str]) -> bool:
    """Return whether all that these lines run are programs of ``LOOKING``."""
    commands = [command for line in lines for command in line.split("\n")]
    return not any(INNER_COMMAND.search(command) for command in commands) and all(
        program in LOOKING for command in commands for program in _programs(command)
    )


def _programs(command: str) -> Iterator[str]:
    starts = True
    for text in _split(command):
        if BREAK.fullmatch(text):
            starts = True
        elif starts and not _sets_variable(text):
            starts = False
            yield text


def module_folders(lines: Iterable[str], root: Path) -> Iterator[Path]:
    """Yield the folders where ``python`` looks first for modules that these lines run.

    They are those of the line itself, or of a script or tests it runs.
    """
    for line in lines:
        words, folders = words_of(line, root)
        yield from folders
        for word in words:
            if word.text.startswith("PYTHONPATH="):
                parts = word.text.partition("=")[2].split(":")
                yield from (normal(folder / part) for part in parts for folder in folders)
        tests = [folder / name for folder in folders for name in sorted(TEST_FOLDERS)]
        run = [path for word in words for path in paths_of(word.text, folders) if word.runs or _is_test(path, root)]
        yield from (_outside_packages(path if path.is_dir() else path.parent, root) for path in (*tests, *run))


def _is_test(path: Path, root: Path) -> bool:
    return path.is_relative_to(root) and looks_like_test(path.relative_to(root).as_posix())


def _outside_packages(folder: Path, root: Path) -> Path:
    while folder.is_relative_to(root) and folder != root and (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _sets_variable(text: str) -> bool:
    """Return whether the first word of a command is a variable for it."""
    return "=" in text.partition("/")[0]


def _split(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed: bash will say so
        return line.split()


def paths_of(text: str, folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the files a word may name.

    They are the word itself, what follows ``=``, what precedes ``::`` or ``:``, and what a pattern stands for.
    """
    parts = dict.fromkeys((text, text.partition("=")[2], text.partition("::")[0], text.partition(":")[0]))
    for part in filter(None, parts):
        for folder in folders:
            yield from _stands_for(part, folder)


def _stands_for(part: str, folder: Path) -> Iterator[Path]:
    if part.startswith("/") or not re.search(r"[*?\[]", part):
        yield normal(folder / part)
        return
    try:
        yield from (normal(path) for path in islice(folder.glob(part), MAX_MATCHES))
    except (ValueError, NotImplementedError, OSError):  # no pattern that stands for files
        return


def modules_of(text: str, folders: Iterable[Path]) -> Iterator[Path]:
    """The files of a dotted name, as ``python -m unittest tests.test_a.Case`` has it."""
    if not re.fullmatch(r"\w+(?:\.\w+)+", text):
        return
    names = text.split(".")
    for folder in folders:
        for length in range(len(names), 0, -1):
            path = folder.joinpath(*names[:length]).with_suffix(".py")
            if path.is_file():
                yield path
                break


def normal(path: Path) -> Path:
    """The path without ``.`` and ``..``, links as they are."""
    return Path(os.path.normpath(path))
