"""A real pseudo terminal with a person's eyes: it records what it was sent, and knows what its screen shows."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import termios
import threading
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio

SECONDS = 120.0
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b[78]|[\r\n]|[^\x1b\r\n]+|\x1b")


class Terminal:
    """A pseudo terminal, as a context manager. A program runs on the descriptor ``slave``; ``type`` presses keys."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self._sent = bytearray()

    def __enter__(self) -> Self:
        self.master, self.slave = os.openpty()
        termios.tcsetwinsize(self.slave, (self.rows, self.columns))
        self._open = True
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hang_up()
        self._reader.join()
        os.close(self.master)

    def hang_up(self) -> None:
        """Close the test's copy of the program's end."""
        if self._open:
            self._open = False
            os.close(self.slave)

    @contextlib.contextmanager
    def running(
        self, *words: str | Path, cwd: str | Path, env: Mapping[str, str], stdout: int | None = None
    ) -> Generator[subprocess.Popen[bytes]]:
        """Run a program in a session of its own on this terminal. ``stdout`` may go elsewhere."""
        with subprocess.Popen(
            words,
            stdin=self.slave,
            stdout=self.slave if stdout is None else stdout,
            stderr=self.slave,
            cwd=cwd,
            env={"TERM": "xterm-256color", **env},
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self.master, keys.encode())

    @property
    def bytes_sent(self) -> int:
        """The number of bytes the program has written so far."""
        return len(self._sent)

    def sent(self, after: int = 0) -> str:
        """Return what the program wrote after its first ``after`` bytes, including escape sequences."""
        return self._sent[after:].decode(errors="replace")

    def screen(self) -> list[str]:
        """Return the rows a person can see, scrolled-out ones included, without trailing blanks."""
        return shown(self.sent())

    def wait_for(self, text: str) -> None:
        """Wait until the screen shows a text."""
        deadline = time.monotonic() + SECONDS
        while not any(text in line for line in self.screen()):
            assert time.monotonic() < deadline, "\n".join([f"no {text!r} on:", *self.screen()])
            time.sleep(0.01)

    def wait_until_seen(self, text: str) -> None:
        """Wait until the screen shows a text or has shown it, for texts that may vanish before the test looks."""
        deadline = time.monotonic() + SECONDS
        while text not in (seen := _COLOUR.sub("", self.sent())):
            assert time.monotonic() < deadline, f"no {text!r} in {seen}"
            time.sleep(0.01)

    async def see(self, text: str, times: int = 1) -> None:
        """Wait until the program has written a text ``times`` times."""
        with anyio.fail_after(SECONDS):
            while self.sent().count(text) < times:  # noqa: ASYNC110  the reader is a thread
                await anyio.sleep(0.005)

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # EIO: nobody holds the other end any more
            while piece := os.read(self.master, 65536):
                self._sent += piece


def shown(sent: str) -> list[str]:
    """Return the lines a terminal shows for the output of our programs, those scrolled out first."""
    lines, row, column, kept = [""], 0, 0, (0, 0)
    for match in _SEQUENCE.finditer(sent):
        text, numbers, letter = match.group(), match.group(1) or "", match.group(2)
        count = int(numbers) if numbers.isdigit() else 1
        match letter or text:
            case "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            case "\r":
                column = 0
            case "A":
                row = max(0, row - count)
            case "K":
                lines[row] = "" if numbers == "2" else lines[row][:column]
            case "\x1b7":
                kept = (row, column)
            case "\x1b8":
                row, column = kept
            case "m" | "h" | "l" | "\x1b":
                continue
            case _:
                assert letter is None, f"a sequence the model does not know: {match.group()!r}"
                before = lines[row][:column].ljust(column)
                lines[row] = before + text + lines[row][column + len(text) :]
                column += len(text)
    return [line.rstrip() for line in lines]
