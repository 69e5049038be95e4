"""A command in a process namespace of its own: started as it is, for all of it ends with the namespace, and that with us."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from anyio import move_on_after, to_thread, wait_readable

from vibe.core.tools._starter import MONITOR, descendants, is_monitor

GRACE_SECONDS = 2.0
REAP_SECONDS = 2.0
ENDS_WITH_US = ("--die-with-parent", "--unshare-pid")


def is_boxed(argv: Sequence[str]) -> bool:
    """Whether this is a ``bwrap`` whose end is the end of all it started, on a system that tells us of it."""
    return os.path.basename(argv[0]) == MONITOR and all(option in argv for option in ENDS_WITH_US) and _has_pidfd()  # noqa: PTH119  a word


@cache
def _has_pidfd() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


class BoxedCommand:
    """One under way; ``code`` None: it runs."""

    def __init__(self, argv: Sequence[str], cwd: Path, environ: Mapping[str, str], output: tuple[int, int]) -> None:
        self._info, told = os.pipe()
        os.set_blocking(self._info, False)
        try:
            self._process = subprocess.Popen(  # noqa: S603  the caller's command
                [argv[0], "--info-fd", str(told), *argv[1:]], pass_fds=(told,), cwd=cwd, env=environ,
                stdin=subprocess.DEVNULL, stdout=output[0], stderr=output[1], start_new_session=True,
            )  # fmt: skip
        except BaseException:
            os.close(self._info)
            raise
        finally:
            os.close(told)
        self.pid = self._process.pid
        self.code: int | None = None
        self.is_gone = False
        self._handle = os.pidfd_open(self.pid)

    async def ended(self) -> None:
        """Until it has ended."""
        if self.code is None:
            await wait_readable(self._handle)
            self.code = self._process.wait()

    async def gone(self) -> None:
        """Until nothing is left of it: TERM to all in the namespace, and after 2 s its end."""
        if self.code is None:
            await to_thread.run_sync(self._terminate)
            with move_on_after(GRACE_SECONDS):
                await self.ended()
        if self.code is None:
            await to_thread.run_sync(self._kill)
            await self.ended()
        first = self._first_inside()
        if first is not None:
            # The kernel ends a namespace's other processes before its first one.
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(first, signal.SIGKILL)
            with move_on_after(REAP_SECONDS):
                await wait_readable(first)
            os.close(first)
        self.is_gone = True

    def close(self) -> None:
        """Let go of it."""
        if self.code is None:
            self._kill()
            self.code = self._process.wait()
        os.close(self._handle)
        os.close(self._info)

    def _terminate(self) -> None:
        for pid in descendants(self.pid):
            if not is_monitor(pid):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGTERM)

    def _kill(self) -> None:
        """Those inside first: one that waits for a word of ``bwrap`` to begin would not end with it."""
        for pid in descendants(self.pid):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        self._process.kill()

    def _first_inside(self) -> int | None:
        """A handle of the namespace's first process; None: it has gone, or never came."""
        try:
            said = os.read(self._info, 4096)
            return os.pidfd_open(int(json.loads(said)["child-pid"]))
        except (OSError, ValueError, KeyError):
            return None
