"""The places to which paths in a shell line lead: out of the workspace, or to secrets."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice, product
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from msgspec import Struct

from vibe.shell.policy.words import Patience
from vibe.shell.port import Roots
from vibe.shell.sandbox.secrets import is_control, is_sensitive, names_secret
from vibe.system.errors import VibeError
from vibe.system.files import entries_of, text_of
from vibe.system.git.config_file import has_credentials

MAX_EXPANSION = 500
"""The most names that a pattern may stand for, or a folder contain, before it is asked about."""

MAX_BELOW = 20_000
SKIPPED_FOLDERS = frozenset({".git", "node_modules"})
"""Nobody keeps secrets there by name, and they are large."""

MAX_STEP = 512
"""A longer pattern of a single name takes long to make out."""
MAX_PATH = 4_096
"""No system opens a longer one."""
IGNORE_FILES = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")
IGNORE_BYTES = 64 * 1024
UNCERTAIN = re.compile(r"[\[{\\]|[@+!*?]\(")
"""Patterns that shells, or settings of one, read differently: sets of characters, braces, extended patterns."""


class NamedPath(Struct, frozen=True, kw_only=True):
    """A word that may name a file. ``pattern``: the shell expands it. ``whole``: the files below it are read too.

    ``visible``: of those, only the ones that are not hidden. ``follows``: and what links among them lead to.
    ``written``: by a command that may do more than read. ``fed``: a command gets it as its input.
    """

    text: str
    pattern: bool = False
    whole: bool = False
    visible: bool = False
    follows: bool = False
    written: bool = False
    fed: bool = False


def lexical_doubt(path: NamedPath) -> str:
    """Return why a word may name something it should not, judged by its letters alone; or nothing."""
    for part in path_parts(path.text):
        if _leads_out(part):
            return f"{path.text!r} may lead outside the workspace"
        if is_sensitive(PurePosixPath(part)):
            return f"{path.text!r} may hold secrets"
        if path.written and is_control(PurePosixPath(part)):
            return f"{path.text!r} decides what runs later"
    return ""


class Doubt(NamedTuple):
    """The reason to ask. ``closed``: it holds even where a line could only read, as of a secret or a place outside."""

    why: str
    closed: bool = False


def resolved_doubt(path: NamedPath, workspace: Roots, folders: Sequence[Path], patience: Patience) -> Doubt | None:
    """Return why a word names something it should not, seen from each of ``folders``; or nothing.

    One that is not closed counts only if there is no other, whatever the order of a folder's entries. Reads the file
    system.

    Raises:
        TooComplexError: there is too much to look at.
    """
    first = None
    for part, folder in product(path_parts(path.text), folders):
        for candidate in candidates(part, folder, pattern=path.pattern):
            patience.check()
            doubt = _doubt_about(candidate, part, folder, path, workspace)
            if doubt is not None and doubt.closed:
                return doubt
            first = first or doubt
    return first


def _doubt_about(candidate: str | None, part: str, folder: Path, path: NamedPath, workspace: Roots) -> Doubt | None:
    if candidate is None:
        return Doubt(f"{path.text!r} stands for files known only at run time")
    doubt = _doubt(candidate, path, workspace)
    if doubt is not None and doubt.closed:
        return doubt
    if path.pattern and not part.startswith("-") and os.path.relpath(candidate, folder).startswith("-"):
        name = os.path.basename(candidate)  # noqa: PTH119
        return Doubt(f"{path.text!r} may become an option: {name!r}")
    return doubt


def path_parts(text: str) -> list[str]:
    """Return what of a word may be a path: the whole, and what stands after ``=``, ``:`` or ``,``."""
    stripped = re.sub(r"^-\w(?=[/~.])", "", text)
    parts = [part for part in re.split(r"[=:,]", stripped) if part]
    return [part for part in dict.fromkeys((stripped, *parts)) if part and part != "/dev/null"]


def _leads_out(part: str) -> bool:
    return part.startswith(("/", "~")) or ".." in part.split("/")


def candidates(part: str, folder: Path, *, pattern: bool) -> Iterator[str | None]:
    """The paths a word stands for; None where they are too many, or bash may see others than we do."""
    if part.startswith("~"):
        yield None
        return
    joined = os.path.join(folder, part)  # noqa: PTH118  text: what the shell would pass
    yield joined
    if not pattern:
        return
    if UNCERTAIN.search(part):
        yield None
    elif re.search(r"[*?]", part):
        yield from _expanded(part, folder)


def _expanded(part: str, folder: Path) -> Iterator[str | None]:
    """Yield what a pattern of ``*`` and ``?`` may stand for: no less than any bash would find in any locale."""
    found = ["/" if part.startswith("/") else str(folder)]
    for step in part.split("/"):
        reached: list[str] = []
        for parent in found:
            names = _matching(step, parent) if re.search(r"[*?]", step) else [step]
            if names is None or len(reached) + len(names) > MAX_EXPANSION:
                yield None
                return
            reached += [os.path.join(parent, name) for name in names]  # noqa: PTH118
        found = reached
    yield from (one for one in found if os.path.lexists(one))


def _matching(step: str, parent: str) -> list[str] | None:
    """The entries of a folder that a step of a pattern may stand for; None if there are too many to look at."""
    try:
        with os.scandir(parent) as entries:
            names = [entry.name for entry in islice(entries, MAX_BELOW + 1)]
    except OSError:
        return []
    if len(names) > MAX_BELOW or len(step) > MAX_STEP:
        return None
    hidden = step.startswith(".")
    loose = step.replace("?", "*")  # in some locales a letter beyond ASCII is several characters for bash
    return [
        name
        for name in (".", "..", *names)
        if (hidden or not name.startswith(".")) and fnmatch.fnmatchcase(name, step if name.isascii() else loose)
    ]


def _doubt(candidate: str, path: NamedPath, workspace: Roots) -> Doubt | None:
    if len(candidate) > MAX_PATH:
        return Doubt(f"{path.text!r} leads nowhere", closed=True)
    try:
        resolved = workspace.resolve(candidate)
    except VibeError:
        return Doubt(f"{path.text!r} leads nowhere", closed=True)
    if not workspace.contains(resolved):
        return Doubt(f"{path.text!r} is outside the workspace", closed=True)
    shown = workspace.relative(resolved)
    if is_sensitive(PurePosixPath(shown)) or is_sensitive(PurePosixPath(os.path.basename(candidate))):  # noqa: PTH119
        return Doubt(f"{path.text!r} may hold secrets", closed=True)
    if has_credentials(resolved):
        return Doubt(f"{path.text!r} holds credentials for git", closed=True)
    if path.written and is_control(PurePosixPath(shown)):
        return Doubt(f"{path.text!r} decides what runs later", closed=True)
    if path.fed and resolved.is_dir():
        return Doubt(f"{path.text!r} is a folder, from which a program may turn to another one")
    below = _secret_below(resolved, path) if path.whole and resolved.is_dir() else ""
    return Doubt(below) if below else None


def _secret_below(folder: Path, path: NamedPath) -> str:
    """Return whether a folder that is read as a whole holds secrets; a very large one is asked about."""
    seen = 0
    shown = [glob for parent in folder.parents for glob in _shown_in(parent)] if path.visible else []
    pending = [folder]
    while pending:
        current = pending.pop()
        entries = entries_of(current)
        seen += len(entries)
        if seen > MAX_BELOW:
            return f"{path.text!r} contains too many files to check for secrets"
        shown += _shown_in(current) if path.visible else ()
        for entry in entries:
            if path.visible and _stays_hidden(entry.name, shown):
                continue
            if names_secret(entry.name.casefold()) or has_credentials(entry.path):
                return f"{entry.name!r} below {path.text!r} may hold secrets"
            if entry.name in SKIPPED_FOLDERS:
                continue
            if path.follows and entry.is_symlink():
                return f"{entry.name!r} below {path.text!r} may lead elsewhere"
            if entry.is_dir(follow_symlinks=False):
                pending.append(Path(entry.path))
    return ""


def _shown_in(folder: Path) -> list[str]:
    """The names that the ignore files in ``folder`` say are not to be passed over, which shows hidden ones, too."""
    found: list[str] = []
    for name in IGNORE_FILES:
        lines = text_of(folder / name, IGNORE_BYTES).splitlines()
        found += [line[1:].strip().rstrip("/").rpartition("/")[2] for line in lines if line.startswith("!")]
    return found


def _stays_hidden(name: str, shown: Sequence[str]) -> bool:
    return name.startswith(".") and not any(fnmatch.fnmatchcase(name, glob) for glob in shown)
