"""A program that starts vibe with ``--input json`` and exchanges JSON lines with it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import IO, Any, Self

SECONDS = 120.0

Line = dict[str, Any]


class LineProgram:
    """Holds the other ends of vibe's standard streams. As a context manager, it kills the process at the end."""

    def __init__(self, argv: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.lines: list[Line] = []
        self._late = Timer(SECONDS, self.process.kill)

    def __enter__(self) -> Self:
        self._late.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._late.cancel()
        if self.process.poll() is None:
            self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        self.process.wait()

    @property
    def stdin(self) -> IO[bytes]:
        """The process's standard input, which takes commands."""
        assert self.process.stdin is not None
        return self.process.stdin

    def write(self, data: bytes) -> None:
        """Write bytes to standard input."""
        self.stdin.write(data)
        self.stdin.flush()

    def send(self, kind: str, **fields: Any) -> None:
        """Send a command."""
        self.write(json.dumps({"type": kind, **fields}).encode() + b"\n")

    def next(self, kind: str, holds: Callable[[Line], object] = lambda _: True) -> Line:
        """Read up to the next line of a kind for which ``holds`` is true."""
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            line: Line = json.loads(raw)
            self.lines.append(line)
            if line["type"] == kind and holds(line):
                return line
        assert self.process.stderr is not None
        raise AssertionError(f"no {kind} came: {self.lines}, {self.process.stderr.read().decode()}")

    def asked(self, kind: str, **fields: Any) -> Line:
        """Send a command and return its reply."""
        self.send(kind, **fields)
        return self.next("reply")

    def end(self) -> int:
        """Close standard input, read to the end of the output, and return the exit code."""
        self.stdin.close()
        return self.rest()

    def rest(self) -> int:
        """Read to the end of the output, and return the exit code."""
        assert self.process.stdout is not None
        self.lines += [json.loads(raw) for raw in self.process.stdout]
        return self.process.wait(SECONDS)

    def of(self, kind: str) -> list[Line]:
        """Return the lines of a kind that were read so far."""
        return [line for line in self.lines if line["type"] == kind]
