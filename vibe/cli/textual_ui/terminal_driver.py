"""TerminalDriver: Textual's driver for terminals, which outlives the terminal."""

from __future__ import annotations

from typing import Any, TextIO, cast

from textual.drivers.linux_driver import LinuxDriver


class _Lasting:
    """A stream whose other end may go: what is written then is dropped.

    An error would end the thread that writes, and the screen would wait for ever for that to take more.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or drop it."""
        try:
            return self._stream.write(text)
        except (OSError, ValueError):
            return len(text)

    def flush(self) -> None:
        """Hand over what was written, or drop it."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            return

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class TerminalDriver(LinuxDriver):
    """The driver, with an end that a lost terminal does not hold up."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # pyright: ignore[reportUnknownMemberType]  Textual's has no type
        self._file = cast("TextIO", _Lasting(self._file))
