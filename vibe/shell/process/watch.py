"""Watches over commands: adopts the processes they leave behind, sees them end, and ends those that remain."""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

GRACE_SECONDS = 2.0
KILL_SECONDS = 2.0
AT_ONCE = b"k"
"""Sent on a command's line to end it with SIGKILL right away. Any other byte means SIGTERM first."""
WITH_DAEMONS = b"d"
"""Sent on a command's line to end processes that left its session too, if they have been seen below it."""
PR_SET_CHILD_SUBREAPER = 36
LISTS_PROCESSES = os.path.isdir("/proc/self/task")
"""True if the system lists processes in ``/proc``. Otherwise a command is known only by its process group."""
FIRST_POLL_SECONDS = 0.002
LAST_POLL_SECONDS = 0.05
MOST_NAMED = 5
"""Maximum number of processes left running that are named in a report."""
MONITOR = "bwrap"
"""The sandbox's own process. Its end would kill all others at once, and it ends by itself after them."""

Requests = tuple[int, Callable[[], bool]]
"""A descriptor, and the function to call when it is readable, which returns False once nobody writes there any more."""


class Command:
    """A running command.

    ``leader`` is its first process and the id of its session. ``code`` is None while the leader runs. The processes of
    a command that ``is_confined`` can't outlive it, so all processes below it belong to it, whatever their session.
    """

    def __init__(self, leader: int, status: int, line: int, *, is_confined: bool) -> None:
        self.leader = leader
        self.status = status
        self.line = line
        self.is_confined = is_confined
        self.code: int | None = None
        self.ending_since: float | None = None
        self.patience = GRACE_SECONDS
        self.signalled: set[int] = set()
        self.ends_daemons = False
        self.is_abandoned = False
        """The process that wanted it is gone."""
        self.check_at = 0.0
        self.check_interval = FIRST_POLL_SECONDS
        self._is_code_reported = False

    def end(self, patience: float | None = None) -> None:
        """Begin to end it: SIGTERM to all its processes, SIGKILL to those left after ``patience`` seconds."""
        self.patience = self.patience if patience is None else patience
        self.ending_since = time.monotonic() if self.ending_since is None else self.ending_since
        self.check_at = 0.0

    def leader_ended(self, code: int) -> None:
        """Note that its first process has ended."""
        self.code = code
        self.end()

    def report_left(self, pids: list[int]) -> None:
        """Report the processes it left running, before they are stopped."""
        names = [name for name in map(_name_of, pids) if name not in {"", MONITOR}]
        if names:
            send_status(self.status, f"left {len(names)} {','.join(names[:MOST_NAMED])}")

    def report_code(self) -> None:
        """Report how its first process ended, once that is known. Further calls do nothing."""
        if self.code is not None and not self._is_code_reported:
            self._is_code_reported = True
            send_status(self.status, f"code {self.code}")

    def report_gone(self) -> None:
        """Report that none of its processes is left, and close its pipes."""
        self.report_code()
        send_status(self.status, "gone 0")
        os.close(self.line)
        os.close(self.status)


class Watch:
    """Watches over commands.

    With ``requests``, from which more commands are started, the process is shared by all of them.
    """

    def __init__(self, requests: Requests | None = None) -> None:
        adopt_orphans()
        self._requests = requests
        self._is_shared = requests is not None
        self._commands: dict[int, Command] = {}
        """Commands by the descriptors of their lines."""
        self._running: dict[int, Command | None] = {}
        """Commands by their first process. None stands for a process that watches over another command."""
        self._has_children = False
        self._woken = _wake_on_children()
        self._poll = select.poll()
        self._poll.register(self._woken, select.POLLIN)
        if requests is not None:
            self._poll.register(requests[0], select.POLLIN)

    def run(self) -> None:
        """Watch until no more requests can come, and no process of any command is left."""
        while self._requests is not None or self._commands:
            self._wait()
            self._reap()
            now = time.monotonic()
            for command in [*self._commands.values()]:
                if command.ending_since is not None and command.check_at <= now:
                    self._end_remaining(command, now, command.ending_since)

    def add(self, leader: int, status: int, line: int, *, is_confined: bool) -> Command:
        """Watch over a command that has been started."""
        command = Command(leader, status, line, is_confined=is_confined)
        self._running[leader] = self._commands[line] = command
        self._poll.register(line, select.POLLIN)
        return command

    def leave_to(self, watcher: int) -> None:
        """Leave a command to ``watcher``, a child of this process that is not watched itself."""
        self._running[watcher] = None

    def close_inherited(self) -> None:
        """Close, in a fork, the descriptors of the commands that the original process watches."""
        for command in self._commands.values():
            os.close(command.status)
            os.close(command.line)

    def _wait(self) -> None:
        """Wait for a request, a byte on a line, the end of a process, or the time to look at an ending command."""
        times = [command.check_at for command in self._commands.values() if command.ending_since is not None]
        milliseconds = max(min(times) - time.monotonic(), 0) * 1_000 + 1 if times else None
        for descriptor, _ in self._poll.poll(milliseconds):
            if descriptor == self._woken:
                with suppress(BlockingIOError):
                    os.read(self._woken, 4096)
            elif descriptor in self._commands:
                self._read_line(self._commands[descriptor])
            elif self._requests is not None and not self._requests[1]():
                self._poll.unregister(descriptor)
                self._requests = None
                for command in self._commands.values():
                    command.end(patience=0.0)

    def _read_line(self, command: Command) -> None:
        if data := os.read(command.line, 16):
            command.ends_daemons |= WITH_DAEMONS in data
            command.end(patience=0.0 if AT_ONCE in data else None)
        else:
            self._poll.unregister(command.line)
            command.is_abandoned = True
            command.end(patience=0.0)

    def _reap(self) -> None:
        """Collect the children that have ended."""
        while True:
            try:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._has_children = False
                return
            self._has_children = True
            if pid == 0:
                return
            command = self._running.pop(pid, None)
            if command is not None:
                command.leader_ended(os.waitstatus_to_exitcode(wait_status))
                continue
            for command in self._commands.values():
                command.check_at = 0.0  # the process may have been the last one of this command

    def _end_remaining(self, command: Command, now: float, since: float) -> None:
        """Signal the processes left of a command that is ending, and forget it if there are none or they won't end."""
        left = self._left(command)
        elapsed = now - since
        if not left or elapsed > command.patience + KILL_SECONDS:
            self._forget(command)
            return
        if command.code is not None and not command.signalled:
            command.report_left(left)
        command.report_code()
        killing = elapsed >= command.patience
        for pid in left:
            # The sandbox's own process, and a group that contains it, get no SIGTERM.
            is_spared = LISTS_PROCESSES if pid < 0 else _name_of(pid) == MONITOR
            if killing or (pid not in command.signalled and not is_spared):
                command.signalled.add(pid)
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL if killing else signal.SIGTERM)
        command.check_at = now + command.check_interval
        command.check_interval = min(2 * command.check_interval, LAST_POLL_SECONDS)

    def _forget(self, command: Command) -> None:
        del self._commands[command.line]
        self._running.pop(command.leader, None)
        with suppress(KeyError):
            self._poll.unregister(command.line)
        command.report_gone()

    def _left(self, command: Command) -> list[int]:
        """Return the processes to end.

        A daemon of an unconfined command has a session of its own and is left alone. If ``ends_daemons`` is set, the
        daemons below the first process are included, and so are those that were signalled while they were there.
        """
        if not LISTS_PROCESSES:
            return [-command.leader] if command.code is None or _is_group(command.leader) else []
        if not self._has_children:
            return []
        is_in_shared_sandbox = command.is_confined and self._is_shared
        if is_in_shared_sandbox and not _is_group(command.leader):
            return []
        own = [pid for pid in _children(os.getpid()) if pid == command.leader or pid not in self._running]
        if is_in_shared_sandbox:
            own = [pid for pid in own if _session_of(pid) == command.leader]
        if command.ends_daemons and not command.is_confined:
            known = {command.leader, *command.signalled}
            own = [pid for pid in own if pid in known or _session_of(pid) == command.leader]
        found = [*own, *(pid for parent in own for pid in _descendants(parent))]
        if not (command.is_confined or command.ends_daemons):  # the first process may not be in its session yet
            found = [pid for pid in found if command.leader in {pid, _session_of(pid)}]
        # A list of children may miss one while another ends.
        return found or ([-command.leader] if _is_group(command.leader) else [])


def adopt_orphans() -> None:
    """Become the parent of all processes below this one that lose theirs."""
    if LISTS_PROCESSES:
        import ctypes  # noqa: PLC0415  only in the program itself

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _ignore_signal(_number: int, _frame: object) -> None:
    """Do nothing: a handler is needed only so that the signal wakes the waiting process."""


def _wake_on_children() -> int:
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, _ignore_signal)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    return woken


def _is_group(leader: int) -> bool:
    """Return whether a process group has members.

    The first process of a namespace is one, and it ends after all others in the namespace.
    """
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return sys.platform != "darwin"  # on macOS this means that only ended processes are left
    return True


def _descendants(root: int) -> Iterator[int]:
    """Yield all processes below ``root``."""
    waiting = [root]
    while waiting:
        for pid in _children(waiting.pop()):
            yield pid
            waiting.append(pid)


def _children(parent: int) -> Iterator[int]:
    try:
        for thread in os.listdir(f"/proc/{parent}/task"):  # noqa: PTH208  nothing but os is loaded here
            with open(f"/proc/{parent}/task/{thread}/children", "rb") as file:  # noqa: PTH123  as above
                yield from map(int, file.read().split())
    except OSError as error:
        if error.errno == errno.ENOENT and os.path.isdir(f"/proc/{parent}"):
            yield from _children_by_walk(parent)


def _children_by_walk(parent: int) -> Iterator[int]:
    """Yield the children of a process on kernels that keep no list of them."""
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208  as above
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123  as above
            stat = file.read()
            if int(stat[stat.rfind(b")") + 2 :].split()[1]) == parent:
                yield int(name)


def _session_of(pid: int) -> int:
    with suppress(OSError):
        return os.getsid(pid)
    return 0


def _name_of(pid: int) -> str:
    """Return the name of a process as one word, or "" if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  as above
            name, _, rest = file.read().partition(b"(")[2].rpartition(b") ")
    except OSError:
        return ""
    return "" if rest[:1] in b"ZX" else "_".join(name.decode(errors="replace").replace(",", "_").split())


def send_status(status: int, line: str) -> None:
    """Report on a command. It does no harm if nobody listens any more."""
    with suppress(OSError):
        os.write(status, f"{line}\n".encode())
