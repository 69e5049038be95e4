"""CompletionPopup: the list of what the word before the cursor can be completed to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from vibe.cli.textual_ui.input.file_index import FileIndex, cost
from vibe.system.plain_text import plain_line

if TYPE_CHECKING:
    from vibe.cli.textual_ui.input.prompt_area import PromptArea


_COMMAND = re.compile(r"/(\S*)$")
_ARGUMENT = re.compile(r"/(\S+)\s+((?:.*\s)?(\S*))$")
_FILE = re.compile(r'(?<!\S)@(?:"(?P<quoted>[^"]*)|(?P<plain>[^\s"]*))$')
_NEEDS_QUOTES = re.compile(r"\s|[.,;:!?)\]}]$")


class CompletionKind(Enum):
    """The kinds of words that can be completed."""

    COMMAND = "command"
    ARGUMENT = "argument"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedWord:
    """A word before the cursor: ``length`` counts its characters, ``typed`` are those to look for.

    For an argument, ``command`` is the command's name, and ``text`` all that follows it.
    """

    kind: CompletionKind
    typed: str
    length: int
    command: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Something to put in for the word; ``label`` and ``about`` are shown."""

    insert: str
    label: str
    about: str = ""


def word_at(line: str, *, is_first: bool, is_shell: bool) -> CompletedWord | None:
    """Return the word at the end of a line up to the cursor that can be completed.

    Commands stand at the beginning of the first line; a line for the shell has no completion.
    """
    if is_shell:
        return None
    if found := _FILE.search(line):
        typed = found["plain"] if found["quoted"] is None else found["quoted"]
        return CompletedWord(kind=CompletionKind.FILE, typed=typed, length=len(found.group()))
    if not is_first:
        return None
    if found := _COMMAND.match(line):
        return CompletedWord(kind=CompletionKind.COMMAND, typed=found[1], length=len(line))
    if found := _ARGUMENT.match(line):
        kind = CompletionKind.ARGUMENT
        return CompletedWord(kind=kind, typed=found[3], length=len(found[3]), command=found[1], text=found[2])
    return None


def mention_of(path: str) -> str:
    """Return a path as prompts mention it."""
    return f'@"{path}"' if _NEEDS_QUOTES.search(path) else f"@{path}"


def best(typed: str, names: Sequence[str]) -> list[int]:
    """Return the places of the names that fit, the best first, equals in their order; all fit nothing."""
    if not typed:
        return list(range(len(names)))
    wanted = typed.lower()
    costs = ((cost(wanted, name.lower()), place) for place, name in enumerate(names))
    return [place for _, place in sorted((found, place) for found, place in costs if found is not None)]


ROWS = 8


MOST = 50
"""The most that is offered."""

CommandRow = tuple[str, str, str]
"""The name of a command, its usage, and what it does."""


@dataclass(frozen=True, slots=True)
class Completer:
    """Knows what there is; ``files`` may still have to be listed.

    ``arguments`` is given the name of a command, without its slash, and the text behind it, in a thread, and returns
    the words that may stand where its last word is.
    """

    rows: Callable[[], Iterable[CommandRow]]
    arguments: Callable[[str, str], Iterable[str]]
    files: FileIndex

    def commands(self, word: CompletedWord) -> list[Candidate]:
        """The commands that fit."""
        rows = [[plain_line(part) for part in row] for row in self.rows()]
        names = [name.removeprefix("/") for name, _, _ in rows]
        found: list[Candidate] = []
        for place in best(word.typed, names)[:MOST]:
            _, usage, about = rows[place]
            shown = usage.removeprefix("/").removeprefix(names[place]).strip()
            label = f"/{names[place]} {shown}".rstrip()
            found.append(Candidate(insert=f"/{names[place]} ", label=label, about=about))
        return found

    def find(self, word: CompletedWord, is_stale: Callable[[], bool]) -> list[Candidate] | None:
        """The arguments or files that fit; None: the question is outdated. Blocks."""
        if word.kind is CompletionKind.ARGUMENT:
            names = [plain_line(name) for name in self.arguments(word.command, word.text)]
            return [Candidate(insert=names[place], label=names[place]) for place in best(word.typed, names)[:MOST]]
        paths = self.files.search(word.typed, MOST, is_stale)
        return None if paths is None else [Candidate(insert=f"{mention_of(path)} ", label=path) for path in paths]

    def is_answer(self, word: CompletedWord, selected: Candidate, offered: Iterable[Candidate]) -> bool:
        """Return whether Enter means the selected candidate although the person did not move to it."""
        match word.kind:
            case CompletionKind.ARGUMENT:
                return False  # the text behind a command may be words of the person's own
            case CompletionKind.COMMAND:
                return all(candidate.insert.strip() != f"/{word.typed}" for candidate in offered)
            case CompletionKind.FILE:
                return selected.label != word.typed


class KeyMeaning(Enum):
    """The meaning of Tab or Enter for a list: ``LATER``, when what it is for is still looked for."""

    TAKE = "take"
    LATER = "later"
    NONE = "none"


class CompletionPopup(Static):
    """Follows the text of the input, and finds candidates in threads; those of an older text are dropped.

    It shows them, one a row, the selected one marked; as many as there is room for above the input.
    """

    DEFAULT_CSS = """
    CompletionPopup {
        display: none; overlay: screen; constrain: none inside; width: 100%; height: auto;
        background: $surface; color: $foreground;
    }
    """

    @dataclass
    class Picked(Message):
        """The person clicked the candidate that is selected now."""

    @dataclass
    class Ready(Message):
        """The candidates for the text as it is now are there."""

    def __init__(self) -> None:
        super().__init__("")
        self.candidates: Sequence[Candidate] = ()
        """All that is offered."""
        self._selected = 0
        self._top = 0
        self._rows = ROWS
        self.was_moved = False
        self.completer: Completer | None = None
        """Finds candidates; None: none are offered yet."""
        self._word: CompletedWord | None = None
        self._place = (0, 0)
        self._declined: tuple[int, int] | None = None
        self._asked = 0
        self._is_finding = False
        self._is_over = False

    @property
    def is_open(self) -> bool:
        """True while there is something to choose."""
        return bool(self.candidates)

    @property
    def selected(self) -> Candidate | None:
        """The candidate that is marked."""
        return self.candidates[self._selected] if self.candidates else None

    def offer(self, candidates: Sequence[Candidate]) -> None:
        """Show these, with the first one selected; none closes the list."""
        self.candidates = candidates
        self._selected = self._top = 0
        self.was_moved = False
        self._rows = max(1, min(ROWS, self._room(), len(candidates)))
        self.display = bool(candidates)
        if candidates:
            self.styles.offset = (0, -self._rows)
            self._draw()

    def move(self, step: int) -> None:
        """Select another; from the last one to the first."""
        self._selected = (self._selected + step) % len(self.candidates)
        self._top = min(max(self._top, self._selected - self._rows + 1), self._selected)
        self.was_moved = True
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """Take the one that was clicked."""
        event.stop()
        if self._top + event.y < len(self.candidates):
            self._selected = self._top + event.y
            self.post_message(self.Picked())

    def on_resize(self) -> None:
        """Cut the rows anew."""
        if self.is_open:
            self._draw()

    def _room(self) -> int:
        """Return how many rows there are above the input."""
        return self.parent.region.y if isinstance(self.parent, Widget) else ROWS

    def _draw(self) -> None:
        shown = range(self._top, min(self._top + self._rows, len(self.candidates)))
        self.update(Content("\n").join(self._row(place) for place in shown))

    def _row(self, place: int) -> Content:
        candidate = self.candidates[place]
        is_selected = place == self._selected
        row = Content.assemble(
            "▸ " if is_selected else "  ",
            (candidate.label, "bold" if is_selected else ""),
            (f"  {candidate.about}" if candidate.about else "", "$foreground-muted"),
        )
        return row.truncate(max(1, self.size.width or self.screen.size.width), ellipsis=True)

    # --- what there is

    @property
    def has_word(self) -> bool:
        """True if the text before the cursor is one that can be completed."""
        return self._word is not None

    def follow(self, area: PromptArea) -> None:
        """Offer what the word before the cursor can be completed to."""
        row, column = area.cursor_location
        is_shell = area.document.get_line(0).startswith("!")
        self._word = word_at(area.before_cursor, is_first=row == 0, is_shell=is_shell)
        if self._word is not None:
            self._place = (
                row,
                column - (self._word.length if self._word.kind is not CompletionKind.ARGUMENT else column),
            )
        if self._word is None or self._place != self._declined:
            self._declined = None
        self._find()

    def forget(self) -> None:
        """Close the list until the text changes."""
        self._word = None
        self._find()

    def decline(self) -> None:
        """Close the list until another word is begun."""
        self._declined = self._place
        self._find()

    def tab(self) -> KeyMeaning:
        """Say what Tab means."""
        if self._is_finding:
            return KeyMeaning.LATER if self._is_quick() else KeyMeaning.NONE
        return KeyMeaning.TAKE if self.is_open else KeyMeaning.NONE

    def enter(self) -> KeyMeaning:
        """Say what Enter means: the selected one, unless the text is fine as it is."""
        if self._word is None or self.completer is None:
            return KeyMeaning.NONE
        if self._is_finding:
            is_file = self._word.kind is CompletionKind.FILE
            return KeyMeaning.LATER if is_file and self._is_quick() else KeyMeaning.NONE
        if self.selected is None:
            return KeyMeaning.NONE
        is_meant = self.was_moved or self.completer.is_answer(self._word, self.selected, self.candidates)
        return KeyMeaning.TAKE if is_meant else KeyMeaning.NONE

    def take(self, area: PromptArea) -> None:
        """Put the selected one in the place of the word."""
        if self._word is not None and self.selected is not None:
            area.replace_before_cursor(self._word.length, self.selected.insert)

    def on_unmount(self) -> None:
        """Let threads end."""
        self._is_over = True

    def _is_quick(self) -> bool:
        """Return whether there will be candidates before long."""
        word = self._word
        is_file = word is not None and word.kind is CompletionKind.FILE
        return self.completer is not None and (not is_file or self.completer.files.is_ready)

    def _find(self) -> None:
        self._asked += 1
        self._is_finding = False
        word, completer = self._word, self.completer
        if completer is None or word is None or self._declined is not None:
            self.offer(())
        elif word.kind is CompletionKind.COMMAND:
            self.offer(completer.commands(word))
        else:
            self._is_finding = True
            find = partial(self._find_in_thread, completer, word, self._asked)
            self.run_worker(find, thread=True, group="completion", exit_on_error=False)

    def _find_in_thread(self, completer: Completer, word: CompletedWord, number: int) -> None:
        found = completer.find(word, lambda: self._is_over or self._asked != number)
        if found is not None:
            self.call_later(self._show, number, found)
        if word.kind is CompletionKind.FILE and completer.files.refresh(lambda: self._is_over):
            self.call_later(self._look_again)

    def _show(self, number: int, candidates: list[Candidate]) -> None:
        """Offer what was found for the word that was asked for under a number."""
        if number == self._asked:
            self._is_finding = False
            self.offer(candidates)
            self.post_message(self.Ready())

    def _look_again(self) -> None:
        """The files were listed anew."""
        if self._word is not None and self._word.kind is CompletionKind.FILE and not self.was_moved:
            self._find()
