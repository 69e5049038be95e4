"""Guards the files that a step's checks consist of or are configured by, which the step itself may not change.

Checks consist of the files that exist when the step first starts and that its ``verify`` lines name, read as a shell
reads them, except files for the output of a line. If the step has ``writes``, those are all paths named in the lines
that ``writes`` does not cover. If it has none, a line may name a file that the step is meant to work on
(``grep -q done README.md``), so only tests and scripts count: files that look like tests, whole folders of tests
(except in mode ``test``, whose steps write them), and programs and scripts that a line executes.

Config files are listed in ``subagents.step.config_files``. The step may not create those either.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeAlias

from msgspec import Struct, field, json

from ipc.errors import read_json_file
from subagents.executor import StepTask
from subagents.step.config_files import (
    BUILT_FILES,
    ConfigChange,
    config_files,
    differences,
    hides_module,
    is_config_file,
    is_searched,
    names_file,
)
from vibe.core.modes import ExecutionMode
from vibe.system.errors import shortage
from vibe.system.files import regular_file, replace_file
from vibe.system.globs import matches_any
from vibe.system.ignore import walk_files

MAX_MATCHES = 500
"""Files that one pattern in a line may stand for; further ones are ignored."""

TEST_FOLDERS = frozenset({"test", "tests", "spec", "specs", "__tests__", "testing", "e2e"})
TEST_NAME = re.compile(r"(?:test_.+|.+[._-](?:test|tests|spec)|conftest|tests?)(?:\.[a-z]+)?", re.IGNORECASE)
INTERPRETER = re.compile(r"(?:ba|da|z|k|fi)?sh|python[\d.]*|node|deno|bun|ruby|perl|php|Rscript|pwsh|source|\.")
"""Programs whose first argument that is not an option is a script to run."""
ENTERING = frozenset({"cd", "-C", "--directory", "--prefix", "--cwd"})
"""Words that are followed by a folder in which the rest of the line runs."""
BREAK = re.compile(r"[();|&]+")
"""Separates the commands of a line."""
OUTPUT = re.compile(r"&?>[>&|]?")
"""Is followed by the file that a command's output goes to."""
INNER_COMMAND = re.compile(r"\$\(|`|[<>]\(")
"""Begins a command inside another one."""

LOOKING_PROGRAMS = frozenset({
    ":", "[", "[[", "cat", "cd", "cmp", "comm", "cut", "diff", "echo", "egrep", "exit", "false", "fgrep", "file",
    "grep", "head", "jq", "ls", "md5sum", "printf", "pwd", "rg", "sha256sum", "sort", "stat", "tail", "test", "tr",
    "true", "uniq", "wc",
})  # fmt: skip
"""Programs that only look at files and run nothing."""


def looks_like_test(name: str) -> bool:
    """Return whether a path belongs to a test, by its own name or by a folder's."""
    *folders, last = name.split("/")
    return bool(TEST_NAME.fullmatch(last)) or any(folder.lower() in TEST_FOLDERS for folder in folders)


class CommandWord(Struct, frozen=True):
    """A word of a line.

    ``runs`` says that it is a program, or the script given to an interpreter; ``written``, that output goes to it.
    """

    text: str
    runs: bool
    written: bool


def words_of(line: str, root: Path) -> tuple[list[CommandWord], list[Path]]:
    """Return the words of a line, and of quoted lines in it, and the folders that its paths may be relative to."""
    words: list[CommandWord] = []
    folders = [root]
    program, at_script = "", False
    for text, at_start, previous in _placed(line):
        program = text if at_start else program
        if re.search(r"\s", text):
            inner, more = words_of(text, root)
            words += inner
            folders += more[1:]
        entered = root / text
        if previous in ENTERING and os.path.isdir(entered):
            folders.append(normalized(entered))
        else:
            is_written = bool(OUTPUT.fullmatch(previous)) or (program == "tee" and not at_start)
            words.append(CommandWord(text, runs=at_start or at_script, written=is_written))
        is_interpreter = at_start and bool(INTERPRETER.fullmatch(text.rsplit("/", 1)[-1]))
        at_script = is_interpreter or (at_script and text.startswith("-"))
    return words, folders


def _placed(line: str) -> Iterator[tuple[str, bool, str]]:
    """Yield each word of a line, whether it may begin a command, and the word before it in the command."""
    at_start, previous = True, ""
    for text in _split(line):
        if BREAK.fullmatch(text):
            at_start, previous = True, ""
            continue
        yield text, at_start, previous
        at_start = at_start and _sets_variable(text)
        previous = text


def only_looks(lines: Iterable[str]) -> bool:
    """Return whether these lines run only programs of ``LOOKING_PROGRAMS``."""
    commands = [command for line in lines for command in line.split("\n")]
    return not any(INNER_COMMAND.search(command) for command in commands) and all(
        text in LOOKING_PROGRAMS
        for command in commands
        for text, at_start, _ in _placed(command)
        if at_start and not _sets_variable(text)
    )


def module_folders(lines: Iterable[str], root: Path) -> Iterator[Path]:
    """Yield the folders where ``python`` looks first for the modules that these lines import.

    They are the folder a line works in, its ``PYTHONPATH``, and the folders of the scripts and tests it runs.
    """
    for line in lines:
        words, folders = words_of(line, root)
        yield from folders
        for word in words:
            if word.text.startswith("PYTHONPATH="):
                parts = word.text.partition("=")[2].split(":")
                yield from (normalized(folder / part) for part in parts for folder in folders)
        tests = [folder / name for folder in folders for name in sorted(TEST_FOLDERS)]
        run = [path for word in words for path in paths_of(word.text, folders) if word.runs or _is_test(path, root)]
        yield from (_outside_packages(path if os.path.isdir(path) else path.parent, root) for path in (*tests, *run))


def _is_test(path: Path, root: Path) -> bool:
    return path.is_relative_to(root) and looks_like_test(path.relative_to(root).as_posix())


def _outside_packages(folder: Path, root: Path) -> Path:
    """Return the nearest folder, from ``folder`` upwards, that is not a Python package."""
    while folder.is_relative_to(root) and folder != root and os.path.isfile(folder / "__init__.py"):
        folder = folder.parent
    return folder


def _sets_variable(text: str) -> bool:
    """Return whether a word at the start of a command sets an environment variable for it."""
    return "=" in text.partition("/")[0]


def _split(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    with suppress(ValueError):  # a quote is not closed, which bash will report
        return list(lexer)
    return line.split()


def paths_of(text: str, folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that a word may name.

    They are the word itself, what follows ``=``, what precedes ``::`` or ``:``, and the matches of a pattern.
    """
    parts = dict.fromkeys((text, text.partition("=")[2], text.partition("::")[0], text.partition(":")[0]))
    for part in filter(None, parts):
        for folder in folders:
            yield from _stands_for(part, folder)


def _stands_for(part: str, folder: Path) -> Iterator[Path]:
    if part.startswith("/") or not re.search(r"[*?\[]", part):
        yield normalized(folder / part)
        return
    try:
        yield from (normalized(path) for path in islice(folder.glob(part), MAX_MATCHES))
    except (ValueError, NotImplementedError, OSError):  # not a pattern of file names
        return


def modules_of(text: str, folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the files of a dotted name, such as that in ``python -m unittest tests.test_a.Case``."""
    if not re.fullmatch(r"\w+(?:\.\w+)+", text):
        return
    names = text.split(".")
    for folder in folders:
        for length in range(len(names), 0, -1):
            path = folder.joinpath(*names[:length]).with_suffix(".py")
            if os.path.isfile(path):
                yield path
                break


def normalized(path: Path) -> Path:
    """Return the path without ``.`` and ``..``; links are not resolved."""
    return Path(os.path.normpath(path))


RECORD_FILES = "verification*.json"
"""Pattern of the names of the records that guards keep in the folders of steps."""
MAX_FILES = 20_000
"""The most files guarded for one step; further ones are not."""

Digests: TypeAlias = dict[str, str | None]
"""Digests of files by their paths below the root; None for a file that is missing or unreadable."""


class _Record(Struct, kw_only=True):
    """State of the files that checks consist of, and of their config files (None if nothing configures the checks)."""

    files: Digests
    config: Digests | None = field(default=None, name="steering")


class TamperGuard:
    """Guards the files of one step's checks.

    ``record`` is the file that holds their state at the first start of the step, for all attempts and processes.
    ``others`` returns the globs that concurrent steps claim to write. The constructor reads files.
    """

    def __init__(self, task: StepTask, root: Path, record: Path, others: Callable[[], Sequence[str]]) -> None:
        self._task = task
        self._step = task.step
        self._root = root
        self._path = record
        self._others = others
        self._recorded = _Record(files={})
        if task.step.verify:
            self._recorded = read_json_file(record, _Record) or self._record_first_state()

    @property
    def protected(self) -> frozenset[Path]:
        """The resolved paths of the files that the checks consist of."""
        return frozenset(Path(os.path.realpath(self._root / name)) for name in self._recorded.files)

    def configures(self, path: Path) -> bool:
        """Return whether a resolved path, existing or not, would configure the checks, judging by its name alone."""
        root = Path(os.path.realpath(self._root))
        if self._recorded.config is None or not path.is_relative_to(root):
            return False
        name = path.relative_to(root).as_posix()
        return not names_file(name, self._step.writes) and (
            (is_config_file(name) and is_searched(name))
            or (not os.path.exists(path) and hides_module(path, module_folders(self._step.verify, root)))
        )

    def changed(self) -> tuple[str, ...]:
        """Return the changed files of the checks and of their configuration. Blocks."""
        return (*self.tampered(), *(one.name for one in self.config_changes()))

    def tampered(self) -> tuple[str, ...]:
        """Return the changed files that the checks consist of. Blocks.

        A file that a concurrent step claims to write may change; then its new state is recorded.
        """
        known = self._recorded.files
        now = {name: _digest(self._root / name) for name in known}
        differing = [name for name, digest in known.items() if now[name] != digest]
        theirs = self._claimed_by_others(differing)
        self._accept(known, now, theirs)
        return tuple(name for name in differing if name not in theirs)

    def config_changes(self) -> tuple[ConfigChange, ...]:
        """Return the changes of config files, except those that concurrent steps claim to write. Blocks."""
        return self._changes_except(lambda found: self._claimed_by_others([one.name for one in found]))

    def checked(self) -> None:
        """Record config files that a check just built, because they are not the step's doing. Blocks."""
        self._changes_except(_built)

    def _claimed_by_others(self, names: Sequence[str]) -> list[str]:
        claimed = self._others() if names else ()
        return [name for name in names if matches_any(name, claimed)]

    def _accept(self, known: Digests, now: Digests, names: Sequence[str]) -> None:
        """Record the present state of some files."""
        for name in names:
            known.pop(name, None)
            known.update({name: now[name]} if name in now else {})
        if names:
            self._write()

    def _changes_except(self, accepted_of: Callable[[Sequence[ConfigChange]], list[str]]) -> tuple[ConfigChange, ...]:
        known = self._recorded.config
        if known is None:
            return ()
        now = self._config_now()
        found = differences(known, now)
        accepted = accepted_of(found)
        self._accept(known, now, accepted)
        return tuple(one for one in found if one.name not in accepted)

    def _config_now(self) -> Digests:
        names = config_files(self._root, module_folders(self._step.verify, self._root))
        return {_escaped(name): _digest(self._root / name) for name in names if not names_file(name, self._step.writes)}

    def _record_first_state(self) -> _Record:
        task, root = self._task, self._root
        names = (path.relative_to(root).as_posix() for path in islice(checked_files(task, root), MAX_FILES))
        self._recorded = _Record(
            files={name: _digest(root / name) for name in names if name == _escaped(name)},
            config=None if only_looks(task.step.verify) else self._config_now(),
        )
        self._write()
        return self._recorded

    def _write(self) -> None:
        replace_file(self._path, json.encode(self._recorded), sync=False)


def _built(found: Sequence[ConfigChange]) -> list[str]:
    return [
        one.name for one in found if one.how == "was created" and one.name.rpartition("/")[2].lower() in BUILT_FILES
    ]


def record_name(task: StepTask) -> str:
    """Return the file name of a step's record. Attempts in the shared workspace have one, each worktree its own."""
    return "verification.json" if task.workdir is None else f"verification.{task.attempt}.json"


def checked_files(task: StepTask, root: Path) -> Iterator[Path]:
    """Yield the files that the ``verify`` lines of a step consist of, each once. Reads the file system."""
    lines = [words_of(line, root) for line in task.step.verify]
    seen = {path for words, folders in lines for word in words if word.written for path in paths_of(word.text, folders)}
    for path in (path for words, folders in lines for path in _files_named(words, folders, task, root)):
        name = path.relative_to(root).as_posix()
        if path not in seen and not (task.step.writes is not None and matches_any(name, task.step.writes)):
            seen.add(path)
            yield path


def _files_named(words: Sequence[CommandWord], folders: Sequence[Path], task: StepTask, root: Path) -> Iterator[Path]:
    strict = task.step.writes is not None
    for word in words:
        for path in paths_of(word.text, folders):
            if not path.is_relative_to(root) or path == root:
                continue
            is_test = _is_test(path, root) or (os.path.isdir(path) and path.name.lower() in TEST_FOLDERS)
            if os.path.isfile(path) and (strict or is_test or word.runs):
                yield path
            elif os.path.isdir(path) and (strict or (is_test and task.step.mode is not ExecutionMode.TEST)):
                yield from walk_files(root, path, use_ignores=True)
        for path in modules_of(word.text, folders):
            if _is_test(path, root):
                yield path


def _escaped(name: str) -> str:
    """Return the name with escapes for the bytes that are invalid in UTF-8."""
    return name.encode("utf-8", "backslashreplace").decode()


def _digest(path: Path) -> str | None:
    """Return the digest of a file, or None if it is missing or unreadable."""
    try:
        with regular_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        if shortage(error):  # the system ran out of something, and the file may well be there
            raise
        return None


class _Claim(Struct, frozen=True):
    step_id: str
    workdir: str | None
    writes: tuple[str, ...]


class ConcurrentClaims(Protocol):
    """The write claims of steps that run at the same time."""

    def beside(self, task: StepTask) -> AbstractContextManager[Callable[[], Sequence[str]]]:
        """Register ``task`` as running, and yield a function that returns others' claims since its first attempt.

        The function may block, so call it in a thread.
        """
        ...


class RunClaims(Struct, eq=False):
    """Records which steps ran at the same time. A change of a file that one claimed is not tampering by another.

    A step in a worktree writes to the shared workspace when it is merged: what it claimed, or, without a claim,
    anything.
    """

    _begun: list[_Claim] = field(default_factory=list[_Claim])
    _active: list[_Claim] = field(default_factory=list[_Claim])
    _first: dict[str, tuple[int, tuple[_Claim, ...]]] = field(default_factory=dict[str, tuple[int, tuple[_Claim, ...]]])

    @contextmanager
    def beside(self, task: StepTask) -> Generator[Callable[[], Sequence[str]]]:
        """See ``ConcurrentClaims``. For a step in a worktree, only steps in the same worktree count."""
        own = _Claim(task.step_id, task.workdir, _claim_of(task))
        first, already = self._first.setdefault(task.step_id, (len(self._begun), tuple(self._active)))

        def others() -> Sequence[str]:
            claims = (*already, *self._begun[first:])
            return [
                glob
                for claim in claims
                if claim.step_id != own.step_id and own.workdir in {None, claim.workdir}
                for glob in claim.writes
            ]

        if own.writes:
            self._begun.append(own)
        self._active.append(own)
        try:
            yield others
        finally:
            self._active.remove(own)


def _claim_of(task: StepTask) -> tuple[str, ...]:
    if task.step.writes is None and task.workdir is not None:
        return ("**",)
    return tuple(task.step.writes or ())
