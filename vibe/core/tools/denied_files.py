"""Files that the deny list of ``read_file`` closes, as a shell line may name or meet them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from vibe.core.tools.errors import PathError
from vibe.core.tools.workspace import Workspace
from vibe.shell.policy.parser import parse_line
from vibe.shell.policy.paths import SKIPPED_FOLDERS, candidates, path_parts
from vibe.shell.policy.words import Place

MOST_FOLDERS = 64
MOST_ENTRIES = 20_000
"""The most entries of the workspace that are looked at for files to hide."""


def named_unread(line: str, workspace: Workspace, start: Place = ()) -> str:
    """The first word of a line that begins in ``start`` and names such a file, wherever a ``cd`` in it may lead.

    Or nothing. Reads the file system.
    """
    if not workspace.bounds.unread:
        return ""
    parsed = parse_line(line)
    folders = [workspace.root.joinpath(*start)]
    words: list[tuple[str, bool]] = [(text, False) for text in parsed.inputs]
    for command in parsed.commands:
        words += [(word.text, word.pattern) for word in command.words if word.text]
        if command.argv[:1] == ("cd",) and len(command.argv) == 2:
            folders = [*folders, *(folder / command.argv[1] for folder in folders)][:MOST_FOLDERS]
    for text, pattern in dict.fromkeys(words):
        for part in path_parts(text):
            if any(_is_unread(part, folder, workspace, pattern=pattern) for folder in folders):
                return text
    return ""


def _is_unread(part: str, folder: Path, workspace: Workspace, *, pattern: bool) -> bool:
    home = (os.path.expanduser(part),) if part.startswith("~") else ()  # noqa: PTH111  text: what the shell would pass
    for candidate in (*home, *candidates(part, folder, pattern=pattern)):
        try:
            if candidate is not None and workspace.is_unread(workspace.resolve(candidate), candidate):
                return True
        except PathError:
            continue
    return False


def unread_files(workspace: Workspace) -> tuple[Path, ...]:
    """Those that are there now, below the workspace's folders, to be hidden from commands. Reads the file system."""
    if not workspace.bounds.unread:
        return ()
    roots = (workspace.root, *workspace.extra_roots)
    return tuple(entry for root in roots for entry in islice(_below(root), MOST_ENTRIES) if workspace.is_unread(entry))


def _below(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        yield from (Path(folder, name) for name in files)
