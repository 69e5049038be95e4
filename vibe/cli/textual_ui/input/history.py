"""The history of prompts: its file, shared with ``--plain``, and the walk through it by Up and Down."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path

from vibe.system.files import opened, wait_for_lock, write_all

MOST_BYTES = 4_000_000
"""The most bytes read, from the end of the file."""
MOST_ENTRIES = 5_000
"""The most prompts kept in memory."""
LOCK_SECONDS = 2.0
"""The longest wait for another process that writes to the file."""


def load_prompts(path: Path) -> list[str]:
    """Return the prompts, oldest first, without those that repeat the previous one; blocks.

    Without a file there are none. The file has the format of prompt_toolkit's ``FileHistory``: an entry is a comment
    line with the time, then its lines, each preceded by a ``+``.

    Raises:
        OSError: the file can't be read.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - MOST_BYTES))
            if size > MOST_BYTES:
                # Skip the rest of an entry whose beginning was not read.
                next((line for line in file if not line.strip()), b"")
            entries = [entry for entry, _ in groupby(_entries(file)) if entry.strip()]
    except FileNotFoundError:
        return []
    return entries[-MOST_ENTRIES:]


def keep_prompt(path: Path, text: str) -> None:
    """Append a prompt to the file, which all processes of the user share and no one else can read; blocks.

    Raises:
        OSError: the file can't be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = "".join(f"+{line}\n" for line in text.split("\n"))
    data = f"\n# {datetime.now().astimezone().replace(tzinfo=None)}\n{lines}".encode(errors="replace")
    with opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as descriptor:
        wait_for_lock(descriptor, LOCK_SECONDS)  # if it stays locked, write anyway rather than lose the prompt
        write_all(descriptor, data)


class HistoryWalk:
    """Walks through earlier prompts, and keeps the draft and what was changed on the way."""

    def __init__(self) -> None:
        self._entries: list[str] = []
        self._back = 0
        self._changed: dict[int, str] = {}

    def put_before(self, entries: Sequence[str]) -> None:
        """Add prompts older than all others."""
        self._entries[:0] = entries

    def add(self, text: str) -> bool:
        """Add the newest prompt and end the walk; return False if it repeats the previous one."""
        self.end()
        if self._entries and self._entries[-1] == text:
            return False
        self._entries.append(text)
        return True

    def end(self) -> None:
        """Return to the draft, which is empty now."""
        self._back = 0
        self._changed.clear()

    def search(self, words: str, most: int) -> list[str]:
        """Return up to ``most`` distinct prompts that contain all of the words, newest first, ignoring case."""
        wanted = words.lower().split()
        found = (entry for entry in reversed(self._entries) if all(map(entry.lower().__contains__, wanted)))
        return list(dict.fromkeys(found))[:most]

    def go(self, by: int, shown: str) -> str | None:
        """Go ``by`` prompts back, or forward if negative, and return the text there; None if there is none.

        ``shown`` is the text to keep for the place that is left. The last place going forward is the draft.
        """
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
