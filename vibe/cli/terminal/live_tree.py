"""LiveTree: shows a run in place on a terminal while it goes on, leaving earlier output untouched."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import TextIOWrapper
from typing import Self, TextIO, TypeAlias

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from ipc.events import Event
from vibe.cli.terminal.keyboard import hushed
from vibe.front.cells import Line
from vibe.front.plan_card import card
from vibe.system.plain_text import one_line
from vibe.view.plan_view import PlanView
from vibe.view.view import NoticeView, View, apply

Picture: TypeAlias = "Callable[[View, float, int, int], Sequence[Text]]"
"""Returns the lines that show a view at a time (unix seconds), within a width in cells and a number of lines."""

SECONDS_PER_FRAME = 0.125
FALLBACK_SIZE = (80, 24)
NOTICE_LENGTH = 600
LOOKS = {
    "bold": "bold",
    "muted": "dim",
    "accent": "cyan",
    "done": "green",
    "warn": "yellow",
    "failed": "red",
    "chosen": "reverse",
}
NOTICE_STYLES = {"warning": "yellow", "error": "red", "note": "cyan"}


class LiveTree:
    """Shows every event it is given; a context manager and an EventSink.

    ``publish`` only puts an event on a queue. A thread of the tree takes events from it, keeps the state and draws at
    most eight times a second. So the event loop never waits for a terminal, and nothing is shared. The thread lives as
    long as the ``with`` block. At the end of the block the picture is removed and the cursor is back, whatever ended
    it; warnings and errors stay above. If the terminal goes away, the drawing ends but not the run.
    """

    def __init__(
        self,
        out: TextIO,
        *,
        environ: Mapping[str, str],
        picture: Picture | None = None,
    ) -> None:
        self._out = out
        self._picture = picture or plan_picture
        self._environ = environ
        self._inbox: deque[Event] = deque()
        self._view = View()
        self._notices_shown = 0
        self._drawing = threading.RLock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._console: Console | None = None
        self._live: Live | None = None
        self._shown = ExitStack()

    def __enter__(self) -> Self:
        self._console = Console(
            file=self._out, force_terminal=True, highlight=False, markup=False, emoji=False, _environ=self._environ
        )
        self._show()
        self._thread = threading.Thread(target=self._draw_until_the_end, name="live-tree", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        with self._drawing:
            self._take_in()
            self._hide()

    def publish(self, event: Event) -> None:
        """Queue an event to be shown soon."""
        self._inbox.append(event)

    @contextmanager
    def seen(self) -> Generator[View]:
        """Yield the view of all events so far, which stands still while the block runs; may wait as ``pause`` does."""
        with self._drawing:
            self._take_in()
            yield self._view

    @contextmanager
    def pause(self) -> Generator[None]:
        """Remove the picture and draw nothing while the block runs; the terminal is the caller's.

        Entering may wait some milliseconds for the frame that is being drawn. Events are still taken in during the
        block.
        """
        with self._drawing:
            self._take_in()
            self._hide()
        try:
            yield
        finally:
            with self._drawing:
                self._show()

    def asking_step(self, request_id: str) -> str:
        """Return the name of the step whose request this is, or ``""``; may wait as ``pause`` does."""
        with self.seen() as view:
            return view.asker(request_id)

    def _draw_until_the_end(self) -> None:
        while not self._ended.wait(SECONDS_PER_FRAME):
            with self._drawing:
                self._take_in()
                with suppress(OSError):  # the terminal is gone: the run matters more than its picture
                    self._draw()

    def _take_in(self) -> None:
        while self._inbox:
            apply(self._view, self._inbox.popleft())

    def _draw(self) -> None:
        if self._live is None or self._console is None:
            return
        width, height = self._console.size = self._size()
        self._say_notices()
        lines = self._picture(self._view, time.time(), width, height - 1)
        self._live.update(Group(*lines), refresh=True)

    def _say_notices(self) -> None:
        """Print new notices once above the picture, where they stay."""
        for notice in self._view.notices_after(self._notices_shown):
            if self._console is not None:
                self._console.print(Text(_sentence(notice), style=NOTICE_STYLES.get(notice.kind, "")))
        self._notices_shown = self._view.noticed

    def _show(self) -> None:
        if self._console is None or self._ended.is_set():
            return
        self._shown.enter_context(_shows_anything(self._out))
        self._shown.enter_context(hushed(self._out))
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=sys.stderr.isatty(),
            vertical_overflow="crop",
        )
        self._shown.callback(self._live.stop)
        with suppress(OSError):
            self._live.start()

    def _hide(self) -> None:
        with suppress(OSError):
            if self._live is not None:
                self._say_notices()
        self._live = None
        with suppress(OSError):
            self._shown.close()

    def _size(self) -> tuple[int, int]:
        with suppress(OSError, ValueError):
            width, height = os.get_terminal_size(self._out.fileno())
            if width and height:
                return width, height
        return FALLBACK_SIZE


def plan_picture(view: View, now: float, width: int, height: int, *, chosen: str = "") -> Sequence[Text]:
    """Return the latest plan in at most ``height`` lines of at most ``width`` cells."""
    return texts_of(card(view.plan or PlanView(key=()), now, width, height, chosen=chosen))


def texts_of(lines: Iterable[Line]) -> Sequence[Text]:
    """Return lines in the colours of the terminal."""
    looked = ([(text, " ".join(map(LOOKS.__getitem__, style.split()))) for text, style in line] for line in lines)
    texts = [Text.assemble(*line, no_wrap=True) for line in looked]
    for text in texts:
        text.rstrip()  # so that a narrowed terminal need not wrap blanks
    return texts


@contextmanager
def _shows_anything(out: TextIO) -> Generator[None]:
    """While the block runs, print a question mark for characters that the terminal's encoding lacks."""
    if not isinstance(out, TextIOWrapper):
        yield
        return
    before = out.errors
    out.reconfigure(errors="replace")
    try:
        yield
    finally:
        with suppress(OSError):
            out.reconfigure(errors=before)


def _sentence(notice: NoticeView) -> str:
    where = f"{notice.step_id}: " if notice.step_id else ""
    kind = "" if notice.kind == "note" else f"{notice.kind}: "
    return one_line(f"{kind}{where}{notice.message}", NOTICE_LENGTH)
