"""A separate program (``python -I -S``) that starts commands for the process at the other end of a socket.

It also watches them. Processes of a command that lose their parent become children of this program, whatever their
session, so it knows when all have ended without looking at other processes. It ends all processes of a command when it
is told to, when the command has ended, or when the other end of the command's line or of the socket is closed, because
the process that wanted the command is gone. So no command outlives that process, at whatever instant it is killed.
Commands confined with Landlock may leave their session, and have no namespace that ends with them. A fork of this
program watches over each of those.

A request is its length, then JSON (``argv``, ``environ``, ``cwd``), with four descriptors: standard output, standard
error, the status pipe for reports (``pid N``, ``left N NAMES``, ``code N``, ``gone 0`` or ``error N``, each on a line),
and the command's line, on which a byte means that the command should be ended, gently unless the byte says otherwise.
A fifth descriptor, if there is one, becomes the command's ``REPORT``.

It imports next to nothing, because it has to start fast and stay small. The launcher for Landlock runs in a fork of it
rather than in a new interpreter.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from vibe.shell.process.watch import LISTS_PROCESSES, MONITOR, Watch, adopt_orphans, send_status
from vibe.shell.sandbox.given_files import without_shell

LENGTH = struct.Struct("!I")
REPORT = 9
"""The descriptor on which a command may report something: the highest one that every shell can name."""
IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
RESTORED = tuple(getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ", "SIGCHLD") if hasattr(signal, name))


class CommandSpec(NamedTuple):
    """A command to start, with its variables and its folder."""

    argv: list[str]
    environ: dict[str, str]
    cwd: str


def main(descriptor: int, prefix: list[str]) -> int:
    """Serve until the socket is closed. Commands that begin with ``prefix`` are for the launcher of Landlock."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    os.set_inheritable(descriptor, False)  # noqa: FBT003  the library's own parameter
    gc.freeze()  # so that forks copy less memory that they don't change
    with socket.socket(fileno=descriptor) as link:
        Service(link, prefix).watch.run()
    return 0


class Service:
    """Serves the requests that come over a socket. ``watch`` watches the commands it starts."""

    def __init__(self, link: socket.socket, prefix: list[str]) -> None:
        self._link = link
        self._prefix = prefix
        self.watch = Watch((link.fileno(), self._serve))

    def _serve(self) -> bool:
        """Serve one request. Return False if the socket is closed."""
        request = _receive(self._link)
        if request is None:
            return False
        spec, descriptors = request
        needed: list[int] = []
        try:
            needed = self._start(spec, descriptors)
        except (OSError, ValueError) as error:
            send_status(descriptors[2], f"error {getattr(error, 'errno', errno.EINVAL)}")
        finally:
            for descriptor in descriptors:
                if descriptor not in needed:
                    os.close(descriptor)
        return True

    def _start(self, spec: CommandSpec, descriptors: list[int]) -> list[int]:
        """Start a command and return the descriptors to keep open."""
        status, line = descriptors[2:4]
        os.chdir(spec.cwd)  # noqa: TID251  the command inherits it, whichever process starts it
        try:
            if spec.argv[: len(self._prefix)] == self._prefix:
                self._launch(spec, descriptors)
                return []
            program, _ = without_shell(spec.argv)
            is_monitor = os.path.basename(program[0]) == MONITOR  # noqa: PTH119  no pathlib here
            try:
                child = _spawn(spec, descriptors, setsid=True) if is_monitor else self._fork(spec, descriptors)
            except NotImplementedError:  # this system's posix_spawn can't start a session
                child = self._fork(spec, descriptors)
            except OSError as error:
                if error.errno in {errno.EAGAIN, errno.ENOMEM}:
                    raise
                _complain(descriptors[1], spec, error)
                child = 0
        finally:
            os.chdir("/")  # noqa: TID251  so that this program keeps no folder in use
        if child:
            self.watch.add(child, status, line, is_confined=is_monitor)
            send_status(status, f"pid {child}")
            return [status, line]
        send_status(status, "code 127\ngone 0")
        return []

    def _fork(self, spec: CommandSpec, descriptors: list[int]) -> int:
        """Start a command as the child of a fork made for it, so that it harms no other if it kills its parent."""
        parent = os.fork()
        if parent:
            return parent
        code = 127
        try:
            self._close_inherited()
            os.setsid()
            adopt_orphans()  # so that the command's processes stay below this one, in whatever session they are
            # Where processes aren't listed, a command is known only by its group, so the group stays the same there.
            child = _spawn(spec, descriptors, **({"setpgroup": 0} if LISTS_PROCESSES else {}))
            _, wait_status = os.waitpid(child, 0)
            code = os.waitstatus_to_exitcode(wait_status)
        except OSError as error:
            _complain(descriptors[1], spec, error)
        finally:
            os._exit(code if code >= 0 else 128 - code)

    def _launch(self, spec: CommandSpec, descriptors: list[int]) -> None:
        """Fork a process that watches over a command, which confines itself in a further fork."""
        from vibe.shell.sandbox import _launch
        from vibe.shell.sandbox.records import RunningCommandLock  # noqa: PLC0415  only where Landlock confines

        watcher = os.fork()
        if watcher:
            self.watch.leave_to(watcher)
            return
        stdout, stderr, status, line, *report = descriptors
        code = 1
        try:
            self._close_inherited()
            watch = Watch()
            command_lock = RunningCommandLock(json.loads(spec.argv[len(self._prefix)])["records"])
            child = os.fork()
            if child == 0:
                rules, *words = spec.argv[len(self._prefix) :]
                _become(CommandSpec(words, spec.environ, spec.cwd), descriptors, lambda: _launch.main([rules, *words]))
            for descriptor in (stdout, stderr, *report):
                os.close(descriptor)
            command = watch.add(child, status, line, is_confined=True)
            watch.run()
            command_lock.end(abandoned=command.is_abandoned)
            code = 0
        except BaseException as error:  # noqa: BLE001  a fork of the program never goes back into its loop
            send_status(status, f"error {getattr(error, 'errno', 0) or 0}")
        finally:
            os._exit(code)

    def _close_inherited(self) -> None:
        """Close, in a fork, everything that belongs to the original process."""
        signal.set_wakeup_fd(-1)
        self._link.close()
        self.watch.close_inherited()


def _receive(link: socket.socket) -> tuple[CommandSpec, list[int]] | None:
    head, descriptors, _, _ = socket.recv_fds(link, LENGTH.size, 5)
    if not head:
        return None
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # noqa: FBT003  the library's own parameter
    (length,) = LENGTH.unpack(head)
    data = bytearray()
    while len(data) < length:
        piece = link.recv(min(length - len(data), 1 << 20))
        if not piece:
            return None
        data += piece
    return CommandSpec(**json.loads(data)), descriptors


def _spawn(spec: CommandSpec, descriptors: list[int], **where: Any) -> int:
    """Start a command without forking this process."""
    stdout, stderr, _, _, *report = descriptors
    argv, files = without_shell(spec.argv)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, stdout, 1),
        (os.POSIX_SPAWN_DUP2, stderr, 2),
        *((os.POSIX_SPAWN_DUP2, source, REPORT) for source in report),
        *((os.POSIX_SPAWN_OPEN, number, path, os.O_RDONLY, 0) for number, path in files.items()),
    ]
    signals = (*RESTORED, *IGNORED)
    return os.posix_spawn(argv[0], argv, spec.environ, file_actions=actions, setsigdef=signals, **where)


def _become(spec: CommandSpec, descriptors: list[int], launch: Callable[[], int]) -> None:
    """Turn this fork into the command. ``launch`` confines the process and executes the command."""
    stdout, stderr, status, _, *report = descriptors
    try:
        signal.set_wakeup_fd(-1)
        for number in (*RESTORED, *IGNORED):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
    except OSError as error:
        send_status(status, f"error {error.errno}")
        os._exit(127)
    send_status(status, f"pid {os.getpid()}")  # reported from here, because the command may kill its watcher
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (stdout, 1), (stderr, 2)):
            os.dup2(source, target)
        for source in report:
            os.dup2(source, REPORT)
            os.set_inheritable(REPORT, True)  # noqa: FBT003  the library's own parameter
        os.environ.clear()
        os.environ.update(spec.environ)
        code = launch()
        sys.stderr.flush()
        os._exit(code)
    except OSError as error:
        _complain(2, spec, error)
    finally:
        os._exit(127)


def _complain(stderr: int, spec: CommandSpec, error: OSError) -> None:
    problem = f"{spec.argv[0]}: {error.strerror}"
    if error.errno == errno.E2BIG:
        longest = max((*spec.argv, *spec.environ.values()), key=len)
        what = "command" if longest in spec.argv else "environment"
        problem = f"the {what} is too long for the system: put what is long ({len(longest)} characters) into a file"
    with suppress(OSError):
        os.write(stderr, f"vibe: {problem}\n".encode())
