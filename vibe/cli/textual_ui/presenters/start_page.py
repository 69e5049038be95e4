"""StartPage: shows the start screen in the chat log, and lets keys choose on it until something is typed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Final

from msgspec import Struct, structs

from vibe.cli.textual_ui.log.chat_log import ChatLog
from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.front.cells import Line
from vibe.front.start_screen import LOOK, RESUME, StartChoice, StartFacts, choices, start_lines

STEPS: Final = {"up": -1, "down": 1}
SEEN_SECONDS: Final = 0.5
"""The time that choices must be visible before Enter takes one; pressed earlier, it can't be meant for them."""


class StartPage(Struct, eq=False):
    """Draws the start screen's facts as they come in.

    Once its choices are there, keys move among them while the prompt is empty, and ``take`` gets the chosen one.
    ``now`` returns Unix seconds, ``clock`` monotonic ones.
    """

    _log: ChatLog
    _take: Callable[[StartChoice], object]
    _now: Callable[[], float]
    _clock: Callable[[], float] = monotonic
    facts: StartFacts = StartFacts(version="", folder="")
    _entry: LogEntry | None = None
    _marked: int | None = None
    """The index of the marked choice; None while keys don't go to the choices."""
    _seen_at: float | None = None
    """The monotonic time at which the choices first became visible; None before that."""
    _is_closed: bool = False
    _keeps_rows: bool = False
    """True while empty rows take the place of the key hints, so that nothing moves while the person types."""

    def begin(self, facts: StartFacts) -> None:
        """Begin a new start screen at the end of the log, and close an earlier one."""
        self.close()
        if self._entry is not None and self.facts.is_new:
            self._entry.draw = partial(start_lines, self.facts, self._now())
        self._entry = LogEntry("drawn", draw=self._lines)
        self._marked, self._seen_at, self._keeps_rows, self._is_closed = 0, None, False, False
        self.facts = facts
        if facts.is_new:
            self._log.append(self._entry)

    def drop(self) -> None:
        """Stop drawing: the conversation begins without a start screen."""
        self._entry = None

    @property
    def is_begun(self) -> bool:
        """True if there is, or will be, a log entry that shows the facts."""
        return self._entry is not None

    @property
    def is_open(self) -> bool:
        """True while the start screen is shown and the conversation has not begun yet."""
        return self._entry is not None and not self._is_closed

    @property
    def was_seen(self) -> bool:
        """True once the choices have been visible for long enough that Enter takes one."""
        return self._seen_at is not None and self._clock() - self._seen_at >= SEEN_SECONDS

    def update(self, facts: StartFacts) -> None:
        """Draw the given facts; a page that is not in the log yet is added once it offers a choice."""
        known = self.facts
        entry, self.facts = self._entry, structs.replace(facts, is_new=known.is_new, with_cards=known.with_cards)
        if entry is None:
            return
        if entry.index >= 0:
            self._log.changed(entry)
        elif not self.facts.is_new and self._choices and self._marked is not None:
            self._log.append(entry)
        if self._choices and self._seen_at is None:
            self._log.call_after_refresh(self._note_seen)

    def press(self, key: str) -> bool:
        """Handle a key: move the mark, take the marked choice, or look at it; return False for any other key."""
        known = self._choices
        if self._marked is None or self._entry is None or self._entry.index < 0 or not known:
            return False
        if key in STEPS:
            return self._move(STEPS[key], len(known))
        chosen = known[min(self._marked, len(known) - 1)]
        if key == "tab" and not self.facts.is_new:
            self._take(structs.replace(chosen, line=chosen.line.replace(RESUME, "status", 1), verb=LOOK))
        elif key == "escape" and not self.facts.is_new:
            self.release_keys()
        elif key == "enter" and self.was_seen:
            self.release_keys()
            self._take(chosen)
        else:
            return False
        return True

    def release_keys(self) -> None:
        """Stop taking keys, and keep the rows of the key hints empty."""
        if self._marked is not None:
            self._marked, self._keeps_rows = None, True
            self._redraw()

    def close(self) -> None:
        """Stop taking keys, as the conversation has begun; drop the key hints, and plans to resume altogether."""
        self._is_closed = True
        self._marked, self._keeps_rows = None, False
        self._redraw()
        if self._entry is not None and self._entry.index >= 0 and not self.facts.is_new:
            self._log.cut(self._entry.index, self._entry.index + 1)

    @property
    def _choices(self) -> list[StartChoice]:
        return choices(self.facts, self._now())

    def _move(self, step: int, count: int) -> bool:
        """Move the mark; return False above the first choice, where Up goes to the prompt's history."""
        place = (self._marked or 0) + step
        if place < 0:
            return False
        self._marked = min(place, count - 1)
        self._redraw()
        return True

    def _note_seen(self) -> None:
        self._seen_at = self._clock()

    def _redraw(self) -> None:
        if self._entry is not None and self._entry.index >= 0:
            self._log.changed(self._entry)

    def _lines(self, cols: int) -> list[Line]:
        log = self._log
        rows = log.size.height
        if not self._keeps_rows:
            return start_lines(self.facts, self._now(), cols, rows, self._marked)
        shown = start_lines(self.facts, self._now(), cols, rows)
        return [*shown, *([] for _ in start_lines(self.facts, self._now(), cols, rows, 0)[len(shown) :])]
