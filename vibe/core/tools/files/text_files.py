"""Text files: opened without following links, decoded, and replaced in one step.

A resolved path contains no links. A link met on it was put there after the path was checked, and is refused.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from vibe.core.tools.errors import PathError
from vibe.core.tools.ports import Files
from vibe.system.errors import closest, did_you_mean, os_error_as
from vibe.system.files import NAME_CHARACTERS, drafted, entries_of, folder_below, is_open, overwrite

SNIFF_BYTES = 8_192
"""The number of bytes at the start of a file that decide if it is text."""
LINK_SEARCH_SECONDS = 2.0
"""The most seconds spent looking for a file's other names."""
LARGEST_WHOLE_BYTES = 10 * 1024 * 1024
"""The most bytes of a file that can be edited.

A larger one is never read whole: its lines are not counted, and an agent can't have seen it all.
"""
CONTROL_BYTES = frozenset(range(32)) - set(b"\t\n\r\f\v\b\x1b")
"""Control characters that are rare in text."""

BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
"""Byte order marks, with their encodings."""

MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"RIFF", "RIFF media (WebP, WAV, AVI)"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive (or Office document, JAR, wheel)"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\x00", "xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"\x28\xb5\x2f\xfd", "zstd archive"),
    (b"\x7fELF", "ELF executable or library"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O binary"),
    (b"\xcf\xfa\xed\xfe", "Mach-O binary"),
    (b"MZ", "Windows executable"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"\x00asm", "WebAssembly module"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"wOF2", "WOFF2 font"),
)
"""The first bytes of common binary formats, with a name for each."""

KINDS = (
    (stat.S_ISDIR, "is a folder"),
    (stat.S_ISFIFO, "is a named pipe"),
    (stat.S_ISSOCK, "is a socket"),
    (stat.S_ISBLK, "is a block device"),
    (stat.S_ISCHR, "is a character device"),
)
"""Tests for file modes that are not regular files, with a phrase for each."""

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Flags that open a file for reading without following a link or waiting for a writer."""


class BinaryFileError(PathError):
    """A file is not text. ``kind`` says what it looks like, and ``size`` is in bytes."""

    def __init__(self, path: str, kind: str, size: int) -> None:
        super().__init__(path, f"is not text: {kind}, {size} bytes", "use bash with a program that knows the format")


class DecodedText(Struct, frozen=True, kw_only=True):
    """Decoded text. Encoding the same text again gives the same bytes.

    ``cr`` says that all its lines end with CR in the file, as on old Macs. In the text they end with LF.
    """

    text: str
    encoding: str
    cr: bool = False

    def encode(self, text: str) -> bytes:
        """Return ``text`` in this encoding, byte order mark included.

        Raises:
            UnicodeEncodeError: the encoding lacks a character.
        """
        bom = next((bom for bom, name in BOMS if name == self.encoding and name != "utf-8-sig"), b"")
        text = text.replace("\n", "\r") if self.cr else text
        return bom + text.removeprefix("\ufeff").encode(self.encoding)

    @property
    def is_crlf(self) -> bool:
        """True if most lines end with CRLF."""
        return 2 * self.text.count("\r\n") > self.text.count("\n")

    def with_line_ends(self, content: str) -> str:
        """Return ``content``, whose lines end with LF as the model sees them, with the line ends of this text."""
        return content.replace("\r\n", "\n").replace("\n", "\r\n") if self.is_crlf else content

    def peculiarities(self) -> str:
        """Return the encoding and line ends, as far as they are unusual, since edits preserve them."""
        marks = ("CRLF",) if self.is_crlf else ("CR",) if self.cr else ()
        return ", ".join((*(() if self.encoding == "utf-8" else (self.encoding,)), *marks))


def sniff(head: bytes, path: str, size: int) -> str:
    """Return the encoding of a file by its first bytes: its byte order mark's, UTF-8 if possible, or a fallback.

    Raises:
        BinaryFileError: it is not text.
    """
    for bom, name in BOMS:
        if head.startswith(bom):
            if "\0" in head[:SNIFF_BYTES].decode(name, errors="ignore"):
                raise BinaryFileError(path, f"a {name} byte order mark, then something else", size)
            return name
    head = head[:SNIFF_BYTES]
    kind = next((kind for magic, kind in MAGIC if head.startswith(magic)), "")
    control = sum(byte in CONTROL_BYTES for byte in head)
    if b"\0" in head or control > len(head) // 10 or (kind and not _is_utf8(head)):
        raise BinaryFileError(path, kind or "unknown binary data", size)
    if _is_utf8(head):
        return "utf-8"
    return _single_byte_encoding(head)


def decode(data: bytes, path: str) -> DecodedText:
    """Decode the whole of a file.

    Raises:
        BinaryFileError: it is not text.
    """
    encoding = sniff(data, path, len(data))
    bom = next((bom for bom, name in BOMS if name == encoding and name != "utf-8-sig"), b"")
    for name in (encoding, _single_byte_encoding(data)):
        try:
            text = data[len(bom) :].decode(name)
            cr = "\r" in text and "\n" not in text
            return DecodedText(text=text.replace("\r", "\n") if cr else text, encoding=name, cr=cr)
        except UnicodeDecodeError:
            if bom or encoding == "utf-8-sig":
                raise BinaryFileError(path, f"a {encoding} byte order mark, then something else", len(data)) from None
    raise BinaryFileError(path, "unknown binary data", len(data))


def _is_utf8(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and error.end == len(head) >= SNIFF_BYTES
    return True


def _single_byte_encoding(data: bytes) -> str:
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"


def status_of(path: Path, name: str) -> os.stat_result:
    """Return the status of a file or folder that is to be listed or searched. Blocks.

    Raises:
        PathError: it is missing (the message offers similar names), or not readable.
    """
    with os_error_as(lambda error: _access_error(error, path, name)):
        found = path.stat()
        if not is_open(path, os.R_OK):
            raise PermissionError
    return found


@contextmanager
def open_file(path: Path, name: str) -> Generator[BinaryIO, None, None]:
    """Open the regular file at a resolved path for reading. Errors call it ``name``. Blocks.

    Raises:
        PathError: it is missing (the message offers similar names), not a file, or not readable.
    """
    with folder_of(path, name) as folder:
        require_regular(os.stat(path.name, dir_fd=folder, follow_symlinks=False), name)
        descriptor = os.open(path.name, READ, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        require_regular(os.fstat(descriptor), name)
        yield file


def create_file(path: Path, name: str, data: bytes) -> None:
    """Create a file at a resolved path, whole or not at all, and any missing folders. Blocks.

    Raises:
        PathError: something exists there already, or it can't be written.
    """
    with folder_of(path, name, make=True) as folder, drafted(folder, path.name, data, sync=True) as draft:
        try:
            draft.place(path.name)
        except FileExistsError:
            raise PathError(name, "exists by now", "read it first, then set overwrite") from None


def replace_file(path: Path, name: str, data: bytes, *, previous: bytes) -> None:
    """Replace the content of the file at a resolved path by ``data``, preserving all else but its other names. Blocks.

    Raises:
        PathError: its bytes are no longer ``previous``, or it can't be written.
    """

    def look(descriptor: int) -> None:
        require_regular(os.fstat(descriptor), name)
        with os.fdopen(os.dup(descriptor), "rb") as file:
            if file.read(len(previous) + 1) != previous:
                raise PathError(name, "has changed meanwhile", "read it again")
        if not os.access(path.name, os.W_OK, dir_fd=folder):
            raise PathError(name, "is write-protected", "leave it, or have its mode changed")

    with folder_of(path, name) as folder:
        found = _stat(path.name, folder)
        if found is not None:
            require_regular(found, name)
        overwrite(folder, path.name, data, sync=True, look=look)


class SharedFile(Struct, frozen=True, kw_only=True):
    """A file with several names (hard links), and the names found besides the one it was looked up by."""

    file: os.stat_result
    others: tuple[Path, ...]

    @property
    def is_complete(self) -> bool:
        """True if these are all the names it has."""
        return len(self.others) + 1 == self.file.st_nlink


def find_hard_links(path: Path, root: Path) -> SharedFile | None:
    """Return the names below ``root`` of a file with several names, or None if it has only one.

    The search stops after LINK_SEARCH_SECONDS. Blocks.
    """
    file = path.lstat() if os.path.exists(path) else None
    if file is None or file.st_nlink < 2:
        return None
    found: set[Path] = set()
    folders = [root]
    deadline = time.monotonic() + LINK_SEARCH_SECONDS
    while folders and len(found) < file.st_nlink and time.monotonic() < deadline:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            inside = list(entries)
            folders += [Path(entry.path) for entry in inside if entry.is_dir(follow_symlinks=False)]
            alike = [entry for entry in inside if entry.inode() == file.st_ino]
            found.update(Path(one.path) for one in alike if os.path.samestat(file, one.stat(follow_symlinks=False)))
    return SharedFile(file=file, others=tuple(found - {path}))


def relink(path: Path, other: Path, old: os.stat_result) -> bool:
    """Make ``other``, a name of the file that was at ``path``, a name of the file there now. Return whether it is.

    Blocks.
    """
    draft = f".{other.name[:NAME_CHARACTERS]}.{os.urandom(6).hex()}.tmp"
    try:
        with folder_of(path, path.name) as source, folder_of(other, other.name) as folder:
            found = _stat(other.name, folder)
            if found is None or not os.path.samestat(found, old) or os.path.samestat(old, path.lstat()):
                return found is not None
            os.link(path.name, draft, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
            try:
                os.rename(draft, other.name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                os.unlink(draft, dir_fd=folder)
                raise
    except (OSError, PathError):
        return False
    return True


class DiskFiles:
    """The files on disk, as a port for tools."""

    read = staticmethod(open_file)
    create = staticmethod(create_file)
    replace = staticmethod(replace_file)
    exists = staticmethod(os.path.exists)


DISK = DiskFiles()


def read_whole(files: Files, path: Path, name: str) -> bytes:
    """Return the bytes of a file that is to be edited. Blocks.

    Raises:
        PathError: it is missing, not a file, not readable, or too large.
    """
    with files.read(path, name) as file:
        data = file.read(LARGEST_WHOLE_BYTES + 1)
    if len(data) > LARGEST_WHOLE_BYTES:
        raise PathError(name, f"is larger than {LARGEST_WHOLE_BYTES} bytes", "edit it with bash")
    return data


@contextmanager
def folder_of(path: Path, name: str, *, make: bool = False) -> Generator[int, None, None]:
    """Open the folder of a resolved path, reached name by name without following a link.

    Raises:
        PathError: it can't be opened, or the system reports an error in the block.
    """
    mapped = os_error_as(lambda error: _access_error(error, path, name))
    with mapped, folder_below("/", path.relative_to("/"), make=make) as (folder, _):
        yield folder


def _stat(name: str, folder: int) -> os.stat_result | None:
    with suppress(FileNotFoundError):
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    return None


def require_regular(found: os.stat_result, name: str) -> None:
    """Refuse anything that is not a regular file.

    Raises:
        PathError: the message says what it is.
    """
    if stat.S_ISREG(found.st_mode):
        return
    if stat.S_ISLNK(found.st_mode):
        raise PathError(name, "has become a link while it was used", "look at it again")
    problem = next((words for is_kind, words in KINDS if is_kind(found.st_mode)), "is not a regular file")
    advice = "list it with bash (ls), or name a file in it" if stat.S_ISDIR(found.st_mode) else "name a regular file"
    raise PathError(name, problem, advice)


def _access_error(error: OSError, path: Path, name: str) -> PathError:
    if isinstance(error, FileNotFoundError):
        return PathError(name, "does not exist", _closest(path))
    if isinstance(error, PermissionError):
        return PathError(name, "may not be accessed by this user", "its mode would have to change")
    if isinstance(error, NotADirectoryError):
        return PathError(name, "leads through something that is not a folder", "check the path")
    return PathError(name, f"can't be used: {error.strerror or error}", "")


def _closest(path: Path) -> str:
    """Advise with names like the missing one, or like the first folder of its path that is missing."""
    missing = path
    while not os.path.isdir(missing.parent) and missing.parent != missing:
        missing = missing.parent
    lowered = {entry.name.lower(): entry.name for entry in entries_of(missing.parent)}
    close = [lowered[match] for match in closest(missing.name.lower(), lowered, most=3, cutoff=0.5)]
    what = "" if missing == path else f"{missing.name!r} is missing in {missing.parent.name!r}, "
    return what + did_you_mean(close, "check the path")
