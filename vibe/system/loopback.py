"""Serves programs on this machine: the listening socket, and the token that requests carry."""

from __future__ import annotations

import hmac
import os
import socket
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from vibe.system.errors import EnvironmentFailure

WAITING_CONNECTIONS = 64
"""The most connections that wait to be accepted."""
MOST_SILENT = 2 * WAITING_CONNECTIONS
"""The most connections that ask nothing. Any user of the machine can open them, and a process has few files to open.

What was accepted just now is silent until its first request is read, and so may be what was accepted right before it.
"""
_LISTENS, _ADDRESS, _STATE, _INODE = "0A", 1, 3, 9
"""The state of a listening socket, and the columns of the kernel's table of sockets."""


def listening(host: str, port: int, flag: str) -> socket.socket:
    """Return a listening socket, on any free port if ``port`` is 0. ``flag`` is the option that sets another port.

    Raises:
        EnvironmentFailure: the port can't be listened on.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=WAITING_CONNECTIONS)
    except OSError as error:
        holder = _holder(port)
        why = f"{os.strerror(error.errno or 0)}{f' by {holder}' if holder else ''}"
        problem = f"can't be listened on ({why}): give another port to {flag}, or 0 for any"
        raise EnvironmentFailure(f"{host}:{port} {problem}") from error


async def serve(application: Any, listener: socket.socket, **settings: Any) -> None:
    """Serve an ASGI application until cancelled. ``settings`` are uvicorn's. Signals are left to the command."""
    import uvicorn  # noqa: PLC0415  only for those who listen
    from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: PLC0415  as above

    held: list[H11Protocol] = []

    class Connection(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            held[:] = [one for one in (*held, self) if not one.transport.is_closing()]
            silent = [one for one in held if not one.cycle or one.cycle.response_complete]
            if len(silent) > MOST_SILENT:  # end the one that is silent for longest
                silent[0].transport.abort()

    class OwnSignals(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Generator[None]:
            yield

    known: dict[str, Any] = {"log_config": None, "access_log": False}
    # The backlog is also how many are accepted at once.
    serving = OwnSignals(uvicorn.Config(application, http=Connection, backlog=WAITING_CONNECTIONS, **known, **settings))
    try:
        await serving.serve([listener])
    finally:  # A cancelled uvicorn closes nothing, and the loop would never hear of the next socket with that number.
        for one in (*vars(serving).get("servers", ()), *(one.transport for one in held)):
            one.close()


def bearer(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the token in a request's headers, or nothing if there is none."""
    found = next((value for name, value in headers if name == b"authorization"), b"")
    scheme, _, given = found.partition(b" ")
    return given.strip() if scheme.lower() == b"bearer" else b""


def is_token(given: bytes, token: str) -> bool:
    """Return whether that is the token, in a time that does not reveal how much of it is right."""
    return bool(token) and hmac.compare_digest(given, token.encode())


def _holder(port: int) -> str:
    """Return the program that listens on a port, or an empty string if it can't be found."""
    inodes = {inode for table in ("tcp", "tcp6") for inode in _listeners(Path("/proc/net") / table, port)}
    for folder in Path("/proc").glob("[0-9]*") if inodes else ():
        with suppress(OSError):
            if any(str(link.readlink()) in inodes for link in (folder / "fd").iterdir()):
                name = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
                return f"{name}, process {folder.name}"
    return ""


def _listeners(table: Path, port: int) -> list[str]:
    try:
        lines = [line.split() for line in table.read_text(encoding="ascii").splitlines()[1:]]
    except OSError:  # This system has no such table.
        return []
    own = [line for line in lines if line[_STATE] == _LISTENS and int(line[_ADDRESS].rpartition(":")[2], 16) == port]
    return [f"socket:[{line[_INODE]}]" for line in own]
