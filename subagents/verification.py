"""Verification: the files a step's checks consist of, which the step itself may not change.

What counts: files that exist when the step first starts and that its ``verify`` lines name. Where ``writes`` is given, that
is every path they name, but for what ``writes`` covers. Where it is not, a line may well name what the step is to work on
(``grep -q done README.md``), so only tests and what a line executes count: files that look like tests, folders of tests
with all that is in them (not in mode ``test``, whose steps are there to write them), scripts.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

import msgspec

from subagents.executor import StepTask
from vibe.core.modes import ExecutionMode
from vibe.core.tools.ignore import walk_files
from vibe.core.tools.workspace import matches_any

RECORD_FILES = "verification*.json"
"""Where steps keep, in their folders, how these files were."""
MAX_FILES = 20_000
"""Of one step; what is beyond is not looked after."""
MAX_MATCHES = 500

TEST_FOLDERS = frozenset({"test", "tests", "spec", "specs", "__tests__", "testing", "e2e"})
TEST_NAME = re.compile(r"(?:test_.+|.+[._-](?:test|tests|spec)|conftest|tests?)(?:\.[a-z]+)?", re.IGNORECASE)
INTERPRETER = re.compile(r"(?:ba|da|z|k|fi)?sh|python[\d.]*|node|deno|bun|ruby|perl|php|Rscript|pwsh|source|\.")
ENTERING = frozenset({"cd", "-C", "--directory", "--prefix", "--cwd"})
BREAKS = frozenset({"&&", "||", ";", "|", "&", "(", ")", "|&"})


class Verification:
    """The files of one step. ``record`` keeps how they were when the step first started, over attempts and processes.

    ``others`` tells what steps that ran beside this one claimed to write. Construction reads files.
    """

    def __init__(self, task: StepTask, root: Path, record: Path, others: Callable[[], Sequence[str]]) -> None:
        self._root = root
        self._record = record
        self._others = others
        self._known: dict[str, str | None] = {}
        if task.verify:
            recorded = _read(record)
            self._known = self._first_seen(task) if recorded is None else recorded

    @property
    def held(self) -> frozenset[Path]:
        """The files, resolved."""
        return frozenset(Path(os.path.realpath(self._root / name)) for name in self._known)

    def changed(self) -> tuple[str, ...]:
        """Those that are no longer what they were. Blocks.

        What another step claimed that ran beside this one is that step's to change, and is known as it is from then on.
        """
        now = {name: _digest(self._root / name) for name in self._known}
        differing = [name for name, digest in self._known.items() if now[name] != digest]
        claimed = self._others() if differing else ()
        theirs = [name for name in differing if matches_any(name, claimed)]
        if theirs:
            self._known.update((name, now[name]) for name in theirs)
            _write(self._record, self._known)
        return tuple(name for name in differing if name not in theirs)

    def _first_seen(self, task: StepTask) -> dict[str, str | None]:
        names = (path.relative_to(self._root).as_posix() for path in islice(checked_files(task, self._root), MAX_FILES))
        seen = {name: _digest(self._root / name) for name in names}
        _write(self._record, seen)
        return seen


def record_name(task: StepTask) -> str:
    """The file a step in the shared workspace keeps over its attempts; a worktree is made anew for each."""
    return "verification.json" if task.workdir is None else f"verification.{task.attempt}.json"


def checked_files(task: StepTask, root: Path) -> Iterator[Path]:
    """The files the ``verify`` lines of a step consist of, each once. Reads the file system."""
    seen: set[Path] = set()
    for path in (path for line in task.verify for path in _named(line, task, root)):
        name = path.relative_to(root).as_posix()
        if path not in seen and not (task.writes is not None and matches_any(name, task.writes)):
            seen.add(path)
            yield path


def looks_like_test(name: str) -> bool:
    """Whether a path is one of a test, by its name or a folder's."""
    *folders, last = name.split("/")
    return bool(TEST_NAME.fullmatch(last)) or any(folder.lower() in TEST_FOLDERS for folder in folders)


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of a line; ``runs``: it is a program, or what an interpreter is given."""

    text: str
    runs: bool


def _named(line: str, task: StepTask, root: Path) -> Iterator[Path]:
    words, folders = _words(line, root)
    strict = task.writes is not None
    for word in words:
        for path in _candidates(word.text, folders):
            if not path.is_relative_to(root) or path == root:
                continue
            name = path.relative_to(root).as_posix()
            is_test = looks_like_test(name) or (path.is_dir() and path.name.lower() in TEST_FOLDERS)
            if path.is_file() and (strict or is_test or word.runs):
                yield path
            elif path.is_dir() and (strict or (is_test and task.mode is not ExecutionMode.TEST)):
                yield from walk_files(root, path, use_ignores=True)
        for path in _modules(word.text, folders):
            if path.is_relative_to(root) and looks_like_test(path.relative_to(root).as_posix()):
                yield path


def _words(line: str, root: Path) -> tuple[list[_Word], list[Path]]:
    """The words of a line, those of lines in quotes too, and the folders they may be meant from."""
    words: list[_Word] = []
    folders = [root]
    starts, given, before = True, False, ""
    for text in _split(line):
        if text in BREAKS:
            starts, given, before = True, False, ""
            continue
        if re.search(r"\s", text):
            inner, more = _words(text, root)
            words += inner
            folders += more[1:]
        entered = root / text
        if before in ENTERING and entered.is_dir():
            folders.append(_normal(entered))
        else:
            words.append(_Word(text, runs=starts or given))
        given = (starts and bool(INTERPRETER.fullmatch(text.rsplit("/", 1)[-1]))) or (given and text.startswith("-"))
        starts = starts and "=" in text.partition("/")[0]  # a variable for the command
        before = text
    return words, folders


def _split(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed: bash will say so
        return line.split()


def _candidates(text: str, folders: Iterable[Path]) -> Iterator[Path]:
    """What a word may name: itself, what follows ``=``, what precedes ``::`` or ``:``, what a pattern stands for."""
    parts = dict.fromkeys((text, text.partition("=")[2], text.partition("::")[0], text.partition(":")[0]))
    for part in filter(None, parts):
        for folder in folders:
            yield from _stands_for(part, folder)


def _stands_for(part: str, folder: Path) -> Iterator[Path]:
    if part.startswith("/") or not re.search(r"[*?\[]", part):
        yield _normal(folder / part)
        return
    try:
        yield from (_normal(path) for path in islice(folder.glob(part), MAX_MATCHES))
    except (ValueError, NotImplementedError, OSError):  # no pattern that stands for files
        return


def _modules(text: str, folders: Iterable[Path]) -> Iterator[Path]:
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


def _normal(path: Path) -> Path:
    return Path(os.path.normpath(path))


def _digest(path: Path) -> str | None:
    """None: there is no such file, or none that can be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return None


def _read(path: Path) -> dict[str, str | None] | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str | None])
    except (OSError, msgspec.DecodeError):
        return None


def _write(path: Path, known: Mapping[str, str | None]) -> None:
    draft = path.with_suffix(".new")
    draft.write_bytes(msgspec.json.encode(known))
    draft.replace(path)


@dataclass(frozen=True, slots=True)
class _Claim:
    step_id: str
    workdir: str | None
    writes: tuple[str, ...]


class NeighbourClaims(Protocol):
    """Knows what steps claimed to write that worked beside another."""

    def beside(self, task: StepTask) -> AbstractContextManager[Callable[[], Sequence[str]]]:
        """While it lasts, ``task`` is at work; yields what tells the claims of others since its first attempt began.

        What is yielded may block: call it in a thread.
        """
        ...


class Neighbours:
    """Which steps have worked beside which: what one claimed to write, others must not hold against their own agents."""

    def __init__(self) -> None:
        self._begun: list[_Claim] = []
        self._active: list[_Claim] = []
        self._first: dict[str, tuple[int, tuple[_Claim, ...]]] = {}

    @contextmanager
    def beside(self, task: StepTask) -> Generator[Callable[[], Sequence[str]]]:
        """See ``NeighbourClaims``; nobody is the neighbour of a step in a worktree."""
        own = _Claim(task.step_id, task.workdir, task.writes or ())
        first, already = self._first.setdefault(task.step_id, (len(self._begun), tuple(self._active)))

        def others() -> Sequence[str]:
            claims = (*already, *self._begun[first:])
            return [
                glob
                for claim in claims
                if claim.step_id != own.step_id and claim.workdir == own.workdir
                for glob in claim.writes
            ]

        if own.writes:
            self._begun.append(own)
        self._active.append(own)
        try:
            yield others
        finally:
            self._active.remove(own)
