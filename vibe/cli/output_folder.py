"""OutputFolder: the record, the events and the conversation of a run as files, for scripts."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from ipc.codec import encode_event
from ipc.events import Event
from vibe.app.engine.result_record import RunRecord
from vibe.system.errors import EnvironmentFailure, UsageError
from vibe.system.files import replace_file

RESULT = "result.json"
EVENTS = "events.jsonl"
MESSAGES = "messages.jsonl"


class OutputFolderError(EnvironmentFailure):
    """The output folder can't be written."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(
            f"--output-dir {folder}: can't be written ({error.strerror or error}): choose a folder with free space"
        )


class OutputFolder:
    """A sink for the run's events; ``save`` completes the folder.

    The files of an earlier run are gone once this one begins, and each of ours appears whole or not at all: a
    ``result.json`` that is there is this run's.
    """

    def __init__(self, path: Path, draft: Path, events: BinaryIO) -> None:
        self._path = path
        self._draft = draft
        self._events = events
        self._failure: OSError | None = None

    @classmethod
    def open(cls, path: Path) -> OutputFolder:
        """Make the folder and empty it of an earlier run.

        Raises:
            UsageError: there is a file of that name.
            OutputFolderError: the folder can't be made or written.
        """
        if path.exists() and not path.is_dir():
            raise UsageError(f"--output-dir {path}: this is a file; name a folder (created if needed)")
        try:
            path.mkdir(parents=True, exist_ok=True)
            for name in (RESULT, EVENTS, MESSAGES):
                (path / name).unlink(missing_ok=True)
            draft = path / f".{EVENTS}.part"
            return cls(path, draft, draft.open("wb"))
        except OSError as error:
            raise OutputFolderError(path, error) from error

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the folder that are this run's, while it lasts and afterwards."""
        return (self._draft, *(self._path / name for name in (RESULT, EVENTS, MESSAGES)))

    def publish(self, event: Event) -> None:
        """Keep an event; what the disk refuses is told by ``save``."""
        if self._failure is None:
            try:
                self._events.write(encode_event(event) + b"\n")
            except OSError as error:
                self._failure = error

    def save(self, record: RunRecord, transcript: Path) -> None:
        """Write the files, the record last.

        Raises:
            OutputFolderError: the disk refuses; there is no ``result.json`` then.
        """
        try:
            if self._failure is not None:
                raise self._failure
            self._events.close()
            self._draft.replace(self._path / EVENTS)
            if transcript.is_file():
                replace_file(self._path / MESSAGES, transcript.read_bytes(), sync=False, mode=None)
            text = json.dumps(record.as_document(), indent=2, ensure_ascii=False) + "\n"
            replace_file(self._path / RESULT, text.encode(), sync=False, mode=None)
        except OSError as error:
            raise OutputFolderError(self._path, error) from error
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the files that are not finished; harmless after ``save``."""
        with suppress(OSError):
            self._events.close()
        with suppress(OSError):
            self._draft.unlink(missing_ok=True)
