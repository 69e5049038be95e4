"""PromptInput: the widget for typing prompts, slash commands and shell lines, with completion and history."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from vibe.cli.textual_ui.input.file_index import FileIndex, cost
from vibe.cli.textual_ui.input.history import HistoryWalk, keep_prompt, load_prompts
from vibe.cli.textual_ui.input.prompt_area import ROWS, Attachments, PromptArea
from vibe.cli.textual_ui.refresher import app_of
from vibe.front.cells import cut
from vibe.system.plain_text import plain, plain_line

_COMMAND = re.compile(r"/(\S*)$")
_FILE = re.compile(r'(?<!\S)@(?:"(?P<quoted>[^"]*)|(?P<plain>[^\s"]*))$')
_NEEDS_QUOTES = re.compile(r"\s|[.,;:!?)\]}]$")


class CompletedWord(Struct, frozen=True, kw_only=True):
    """The word before the cursor, naming a command or a file.

    ``length`` is the number of characters to replace, and ``typed`` is what to search for.
    """

    typed: str
    length: int
    is_file: bool = False


class Candidate(Struct, frozen=True, kw_only=True):
    """A completion: ``insert`` replaces the word, ``label`` and ``about`` are shown."""

    insert: str
    label: str
    about: str = ""


def word_at(line: str, *, is_first: bool, is_shell: bool) -> CompletedWord | None:
    """Return the word to complete at the end of ``line``, the text before the cursor; None if there is none.

    Commands are completed only at the beginning of the first line, and nothing is completed in a shell line.
    """
    if is_shell:
        return None
    if found := _FILE.search(line):
        typed = found["plain"] if found["quoted"] is None else found["quoted"]
        return CompletedWord(typed=typed, length=len(found.group()), is_file=True)
    if is_first and (found := _COMMAND.match(line)):
        return CompletedWord(typed=found[1], length=len(line))
    return None


def mention_of(path: str) -> str:
    """Return a path in the form in which prompts mention it, quoted if need be."""
    return f'@"{path}"' if _NEEDS_QUOTES.search(path) else f"@{path}"


def best(typed: str, names: Sequence[str]) -> list[int]:
    """Return the indices of the names that match, best first and otherwise in order; a blank text matches all."""
    if not typed:
        return list(range(len(names)))
    wanted = typed.lower()
    costs = ((cost(wanted, name.lower()), place) for place, name in enumerate(names))
    return [place for _, place in sorted((found, place) for found, place in costs if found is not None)]


MOST = 50
"""The most completions that are offered."""
LEAST_LABEL = 32
"""The cells that a command and its usage may take in any case, beside what it does."""

CommandRow = tuple[str, str, str]
"""The name of a command, its usage, and what it does."""
FindCommands: TypeAlias = Callable[[], Iterable[CommandRow]]


class CompletionPopup(Static):
    """Shows the candidates for the current text, one per row, as many as there is room for above the input.

    Files are searched for in threads, and results for an older text are dropped. ``picked`` is called after a click has
    selected a candidate, and ``ready`` when the candidates for the current text have been found.
    """

    DEFAULT_CSS = """
    CompletionPopup {
        display: none; overlay: screen; constrain: none inside; width: 100%; height: auto;
        background: $surface; color: $foreground;
    }
    """

    def __init__(self, picked: Callable[[], object], ready: Callable[[], object]) -> None:
        super().__init__("")
        self._picked = picked
        self._ready = ready
        self.candidates: Sequence[Candidate] = ()
        """All candidates that are offered."""
        self._selected = 0
        self._top = 0
        self._rows = ROWS
        self.was_moved = False
        self._commands: FindCommands = tuple
        self._files: FileIndex | None = None
        """The files to complete; None until ``complete_with`` is called."""
        self.word: CompletedWord | None = None
        """The word before the cursor that can be completed; None if there is none."""
        self._place = (0, 0)
        self._declined: tuple[int, int] | None = None
        self._asked = 0
        self._is_finding = False

    @property
    def selected(self) -> Candidate | None:
        """The selected candidate, or None."""
        return self.candidates[self._selected] if self.candidates else None

    def complete_with(self, commands: FindCommands, root: Path) -> None:
        """Complete these commands, and files below ``root``, from now on."""
        self._commands, self._files = commands, FileIndex(root)

    def offer(self, candidates: Sequence[Candidate]) -> None:
        """Show candidates with the first one selected; without any, close the list."""
        self.candidates = candidates
        self._selected = self._top = 0
        self.was_moved = False
        self._rows = max(1, min(ROWS, self._room(), len(candidates)))
        self.display = bool(candidates)
        if candidates:
            self.styles.offset = (0, -self._rows)
            self._draw()

    def move(self, step: int) -> None:
        """Move the selection, from the last candidate around to the first."""
        self._selected = (self._selected + step) % len(self.candidates)
        self._top = min(max(self._top, self._selected - self._rows + 1), self._selected)
        self.was_moved = True
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """Select and take the candidate that was clicked."""
        event.stop()
        if self._top + event.y < len(self.candidates):
            self._selected = self._top + event.y
            self._picked()

    def on_resize(self) -> None:
        """Fit the rows to the new width."""
        if self.candidates:
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
        width, label = max(1, self.size.width or self.screen.size.width), candidate.label
        if self.word is not None and self.word.is_file:
            label = cut(label[::-1], width - 2)[::-1]  # the end of a path tells files apart
        else:
            label = cut(label, max(LEAST_LABEL, width - 4 - cell_len(candidate.about)))
        row = Content.assemble(
            "▸ " if is_selected else "  ",
            (label, "bold" if is_selected else ""),
            (f"  {candidate.about}" if candidate.about else "", "$foreground-muted"),
        )
        return row.truncate(width, ellipsis=True)

    # --- what there is

    def follow(self, area: PromptArea) -> None:
        """Offer completions for the word before the cursor."""
        row, column = area.cursor_location
        is_shell = area.document.get_line(0).startswith("!")
        self.word = word_at(area.before_cursor, is_first=row == 0, is_shell=is_shell)
        if self.word is not None:
            self._place = (row, column - self.word.length)
        if self.word is None or self._place != self._declined:
            self._declined = None
        self._find()

    def forget(self) -> None:
        """Close the list until the text changes."""
        self.word = None
        self._find()

    def decline(self) -> None:
        """Close the list until another word begins."""
        self._declined = self._place
        self._find()

    def takes(self, *, of_enter: bool) -> bool | None:
        """Return whether Tab or Enter takes the selection; None while candidates are still being searched for.

        Enter takes it only if the text is not complete as it is, or the person moved to it.
        """
        word, selected = self.word, self.selected
        if word is None or self._files is None:
            return False
        if self._is_finding:
            return None if self._files.is_ready else False
        if selected is None or not of_enter or self.was_moved:
            return selected is not None
        if word.is_file:
            return selected.label != word.typed
        return all(candidate.insert.strip() != f"/{word.typed}" for candidate in self.candidates)

    def take(self, area: PromptArea) -> None:
        """Replace the word by the selected candidate."""
        if self.word is not None and self.selected is not None:
            area.replace_before_cursor(self.word.length, self.selected.insert)

    def _find(self) -> None:
        self._asked += 1
        self._is_finding = False
        word, files = self.word, self._files
        if files is None or word is None or self._declined is not None:
            self.offer(())
        elif not word.is_file:
            self.offer(self._matching_commands(word))
        else:
            self._is_finding = True
            find = partial(self._find_in_thread, files, word, self._asked)
            self.run_worker(find, thread=True, group="completion", exit_on_error=False)

    def _matching_commands(self, word: CompletedWord) -> list[Candidate]:
        rows = [[plain_line(part) for part in row] for row in self._commands()]
        places = best(word.typed, [name for name, _, _ in rows])[:MOST]
        return [
            Candidate(insert=f"/{name} ", label=f"/{name} {usage}".rstrip(), about=about)
            for name, usage, about in map(rows.__getitem__, places)
        ]

    def _find_in_thread(self, files: FileIndex, word: CompletedWord, number: int) -> None:
        paths = files.search(word.typed, MOST, lambda: not self.is_running or self._asked != number)
        if paths is not None:
            self.call_later(
                self._show, number, [Candidate(insert=f"{mention_of(path)} ", label=path) for path in paths]
            )
        if files.refresh(lambda: not self.is_running):
            self.call_later(self._look_again)

    def _show(self, number: int, candidates: list[Candidate]) -> None:
        """Offer what the search of that number found, unless a newer one has begun."""
        if number == self._asked:
            self._is_finding = False
            self.offer(candidates)
            self._ready()

    def _look_again(self) -> None:
        """Search again after the files were listed again."""
        if self.word is not None and self.word.is_file and not self.was_moved:
            self._find()


READY_MARK = ">"
SHELL_MARK = "!"
SEARCH_MARK = "?"
SCROLLING = ("pageup", "pagedown", "ctrl+home", "ctrl+end")
LONGEST_SHOWN = 50_000
"""The most characters of a text set from outside; a longer one becomes an attachment, to keep the area fast."""
LONGEST_KEPT = 50_000
"""The most characters of a prompt saved to the history with its pastes; a longer one is saved with its markers."""
MOST_FOUND = 50
"""The most earlier prompts that a search shows."""


class PromptInput(Widget):
    """An input of one or more lines; the file ``history`` keeps what was sent.

    ``scroll`` is called with keys that scroll the chat. ``blank`` is called with each key that is pressed while the
    input is empty, and returns whether it has handled the key.

    The mark before the text is ``>`` while the input has the focus, ``!`` for a shell line, ``?`` while searching, and
    blank without the focus.
    """

    DEFAULT_CSS = """
    PromptInput { height: auto; layout: vertical; background: $surface; }
    PromptInput > Horizontal { height: auto; padding: 0 1; }
    PromptInput #mark { width: 2; height: 1; color: $text-primary; text-style: bold; }
    PromptInput.unasked #mark { color: $text-error; }
    """

    @dataclass
    class Sent(Message):
        """Posted when the person sends a text; ``images`` are the files of the image markers in it.

        If it ``steers``, the text is for the agent at work.
        """

        text: str
        images: tuple[Path, ...] = ()
        steers: bool = False

    @dataclass
    class EditorWanted(Message):
        """Posted when the person wants to go on in an editor; ``set_text`` takes the edited text."""

        text: str

    def __init__(
        self,
        *,
        history: Path | None = None,
        placeholder: str = "",
        scroll: Callable[[str], object] = bool,
        blank: Callable[[str], bool] = lambda _: False,
    ) -> None:
        super().__init__()
        self._on_blank_key = blank
        self._scroll_chat = scroll
        self._file = history
        self._walk = HistoryWalk()
        self._placeholder = placeholder
        self._attachments = Attachments()
        self._held_key: Callable[[], bool] | None = None
        self._draft: str | None = None
        self._is_replacing = False
        self._told = ""
        """The reason why the history could not be read or written the last time; blank if it could."""
        self._shown = "", ""
        self._popup = CompletionPopup(self._take_clicked, self._release_key)
        self._mark = Static("", id="mark")
        self._area = PromptArea(self._take_key, self._attachments.taken, self._on_edit)
        self._keys: dict[str, Callable[[], bool]] = {
            "enter": self._enter,
            "tab": self._tab,
            "escape": self._escape,
            "up": partial(self._walk_back, 1),
            "down": partial(self._walk_back, -1),
            "ctrl+g": lambda: self.post_message(self.EditorWanted(self.text)),
            "ctrl+r": self._search,
            "backspace": self._delete_marker,
            "home": partial(self._scroll_if_blank, "ctrl+home"),
            "end": partial(self._scroll_if_blank, "ctrl+end"),
            **{key: partial(self._scroll, key) for key in SCROLLING},
        }

    def compose(self) -> ComposeResult:
        """Compose the popup, the mark and the text area."""
        yield self._popup
        with Horizontal():
            yield self._mark
            yield self._area

    def on_mount(self) -> None:
        """Load the history in a thread."""
        self._show_mark()
        if self._file is not None:
            self._in_thread(partial(self._load, self._file), "the prompt history can't be read")

    @property
    def text(self) -> str:
        """The text as it is shown, with markers in place of what was pasted."""
        return self._area.text

    def complete_with(self, *, commands: FindCommands, root: Path) -> None:
        """Complete these commands, and files below ``root``, from now on."""
        self._attachments.root = root
        self._popup.complete_with(commands, root)

    def set_text(self, text: str, *, selected: bool = False) -> None:
        """Show another text, with the cursor at its end, and perhaps all of it ``selected``."""
        self._draft = None
        self._replace_all(text)
        if selected:
            self._area.select_all()

    def hint(self, text: str) -> None:
        """Set the placeholder of the empty input."""
        self._placeholder = text
        self._show_mark()

    def clear(self) -> None:
        """Clear the text, and end the walk through the history."""
        self._walk.end()
        self.set_text("")

    def focus(self, scroll_visible: bool = True) -> PromptInput:  # noqa: FBT001, FBT002  as in Textual
        """Focus the text area at once, so that the next key comes here."""
        self.screen.set_focus(self._area, scroll_visible)
        return self

    def steer(self) -> bool:
        """Send the text to the agent at work; return False if there is no text."""
        if not self.text.strip() or self._draft is not None:
            return False
        self._send(self.text, steers=True)
        return True

    def on_click(self) -> None:
        """Focus the text area after a click beside it."""
        self.focus()

    def on_resize(self) -> None:
        """Limit the height, to leave room for the rest of a small screen."""
        self._area.styles.max_height = max(1, min(ROWS, self.screen.size.height // 2))

    def _take_clicked(self) -> None:
        self._take()
        self.focus()

    def _release_key(self) -> None:
        """Handle the key that waited for candidates."""
        held, self._held_key = self._held_key, None
        if held is not None:
            held()

    def _take_key(self, key: str) -> bool:
        held, self._held_key = self._held_key, None
        if held == self._enter:  # the next key has come before the candidates
            self._send_or_break()
        if not self.text and self._draft is None and self._on_blank_key(key):
            return True
        if key == "space" and self.text and self._area.selected_text == self.text:  # a command may need more words
            self.set_text(self.text)
        act = self._keys.get(key)
        return act is not None and act()

    def _take_or_hold(self, key: Callable[[], bool]) -> bool:
        """Take the selected candidate, or hold the key until there is one; return False if neither applies."""
        takes = self._draft is not None or self._popup.takes(of_enter=key == self._enter)
        if takes:
            self._take()
        elif takes is None:
            self._held_key = key
        return takes is not False

    def _enter(self) -> bool:
        if not self._take_or_hold(self._enter):
            self._send_or_break()
        return True

    def _tab(self) -> bool:
        return self._take_or_hold(self._tab) or self._popup.word is not None

    def _escape(self) -> bool:
        if self._draft is not None:
            self.set_text(self._draft)
        elif self._popup.candidates:
            self._popup.decline()
        else:
            return False
        return True

    def _walk_back(self, by: int) -> bool:
        """Move up in the list, or go ``by`` prompts back in the history; negative values go the other way."""
        if self._popup.candidates:
            self._popup.move(-by)
        elif not self._area.ends(above=by > 0):
            return False
        elif (entry := self._walk.go(by, self.text)) is not None:
            self._replace_all(entry)
        return True

    def _scroll(self, key: str) -> bool:
        self._scroll_chat(key)
        return True

    def _scroll_if_blank(self, key: str) -> bool:
        return not self.text and self._scroll(key)

    def _delete_marker(self) -> bool:
        marker = self._attachments.marker_before(self._area.before_cursor)
        if marker and self._area.selection.is_empty:
            self._area.replace_before_cursor(len(marker), "")
            return True
        return False

    def _search(self) -> bool:
        """Start searching earlier prompts for what is typed from now on, keeping the draft; again: go to the next."""
        if self._draft is None:
            draft = self.text
            self._replace_all("")
            self._draft = draft
            self._show_found()
            self._show_mark()
        elif self._popup.candidates:
            self._popup.move(1)
        return True

    def _show_found(self) -> None:
        found = self._walk.search(self.text, MOST_FOUND)
        self._popup.offer([Candidate(insert=entry, label=plain_line(entry)) for entry in found])

    def _send_or_break(self) -> None:
        if self._area.before_cursor.endswith("\\"):
            self._area.replace_before_cursor(1, "\n")
        elif self.text.strip():
            self._send(self.text)

    def _send(self, text: str, *, steers: bool = False) -> None:
        if unknown := self._attachments.unknown(text):
            notice = f"nothing is kept for {unknown}: paste it again, or delete the marker"
            self.notify(notice, severity="warning", markup=False)
            return
        whole = self._attachments.expanded(text)
        if self._walk.add(text) and self._file is not None:
            kept = whole if len(whole) <= LONGEST_KEPT else text
            self._in_thread(partial(keep_prompt, self._file, kept), "the prompt was not saved to the history")
        self.set_text("")
        self.post_message(self.Sent(whole, self._attachments.images(text), steers))

    def _replace_all(self, text: str) -> None:
        """Show another text without completing its last word."""
        cleaned = plain(text)
        self._is_replacing = True
        self._area.load_text(cleaned if len(cleaned) <= LONGEST_SHOWN else self._attachments.folded(cleaned))
        self._is_replacing = False

    def _on_edit(self) -> None:
        if self._is_replacing:
            self._popup.forget()
        elif self._draft is not None:
            self._show_found()
        else:
            self._popup.follow(self._area)
        self._show_mark()

    def _take(self) -> None:
        """Insert the selected candidate."""
        selected = self._popup.selected
        if self._draft is not None:
            self.set_text(selected.insert if selected is not None else self._draft)
        else:
            self._popup.take(self._area)

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _show_mark(self) -> None:
        """Show the mark and the hint if they have changed, as each update makes Textual lay out the screen again."""
        mark = self._mark_now()
        hint = "search earlier prompts" if self._draft is not None else self._placeholder
        if (mark, hint) != self._shown:
            self._shown = mark, hint
            self._mark.update(Content(mark))
            self._area.placeholder = Content(hint)

    def _mark_now(self) -> str:
        if self._draft is not None:
            return SEARCH_MARK
        if self.is_mounted and app_of(self).app_focus and not self._area.has_focus:
            return ""
        return SHELL_MARK if self.text.startswith("!") else READY_MARK

    def _in_thread(self, work: Callable[[], object], problem: str) -> None:
        """Read or write the history in a thread, and warn if that fails, unless it failed the last time."""

        def guarded() -> None:
            told, self._told = self._told, ""
            try:
                work()
            except OSError as error:
                self._told = plain(f"{problem}: {error.strerror}")
                if self._told != told:
                    self.call_later(self.notify, self._told, severity="warning", markup=False)

        self.run_worker(guarded, thread=True, group="history", exit_on_error=False)

    def _load(self, file: Path) -> None:
        self.call_later(self._walk.put_before, [plain(entry) for entry in load_prompts(file)])
