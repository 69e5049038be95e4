"""PromptInput: the line at which a person writes prompts, commands and shell lines, and what they paste there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from vibe.cli.textual_ui.input.completion_popup import (
    Candidate,
    CommandRow,
    Completer,
    CompletionPopup,
    KeyMeaning,
)
from vibe.cli.textual_ui.input.file_index import FileIndex
from vibe.cli.textual_ui.input.history import HistoryFile, HistoryWalk
from vibe.cli.textual_ui.input.prompt_area import ROWS, PromptArea
from vibe.system.plain_text import plain, plain_line

if TYPE_CHECKING:
    from textual.app import App

READY_MARK = ">"
SHELL_MARK = "!"
SEARCH_MARK = "?"
SCROLLING = ("pageup", "pagedown", "ctrl+home", "ctrl+end")
LONGEST_SHOWN = 50_000
"""Characters of a text that is put in from elsewhere; a larger one is an attachment: the area would be slow."""
LONGEST_KEPT = 50_000
"""Characters of a prompt that is written down with what was pasted into it; a larger one keeps its markers."""
MOST_FOUND = 50


class PromptInput(Widget):
    """Takes a text of one or more lines and sends it; the file ``history`` keeps what was sent.

    The mark before the text is ``>`` while keys come here, ``!`` for a line to the shell, and another otherwise.
    """

    DEFAULT_CSS = """
    PromptInput { height: auto; layout: vertical; background: $surface; }
    PromptInput > Horizontal { height: auto; }
    PromptInput #mark { width: 2; height: 1; color: $text-accent; text-style: bold; }
    """

    @dataclass
    class Sent(Message):
        """The person sent a text; ``images`` are the files it names by their markers.

        ``steers``: it is for the agent at work.
        """

        text: str
        images: tuple[Path, ...] = ()
        steers: bool = False

    @dataclass
    class EditorWanted(Message):
        """The person wants to go on in an editor; ``set_text`` brings the outcome back."""

        text: str

    @dataclass
    class ScrollWanted(Message):
        """The person pressed a key that scrolls the chat."""

        key: str

    def __init__(self, *, history: Path | None = None, placeholder: str = "", id: str | None = None) -> None:  # noqa: A002  as in Textual
        super().__init__(id=id)
        self._file = HistoryFile(history) if history is not None else None
        self._walk = HistoryWalk()
        self._placeholder = placeholder
        self._root: Path | None = None
        self._attachments = Attachments()
        self._held: Callable[[], bool] | None = None
        self._draft: str | None = None
        self._is_replacing = False
        self._shown = "", ""
        self._popup = CompletionPopup()
        self._mark = Static("", id="mark")
        self._area = PromptArea(self._take_key, self._pasted, self._on_edit)
        self._keys: dict[str, Callable[[], bool]] = {
            "enter": self._enter,
            "tab": self._tab,
            "escape": self._escape,
            "up": partial(self._walk_back, 1),
            "down": partial(self._walk_back, -1),
            "ctrl+g": self._want_editor,
            "ctrl+r": self._search,
            "backspace": self._delete_marker,
            "end": self._scroll_to_end,
            **{key: partial(self._scroll, key) for key in SCROLLING},
        }

    def compose(self) -> ComposeResult:
        """The list above, the mark and the text."""
        yield self._popup
        with Horizontal():
            yield self._mark
            yield self._area

    def on_mount(self) -> None:
        """Read the history meanwhile."""
        self._show_mark()
        if self._file is not None:
            self._in_thread(partial(self._load, self._file), "the prompt history can't be read")

    @property
    def text(self) -> str:
        """The text as it is shown, with markers in the place of what was pasted."""
        return self._area.text

    def complete_with(
        self,
        *,
        commands: Callable[[], Iterable[CommandRow]],
        arguments: Callable[[str, str], Iterable[str]],
        root: Path,
    ) -> None:
        """Complete commands, their arguments and files below ``root`` from now on; see ``Completer``."""
        self._root = root
        self._popup.completer = Completer(commands, arguments, FileIndex(root))

    def set_text(self, text: str) -> None:
        """Show another text, with the cursor at its end."""
        self._draft = None
        self._replace_all(text)

    def clear(self) -> None:
        """Empty the text, and be at the end of the history."""
        self._walk.end()
        self.set_text("")

    def focus(self, scroll_visible: bool = True) -> PromptInput:  # noqa: FBT001, FBT002  as in Textual
        """Have the keys come here, from the next on."""
        self.screen.set_focus(self._area, scroll_visible)
        return self

    def press_enter(self) -> None:
        """Do as Enter does, for one that did not come here."""
        self._take_key("enter")

    def steer(self) -> bool:
        """Send the text to the agent at work; False: there is none."""
        if not self.text.strip() or self._draft is not None:
            return False
        self._send(self.text, steers=True)
        return True

    def on_click(self) -> None:
        """A click beside the text means the text."""
        self.focus()

    def on_resize(self) -> None:
        """Leave room for the rest of a small screen."""
        self._area.styles.max_height = max(1, min(ROWS, self.screen.size.height // 2))

    @on(CompletionPopup.Picked)
    def _take_picked(self, event: CompletionPopup.Picked) -> None:
        event.stop()
        self._take()
        self.focus()

    @on(CompletionPopup.Ready)
    def _act_late(self, event: CompletionPopup.Ready) -> None:
        """Let the key act that waited for candidates."""
        event.stop()
        held, self._held = self._held, None
        if held is not None:
            held()

    def _warn(self, problem: str) -> None:
        self.notify(plain(problem), severity="warning", markup=False)

    def _take_key(self, key: str) -> bool:
        held, self._held = self._held, None
        if held == self._enter:  # the candidates come too late for it
            self._send_or_break()
        act = self._keys.get(key)
        return act is not None and act()

    def _meant(self, meaning: KeyMeaning, key: Callable[[], bool]) -> bool:
        """Take the candidate, or have the key wait for one; False: neither is meant."""
        if self._draft is not None or meaning is KeyMeaning.TAKE:
            self._take()
        elif meaning is KeyMeaning.LATER:
            self._held = key
        else:
            return False
        return True

    def _enter(self) -> bool:
        if not self._meant(self._popup.enter(), self._enter):
            self._send_or_break()
        return True

    def _tab(self) -> bool:
        return self._meant(self._popup.tab(), self._tab) or self._popup.has_word

    def _escape(self) -> bool:
        if self._draft is not None:
            self.set_text(self._draft)
        elif self._popup.is_open:
            self._popup.decline()
        else:
            return False
        return True

    def _walk_back(self, by: int) -> bool:
        """Go up in the list, or to an older prompt; or down, to a newer one."""
        if self._popup.is_open:
            self._popup.move(-by)
        elif not (self._area.is_in_first_row if by > 0 else self._area.is_in_last_row):
            return False
        elif (entry := self._walk.go(by, self.text)) is not None:
            self._replace_all(entry)
        return True

    def _want_editor(self) -> bool:
        return self.post_message(self.EditorWanted(self.text))

    def _scroll(self, key: str) -> bool:
        return self.post_message(self.ScrollWanted(key))

    def _scroll_to_end(self) -> bool:
        return not self.text and self._scroll("ctrl+end")

    def _delete_marker(self) -> bool:
        marker = self._attachments.marker_before(self._area.before_cursor)
        if marker and self._area.selection.is_empty:
            self._area.replace_before_cursor(len(marker), "")
            return True
        return False

    def _search(self) -> bool:
        """Look for an earlier prompt: what is typed now is looked for, and the draft waits."""
        if self._draft is None:
            draft = self.text
            self._replace_all("")
            self._draft = draft
            self._show_found()
            self._show_mark()
        elif self._popup.is_open:
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
        whole = self._attachments.expanded(text)
        if self._walk.add(text) and self._file is not None:
            kept = whole if len(whole) <= LONGEST_KEPT else text
            self._in_thread(partial(self._file.append, kept), "the prompt was not saved to the history")
        self.set_text("")
        self.post_message(self.Sent(whole, self._attachments.images(text), steers))

    def _pasted(self, text: str) -> str:
        return self._attachments.taken(text, self._root)

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
        """Put in the candidate that is selected."""
        selected = self._popup.selected
        if self._draft is not None:
            self.set_text(selected.insert if selected is not None else self._draft)
        else:
            self._popup.take(self._area)

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _show_mark(self) -> None:
        """Show mark and hint, where they are others now: each change has the screen laid out again."""
        mark = self._mark_now()
        hint = "search earlier prompts" if self._draft is not None else self._placeholder
        if (mark, hint) != self._shown:
            self._shown = mark, hint
            self._mark.update(Content(mark))
            self._area.placeholder = Content(hint)

    def _mark_now(self) -> str:
        if self._draft is not None:
            return SEARCH_MARK
        app = cast("App[None]", self.app) if self.is_mounted else None  # pyright: ignore[reportUnknownMemberType]  Textual's has no type
        if app is not None and app.app_focus and not self._area.has_focus:
            return ""
        return SHELL_MARK if self.text.startswith("!") else READY_MARK

    def _in_thread(self, work: Callable[[], object], problem: str) -> None:
        """Read or write the history."""

        def guarded() -> None:
            try:
                work()
            except OSError as error:
                self.call_later(self._warn, f"{problem}: {error}")

        self.run_worker(guarded, thread=True, group="history", exit_on_error=False)

    def _load(self, file: HistoryFile) -> None:
        self.call_later(self._walk.put_before, [plain(entry) for entry in file.load()])


# --- what stands behind the markers of a prompt

LARGE_CHARACTERS = 2_000
LARGE_LINES = 20
IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp"})
LONGEST_PATHS = 4_096
_MARKER = re.compile(r"\[(?:pasted|image) \d+: [^\[\]\n]*\]")


class Attachments:
    """Keeps what was pasted for as long as the program runs: a marker may come back out of the history."""

    def __init__(self) -> None:
        self._pastes: dict[str, str] = {}
        self._images: dict[str, Path] = {}

    def taken(self, pasted: str, root: Path | None) -> str:
        """Return what to put in for a paste: cleaned text, or markers for much of it and for paths of images.

        Relative paths are those of ``root``.
        """
        if len(pasted) <= LONGEST_PATHS and (images := _image_files(pasted, root)):
            return " ".join(self._image_marker(image) for image in images)
        return self.folded(plain(pasted.replace("\r\n", "\n").replace("\r", "\n")))

    def folded(self, text: str) -> str:
        """Return the text, or a marker for one that is large."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if len(text) <= LARGE_CHARACTERS and lines <= LARGE_LINES:
            return text
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        marker = f"[pasted {len(self._pastes) + 1}: {size}]"
        self._pastes[marker] = text
        return marker

    def expanded(self, text: str) -> str:
        """Return the text with the pastes in the place of their markers."""
        return _MARKER.sub(lambda match: self._pastes.get(match.group(), match.group()), text)

    def images(self, text: str) -> tuple[Path, ...]:
        """Return the images whose markers are in the text, in their order, each once."""
        names = dict.fromkeys(match.group() for match in _MARKER.finditer(text))
        return tuple(self._images[name] for name in names if name in self._images)

    def marker_before(self, line: str) -> str:
        """Return the marker at the end of a line, to be deleted as a whole; empty if there is none."""
        start = line.rfind("[") if line.endswith("]") else -1
        marker = line[start:] if start >= 0 else ""
        return marker if marker in self._pastes or marker in self._images else ""

    def _image_marker(self, image: Path) -> str:
        for marker, known in self._images.items():
            if known == image:
                return marker
        name = re.sub(r"[\[\]]", "_", plain_line(image.name))
        marker = f"[image {len(self._images) + 1}: {name}]"
        self._images[marker] = image
        return marker


def _image_files(pasted: str, root: Path | None) -> list[Path]:
    """The files that a paste names, if it names nothing but image files that exist."""
    whole = _image_file(pasted.strip(), root)
    if whole is not None:
        return [whole]
    try:
        words = shlex.split(pasted)
    except ValueError:
        return []
    files = [_image_file(word, root) for word in words]
    found = [file for file in files if file is not None]
    return found if len(found) == len(files) else []


def _image_file(name: str, root: Path | None) -> Path | None:
    if name.startswith("file://"):
        name = unquote(name.removeprefix("file://").removeprefix("localhost"))
    if "\n" in name or "\0" in name or Path(name).suffix.lower() not in IMAGES:
        return None
    try:
        path = Path(name).expanduser()
        if root is not None:
            path = root / path
        return path if path.is_absolute() and path.is_file() else None
    except (OSError, RuntimeError):
        return None
