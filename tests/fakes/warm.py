"""Starts the installed ``vibe``, and the processes of steps, by forking a process that has loaded their modules.

Loading them is most of what such a process costs, and tests start a thousand. A forked process is a child of the test's
process, runs the same script or module with the same arguments, working folder, variables, umask and descriptors, in a
session of its own if asked, and has no other descriptor, no thread, and no state but that of loaded modules.

It does not prove that a command can load what it needs, in its own order and out of any folder; what happens while
Python starts (broken streams, limits, signals that come early, a module path or bytecode that was tampered with); how
much memory and time a start takes; or what ``/proc`` shows of its arguments and variables, which are those of the process
it was forked from. All forks of a worker share the seed of ``hash``. So a module whose tests are about these says
``EXECUTES = True``, and whatever starts from a shell, in tmux or through another program is executed, as ever.
"""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self

from tests.fakes import warm_server

SERVER = Path(warm_server.__file__)
LANGUAGE = "C.UTF-8"
AT_THE_START = re.compile(r"(?:PYTHON(?!_KEYRING_BACKEND)|LANG|LC_|LD_|TZ|MALLOC_|GLIBC_|OPENSSL_|OTEL_|PYDANTIC_).*")
"""Variables that Python or a library reads once, while it starts: with others than those of the server, no fork."""
MOST_BYTES = 100_000
"""The most bytes of a request to fork. With more arguments and variables a command is executed."""
MODULES = ("vibe.app.plan.child_main", "vibe.cli.main")
UMASK = re.compile(r"^Umask:\t(\d+)$", re.MULTILINE)
_execute: Any = subprocess.Popen.__dict__["_execute_child"]


class WarmVibe:
    """The server, which is started when the first process is wanted. As a context manager, it ends with the block.

    ``forks`` counts the processes that it has forked.
    """

    def __init__(self, scripts: Sequence[Path]) -> None:
        self.forks = 0
        self._scripts = frozenset(map(str, scripts))
        self._asked = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._requests is not None and self._process is not None:
            self._requests.close()
            self._process.wait()

    @property
    def method(self) -> Callable[..., None]:
        """Stands in for the method of ``Popen`` that starts the process."""

        def execute_child(popen: Any, *given: Any) -> None:
            if not self._forks(popen, *given):
                _execute(popen, *given)

        return execute_child

    def _forks(self, popen: Any, *given: Any) -> bool:
        """Fork what ``Popen`` is to start, unless it wants what a fork can't have."""
        args, executable, before, close, passed, cwd, environ, _, _, shell = given[:10]
        *ends, _restore, gid, gids, uid, umask, session, group = given[10:]
        plain = (before, executable, gid, gids, uid) == (None,) * 5 and umask == group == -1 and close and not shell
        argv = [] if not plain or isinstance(args, str | bytes | os.PathLike) else self._argv([*map(os.fspath, args)])
        variables = dict(os.environ if environ is None else environ)
        folder = os.fspath(Path(cwd or ".").absolute())
        if not argv or not is_usual(variables) or not Path(folder).is_dir():
            return False
        mask = UMASK.search(Path("/proc/self/status").read_text(encoding="utf-8"))
        assert mask is not None
        request = {
            "argv": argv,
            "cwd": folder,
            "environ": variables,
            "umask": int(mask[1], 8),
            "session": bool(session),
            "descriptors": [0, 1, 2, *passed],
        }  # fmt: skip
        data = json.dumps(request).encode()
        if len(data) > MOST_BYTES:
            return False
        standard = [own if end == -1 else end for own, end in zip((0, 1, 2), (ends[0], ends[3], ends[5]), strict=True)]
        popen.pid = self._fork(data, [*standard, *passed])
        popen._child_created = True
        popen._close_pipe_fds(*ends)
        return True

    def _argv(self, words: list[str]) -> list[str]:
        """Return what Python runs if the words start one of our programs."""
        if words and words[0] in self._scripts:
            return words
        if words[:3] == [sys.executable, "-P", "-m"] and words[3] in MODULES:
            return words[1:]
        return []

    def _fork(self, data: bytes, descriptors: list[int]) -> int:
        with self._asked:
            if self._requests is None:
                self._requests = self._start()
            socket.send_fds(self._requests, [data], descriptors)
            self.forks += 1
            return int(self._requests.recv(32))

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environ = {name: os.environ[name] for name in ("PATH", "PYTHON_KEYRING_BACKEND") if name in os.environ}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, SERVER, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                cwd="/",
                env={**environ, "LANG": LANGUAGE},
                pass_fds=[theirs.fileno()],
            )
        assert ours.recv(32) == b"ready"
        return ours


def can_fork() -> bool:
    """Say whether this is a system where the server works."""
    return sys.platform == "linux" and platform.machine() in warm_server.CLONE


def is_usual(environ: Mapping[str, str]) -> bool:
    """Say whether Python would start with these variables as the server did."""
    own = {name: value for name, value in environ.items() if AT_THE_START.fullmatch(name)}
    return own == {"LANG": LANGUAGE}
