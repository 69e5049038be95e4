"""Writes internal errors to the log file in full, without secrets, and keeps them off the terminal."""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from vibe.system.errors import UsageError
from vibe.system.files import append_rotating

LEVEL_VARIABLE = "VIBE_LOG_LEVEL"
SIZE_VARIABLE = "VIBE_LOG_MAX_BYTES"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
MOST_BYTES = 5_000_000
OURS = ("ipc", "planner", "subagents", "vibe")
FORMAT = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"
_BYTES = re.compile(r"0*[1-9][0-9]{0,17}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class LogFile(logging.Handler):
    """Appends to ``path``, which only its user may read; at ``most`` bytes it becomes ``<path>.1`` and starts anew.

    The values of secret variables in ``environ`` are removed. A disk error is ignored.
    """

    def __init__(self, path: Path, environ: Mapping[str, str], *, most: int = MOST_BYTES) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(FORMAT))
        self._path = path
        self._environ = environ
        self._most = most

    def emit(self, record: logging.LogRecord) -> None:
        """Write one complete entry."""
        from vibe.system.redaction import redact  # noqa: PLC0415  most runs have nothing to log

        text = _CONTROL.sub(lambda found: ascii(found[0])[1:-1], redact(self.format(record), self._environ))
        with suppress(OSError):
            append_rotating(self._path, f"{text}\n".encode(errors="backslashreplace"), self._most)


@contextmanager
def logging_to(path: Path, environ: Mapping[str, str]) -> Generator[None]:
    """Send log records to ``path`` while the block runs: our own from VIBE_LOG_LEVEL up, others if they are serious.

    Raises:
        UsageError: a variable has an invalid value.
    """
    level = environ.get(LEVEL_VARIABLE, "").upper() or "WARNING"
    if level not in LEVELS:
        raise UsageError(f"{LEVEL_VARIABLE} is {environ[LEVEL_VARIABLE][:40]!r}: it must be one of {', '.join(LEVELS)}")
    size = environ.get(SIZE_VARIABLE, "") or str(MOST_BYTES)
    if not _BYTES.fullmatch(size):
        raise UsageError(f"{SIZE_VARIABLE} is {size[:40]!r}: it must be a number of bytes")
    root, ours = logging.getLogger(), [logging.getLogger(name) for name in OURS]
    before = [logger.level for logger in ours]
    file = LogFile(path, environ, most=int(size))
    root.addHandler(file)
    for logger in ours:
        logger.setLevel(level)
    try:
        yield
    finally:
        root.removeHandler(file)
        for logger, level_before in zip(ours, before, strict=True):
            logger.setLevel(level_before)
