"""FileIndex: finds files of the workspace by a few letters while the person goes on typing."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from heapq import nsmallest
from itertools import islice, takewhile
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from vibe.system.ignore import Ignores, walk_files
from vibe.system.programs import find_ripgrep

_JOINTS = frozenset("/_-. ")
_TIER = 1 << 20
_GAP = 1 << 12
_LONGEST = _GAP - 1
MIDDLE_COST = 3 * _TIER
"""A cost below this means that the basename begins with the query."""
PATH_COST = 5 * _TIER
"""A cost below this means that the basename contains the query."""
SPREAD_COST = 7 * _TIER
"""Plus the path's length, the least cost of a path that contains the query's letters only with others between."""
NOTHING_YET = 9 * _TIER
"""Higher than the cost of any match."""


def letters(text: str) -> int:
    """Return the letters of a text as a set of 64 bits; a text that matches a query has all of the query's bits."""
    return sum(1 << place for place in {ord(letter) & 63 for letter in text})


def cost(query: str, path: str) -> int | None:
    """Return how badly a path matches the query, both in lower case; None if it lacks letters or their order.

    From best to worst, the query is: the basename, its stem, its beginning, the beginning of one of its parts, or in
    its middle; the beginning of a part of the path, or in its middle; letters spread over the basename, or over the
    path. Among equals, fewer gaps come first, then shorter paths.
    """
    tier, gaps = _tier_and_gaps(query, path, path.rfind("/") + 1)
    return None if tier < 0 else tier * _TIER + min(gaps, 255) * _GAP + min(len(path), _LONGEST)


def _tier_and_gaps(query: str, path: str, base: int) -> tuple[int, int]:
    at = path.find(query, base)
    if at == base:
        rest = path[at + len(query) :]
        return (1 if rest.startswith(".") else 2) if rest else 0, 0
    if at > base:
        return 3 if path[at - 1] in _JOINTS else 4, 0
    at = path.rfind(query)
    if at >= 0:
        return 5 if at == 0 or path[at - 1] in _JOINTS else 6, 0
    for tier, start in ((7, base), (8, 0)):
        gaps = _gaps(query, path, start)
        if gaps >= 0:
            return tier, gaps
    return -1, 0


def _gaps(query: str, path: str, start: int) -> int:
    """Count the gaps before letters that don't begin a part of the path; return -1 if a letter is missing."""
    at = start - 1
    gaps = 0
    for letter in query:
        found = path.find(letter, at + 1)
        if found < 0:
            return -1
        if found > at + 1 and path[found - 1] not in _JOINTS:
            gaps += 1
        at = found
    return gaps


MOST_FILES = 300_000
"""The most files that are listed."""
OLD_SECONDS = 15.0
"""The age from which the list is made again."""
LONGEST_LISTING_SECONDS = 30.0
"""The longest time that listing may take; the files found by then are used."""
POLL_SECONDS = 0.1
"""The interval at which to check whether ripgrep should be stopped."""
CHUNK = 500
"""The number of paths compared between checks of the clock and of whether the search is still wanted."""
WORK_SECONDS = 0.002
"""The time between pauses, during which no other thread, such as the screen's, can run."""
PAUSE_SECONDS = 0.0005
"""The length of a pause for other threads."""
OFFERED_AT_ONCE = 100
"""The number of paths that can be offered before anything is typed."""

Item = TypeVar("Item")


class IndexedFiles(Struct, frozen=True, kw_only=True):
    """The listed paths; also in lower case, with the letters of each as bits.

    ``first`` are the paths nearest to the root.
    """

    paths: Sequence[str]
    first: Sequence[str]
    lowered: Sequence[str]
    masks: Sequence[int]


class FileIndex:
    """Lists the files below ``root``, without ignored ones, and searches them; its methods block."""

    def __init__(
        self, root: Path, list_files: Callable[[Path, Callable[[], bool]], Iterable[str]] | None = None
    ) -> None:
        self._root = root
        self._list_files = list_files or workspace_files
        self._files: IndexedFiles | None = None
        self._listed_at = 0.0
        self._listing = threading.Lock()

    @property
    def is_ready(self) -> bool:
        """True once files can be found."""
        return self._files is not None

    def refresh(self, is_stale: Callable[[], bool]) -> bool:
        """List the files again if the list is old and no other thread is doing so; return whether that was done.

        Until then, and if this is stopped, searches use the old list.
        """
        is_old = self._files is None or time.monotonic() - self._listed_at > OLD_SECONDS
        if not is_old or not self._listing.acquire(blocking=False):
            return False
        try:
            return self._list(is_stale)
        except OSError:  # the folder is gone, or no process can be started: keep the old list
            return False
        finally:
            self._listing.release()

    def _list(self, is_stale: Callable[[], bool]) -> bool:
        paths = [path for path in self._list_files(self._root, is_stale) if path.isprintable() and '"' not in path]
        lowered: list[str] = []
        masks: list[int] = []
        for chunk in _chunks(paths, CHUNK):
            if is_stale():
                return False
            small = [path.lower() for path in chunk]
            lowered += small
            masks += [letters(path) for path in small]
        if is_stale():
            return False
        first = nsmallest(OFFERED_AT_ONCE, paths, key=lambda path: path.count("/"))
        self._files = IndexedFiles(paths=paths, first=first, lowered=lowered, masks=masks)
        self._listed_at = time.monotonic()
        return True

    def search(self, typed: str, most: int, is_stale: Callable[[], bool]) -> list[str] | None:
        """Return the ``most`` best matches, or None once ``is_stale``."""
        files = self._files
        if files is None:
            return []
        query = typed.removeprefix("./").lower()
        if not query:
            return list(files.first[:most])
        top: list[tuple[int, int]] = []
        for chunk in _chunks(range(len(files.paths)), CHUNK):
            if is_stale():
                return None
            worst = top[-1][0] if len(top) == most else NOTHING_YET
            top = sorted([*top, *_better(files, query, chunk, worst)])[:most]
        return [files.paths[place] for _, place in top]


def _better(files: IndexedFiles, query: str, chunk: Sequence[int], worst: int) -> Iterator[tuple[int, int]]:
    """Yield the cost and the place of each file of a chunk that costs less than ``worst``.

    Once enough files have the query in their basename, looking into the basename is enough to rule out most others.
    """
    wanted, masks = letters(query), files.masks
    for place in [place for place in chunk if masks[place] & wanted == wanted]:
        path = files.lowered[place]
        base = path.rfind("/") + 1
        at = path.find(query, base) if worst < PATH_COST else base
        if at < 0 or (at > base and worst < MIDDLE_COST):
            continue
        if query not in path and SPREAD_COST + len(path) >= worst:
            continue
        known = cost(query, path)
        if known is not None and known < worst:
            yield known, place


def workspace_files(root: Path, is_stale: Callable[[], bool]) -> Iterator[str]:
    """Yield the paths of the files below a folder, relative to it, listed by ripgrep or, without it, by ourselves."""
    deadline = time.monotonic() + LONGEST_LISTING_SECONDS

    def is_over() -> bool:
        return is_stale() or time.monotonic() > deadline

    ripgrep = find_ripgrep({})
    names = _walked(root.resolve(), is_over) if ripgrep is None else _listed(ripgrep, root, is_over)
    yield from islice(names, MOST_FILES)


def _walked(root: Path, is_over: Callable[[], bool]) -> Iterator[str]:
    files = takewhile(lambda _: not is_over(), walk_files(root, root, use_ignores=True))
    return (file.relative_to(root).as_posix() for file in files)


def _listed(ripgrep: str, root: Path, is_over: Callable[[], bool]) -> Iterator[str]:
    ignores = Ignores()
    argv = [ripgrep, "--no-config", "--no-messages", "--files", "--hidden", "--no-require-git", "--no-ignore-global"]
    argv += ["--null", "--color=never", "--sort=path", *(f"--glob=!{name}" for name in ignores.names)]
    if (root / ignores.file).is_file():
        argv.append(f"--ignore-file={ignores.file}")
    quiet = subprocess.DEVNULL
    with subprocess.Popen(argv, cwd=root, env={}, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet) as process:  # noqa: S603  ripgrep, with arguments of ours
        listed: bytes | None = None
        while listed is None:
            if is_over():
                process.kill()
            with suppress(subprocess.TimeoutExpired):
                listed = process.communicate(timeout=POLL_SECONDS)[0]
    return (name.decode(errors="surrogateescape").removeprefix("./") for name in listed.split(b"\0")[:-1])


def _chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield the items in chunks, pausing every ``WORK_SECONDS``."""
    paused = time.monotonic()
    for start in range(0, len(items), size):
        yield items[start : start + size]
        if time.monotonic() - paused >= WORK_SECONDS:
            time.sleep(PAUSE_SECONDS)
            paused = time.monotonic()
