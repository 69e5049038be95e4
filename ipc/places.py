"""A run's addresses, and its folder with the sockets and the journal."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from ipc.errors import BusUnavailableError, IpcError
from vibe.system.errors import remedy

IPC = "ipc://"
TCP = "tcp://"
MAX_SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107
"""The longest path that the system lets a socket have, without the terminating zero."""
JOURNAL_NAME = "journal.jsonl"
PUBLISHER_NAME = "publisher.json"

_EVENTS_NAME = "events.ipc"
_LAST_PORT = 65535 - 2
"""The last port that leaves room for replay and control at the next two."""
_RUN_FOLDER = re.compile(r"[0-9a-f]{8}")


class Addresses(Struct, frozen=True, kw_only=True):
    """The addresses of a publisher's three sockets: events (pub0), replay and control (both rep0)."""

    events: str
    replay: str
    control: str

    @property
    def socket_paths(self) -> tuple[Path, ...]:
        """The files of the ipc sockets; empty for TCP."""
        every = (self.events, self.replay, self.control)
        return tuple(Path(address.removeprefix(IPC)) for address in every if address.startswith(IPC))


def addresses_in(folder: Path) -> Addresses:
    """Return the default addresses of a run: ``events.ipc``, ``replay.ipc`` and ``control.ipc`` in its folder."""
    return addresses_from(f"{IPC}{folder / _EVENTS_NAME}")


def addresses_from(events: str) -> Addresses:
    """Return all addresses of the publisher with the event address ``events``.

    ``ipc:///a/b/events.ipc`` has ``replay.ipc`` and ``control.ipc`` beside it, any other ``ipc:///a/b/NAME`` has
    ``NAME.replay`` and ``NAME.control``; ``tcp://127.0.0.1:PORT`` has replay at PORT + 1 and control at PORT + 2.

    Raises:
        BusUnavailableError: the address is malformed, too long, of another transport, or open to other machines.
    """
    if events.startswith(IPC):
        return _ipc_addresses(events)
    if events.startswith(TCP):
        return _tcp_addresses(events)
    raise BusUnavailableError(
        events, "the transport is not supported", "use ipc:///an/absolute/path or tcp://127.0.0.1:PORT"
    )


def folder_name(source: str) -> str:
    """Return the 8 hex digits that name the folder of a source."""
    return hashlib.blake2b(source.encode(), digest_size=4).hexdigest()


def bases(home: Path, runtime_dir: Path | None) -> tuple[Path, ...]:
    """Return the folders that may hold run folders: ``$XDG_RUNTIME_DIR/vibe`` if it is safe, then ``$VIBE_HOME/run``.

    The first isn't safe if other users could create it or write there.
    """
    if runtime_dir is not None and _is_ours(runtime_dir) and _is_ours_alone(runtime_dir / "vibe"):
        return (runtime_dir / "vibe", home / "run")
    return (home / "run",)


def run_folders(home: Path, runtime_dir: Path | None) -> Iterator[Path]:
    """Yield the folder of every run that left one, in this home and in others that share the runtime folder.

    Raises:
        IpcError: a folder of runs can't be listed.
    """
    for base in bases(home, runtime_dir):
        yield from sorted(path for path in files_of_runs(base) if _RUN_FOLDER.fullmatch(path.name) and path.is_dir())


def files_of_runs(folder: Path) -> list[Path]:
    """Return what is in a folder of runs, which need not exist.

    Raises:
        IpcError: it can't be listed.
    """
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise IpcError(f"the runs in {folder} can't be listed ({error.strerror}): {remedy(error)}") from error


def make_run_folder(source: str, home: Path, runtime_dir: Path | None, *, for_sockets: bool) -> Path:
    """Make the folder of a run, open to its user only, in the first base where its socket paths are short enough.

    Raises:
        BusUnavailableError: every path is too long for a socket, or the folder can't be made safe.
    """
    candidates = [base / folder_name(source) for base in bases(home, runtime_dir)]
    longest = len("/control.ipc")
    fitting = [
        folder
        for folder in candidates
        if not for_sockets or len(os.fsencode(folder)) + longest <= MAX_SOCKET_PATH_BYTES
    ]
    if not fitting:
        raise BusUnavailableError(
            f"{IPC}{candidates[-1] / _EVENTS_NAME}",
            f"a socket path may have at most {MAX_SOCKET_PATH_BYTES} bytes",
            "set XDG_RUNTIME_DIR or VIBE_HOME to a shorter path, or use --bus tcp://127.0.0.1:5555",
        )
    folder = fitting[0]
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        is_shared = folder.parent != home / "run" and not _is_ours_alone(folder.parent)
        if is_shared or os.path.islink(folder) or not _is_ours(folder):
            raise BusUnavailableError(str(folder), "the folder belongs to another user", "remove it")
        folder.chmod(0o700)
    except OSError as error:
        raise BusUnavailableError(
            str(folder), f"the folder can't be created ({error.strerror})", "set VIBE_HOME to a writable folder"
        ) from error
    return folder


def refuse_files_in_the_way(addresses: Addresses) -> None:
    """Check that the socket paths are free or hold old sockets, because NNG deletes any file that is in its way.

    Raises:
        BusUnavailableError: a path holds something other than a socket.
    """
    for path in addresses.socket_paths:
        if os.path.lexists(path) and not stat.S_ISSOCK(path.lstat().st_mode):
            raise BusUnavailableError(
                f"{IPC}{path}", "a file that is not a socket is in the way", "move it, or choose another --bus"
            )


def _is_ours(folder: Path) -> bool:
    return os.path.isdir(folder) and folder.stat().st_uid == os.geteuid() and os.access(folder, os.W_OK | os.X_OK)


def _is_ours_alone(folder: Path) -> bool:
    """Return whether a folder is closed to other users, or does not exist yet."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _ipc_addresses(events: str) -> Addresses:
    path = events.removeprefix(IPC)
    if not path.startswith("/") or path.endswith("/"):
        raise BusUnavailableError(events, "the path is not absolute", "write ipc:///an/absolute/path")
    if path.endswith(f"/{_EVENTS_NAME}"):
        folder = path.removesuffix(_EVENTS_NAME)
        found = Addresses(events=events, replay=f"{IPC}{folder}replay.ipc", control=f"{IPC}{folder}control.ipc")
    else:
        found = Addresses(events=events, replay=f"{events}.replay", control=f"{events}.control")
    longest = max(len(os.fsencode(socket_path)) for socket_path in found.socket_paths)
    if longest > MAX_SOCKET_PATH_BYTES:
        raise BusUnavailableError(
            events,
            f"its longest socket path has {longest} bytes, at most {MAX_SOCKET_PATH_BYTES} are allowed",
            "choose a shorter path",
        )
    return found


def _tcp_addresses(events: str) -> Addresses:
    try:
        parts = urlsplit(events)
        host, port = parts.hostname or "", parts.port
        has_more = bool(parts.path or parts.query or parts.fragment or parts.username)
    except ValueError:
        host, port, has_more = "", None, False
    if not host or port is None or not 1 <= port <= _LAST_PORT or has_more:
        raise BusUnavailableError(
            events, "it is not tcp://HOST:PORT", f"write tcp://127.0.0.1:5555 (a port from 1 to {_LAST_PORT})"
        )
    if not is_loopback(host):
        raise BusUnavailableError(
            events,
            "it is reachable from other machines, which without TLS and client certificates could all read it",
            "use tcp://127.0.0.1:PORT and a tunnel such as ssh -L",
        )
    shown = f"[{host}]" if ":" in host else host
    return Addresses(
        events=f"{TCP}{shown}:{port}", replay=f"{TCP}{shown}:{port + 1}", control=f"{TCP}{shown}:{port + 2}"
    )


def is_loopback(host: str) -> bool:
    """Return whether a host of that name can be reached only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
