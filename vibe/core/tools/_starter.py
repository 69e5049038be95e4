"""Started as a program of its own (``python -I -S``): starts commands for the process at the other end of a socket.

Each command has a watcher, a fork of this program that adopts whatever of the command loses its parent, in whatever session
that is. So the watcher knows that all has ended without looking at any other process, and ends all when it is told to, when the
command has ended, or when nobody holds its line any more, because the process that wanted the command is gone.

A request is its length, then JSON (``argv``, ``environ``, ``cwd``), with four descriptors: standard output and error, where the
watcher says how it goes (``pid N``, ``code N`` or ``error N``, a line each), and its line: a byte there means end it politely. A
fifth, if there is one, is the command's ``REPORT``.

It imports nothing of ours but the launcher that confines with Landlock, and that only once a command begins with it: what that
would do after the start of an interpreter is done without one.
"""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple, cast

GRACE_SECONDS = 2.0
KILL_SECONDS = 2.0
LENGTH = struct.Struct("!I")
PR_SET_CHILD_SUBREAPER = 36
REPORT = 9
"""The descriptor by which a command may tell something: the highest that every shell can name."""
ON_LINUX = sys.platform.startswith("linux")
FIRST_POLL_SECONDS = 0.002
LAST_POLL_SECONDS = 0.05
IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
RESTORED = tuple(getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ", "SIGCHLD") if hasattr(signal, name))
MONITOR = "bwrap"
"""It would take everything with it at once; it leaves by itself when what it started has."""

Launcher = Callable[[list[str]], int]


class Wanted(NamedTuple):
    """A command: what to start, with which variables, where."""

    argv: list[str]
    environ: dict[str, str]
    cwd: str


def main(descriptor: int, prefix: list[str]) -> int:
    """Serve until the socket is closed. What begins with ``prefix`` is the launcher's, the last word of it its file."""
    adopt = _adoption()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    launcher: Launcher | None = None
    with socket.socket(fileno=descriptor) as link:
        while (request := _receive(link)) is not None:
            wanted, descriptors = request
            if launcher is None and wanted.argv[: len(prefix)] == prefix:
                launcher = _launcher(prefix[-1])
            try:
                child = os.fork()
            except OSError as error:
                _tell(descriptors[2], f"error {error.errno}")
                child = -1
            if child == 0:
                link.close()
                adopt()
                _watch(wanted, descriptors, prefix, launcher)
            for one in descriptors:
                os.close(one)
    return 0


def _adoption() -> Callable[[], object]:
    """What makes the calling process the parent of all below it that lose theirs."""
    if not ON_LINUX:
        return lambda: None
    import ctypes  # noqa: PLC0415  only in the program itself

    return partial(ctypes.CDLL(None).prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _receive(link: socket.socket) -> tuple[Wanted, list[int]] | None:
    head, descriptors, _, _ = socket.recv_fds(link, LENGTH.size, 5, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    if not head:
        return None
    for one in descriptors:
        os.set_inheritable(one, False)  # noqa: FBT003  the library's own parameter
    (length,) = LENGTH.unpack(head)
    data = bytearray()
    while len(data) < length:
        piece = link.recv(min(length - len(data), 1 << 20))
        if not piece:
            return None
        data += piece
    return Wanted(**json.loads(data)), descriptors


def _launcher(file: str) -> Launcher:
    spec = importlib.util.spec_from_file_location("launcher", file)
    if spec is None or spec.loader is None:
        raise ImportError(file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast("Launcher", module.main)


def _watch(wanted: Wanted, descriptors: list[int], prefix: list[str], launcher: Launcher | None) -> None:
    """Start the command, see it and all of it to the end, and leave."""
    stdout, stderr, status, line, *report = descriptors
    code = 1
    try:
        woken = _wake_on_children()
        child = os.fork()
        if child == 0:
            _become(wanted, (stdout, stderr, status, *report), prefix, launcher)
        for one in (stdout, stderr, *report):
            os.close(one)
        argv = wanted.argv
        confined = argv[: len(prefix)] == prefix or os.path.basename(argv[0]) == MONITOR  # noqa: PTH119  no pathlib here
        Watch(child, status, (line, woken), everybody=confined).keep()
        code = 0
    except BaseException as error:  # noqa: BLE001  a fork of the program never goes back into its loop
        _tell(status, f"error {getattr(error, 'errno', 0) or 0}")
    finally:
        os._exit(code)


def _nothing(_number: int, _frame: object) -> None:
    """Being called is enough: it wakes who waits."""


def _wake_on_children() -> int:
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, _nothing)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    return woken


def _become(wanted: Wanted, descriptors: tuple[int, ...], prefix: list[str], launcher: Launcher | None) -> None:
    stdout, stderr, status, *report = descriptors
    try:
        signal.set_wakeup_fd(-1)
        for number in (*RESTORED, *IGNORED):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.chdir(wanted.cwd)  # noqa: TID251  of the command's own process
    except OSError as error:
        _tell(status, f"error {error.errno}")
        os._exit(127)
    _tell(status, f"pid {os.getpid()}")  # said by itself, for it may kill its watcher
    argv, environ = wanted.argv, wanted.environ
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (stdout, 1), (stderr, 2)):
            os.dup2(source, target)
        for source in report:
            os.dup2(source, REPORT)
            os.set_inheritable(REPORT, True)  # noqa: FBT003  as above
        if launcher is not None and argv[: len(prefix)] == prefix:
            os.environ.clear()
            os.environ.update(environ)
            ended = launcher(argv[len(prefix) :])
            sys.stderr.flush()
            os._exit(ended)
        os.execvpe(argv[0], argv, environ)  # noqa: S606  becoming the command is the point
    except OSError as error:
        os.write(2, f"vibe: {argv[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


class Watch:
    """Over one command, by the process that all of it falls to."""

    def __init__(self, child: int, status: int, lines: tuple[int, int], *, everybody: bool) -> None:
        self._child = child
        self._session = 0 if everybody else child
        self._status = status
        self._line, self._woken = lines
        self._patience = GRACE_SECONDS

    def keep(self) -> None:
        """Until nothing of the command is left: TERM to all once it has ended or is to end, KILL to who stays."""
        while self._reap() and self._child and not self._asked(None):
            pass
        since = time.monotonic()
        signalled: set[int] = set()
        poll = FIRST_POLL_SECONDS
        while self._reap() and (left := self._left()):
            late = time.monotonic() - since
            if late > self._patience + KILL_SECONDS:
                return
            killing = late >= self._patience
            for pid in left:
                if killing or (pid not in signalled and not is_monitor(pid)):
                    signalled.add(pid)
                    _signal(pid, signal.SIGKILL if killing else signal.SIGTERM)
            self._asked(poll)
            poll = min(2 * poll, LAST_POLL_SECONDS)

    def _left(self) -> list[int]:
        """Who is to end. A daemon that somebody may start who is not confined has a session of its own, and stays."""
        found = descendants(os.getpid(), self._child)
        return [pid for pid in found if not self._session or pid < 0 or _session_of(pid) == self._session]

    def _asked(self, seconds: float | None) -> bool:
        """Wait for a child's end or a word on the line; whether there was one."""
        lines = [self._line] if self._line >= 0 else []
        ready, _, _ = select.select([*lines, self._woken], [], [], seconds)
        if self._woken in ready:
            with suppress(BlockingIOError):
                os.read(self._woken, 4096)
        if self._line not in ready:
            return False
        if not os.read(self._line, 16):
            self._line = -1
            self._patience = 0.0
        return True

    def _reap(self) -> bool:
        """Take in who has ended; whether anybody is left."""
        while True:
            try:
                pid, ended = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._child:
                self._child = 0
                _tell(self._status, f"code {os.waitstatus_to_exitcode(ended)}")


def descendants(root: int, child: int = 0) -> list[int]:
    """All below ``root``; where that can't be known, the group of ``child``."""
    if not ON_LINUX:
        return [-child] if child else []
    found: list[int] = []
    waiting = [root]
    while waiting:
        for pid in _children(waiting.pop()):
            found.append(pid)
            waiting.append(pid)
    return found


def _children(parent: int) -> Iterator[int]:
    try:
        for thread in os.listdir(f"/proc/{parent}/task"):  # noqa: PTH208  nothing but os is loaded here
            with open(f"/proc/{parent}/task/{thread}/children", "rb") as file:  # noqa: PTH123  as above
                yield from map(int, file.read().split())
    except OSError as error:
        if error.errno == errno.ENOENT and os.path.isdir(f"/proc/{parent}"):  # noqa: PTH112  as above
            yield from _children_by_walk(parent)


def _children_by_walk(parent: int) -> Iterator[int]:
    """Where the kernel keeps no list of them."""
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208  as above
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123  as above
            stat = file.read()
            if int(stat[stat.rfind(b")") + 2 :].split()[1]) == parent:
                yield int(name)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def is_monitor(pid: int) -> bool:
    """Whether it is one of the processes of a sandbox itself."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:  # noqa: PTH123  as above
            return file.read().strip().decode() == MONITOR
    except OSError:
        return False


def _tell(status: int, line: str) -> None:
    with suppress(OSError):
        os.write(status, f"{line}\n".encode())


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
