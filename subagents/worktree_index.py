"""What git's index says of the files it checked out, read without git; of the plain form alone, which most indexes have."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from subagents.worktree_disk import EXECUTABLE, LINK

_HEADER = struct.Struct(">4sII")
_STAT = struct.Struct(">10I")
_FLAGS = struct.Struct(">H")
_EXTENSION = struct.Struct(">4sI")

_VERSION = 2
_NAME_LENGTH = 0x0FFF
"""Of an entry's flags. The others: not to be looked at (assume-unchanged, skip-worktree), unmerged, or yet to come."""

_MODES = {0o100644: "100644", 0o100755: EXECUTABLE, 0o120000: LINK}
_HARMLESS = frozenset({b"TREE", b"EOIE", b"IEOT"})
"""Extensions that only save time: the trees that entries add up to, and where parts of the file begin."""

_HASH_BYTES = {"sha1": 20, "sha256": 32}
_LOW = 0xFFFFFFFF
"""Of a number that is kept in 32 bits."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file: ``stamp`` is what the disk said of it when git wrote it (see ``stamp_of``), ``changed_ns`` its change time."""

    stamp: tuple[int, ...]
    changed_ns: int
    mode: str
    oid: bytes


def read_index(data: bytes, hash_name: str) -> dict[str, Entry] | None:
    """The files of an index by their paths; None if it says anything that is not plainly that they are checked out."""
    size = _HASH_BYTES.get(hash_name)
    try:
        return None if size is None else _entries(data, size)
    except (struct.error, ValueError):
        return None


def stamp_of(found: os.stat_result) -> tuple[int, ...]:
    """What an index would say of a file: it changes with content, mode and links, but not by a folder's being renamed."""
    times = (*divmod(found.st_ctime_ns, 1_000_000_000), *divmod(found.st_mtime_ns, 1_000_000_000))
    return tuple(number & _LOW for number in (*times, found.st_ino, found.st_uid, found.st_gid, found.st_size))


def _entries(data: bytes, hash_size: int) -> dict[str, Entry] | None:
    magic, version, count = _HEADER.unpack_from(data)
    if magic != b"DIRC" or version != _VERSION:
        return None
    entries: dict[str, Entry] = {}
    position, fixed = _HEADER.size, _STAT.size + hash_size + _FLAGS.size
    for _ in range(count):
        seconds, ns, written, written_ns, _, inode, mode, user, group, size = _STAT.unpack_from(data, position)
        (flags,) = _FLAGS.unpack_from(data, position + fixed - _FLAGS.size)
        if flags & ~_NAME_LENGTH or mode not in _MODES:
            return None
        end = data.index(b"\0", position + fixed)
        entries[os.fsdecode(data[position + fixed : end])] = Entry(
            (seconds, ns, written, written_ns, inode, user, group, size),
            seconds * 1_000_000_000 + ns,
            _MODES[mode],
            data[position + _STAT.size : position + fixed - _FLAGS.size],
        )
        position += (end - position + 8) // 8 * 8  # filled up with one to eight zeros
    return entries if _is_harmless(data, position, len(data) - hash_size) else None


def _is_harmless(data: bytes, position: int, end: int) -> bool:
    while position < end:
        name, length = _EXTENSION.unpack_from(data, position)
        if name not in _HARMLESS:
            return False
        position += _EXTENSION.size + length
    return position == end
