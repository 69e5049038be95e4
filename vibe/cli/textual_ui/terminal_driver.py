"""TerminalDriver: Textual's driver for terminals, made to outlive its terminal and to take a large paste at once."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from functools import partial
from selectors import EVENT_READ, SelectSelector
from typing import Any, Final, TextIO, cast

from msgspec import Struct, field
from rich.cells import cell_len
from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.constants import ESCAPE_DELAY
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key as PlainKey, Paste
from textual.message import Message

from vibe.cli.textual_ui.palettes import BackgroundReported, parse_background
from vibe.system.plain_text import JOINED

BEGIN: Final = "\x1b[200~"
"""The mark that begins a bracketed paste."""
END: Final = "\x1b[201~"
"""The mark that ends a bracketed paste."""

_REPORT: Final = re.compile(r"\x1b(?:\][0-9]|P[0-9>!|$+=]|_[A-Za-z])")
"""The beginning of a terminal's answer by OSC, DCS or APC; Alt with one of these keys alone does not match."""
_REPORT_END: Final = re.compile(r"\x07|\x9c|\x1b\\|(?=[\r\n])|(?=\x1b[^\\])")
_ANSWER: Final = re.compile(r"\x1b\[[?>=][0-9;:]*[A-Za-z]|\x1b\[[0-9;]*[nx]")
"""An answer that is one CSI sequence, except those that Textual itself asks for."""
_SCHEME: Final = re.compile(r"\x1b\[\?997;([12])n")
"""An unasked report that the terminal's colours have become dark (1) or light (2)."""
TELL_SCHEMES: Final = "\x1b[?2031h"
"""Asks the terminal to report changes of its colour scheme."""
TELL_NO_SCHEMES: Final = "\x1b[?2031l"
"""Asks the terminal to stop reporting them."""
_CUT: Final = re.compile(r"\x1b(?:[\]P_]|\[[?<>=]?[0-9;:]*)?\Z")
"""The end of a text that may be the beginning of an answer."""
_POSSIBLE_KEY: Final = re.compile(r"\x1b(?:\[|[^\[])?\Z")
"""Keys that people may have pressed; anything longer is part of an answer, or of a report of the mouse."""
_MODIFIED: Final = re.compile(r"\x1b\[27;([0-9]+);([0-9]+)~")
"""A key with modifiers as xterm and tmux encode it; it is translated to kitty's encoding, which Textual reads."""
_JOINS: Final = re.compile("[\u200d\u20e3\ufe0f\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff\U000e007f]")
_JOINED: Final = re.compile(rf"(?:\x1b\][^\x07\x1b]*)|{JOINED.pattern}")
"""Matches an emoji of several characters; in a title or the clipboard's text, that text."""
_ALT: Final = re.compile(r"\x1b([^\x1b\[O\x00-\x0c\x0e-\x1f])")
"""Alt with a key, which is translated in the same way: Textual would type the letter, or not see the Alt."""

TYPED: Final = frozenset("\xa0\u2002\u2003\u2009\u200a\u200c\u200d\u202f\u3000")
"""Spaces of other widths, and what joins letters and emoji or keeps them apart: keyboards type them, but Textual takes
none of them for text."""
LONGEST_ANSWER: Final = 100
"""The most characters kept of a terminal's answer."""
TYPED_AT_ONCE: Final = 32
"""The most characters in one read that are taken for typed keys, after a paste whose end did not come."""


def _placed(found: re.Match[str]) -> str:
    """Return an emoji so that what follows it stands where it should, however wide the terminal shows it."""
    width = cell_len(found[0])
    return f"\x1b7{' ' * width}\x1b8{found[0]}\x1b8\x1b[{width}C" if found[1] else found[0]


def _with_alt_named(keys: str) -> str:
    return _ALT.sub(lambda key: f"\x1b[{ord(key[1])};3u", keys)


class Pasted(Struct, frozen=True):
    """A whole paste."""

    text: str


class _Reading(Enum):
    """The kinds of input that the next text may be a part of."""

    KEYS = auto()
    PASTE = auto()
    REPORT = auto()
    """An answer of the terminal, in which nothing is typed."""
    LOST_PASTE = auto()
    """A paste was given up; what comes next may be the rest of it or keys."""


class PasteStream(Struct, eq=False):
    """Splits the text read from the terminal into keys (as strings), pastes, and reports of the background.

    The text may be cut anywhere. What could be the beginning of a mark is held back until more comes or until
    ``release``. A paste is held back until its end comes or until ``give_up``.
    """

    _reading: _Reading = _Reading.KEYS
    _held: str = ""
    """The end of the last text, which may be the beginning of a mark."""
    _pieces: list[str] = field(default_factory=list[str])
    _answer: str = ""

    @property
    def holds_escape(self) -> bool:
        """True while an escape alone is held back: the Esc key, unless more follows at once."""
        return self._reading not in {_Reading.PASTE, _Reading.REPORT} and self._held == "\x1b"

    def feed(self, text: str) -> Iterator[str | Pasted | BackgroundReported]:
        """Take the text that was read, and yield what is complete."""
        rest, self._held = self._held + text, ""
        while rest:
            match self._reading:
                case _Reading.KEYS:
                    keys, rest = self._keys(rest)
                    yield from filter(None, keys)
                case _Reading.REPORT:
                    end = _REPORT_END.search(rest)
                    self._reading = _Reading.REPORT if end is None else _Reading.KEYS
                    self._held = "\x1b" if end is None and rest.endswith("\x1b") else ""
                    self._answer = (self._answer + rest[: end and end.start()])[:LONGEST_ANSWER]
                    rest = "" if end is None else rest[end.end() :]
                    background = None if end is None else parse_background(self._answer)
                    if background is not None:
                        yield background
                case _Reading.PASTE:
                    piece, mark, rest = self._split(rest, END)
                    self._pieces.append(piece)
                    if mark:
                        yield self._finished_paste(_Reading.KEYS)
                case _Reading.LOST_PASTE:
                    if END not in rest and (len(rest) <= TYPED_AT_ONCE or rest.startswith("\x1b")):
                        self._reading = _Reading.KEYS
                        continue
                    piece, mark, rest = self._split(rest, END)
                    self._pieces.append(piece)
                    yield self._finished_paste(_Reading.KEYS if mark else _Reading.LOST_PASTE)

    def release(self) -> Iterator[str]:
        """Yield the keys that were held back; as nothing followed, they are not a mark. An answer's part is dropped."""
        held, self._held = self._held, ""
        yield from map(_with_alt_named, _POSSIBLE_KEY.findall(held))

    def give_up(self) -> Iterator[Pasted]:
        """Yield an unfinished paste as far as it came, and take what follows for keys again."""
        if self._reading is _Reading.REPORT:
            self._reading, self._held = _Reading.KEYS, ""
        if self._reading is _Reading.PASTE:
            yield self._finished_paste(_Reading.LOST_PASTE)

    def _keys(self, text: str) -> tuple[list[str | BackgroundReported], str]:
        """Split a text into keys, with reports of the colour scheme, and what follows the next mark.

        What may be the beginning of a mark is held back.
        """
        keys, mark, rest = self._split(text, BEGIN)
        report = _REPORT.search(keys)
        if report:
            rest, mark, self._held = keys[report.end() :] + mark + rest + self._held, "", ""
            keys, self._answer = keys[: report.start()], report[0]
            self._reading = _Reading.REPORT
        elif mark:
            self._reading = _Reading.PASTE
        elif cut := _CUT.search(keys + self._held):
            keys, self._held = (keys + self._held)[: cut.start()], cut[0]
        schemes = [BackgroundReported(is_dark=scheme == "1") for scheme in _SCHEME.findall(keys)]
        keys = _MODIFIED.sub(lambda key: f"\x1b[{key[2]};{key[1]}u", _ANSWER.sub("", keys))
        return [_with_alt_named(keys), *schemes], rest

    def _split(self, text: str, mark: str) -> tuple[str, str, str]:
        """Split a text at a mark; if it has none, hold back an end that may be the beginning of one."""
        before, found, behind = text.partition(mark)
        if found:
            return before, found, behind
        size = next((size for size in range(len(mark) - 1, 0, -1) if text.endswith(mark[:size])), 0)
        self._held = text[len(text) - size :]
        return text[: len(text) - size], "", ""

    def _finished_paste(self, reading: _Reading) -> Pasted:
        self._reading = reading
        text = "".join(self._pieces)
        self._pieces.clear()
        if reading is _Reading.LOST_PASTE:
            text, self._held = text + self._held, ""
        return Pasted(text)


READ_BYTES: Final = 1 << 16
"""The most bytes per read."""
TICK_SECONDS: Final = 0.1
"""The interval at which the input thread checks whether the driver is to end."""
SOON_SECONDS: Final = 0.02
"""The poll interval while an escape may turn out to be a key."""
ESCAPE_SECONDS: Final = 2 * ESCAPE_DELAY
"""The time after a read until it is certain whether an escape in it is the Esc key."""
STOP_GUARD_SECONDS: Final = 0.2
"""The time after SIGCONT in which the process does not stop itself, as a SIGTSTP sent before may arrive after it."""
PASTE_SECONDS: Final = 2.0
"""The silence of the terminal after which an unfinished paste or answer is taken to be over."""


class Key(PlainKey):
    """A key that types one of ``TYPED``."""

    @property
    def is_printable(self) -> bool:
        """True, so that every widget takes it for text."""
        return True


class _LenientStream:
    """A stream whose other end may go away: what is written after that is dropped.

    An error would end the writer thread, and the app would wait forever for it to take more.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text, or drop it if that fails."""
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream, or ignore that it failed."""
        with suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class TerminalDriver(LinuxDriver):
    """A ``LinuxDriver`` that shuts down cleanly even if the terminal is lost, and whatever the order of signals.

    Pastes are taken out of the input before Textual's parser sees it, as that looks at each character.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # pyright: ignore[reportUnknownMemberType]  Textual's has no type
        self._file = cast("TextIO", _LenientStream(_terminal_stream()))
        self._is_drawn = False
        self._was_left = False
        """True after the screen was left, until the process is told to go on and draws it again."""
        self._continued_at = float("-inf")
        for which in (signal.SIGUSR1, signal.SIGUSR2):
            # By default it would end the process without restoring the terminal.
            signal.signal(which, lambda _number, _frame: None)

    def start_application_mode(self) -> None:
        """See ``Driver``; does nothing if the screen is drawn already."""
        if not self._is_drawn:
            super().start_application_mode()
            self._is_drawn = self._writer_thread is not None  # not while in the background
            self.write(TELL_SCHEMES)
            self._was_left = not self._is_drawn
            self._app.call_later(partial(self._app.refresh, layout=True))  # an unchanged size triggers no layout

    def stop_application_mode(self) -> None:
        """See ``Driver``; does nothing if no screen is drawn."""
        if self._is_drawn:
            self.write(TELL_NO_SCHEMES)
            super().stop_application_mode()
            self._is_drawn = False

    def close(self) -> None:
        """See ``Driver``."""
        super().close()
        self._writer_thread = None
        self._was_left = False

    def write(self, data: str) -> None:
        """Write to the terminal; what is written while another program has it is dropped."""
        if self._writer_thread is not None:
            super().write(_JOINED.sub(_placed, data) if _JOINS.search(data) else data)

    def _sigtstp_application(self, *_: object) -> None:
        if self._auto_restart:
            self._call_in_loop(self._stop_process)
        else:
            os.kill(os.getpid(), signal.SIGSTOP)  # another program has the terminal, and the event loop waits for it

    def _sigcont_application(self, *_: object) -> None:
        self._continued_at = time.monotonic()
        if self._auto_restart:
            self._call_in_loop(self._redraw_screen)

    def _call_in_loop(self, act: Callable[[], None]) -> None:
        """Call ``act`` in the event loop: a signal may arrive while a lock is held that ``act`` needs."""
        with suppress(RuntimeError):  # the loop is closed, and so is the app
            self._loop.call_soon_threadsafe(act)

    def _stop_process(self) -> None:
        """Leave the screen and stop the process, unless it was just told to go on."""
        if self._is_drawn:
            self.suspend_application_mode()
            self._was_left = True
        if time.monotonic() - self._continued_at < STOP_GUARD_SECONDS:
            self._redraw_screen()
        else:
            os.kill(os.getpid(), signal.SIGSTOP)

    def _redraw_screen(self) -> None:
        """Draw the screen again; while we were stopped, the terminal's content and modes may have changed."""
        if self._is_drawn:
            self.suspend_application_mode()
            self._was_left = True
        if self._was_left:
            self.resume_application_mode()

    def run_input_thread(self) -> None:
        """Read from the terminal until the driver ends, and pass on keys and pastes as messages."""
        parser = XTermParser(self._debug)
        with SelectSelector() as selector, _keyboard(self.fileno) as keyboard:
            selector.register(keyboard, EVENT_READ)
            for item in self._read(selector, keyboard):
                if isinstance(item, str):
                    self._process_all(parser.feed(item))
                elif isinstance(item, BackgroundReported):
                    self.process_message(item)
                elif item.text:
                    self.process_message(Paste(item.text))
                self._process_all(parser.tick())
        with suppress(EOFError, ParseError):
            list(parser.feed(""))

    def _read(self, selector: SelectSelector, keyboard: int) -> Iterator[str | Pasted | BackgroundReported]:
        """Yield what the paste stream yields, and an empty paste after each poll, so that the parser's timers run."""
        stream = PasteStream()
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        read_at = time.monotonic()
        while not self.exit_event.is_set():
            is_soon = stream.holds_escape or time.monotonic() - read_at < ESCAPE_SECONDS
            if selector.select(SOON_SECONDS if is_soon else TICK_SECONDS):
                try:
                    data = os.read(keyboard, READ_BYTES)
                except BlockingIOError:
                    continue  # a shell read it while we were stopped
                if not data:
                    return  # the terminal is gone
                yield from stream.feed(decode(data))
                read_at = time.monotonic()
            elif stream.holds_escape:
                yield from stream.release()
            elif time.monotonic() - read_at >= PASTE_SECONDS:
                yield from stream.give_up()
                yield from stream.release()
            yield Pasted("")

    def _process_all(self, events: Iterable[Message]) -> None:
        for event in events:
            if isinstance(event, PlainKey) and event.character in TYPED:
                self.process_message(Key(event.key, event.character))
            else:
                self.process_message(event)


@contextmanager
def _keyboard(descriptor: int) -> Generator[int]:
    """Open the terminal for non-blocking reads; yield the given descriptor if it can't be opened again."""
    try:
        keyboard = os.open(os.ttyname(descriptor), os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        yield descriptor
        return
    try:
        yield keyboard
    finally:
        os.close(keyboard)


def _terminal_stream() -> TextIO:
    """Return the standard stream that is a terminal: standard error, unless that was redirected."""
    streams = [stream for stream in (sys.__stderr__, sys.__stdout__) if stream is not None]
    return next((stream for stream in streams if stream.isatty()), streams[0])
