"""TerminalDriver: Textual's driver for terminals, which outlives the terminal and takes a large paste at once."""

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

from msgspec import Struct
from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.constants import ESCAPE_DELAY
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Paste
from textual.message import Message

from vibe.cli.textual_ui.palettes import BackgroundTold, background_told

BEGIN: Final = "\x1b[200~"

END: Final = "\x1b[201~"

_REPORT: Final = re.compile(r"\x1b(?:\][0-9]|P[0-9>!|$+=]|_[A-Za-z])")
"""The beginning of what a terminal answers: OSC, DCS or APC. Alt and the same key alone is none."""
_REPORT_END: Final = re.compile(r"\x07|\x9c|\x1b\\|(?=[\r\n])|(?=\x1b[^\\])")
_ANSWER: Final = re.compile(r"\x1b\[[?>=][0-9;:]*[A-Za-z]|\x1b\[[0-9;]*[nx]")
"""An answer in one CSI sequence, but for those that Textual asks for."""
_SCHEME: Final = re.compile(r"\x1b\[\?997;([12])n")
"""One that nobody asked for: the terminal has become dark (1), or light."""
TELL_SCHEMES: Final = "\x1b[?2031h"
TELL_NO_SCHEMES: Final = "\x1b[?2031l"
_CUT: Final = re.compile(r"\x1b(?:[\]P_]|\[[?>=]?[0-9;:]*)?\Z")
"""The end of a text that may be the beginning of one."""
_MODIFIED: Final = re.compile(r"\x1b\[27;([0-9]+);([0-9]+)~")
"""A key with modifiers, as xterm and tmux say it; kitty's way to say it is the one that is read."""
ALT_ENTER: Final = "\x1b\r"

LONGEST_ANSWER: Final = 100
"""Characters that are kept of an answer."""
TYPED_AT_ONCE: Final = 32
"""The most characters of one read that can be a person's keys, after a paste whose end did not come."""


class Pasted(Struct, frozen=True):
    """A paste, as one piece."""

    text: str

    def __repr__(self) -> str:
        return f"Pasted({len(self.text)} characters)"


class _Within(Enum):
    KEYS = auto()
    PASTE = auto()
    REPORT = auto()
    """An answer of the terminal, which nothing was typed in."""
    LOST_PASTE = auto()
    """A paste was given up; the rest of it may come late, and so may keys."""


class PasteStream:
    """Takes text as it is read, cut anywhere, and yields keys (a string), pastes, and the terminal's background.

    What could be the beginning of a mark is held back until more comes, or until ``release``; a paste until its end
    comes, or until ``give_up``.
    """

    def __init__(self) -> None:
        self._within = _Within.KEYS
        self._held = ""
        """The end of the last text: it may be the beginning of a mark."""
        self._pieces: list[str] = []
        self._answer = ""

    @property
    def is_holding(self) -> bool:
        """True while keys are held back."""
        return self._within not in {_Within.PASTE, _Within.REPORT} and bool(self._held)

    def feed(self, text: str) -> Iterator[str | Pasted | BackgroundTold]:
        """Take what was read, and yield what is complete."""
        rest, self._held = self._held + text, ""
        while rest:
            match self._within:
                case _Within.KEYS:
                    keys, rest = self._keys(rest)
                    yield from filter(None, keys)
                case _Within.REPORT:
                    end = _REPORT_END.search(rest)
                    self._within = _Within.REPORT if end is None else _Within.KEYS
                    self._held = "\x1b" if end is None and rest.endswith("\x1b") else ""
                    self._answer = (self._answer + rest[: end and end.start()])[:LONGEST_ANSWER]
                    rest = "" if end is None else rest[end.end() :]
                    told = None if end is None else background_told(self._answer)
                    if told is not None:
                        yield told
                case _Within.PASTE:
                    piece, mark, rest = self._split(rest, END)
                    self._pieces.append(piece)
                    if mark:
                        yield self._taken(_Within.KEYS)
                case _Within.LOST_PASTE:
                    if END not in rest and (len(rest) <= TYPED_AT_ONCE or rest.startswith("\x1b")):
                        self._within = _Within.KEYS
                        continue
                    piece, mark, rest = self._split(rest, END)
                    self._pieces.append(piece)
                    yield self._taken(_Within.KEYS if mark else _Within.LOST_PASTE)

    def release(self) -> Iterator[str]:
        """Yield the keys that were held back: they are no mark, as nothing followed."""
        if self.is_holding:
            held, self._held = self._held, ""
            yield held

    def give_up(self) -> Iterator[Pasted]:
        """Yield a paste as far as it came: its end does not come, and what is typed now are keys again."""
        if self._within is _Within.REPORT:
            self._within, self._held = _Within.KEYS, ""
        if self._within is _Within.PASTE:
            yield self._taken(_Within.LOST_PASTE)

    def _keys(self, text: str) -> tuple[list[str | BackgroundTold], str]:
        """Part a text into keys, with changes of the terminal's colours, and what stands behind the next mark.

        What may be the beginning of one is held back.
        """
        keys, mark, rest = self._split(text, BEGIN)
        report = _REPORT.search(keys)
        if report:
            rest, mark, self._held = keys[report.end() :] + mark + rest + self._held, "", ""
            keys, self._answer = keys[: report.start()], report[0]
            self._within = _Within.REPORT
        elif mark:
            self._within = _Within.PASTE
        elif cut := _CUT.search(keys + self._held):
            keys, self._held = (keys + self._held)[: cut.start()], cut[0]
        schemes = [BackgroundTold(is_dark=scheme == "1") for scheme in _SCHEME.findall(keys)]
        keys = _MODIFIED.sub(lambda key: f"\x1b[{key[2]};{key[1]}u", _ANSWER.sub("", keys))
        return [keys.replace(ALT_ENTER, "\x1b[13;3u"), *schemes], rest

    def _split(self, text: str, mark: str) -> tuple[str, str, str]:
        """Part a text at a mark; without one, hold back what may be its beginning."""
        before, found, behind = text.partition(mark)
        if found:
            return before, found, behind
        size = next((size for size in range(len(mark) - 1, 0, -1) if text.endswith(mark[:size])), 0)
        self._held = text[len(text) - size :]
        return text[: len(text) - size], "", ""

    def _taken(self, within: _Within) -> Pasted:
        self._within = within
        text = "".join(self._pieces)
        self._pieces.clear()
        if within is _Within.LOST_PASTE:
            text, self._held = text + self._held, ""
        return Pasted(text)


READ_BYTES: Final = 1 << 16
TICK_SECONDS: Final = 0.1
"""Between two looks at whether the driver is to end."""
SOON_SECONDS: Final = 0.02
"""The wait for the rest of a paste that may begin, and between two looks at whether an escape was a key."""
ESCAPE_SECONDS: Final = 2 * ESCAPE_DELAY
"""After what was read last, an escape in it is a key or not."""
STILL_SECONDS: Final = 0.2
"""After a process was told to go on, in which it is not stopped: the two may have been sent in the other order."""
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
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Hand over what was written, or drop it."""
        with suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class TerminalDriver(LinuxDriver):
    """The driver, with an end that neither a lost terminal nor signals in any order hold up.

    Pastes are taken out of what is read before Textual's parser, which looks at each character.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # pyright: ignore[reportUnknownMemberType]  Textual's has no type
        self._file = cast("TextIO", _Lasting(_screen_of_terminal()))
        self._is_drawn = False
        self._is_resting = False
        """The screen was left, to be drawn when the process is told to go on."""
        self._told_to_go_on = float("-inf")
        for which in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(which, _pass)  # it would end the process, and leave the terminal as it is

    def start_application_mode(self) -> None:
        """See ``Driver``; a screen that is drawn already stays."""
        if not self._is_drawn:
            super().start_application_mode()
            self._is_drawn = self._writer_thread is not None  # not while in the background
            self.write(TELL_SCHEMES)
            self._is_resting = not self._is_drawn
            self._app.call_later(partial(self._app.refresh, layout=True))  # a size that is as before moves nothing

    def stop_application_mode(self) -> None:
        """See ``Driver``; nothing where no screen is drawn."""
        if self._is_drawn:
            self.write(TELL_NO_SCHEMES)
            super().stop_application_mode()
            self._is_drawn = False

    def close(self) -> None:
        """See ``Driver``."""
        super().close()
        self._writer_thread = None
        self._is_resting = False

    def write(self, data: str) -> None:
        """Write to the terminal; dropped while another program has it."""
        if self._writer_thread is not None:
            super().write(data)

    def _sigtstp_application(self, *_: object) -> None:
        if self._auto_restart:
            self._soon(self._rest)
        else:
            os.kill(os.getpid(), signal.SIGSTOP)  # another program has the terminal, and the loop waits for it

    def _sigcont_application(self, *_: object) -> None:
        self._told_to_go_on = time.monotonic()
        if self._auto_restart:
            self._soon(self._go_on)

    def _soon(self, act: Callable[[], None]) -> None:
        """Act in the loop: a signal comes anywhere, also where a lock is held that the act wants."""
        with suppress(RuntimeError):  # the loop is closed, and the screen with it
            self._loop.call_soon_threadsafe(act)

    def _rest(self) -> None:
        """Leave the screen and stop the process, unless it was told to go on meanwhile."""
        if self._is_drawn:
            self.suspend_application_mode()
            self._is_resting = True
        if time.monotonic() - self._told_to_go_on < STILL_SECONDS:
            self._go_on()
        else:
            os.kill(os.getpid(), signal.SIGSTOP)

    def _go_on(self) -> None:
        """Draw the screen anew: what the terminal showed and how it was set while we were stopped is not known."""
        if self._is_drawn:
            self.suspend_application_mode()
            self._is_resting = True
        if self._is_resting:
            self.resume_application_mode()

    def run_input_thread(self) -> None:
        """Read what the terminal sends until the driver ends, and hand keys and pastes on."""
        parser = XTermParser(self._debug)
        with SelectSelector() as selector, _keyboard(self.fileno) as keyboard:
            selector.register(keyboard, EVENT_READ)
            for item in self._read(selector, keyboard):
                if isinstance(item, str):
                    self._hand_on(parser.feed(item))
                elif isinstance(item, BackgroundTold):
                    self.process_message(item)
                elif item.text:
                    self.process_message(Paste(item.text))
                self._hand_on(parser.tick())
        with suppress(EOFError, ParseError):
            list(parser.feed(""))

    def _read(self, selector: SelectSelector, keyboard: int) -> Iterator[str | Pasted | BackgroundTold]:
        """Yield what the stream does, as it comes, and an empty paste every now and then."""
        stream = PasteStream()
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        read_at = time.monotonic()
        while not self.exit_event.is_set():
            is_soon = stream.is_holding or time.monotonic() - read_at < ESCAPE_SECONDS
            if selector.select(SOON_SECONDS if is_soon else TICK_SECONDS):
                try:
                    data = os.read(keyboard, READ_BYTES)
                except BlockingIOError:
                    continue  # a shell took it while we were stopped
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


@contextmanager
def _keyboard(descriptor: int) -> Generator[int]:
    """Give a descriptor to read the terminal with that never waits; the given one, if there is no other way to it."""
    try:
        keyboard = os.open(os.ttyname(descriptor), os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        yield descriptor
        return
    try:
        yield keyboard
    finally:
        os.close(keyboard)


def _screen_of_terminal() -> TextIO:
    """The stream that reaches the terminal; standard error may have been sent elsewhere."""
    streams = [stream for stream in (sys.__stderr__, sys.__stdout__) if stream is not None]
    return next((stream for stream in streams if stream.isatty()), streams[0])


def _pass(*_: object) -> None:
    """Do nothing."""
