"""EditorFiles: the files of an editor, with what is typed but not saved; what it has no text of is on the disk."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from acp import RequestError
from anyio import from_thread
from pydantic import ValidationError

from vibe.acp.handshake import EditorAbilities
from vibe.acp.updates import SessionChannel, reason_of
from vibe.core.tools.errors import ToolError
from vibe.core.tools.files.text_files import DISK, LARGEST_WHOLE_BYTES, BinaryFileError, FileAccessError, decode

T = TypeVar("T")
TEXT = "utf-8"
"""The one encoding in which an editor gives and takes text; a file in another is the disk's."""


class UnsavedTextError(FileAccessError):
    """A file with changes in the editor, which can't be written through it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "has changes in the editor that are not saved", "ask the user to save it, then read it")


class EditorFiles:
    """The ``Files`` of one session; called in worker threads, and cancelled with the caller."""

    def __init__(self, channel: SessionChannel, can: EditorAbilities) -> None:
        self._client, self._channel = channel.client, channel
        self._can = can

    def exists(self, path: Path) -> bool:
        """Return whether there is anything at a path, saved or not."""
        return DISK.exists(path) or self._text(path) is not None

    @contextmanager
    def read(self, path: Path, name: str) -> Generator[BinaryIO, None, None]:
        """Yield the text of the editor as bytes, else the file.

        Raises:
            ToolError: missing, no file, or not readable.
        """
        data = self._bytes(path)
        if data is not None:
            yield BytesIO(data)
            return
        with DISK.read(path, name) as file:
            yield file

    def create(self, path: Path, name: str, data: bytes) -> None:
        """Put a new file at a path, on the disk, and in the editor where it can be.

        Raises:
            ToolError: something is there, or it can't be written.
        """
        if self._bytes(path) is not None:
            raise FileAccessError(name, "exists by now", "read it first, then set overwrite")
        DISK.create(path, name, data)
        text = _as_text(data)
        if self._can.writes and text is not None:
            with suppress(RequestError, ValidationError):  # it is on the disk, where the editor finds it
                self._asked(lambda: self._write(path, text))

    def replace(self, path: Path, name: str, data: bytes, *, previous: bytes) -> None:
        """Replace the text of a file, in the editor and on the disk.

        Raises:
            ToolError: it is no longer ``previous``, or it can't be written; nothing has changed.
        """
        open_text = self._bytes(path)
        if open_text is None:
            self._replace_saved(path, name, data, previous)
            return
        if open_text != previous:
            raise FileAccessError(name, "has changed meanwhile", "read it again")
        text = _as_text(data)
        if not self._can.writes or text is None:
            if _lines(_saved(path) or b"") != _lines(previous):
                raise UnsavedTextError(name)
            saved = _saved(path) or b""
            DISK.replace(path, name, _ended_as(saved, data), previous=saved)
            return
        self._save(path, name, text)

    def _replace_saved(self, path: Path, name: str, data: bytes, previous: bytes) -> None:
        """Replace a file of which the editor told no text; one that only takes text is given it."""
        if self._is_unsaved(path):
            raise UnsavedTextError(name)
        text = _as_text(data)
        if self._can.reads or not self._can.writes or text is None or not _is_text(path):
            DISK.replace(path, name, data, previous=previous)
            return
        if _saved(path) != previous:
            raise FileAccessError(name, "has changed meanwhile", "read it again")
        self._save(path, name, text)

    def _save(self, path: Path, name: str, text: str) -> None:
        try:
            self._asked(lambda: self._write(path, text))
        except (RequestError, ValidationError) as error:
            raise FileAccessError(
                name, f"could not be written by the editor: {reason_of(error)}", "read it again"
            ) from error
        if not DISK.exists(path):  # it has the text, but commands would not find it
            DISK.create(path, name, text.encode(TEXT))

    def _is_unsaved(self, path: Path) -> bool:
        """Return whether the editor has changes to a file in another encoding, which is the disk's to read."""
        saved = None if _is_text(path) else _saved(path)
        text = None if saved is None else self._text(path)
        if saved is None or text is None:
            return False
        try:
            return _ascii_of(text) != _ascii_of(decode(saved, path.name).text)
        except BinaryFileError:
            return False

    def _bytes(self, path: Path) -> bytes | None:
        """Return the text of a file that the editor may have open; None: the disk is to be asked."""
        if not _is_text(path):
            return None
        text = self._text(path)
        return None if text is None else text.encode(TEXT)

    def _text(self, path: Path) -> str | None:
        if not self._can.reads:
            return None
        session_id = self._channel.session_id
        try:
            read = self._asked(lambda: self._client.read_text_file(session_id, str(path)))
        except (RequestError, ValidationError):
            return None
        # Of what is not there some editors say that it is empty.
        return read.content if read.content or DISK.exists(path) else None

    async def _write(self, path: Path, text: str) -> None:
        await self._client.write_text_file(self._channel.session_id, str(path), text)

    def _asked(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Ask the editor and wait for its answer.

        Raises:
            RequestError, ValidationError: it can't do that, or made no sense.
            ToolError: it is gone.
        """
        try:
            return from_thread.run(ask)
        except ConnectionError as error:
            raise ToolError("the editor is gone: nothing can be read or written") from error


def _is_text(path: Path) -> bool:
    """Return whether an editor may have the text of what is saved at a path; what is not there may be typed."""
    try:
        with DISK.read(path, path.name) as file:
            data = file.read(LARGEST_WHOLE_BYTES + 1)
        return len(data) <= LARGEST_WHOLE_BYTES and decode(data, path.name).encoding == TEXT
    except ToolError:
        return not DISK.exists(path)


def _saved(path: Path) -> bytes | None:
    try:
        with DISK.read(path, path.name) as file:
            return file.read(LARGEST_WHOLE_BYTES)
    except ToolError:
        return None


def _as_text(data: bytes) -> str | None:
    try:
        return data.decode(TEXT)
    except UnicodeDecodeError:
        return None


def _ended_as(saved: bytes, data: bytes) -> bytes:
    """Return a text with the line ends of what is saved."""
    return _lines(data).replace(b"\n", b"\r\n") if b"\r\n" in saved else data


def _ascii_of(text: str) -> str:
    """Return what two readers of a text agree on, whatever encodings they took it to be in."""
    return "".join(one for one in text if one.isascii() and one != "\r")


def _lines(data: bytes) -> bytes:
    """Return a text with the line ends that editors work with."""
    return data.replace(b"\r\n", b"\n")
