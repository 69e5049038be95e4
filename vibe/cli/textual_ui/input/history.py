"""Prompts of earlier times: a file shared with ``--plain``, and the walk through them by Up and Down."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path

from vibe.system.files import opened, wait_for_lock, write_all

MOST_BYTES = 4_000_000
"""Bytes of the file that are read, from its end."""
MOST_ENTRIES = 5_000
LOCK_SECONDS = 2.0


def load_prompts(path: Path) -> list[str]:
    """The prompts, oldest first, without those that repeat the one before; none where there is no file. Blocks.

    The file has the format of prompt_toolkit's ``FileHistory``: an entry is a comment line with the time, then its
    lines, each behind a ``+``.

    Raises:
        OSError: the file can't be read.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - MOST_BYTES))
            if size > MOST_BYTES:
                # the rest of an entry whose beginning is not read
                next((line for line in file if not line.strip()), b"")
            entries = [entry for entry, _ in groupby(_entries(file)) if entry.strip()]
    except FileNotFoundError:
        return []
    return entries[-MOST_ENTRIES:]


def keep_prompt(path: Path, text: str) -> None:
    """Write a prompt behind those that any process of the user's wrote; the file is the user's alone. Blocks.

    Raises:
        OSError: the disk is full or refuses.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = "".join(f"+{line}\n" for line in text.split("\n"))
    data = f"\n# {datetime.now().astimezone().replace(tzinfo=None)}\n{lines}".encode(errors="replace")
    with opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as descriptor:
        wait_for_lock(descriptor, LOCK_SECONDS)  # one that is held for long is no reason to lose the prompt
        write_all(descriptor, data)


class HistoryWalk:
    """Walks through the prompts of earlier times and keeps what is being written, and what was changed on the way."""

    def __init__(self) -> None:
        self._entries: list[str] = []
        self._back = 0
        self._changed: dict[int, str] = {}

    def put_before(self, entries: Sequence[str]) -> None:
        """Add prompts that are older than all others."""
        self._entries[:0] = entries

    def add(self, text: str) -> bool:
        """Add the newest prompt, and end the walk; False: it is the same as the one before."""
        self.end()
        if self._entries and self._entries[-1] == text:
            return False
        self._entries.append(text)
        return True

    def end(self) -> None:
        """Be at the draft again, an empty one."""
        self._back = 0
        self._changed.clear()

    def search(self, words: str, most: int) -> list[str]:
        """Prompts with all of the words, the newest first, each once; the case of letters does not matter."""
        wanted = words.lower().split()
        found = (entry for entry in reversed(self._entries) if all(map(entry.lower().__contains__, wanted)))
        return list(dict.fromkeys(found))[:most]

    def go(self, by: int, shown: str) -> str | None:
        """The prompt that is older by so many than the shown one, or newer, at last the draft; None: there is none."""
        back = self._back + by
        if not 0 <= back <= len(self._entries):
            return None
        self._changed[self._back] = shown
        self._back = back
        return self._changed.get(back, self._entries[-back] if back else "")


def _entries(lines: Iterable[bytes]) -> Iterator[str]:
    for is_entry, kept in groupby(lines, lambda line: line.startswith(b"+")):
        if is_entry:
            yield "\n".join(line[1:].decode(errors="replace").removesuffix("\n") for line in kept)
