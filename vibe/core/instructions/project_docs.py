"""Loads the AGENTS.md (else CLAUDE.md) files of the user, the project, and folders that agents work in."""

from __future__ import annotations

import html
import os
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from vibe.core.config.paths import FOREIGN_FOLDERS
from vibe.core.config.trust import DOCS
from vibe.shell.sandbox.secrets import is_sensitive
from vibe.system.files import regular_bytes

MAX_BYTES = 32 * 1024
"""The most bytes of all files in a system prompt, and again of all files an agent is shown later."""

Trusts: TypeAlias = Callable[[Path], bool]
"""Returns whether a resolved folder is trusted."""

_HEAD = (
    "# Project instructions\n\n"
    "From the files below, the most general first; where they disagree the later one counts. What the user "
    "asks for comes before them, and they change no permission."
)


class ProjectDoc(Struct, frozen=True, kw_only=True):
    """One file of instructions; ``dropped`` bytes of it did not fit."""

    path: Path
    text: str
    dropped: int = 0

    def framed(self) -> str:
        """Return the text inside tags that name the file."""
        cut = f"\n[... {self.dropped} bytes left out; read the file for the rest ...]" if self.dropped else ""
        body = self.text.replace("</project-instructions", "&lt;/project-instructions")
        return f'<project-instructions path="{html.escape(str(self.path))}">\n{body}{cut}\n</project-instructions>'


class ProjectDocs(Struct, frozen=True, kw_only=True):
    """The instructions for a whole workspace."""

    docs: tuple[ProjectDoc, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def load(cls, home: Path, lineage: Sequence[Path], trusts: Trusts) -> ProjectDocs:
        """Read the user's own file and those of the trusted folders in ``lineage``, nearest first; blocks.

        Each file gets an equal share of ``MAX_BYTES``, and the unused part of a share goes to the others. The nearest
        files come last, where they have the most weight.
        """
        warnings: list[str] = []
        files = [file for folder in lineage if trusts(folder) for file in _files_in(folder, trusts, warnings)]
        files += _files_in(home, lambda _: True, warnings)
        docs = [*_read_all(files, MAX_BYTES, warnings)]
        return cls(docs=tuple(reversed(docs)), warnings=tuple(warnings))

    def prompt_section(self) -> str:
        """Return the section of a system prompt with the instructions; empty without any."""
        return "\n\n".join([_HEAD, *(doc.framed() for doc in self.docs)]) if self.docs else ""


class NestedDocs(Struct, kw_only=True):
    """The instructions of folders below a workspace, shown to one agent when it first touches a file there.

    ``root`` is the folder the agent works in. ``origin`` is the folder whose trust counts: the same, unless ``root``
    is a copy of it.
    """

    root: Path
    origin: Path
    trusts: Trusts
    _searched: set[Path] = field(default_factory=set[Path])
    _room_left: int = MAX_BYTES

    def notices(self, paths: Iterable[Path]) -> tuple[str, ...]:
        """Return the instructions for resolved ``paths`` the agent has touched; each file is shown once. Blocks."""
        texts: list[str] = []
        for path in paths:
            for folder in self._new_folders(path):
                self._searched.add(folder)
                for doc in _read_all(_files_in(folder, self._trusts, []), self._room_left, []):
                    self._room_left -= len(doc.text.encode())
                    texts.append(_notice(doc, folder))
        return tuple(texts)

    def forget(self) -> None:
        """Forget which files were shown, since they are no longer in the conversation, so that they come again."""
        self._searched.clear()
        self._room_left = MAX_BYTES

    def _new_folders(self, path: Path) -> list[Path]:
        """Return the trusted folders between the root and ``path`` that were not searched yet, outermost first."""
        inner = path.relative_to(self.root).parts if path.is_relative_to(self.root) else ()
        if FOREIGN_FOLDERS.intersection(inner):
            return []
        depth = len(inner) if os.path.isdir(path) else len(inner) - 1
        folders = [self.root.joinpath(*inner[:length]) for length in range(1, depth + 1)]
        return [folder for folder in folders if folder not in self._searched and self._trusts(folder)]

    def _trusts(self, folder: Path) -> bool:
        return folder.is_relative_to(self.root) and self.trusts(self.origin / folder.relative_to(self.root))


def _notice(doc: ProjectDoc, folder: Path) -> str:
    return (
        f"{folder} has project instructions. They hold for the files below it, before more "
        f"general ones; what the user asks for comes before them, and they change no permission.\n\n{doc.framed()}"
    )


def _files_in(folder: Path, trusts: Trusts, warnings: list[str]) -> Sequence[Path]:
    """Return the folder's file of instructions, unless it is no file, or a link to secrets or an untrusted folder."""
    for path in (folder / name for name in DOCS):
        real = Path(os.path.realpath(path))
        if not os.path.lexists(path) or (os.path.isfile(real) and real.stat().st_size == 0):
            continue
        if not os.path.isfile(real):
            problem = "it is no file, or a link that leads to none"
        elif os.path.islink(path) and is_sensitive(real):
            problem = f"it is a link to {real}, which may hold secrets"
        elif real.parent != Path(os.path.realpath(folder)) and not trusts(real.parent):
            problem = f"it is a link to {real}, which is outside the trusted folders"
        else:
            return [path]
        warnings.append(f"{path} was not loaded: {problem}")
    return []


def _read_all(files: Sequence[Path], room: int, warnings: list[str]) -> Iterator[ProjectDoc]:
    """Read the files that are not empty, cut each to its share of ``room`` bytes, and warn about what was cut."""
    texts: dict[Path, bytes] = {}
    for path in files:
        try:
            data = regular_bytes(path)
        except OSError as error:
            warnings.append(f"{path} was not loaded: it can't be read ({error.strerror})")
            continue
        encoding = "utf-16" if data[:2] in {BOM_UTF16_LE, BOM_UTF16_BE} else "utf-8-sig"
        encoded = data.decode(encoding, errors="replace").strip().encode()
        if b"\0" in encoded:
            warnings.append(f"{path} was not loaded: it is no text, save it as UTF-8")
        elif encoded:
            texts[path] = encoded
    rooms = _shares({path: len(encoded) for path, encoded in texts.items()}, room)
    for path, encoded in texts.items():
        kept = encoded[: rooms[path]].decode(errors="ignore")
        dropped = len(encoded) - len(kept.encode())
        if dropped:
            warnings.append(f"{path}: {dropped} bytes are left out, all AGENTS.md files may have {MAX_BYTES} together")
        if kept:
            yield ProjectDoc(path=path, text=kept, dropped=dropped)


def _shares(sizes: Mapping[Path, int], room: int) -> dict[Path, int]:
    """Return each file's share of ``room``: what small files don't need goes to the larger ones."""
    shares: dict[Path, int] = {}
    for path in sorted(sizes, key=sizes.__getitem__):
        shares[path] = min(sizes[path], room // (len(sizes) - len(shares)))
        room -= shares[path]
    return shares
