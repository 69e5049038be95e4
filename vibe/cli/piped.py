"""Reads text from outside the command line: standard input, and files that flags name."""

from __future__ import annotations

import io
import os
import select
import stat

from vibe.cli.environment import CliEnvironment
from vibe.system.errors import UsageError

FIRST_BYTE_SECONDS = 3.0
MOST_BYTES = 64 * 1024 * 1024
MOST_TEXT = 1_000_000
"""Bytes of a text file at most; no model reads more, so a larger file is a mistake."""
CHUNK = 64 * 1024
NOTHING_CAME = (
    f"standard input is a pipe that brought nothing in {FIRST_BYTE_SECONDS:g} s, so it is not used; to wait for it, "
    "add -"
)


def read_context(env: CliEnvironment, *, waits: bool) -> tuple[bytes, str]:
    """Return what standard input adds to a prompt, and a note for the user; with ``waits``, however long it takes.

    A terminal or a device adds nothing unless ``waits``. A pipe has 3 s to deliver its first byte.

    Raises:
        UsageError: it is longer than 64 MiB.
    """
    try:
        descriptor = env.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):  # a replacement without a descriptor
        return (b"" if env.stdin.closed else read_all(env)), ""
    if waits:
        return read_all(env), ""
    is_pipe = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    if is_pipe and not select.select([descriptor], [], [], FIRST_BYTE_SECONDS)[0]:
        return b"", NOTHING_CAME
    return (read_all(env) if is_pipe or stat.S_ISREG(mode) else b""), ""


def read_all(env: CliEnvironment) -> bytes:
    """Return standard input up to its end, however slowly it arrives.

    Raises:
        UsageError: it is longer than 64 MiB.
    """
    data = bytearray()
    while chunk := _next(env):
        data += chunk
        if len(data) > MOST_BYTES:
            raise UsageError("standard input is longer than 64 MiB: put it in a file and name that in the prompt")
    return bytes(data)


def _next(env: CliEnvironment) -> bytes:
    try:
        descriptor = env.stdin.fileno()
    except io.UnsupportedOperation:
        return env.stdin.buffer.read(CHUNK)
    while True:
        select.select([descriptor], [], [])
        try:
            return os.read(descriptor, CHUNK)
        except BlockingIOError:  # another process made it non-blocking
            continue
        except OSError as error:
            raise UsageError(f"standard input can't be read ({error.strerror})") from error


def read_text(flag: str, name: str, env: CliEnvironment) -> str:
    """Return the text of a file that a flag names.

    Raises:
        UsageError: it can't be read, or is too long.
    """
    try:
        with env.path(name).open("rb") as file:
            content = file.read(MOST_TEXT + 1)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise UsageError(f"{flag} {name}: can't be read ({why}): name a text file") from error
    if len(content) > MOST_TEXT:
        raise UsageError(f"{flag} {name}: longer than {MOST_TEXT:,} bytes: name a shorter one")
    return content.decode("utf-8-sig", "replace")
