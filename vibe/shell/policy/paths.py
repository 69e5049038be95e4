"""Finds paths in a shell line that lead out of the workspace or to secrets."""

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
"""Maximum number of names that a pattern may expand to. With more, the line needs approval."""

MAX_BELOW = 20_000
"""Maximum number of entries in a folder that are compared with a pattern, or below one that is read as a whole."""
SKIPPED_FOLDERS = frozenset({".git", "node_modules"})
"""Large folders in which nobody keeps secrets by name, so they are not searched."""

MAX_STEP = 512
"""Maximum length of a pattern for a single name, in characters. Longer ones take long to match."""
MAX_PATH = 4_096
"""Maximum length of a path, in characters. No system opens a longer one."""
IGNORE_FILES = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")
IGNORE_BYTES = 64 * 1024
UNCERTAIN = re.compile(r"[\[{\\]|[@+!*?]\(")
"""Patterns whose meaning depends on the shell and its settings: sets of characters, braces, extended patterns."""


class NamedPath(Struct, frozen=True, kw_only=True):
    """A word that may name a file.

    Attributes:
        text: The word.
        pattern: The shell expands it.
        whole: The files below it are read too.
        visible: Of the files below it, only those that aren't hidden are read.
        follows: Links below it are followed.
        written: It is named by a command that may do more than read.
        fed: A command gets it as its input.
    """

    text: str
    pattern: bool = False
    whole: bool = False
    visible: bool = False
    follows: bool = False
    written: bool = False
    fed: bool = False


class Doubt(NamedTuple):
    """A reason to ask. A ``closed`` one counts even in a read-only sandbox, such as a secret or a path outside."""

    why: str
    closed: bool = False


def resolved_doubt(path: NamedPath, workspace: Roots, folders: Sequence[Path], patience: Patience) -> Doubt | None:
    """Return why a word names something it should not, seen from each of ``folders``, or None.

    A closed doubt takes precedence over others, whatever the order of a folder's entries. Reads the file system.

    Raises:
        TooComplexError: checking the paths would take too long.
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
    """Return the parts of a word that may be paths: all of it, and each part between ``=``, ``:`` or ``,``."""
    stripped = re.sub(r"^-\w(?=[/~.])", "", text)
    parts = [part for part in re.split(r"[=:,]", stripped) if part]
    return [part for part in dict.fromkeys((stripped, *parts)) if part and part != "/dev/null"]


def candidates(part: str, folder: Path, *, pattern: bool) -> Iterator[str | None]:
    """Yield the paths that a word may expand to. None means there are too many, or bash may find others than we do."""
    if part.startswith("~"):
        yield None
        return
    joined = os.path.join(folder, part)  # noqa: PTH118  the text as the shell would pass it
    yield joined
    if not pattern:
        return
    if UNCERTAIN.search(part):
        yield None
    elif re.search(r"[*?]", part):
        yield from _expanded(part, folder)


def _expanded(part: str, folder: Path) -> Iterator[str | None]:
    """Yield the paths that a pattern of ``*`` and ``?`` may expand to: at least those any bash finds in any locale."""
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
    yield from (path for path in found if os.path.lexists(path))


def _matching(step: str, parent: str) -> list[str] | None:
    """Return the entries of a folder that one step of a pattern may match, or None if there are too many to check."""
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
    if path.fed and os.path.isdir(resolved):
        return Doubt(f"{path.text!r} is a folder, from which a program may turn to another one")
    below = _secret_below(resolved, path) if path.whole and os.path.isdir(resolved) else ""
    return Doubt(below) if below else None


def _secret_below(folder: Path, path: NamedPath) -> str:
    """Return why a folder that is read as a whole may hold secrets, or "". A very large one needs approval."""
    seen = 0
    unignored = [glob for parent in folder.parents for glob in _unignored_in(parent)] if path.visible else []
    pending = [folder]
    while pending:
        current = pending.pop()
        entries = entries_of(current)
        seen += len(entries)
        if seen > MAX_BELOW:
            return f"{path.text!r} contains too many files to check for secrets"
        unignored += _unignored_in(current) if path.visible else ()
        for entry in entries:
            if path.visible and _stays_hidden(entry.name, unignored):
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


def _unignored_in(folder: Path) -> Iterator[str]:
    """Yield the names that the ignore files in ``folder`` exclude with ``!``, which makes hidden files visible too."""
    for name in IGNORE_FILES:
        lines = text_of(folder / name, IGNORE_BYTES).splitlines()
        yield from (line[1:].strip().rstrip("/").rpartition("/")[2] for line in lines if line.startswith("!"))


def _stays_hidden(name: str, unignored: Sequence[str]) -> bool:
    return name.startswith(".") and not any(fnmatch.fnmatchcase(name, glob) for glob in unignored)
