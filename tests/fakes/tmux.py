"""A real terminal: a program in tmux, with keys to press and a screen to read."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

SECONDS = 120.0
LONGEST_PLACE = 104
"""The longest path of a socket where the limit is shortest, in bytes, with the NUL that ends it."""
OUTLIVED = "cd /; while kill -0 {pid} 2> /dev/null; do sleep 2; done; tmux kill-server"


class Tmux:
    """One window with a program in it, as a context manager. The socket of its server is in ``folder``."""

    def __init__(self, folder: Path, columns: int = 100, rows: int = 50) -> None:
        self._socket = folder / "tmux"
        assert len(os.fsencode(self._socket)) < LONGEST_PLACE, (
            f"too long for a socket, set TMPDIR to a shorter folder: {self._socket}"
        )
        self._size = (columns, rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the window and its terminal."""
        self._tmux("kill-server", check=False)

    def start(self, words: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str]) -> None:
        """Run a program. When it ends, its exit code is shown after ``EXIT``."""
        command = f"{shlex.join(map(str, words))}; echo EXIT $?; cd /; exec sleep 600"
        variables = [word for name, value in env.items() for word in ("-e", f"{name}={value}")]
        columns, rows = map(str, self._size)
        where = ("-x", columns, "-y", rows, "-c", str(cwd))
        self._tmux("-f", "/dev/null", "new-session", "-d", *where, *variables, "sh", "-c", command)
        self._tmux("run-shell", "-b", OUTLIVED.format(pid=os.getpid()))  # a killed test cannot close it

    def type(self, text: str, *, enter: bool = True) -> None:
        """Type text, followed by Enter unless told otherwise."""
        self._tmux("send-keys", "-l", text)
        if enter:
            self.press("Enter")

    def press(self, *keys: str) -> None:
        """Press keys by their tmux names, such as ``C-c``."""
        self._tmux("send-keys", *keys)

    def click(self, text: str) -> None:
        """Click the first letter of a text on the screen."""
        lines = self.screen()
        row = next(number for number, line in enumerate(lines) if text in line)
        place = f"{lines[row].index(text) + 1};{row + 1}"
        self._tmux("send-keys", "-l", f"\x1b[<0;{place}M\x1b[<0;{place}m")

    def paste(self, text: str, *, brackets: bool = True) -> None:
        """Paste text. With ``brackets``, mark it as pasted if the program has asked for that, as terminals do."""
        (self._socket.parent / "pasted").write_text(text)
        self._tmux("load-buffer", str(self._socket.parent / "pasted"))
        self._tmux("paste-buffer", *(["-p"] if brackets else ["-r"]))

    def screen(self) -> list[str]:
        """Return all lines, scrolled-out ones included, without trailing blanks."""
        text = self._tmux("capture-pane", "-p", "-J", "-S", "-")
        return [line.rstrip() for line in text.rstrip().split("\n")]

    def sequences(self) -> str:
        """Return the screen with the escape sequences of its colours and styles."""
        return self._tmux("capture-pane", "-p", "-e")

    @property
    def program(self) -> int:
        """The process id of the program in the window."""
        shell = self._tmux("display-message", "-p", "#{pane_pid}").strip()
        return int(subprocess.run(["pgrep", "-P", shell], capture_output=True, text=True, check=True).stdout.split()[0])

    @property
    def is_plain(self) -> bool:
        """True if the program has left the alternate screen and mouse reporting is off."""
        return self._tmux("display-message", "-p", "#{alternate_on}#{mouse_any_flag}").strip() == "00"

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until ``times`` lines show a text."""
        deadline = time.monotonic() + SECONDS
        while sum(text in line for line in self.screen()) < times:
            assert time.monotonic() < deadline, "\n".join([f"no {text!r} ({times}) on:", *self.screen()])
            time.sleep(0.05)

    def wait_for_last(self, ending: str) -> None:
        """Wait until the last line ends with ``ending``, with nothing typed after it, and the screen stops changing."""
        deadline = time.monotonic() + SECONDS
        before: list[str] = []
        while True:
            *_, last = screen = self.screen()
            if screen == before and f"{last} ".endswith(ending) and not last.startswith("(working)"):
                return
            before = screen
            assert time.monotonic() < deadline, "\n".join([f"no {ending!r} at the end of:", *screen])
            time.sleep(0.05)

    def _tmux(self, *words: str, check: bool = True) -> str:
        ended = subprocess.run(
            ["tmux", "-S", self._socket, *words],
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color"},
            capture_output=True,
            text=True,
            check=check,
        )
        return ended.stdout
