"""TerminalDriver: Textual's driver for terminals, which outlives the terminal and takes a large paste at once."""

from __future__ import annotations

import os
import time
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from contextlib import suppress
from selectors import EVENT_READ, SelectSelector
from typing import Any, Final, TextIO, cast

from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.constants import ESCAPE_DELAY
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Paste
from textual.message import Message

from vibe.cli.textual_ui.input.paste_stream import Pasted, PasteStream

READ_BYTES: Final = 1 << 16
TICK_SECONDS: Final = 0.1
"""Between two looks at whether the driver is to end."""
SOON_SECONDS: Final = 0.02
"""The wait for the rest of a paste that may begin, and between two looks at whether an escape was a key."""
ESCAPE_SECONDS: Final = 2 * ESCAPE_DELAY
"""After what was read last, an escape in it is a key or not."""
PASTE_SECONDS: Final = 2.0
"""Without a sign of the terminal after which a paste that has no end is over."""


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
    """The driver, with an end that a lost terminal does not hold up.

    Pastes are taken out of what is read before Textual's parser, which looks at each character.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # pyright: ignore[reportUnknownMemberType]  Textual's has no type
        self._file = cast("TextIO", _Lasting(self._file))

    def run_input_thread(self) -> None:
        """Read what the terminal sends until the driver ends, and hand keys and pastes on."""
        parser = XTermParser(self._debug)
        with SelectSelector() as selector:
            selector.register(self.fileno, EVENT_READ)
            for item in self._read(selector):
                if isinstance(item, str):
                    self._hand_on(parser.feed(item))
                elif item.text:
                    self.process_message(Paste(item.text))
                self._hand_on(parser.tick())
        with suppress(EOFError, ParseError):
            list(parser.feed(""))

    def _read(self, selector: SelectSelector) -> Iterator[str | Pasted]:
        """Yield keys and pastes as they come, and an empty paste every now and then."""
        stream = PasteStream()
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        read_at = time.monotonic()
        while not self.exit_event.is_set():
            is_soon = stream.is_holding or time.monotonic() - read_at < ESCAPE_SECONDS
            if selector.select(SOON_SECONDS if is_soon else TICK_SECONDS):
                data = os.read(self.fileno, READ_BYTES)
                if not data:
                    return  # the terminal is gone
                yield from stream.feed(decode(data))
                read_at = time.monotonic()
            elif stream.is_holding:
                yield from stream.release()
            elif time.monotonic() - read_at >= PASTE_SECONDS:
                yield from stream.give_up()
            yield Pasted("")

    def _hand_on(self, events: Iterable[Message]) -> None:
        for event in events:
            self.process_message(event)
