"""Limits results to what a model can take: head and tail remain, and a file keeps the whole."""

from __future__ import annotations

import os
import re
from pathlib import Path
from uuid import uuid4

from anyio import to_thread

RESULT_BYTES = 64_000
"""The most a model reads of one result, in bytes of UTF-8."""
TAIL_SHARE = 4
"""One part in this many of a truncated result is its tail."""
NOTICE_BYTES = 1_000
"""Bytes reserved for the sentence that says what was left out. It contains a path."""


def encodable(text: str) -> str:
    """Return ``text`` with a question mark in place of each lone surrogate, which no encoding accepts."""
    return text.encode("utf-8", errors="replace").decode()


async def capped(text: str, tool_call_id: str, output_dir: Path | None) -> str:
    """Return ``text``, cut to RESULT_BYTES if it is longer.

    The cut is marked with the file below ``output_dir`` that keeps the whole text. If ``output_dir`` is None, nothing
    keeps it.
    """
    data = text.encode("utf-8", errors="replace")
    if len(data) <= RESULT_BYTES:
        return data.decode()
    kept = await keep_file(data, tool_call_id, output_dir, ".txt")
    room = RESULT_BYTES - NOTICE_BYTES
    tail_bytes = room // TAIL_SHARE
    head = data[: room - tail_bytes].decode("utf-8", errors="ignore")
    tail = data[-tail_bytes:].decode("utf-8", errors="ignore")
    dropped = len(data) - room
    return f"{head}\n[... {dropped} of {len(data)} bytes left out; the whole {kept} ...]\n{tail}"


async def keep_file(data: bytes, tool_call_id: str, output_dir: Path | None, suffix: str) -> str:
    """Write a file of a call's result, readable only by the user, and return a phrase that says where it is."""
    if output_dir is None:
        return "was not kept"
    name = re.sub(r"[^A-Za-z0-9_-]", "_", tool_call_id)[:48] or "call"
    path = output_dir / f"{name}-{uuid4().hex[:8]}{suffix}"
    try:
        await to_thread.run_sync(write_private, path, data)
    except OSError as error:
        return f"could not be kept ({error.strerror})"
    return f"is in {path}"


def write_private(path: Path, data: bytes) -> None:
    """Create a file that only the user may read, and any missing folders. Blocks.

    Raises:
        OSError: something exists there already, or it can't be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
