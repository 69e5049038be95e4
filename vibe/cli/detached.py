"""``--detach``: continues a command in a process of its own, without a terminal, once its run has begun."""

from __future__ import annotations

import io
import json
import os
import signal
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from msgspec.structs import replace

from ipc.events import Event, ModelStartedEvent, PlanResumedEvent, PlanStartedEvent, UserMessageEvent
from planner.store.folder import plans_folder
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.streams import OutputStream
from vibe.core.config.paths import VibePaths
from vibe.system.redaction import Mask, PieceMask

LOG = "detached.log"
BEGINNINGS = (PlanStartedEvent, PlanResumedEvent, UserMessageEvent, ModelStartedEvent)
"""Events that show that all checks have passed."""
PRIVATE = 0o600
AT_ONCE = 65_536


class LogText(io.TextIOWrapper):
    """The output of a detached command, without secrets."""

    def __init__(self, descriptor: int, environ: Mapping[str, str]) -> None:
        buffer = io.BufferedWriter(OutputStream(descriptor, forgiving=True))
        super().__init__(buffer, encoding="utf-8", errors="replace", line_buffering=True)
        self._mask = PieceMask(Mask(environ).printed)

    def write(self, text: str, /) -> int:
        """Write the text with secrets masked."""
        super().write(self._mask(text))
        return len(text)


class StartReporter:
    """An EventSink that reports through ``telling`` that a run has begun, and then moves its log beside its records."""

    def __init__(self, home: Path, draft: IO[bytes], report_to: int) -> None:
        self._home = home
        self._draft = draft
        self._report_to: int | None = report_to

    def publish(self, event: Event) -> None:
        """Report the first event that shows the run has begun."""
        if self._report_to is None or not isinstance(event, BEGINNINGS):
            return
        kind, own = ("plan_id", event.plan_id) if event.plan_id else ("session_id", event.session_id)
        log = self._move_log(kind, own)
        report = {kind: own, "source": event.source, "pid": os.getpid(), "log": str(log)}
        with suppress(OSError):  # the process that started it may be gone
            os.write(self._report_to, json.dumps(report).encode())
            os.close(self._report_to)
        self._report_to = None

    def _move_log(self, kind: str, own: str) -> Path:
        """Continue writing in the run's own log, and return its path."""
        beside = (plans_folder(self._home) if kind == "plan_id" else VibePaths(self._home).sessions) / own
        log = beside / LOG if os.path.isdir(beside) else self._home / "logs" / f"{own}.{LOG}"
        log.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW, PRIVATE)
        os.fchmod(descriptor, PRIVATE)
        os.write(descriptor, _all_of(self._draft))
        _put(descriptor, 1, 2)
        _put(os.open(os.devnull, os.O_RDONLY), 0)
        return log


def detached(carry_out: Callable[[CliEnvironment], int], output: Callable[[], str], env: CliEnvironment) -> int:
    """Run a command in a session of its own, and return once its run has begun or it has ended.

    The caller prints the run's id, as JSON if ``output`` isn't ``text``, or everything that a command without a run
    printed. In the new process, this returns when the command ends.
    """
    with tempfile.TemporaryFile() as draft:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            return carry_out(_without_terminal(env, draft, writing))
        os.close(writing)
        try:
            begun = os.read(reading, AT_ONCE)
        except KeyboardInterrupt:
            os.kill(child, signal.SIGTERM)
            raise
        if begun:
            text = begun.decode() if output() != "text" else next(iter(json.loads(begun).values()))
            env.stdout.write(f"{text}\n")
            return ExitCode.DONE
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        (env.stderr if code else env.stdout).write(_all_of(draft).decode("utf-8", "replace"))
        return code if code >= 0 else 128 - code


def _without_terminal(env: CliEnvironment, draft: IO[bytes], report_to: int) -> CliEnvironment:
    """Leave the terminal, which may now go away; piped input can still be read."""
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if os.isatty(0):
        _put(os.open(os.devnull, os.O_RDONLY), 0)
    _put(os.dup(draft.fileno()), 1, 2)
    beginning = StartReporter(env.home, draft, report_to)
    stdout, stderr = (LogText(descriptor, env.environ) for descriptor in (1, 2))
    return replace(env, stdout=stdout, stderr=stderr, detached=beginning)


def _put(descriptor: int, *places: int) -> None:
    for place in places:
        os.dup2(descriptor, place)
    os.close(descriptor)


def _all_of(file: IO[bytes]) -> bytes:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)
