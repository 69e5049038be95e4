"""A process that has loaded a module and forks others, which run its ``main``: loading it is most of their start.

It has no thread and no loop, so that it is safe to fork.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib import import_module

from anyio import wait_readable
from msgspec import Struct

from vibe.system.process import die_with

MOST_BYTES = 256 * 1024
"""Bytes of a request, beyond what the system lets through."""
MOST_DESCRIPTORS = 8


class ForkedProcess(Struct, frozen=True):
    """A process that was forked for us. How it ended is not known."""

    pid: int
    _alive: socket.socket
    """A socket whose other end only that process has."""

    @property
    def returncode(self) -> int | None:
        """0 once it has ended; None while it runs."""
        return 0 if select.select([self._alive], [], [], 0)[0] else None

    async def wait(self) -> int:
        """Wait until it has ended."""
        await wait_readable(self._alive)
        return 0

    async def aclose(self) -> None:
        """Forget it."""
        self._alive.close()


async def ask_for_fork(
    server: socket.socket, environ: Mapping[str, str], output: int, descriptors: Sequence[int]
) -> ForkedProcess | None:
    """Have a process forked. Its ``main`` gets ``descriptors`` and the server's process id.

    Returns None if the server is gone, or can't fork, or the environment is too large for a request.
    """
    alive, theirs = socket.socketpair()
    with ExitStack() as stack:
        stack.enter_context(alive)
        with theirs, suppress(OSError):
            request = b"\0".join(os.fsencode(f"{name}={value}") for name, value in environ.items())
            socket.send_fds(server, [request], [theirs.fileno(), output, *descriptors])
        await wait_readable(alive)
        if pid := alive.recv(MOST_BYTES):
            stack.pop_all()
            return ForkedProcess(int(pid), alive)
    return None


def start_fork_server(module: str) -> socket.socket:
    """Fork a server, which ends with this process, and return the socket over which it is asked."""
    ours, requests = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(0)  # a stuck server must not stop the loop of those who ask
    parent = os.getpid()
    with requests:
        if os.fork():
            return ours
        try:
            die_with(parent)
            ours.close()
            _serve(module, requests)
        finally:
            os._exit(1)  # on no account may it go on as the process that it was forked from


def _serve(module: str, requests: socket.socket) -> None:
    main: Callable[[Sequence[str]], int] = import_module(module).main
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system buries those that end
    server = os.getpid()
    while True:
        environ, descriptors, *_ = socket.recv_fds(requests, MOST_BYTES, MOST_DESCRIPTORS)
        if not descriptors:
            return  # those who could ask are gone
        if not os.fork():
            requests.close()
            _run(main, environ, *descriptors, server)
        for descriptor in descriptors:
            os.close(descriptor)


def _run(main: Callable[[Sequence[str]], int], environ: bytes, alive: int, output: int, *arguments: int) -> None:
    """Be a new process, in a session of its own, until ``main`` ends."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.set_inheritable(alive, False)  # noqa: FBT003  the library's own parameter
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ.clear()
        os.environ.update(dict(line.split("=", 1) for line in os.fsdecode(environ).split("\0")))
        os.write(alive, str(os.getpid()).encode())
        os._exit(main([str(argument) for argument in arguments]))
    except BaseException:  # noqa: BLE001  the last frame of a process
        traceback.print_exc()
    finally:
        os._exit(1)
