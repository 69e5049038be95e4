"""PromptArea, the text area of the prompt; Attachments, which its markers stand for; and OneLine, for a sentence."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

from textual import events
from textual.actions import SkipAction
from textual.binding import Binding, BindingType, NoBinding
from textual.widgets import Input, TextArea
from wcwidth import grapheme_boundary_before, iter_graphemes

from vibe.cli.textual_ui.refresher import app_of
from vibe.system.plain_text import plain, plain_line

ROWS = 8
"""The most rows that the text area takes."""


class PromptArea(TextArea):
    """A text area that grows with its text and handles all keys in the order in which they come.

    ``first`` is called with every key, and returns whether it has handled it. ``pasted`` returns the text to insert for
    what is pasted. ``edited`` is called after every change, before the next key.
    """

    DEFAULT_CSS = f"""
    PromptArea, PromptArea:focus {{
        height: auto; min-height: 1; max-height: {ROWS}; border: none; padding: 0;
        background: transparent; scrollbar-size: 1 1;
    }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("shift+enter,ctrl+j,alt+enter", "newline", "Begin another line", show=False),
        Binding("ctrl+underscore", "undo", "Take back what you typed last", show=False),
        Binding("alt+d", "delete_word_right", "Delete to the end of the word", show=False),
        Binding("alt+b,alt+left", "cursor_word_left", "A word to the left", show=False),
        Binding("alt+f,alt+right", "cursor_word_right", "A word to the right", show=False),
    ]

    def __init__(self, first: Callable[[str], bool], pasted: Callable[[str], str], edited: Callable[[], None]) -> None:
        self._edited: Callable[[], None] | None = None  # the base class edits during its construction
        super().__init__(soft_wrap=True, highlight_cursor_line=False, compact=True)
        self._first = first
        self._pasted = pasted
        self._edited = edited
        self.cursor_blink = False
        self.match_cursor_bracket = False  # it would search the whole text

    @property
    def before_cursor(self) -> str:
        """The text of the line before the cursor."""
        row, column = self.cursor_location
        return self.document.get_line(row)[:column]

    def ends(self, *, above: bool) -> bool:
        """Return whether the cursor is in the first row (``above``), or in the last."""
        is_edge = self.navigator.is_first_wrapped_line if above else self.navigator.is_last_wrapped_line
        return is_edge(self.cursor_location)

    def replace_before_cursor(self, length: int, text: str) -> None:
        """Replace the ``length`` characters before the cursor by ``text``."""
        row, column = self.cursor_location
        self.replace(text, (row, column - length), (row, column), maintain_selection_offset=False)

    def load_text(self, text: str) -> None:
        """Show another text, with the cursor at its end."""
        super().load_text(text)
        self.move_cursor(self.document.end)

    def update_suggestion(self) -> None:
        """Report a change; the base class calls this after each one."""
        if self._edited is not None:
            self._edited()

    def action_newline(self) -> None:
        """Begin a new line, unless the text is blank: an Enter pressed early comes as Ctrl+J, too."""
        if self.text.strip():
            self.replace("\n", *self.selection, maintain_selection_offset=False)

    def get_cursor_left_location(self) -> tuple[int, int]:
        """Return the place before the character to the left, as a person sees it: an emoji may be many code points."""
        row, column = self.cursor_location
        line = self.document.get_line(row)
        return (row, grapheme_boundary_before(line, column)) if column else super().get_cursor_left_location()

    def get_cursor_right_location(self) -> tuple[int, int]:
        """Return the place behind the character to the right, as a person sees it."""
        row, column = self.cursor_location
        seen = next(iter_graphemes(self.document.get_line(row)[column:]), "")
        return (row, column + len(seen)) if seen else super().get_cursor_right_location()

    def action_delete_right(self) -> None:
        """Delete to the right; without text, leave Ctrl+D to the app."""
        if not self.text:
            raise SkipAction
        super().action_delete_right()

    async def _on_key(self, event: events.Key) -> None:
        """Run the actions of bound keys at once, too; otherwise the next letter could be handled before them."""
        if self._first(event.key):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)
        if event.is_printable:
            return
        try:
            bindings = self._bindings.get_bindings_for_key(event.key)
        except NoBinding:
            return
        if await app_of(self).run_action(bindings[0].action, self):
            event.stop()
            event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.replace(self._pasted(event.text), *self.selection, maintain_selection_offset=False)


# --- what the markers of a prompt stand for

LARGE_CHARACTERS = 2_000
"""The most characters of a paste that are inserted as they are; a marker stands for a larger one."""
LARGE_LINES = 20
"""The most lines of such a paste."""
IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp"})
LONGEST_PATHS = 4_096
"""The most characters of a paste that is checked for paths of images."""
_MARKER = re.compile(r"\[(?:pasted|image) \d+: [^\[\]\n]*\]")


class Attachments:
    """Keeps what was pasted for as long as the program runs, as a marker may come back from the history."""

    def __init__(self) -> None:
        self.root: Path | None = None
        """The folder that relative paths start from; None if only absolute paths count."""
        self._pastes: dict[str, str] = {}
        self._images: dict[str, Path] = {}

    def taken(self, pasted: str) -> str:
        """Return what to insert for a paste: cleaned text, a marker for a large one, or markers for image paths."""
        if len(pasted) <= LONGEST_PATHS and (images := _image_files(pasted, self.root)):
            return " ".join(self._image_marker(image) for image in images)
        return self.folded(plain(pasted.replace("\r\n", "\n").replace("\r", "\n")))

    def folded(self, text: str) -> str:
        """Return the text, or a marker for a large one."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if len(text) <= LARGE_CHARACTERS and lines <= LARGE_LINES:
            return text
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        marker = f"[pasted {len(self._pastes) + 1}: {size}]"
        self._pastes[marker] = text
        return marker

    def expanded(self, text: str) -> str:
        """Return the text with markers replaced by the pasted texts."""
        return _MARKER.sub(lambda match: self._pastes.get(match.group(), match.group()), text)

    def unknown(self, text: str) -> str:
        """Return the first marker that stands for nothing, as it may be another process's; blank if there is none."""
        names = (match.group() for match in _MARKER.finditer(text))
        return next((name for name in names if name not in self._pastes and name not in self._images), "")

    def images(self, text: str) -> tuple[Path, ...]:
        """Return the images whose markers are in the text, in order and without duplicates."""
        names = dict.fromkeys(match.group() for match in _MARKER.finditer(text))
        return tuple(self._images[name] for name in names if name in self._images)

    def marker_before(self, line: str) -> str:
        """Return the marker at the end of a line, to be deleted as a whole; blank if there is none."""
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
    """Return the files a paste names, if it names nothing but existing image files."""
    whole = _image_file(pasted.strip(), root)
    if whole is not None:
        return [whole]
    try:
        words = shlex.split(pasted)
    except ValueError:
        return []
    found = [file for word in words if (file := _image_file(word, root)) is not None]
    return found if len(found) == len(words) else []


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


# --- a sentence elsewhere

LONGEST_PASTE = 20_000
"""The most characters that are pasted: each key takes the longer, the longer the line is."""


class OneLine(Input):
    """An input of one line. What is pasted goes into it as a whole, its lines one after the other."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("alt+d,alt+delete", "delete_right_word", "Delete to the end of the word", show=False),
        Binding("alt+backspace,ctrl+backspace", "delete_left_word", "Delete the word before", show=False),
        Binding("alt+b,alt+left", "cursor_left_word", "A word to the left", show=False),
        Binding("alt+f,alt+right", "cursor_right_word", "A word to the right", show=False),
    ]

    def _on_paste(self, event: events.Paste) -> None:
        if len(event.text) > LONGEST_PASTE:
            self.notify(f"only the first {LONGEST_PASTE:,} characters were pasted", severity="warning")
        event.text = plain_line(event.text[:LONGEST_PASTE])  # the base class inserts the first line only


def priority_binding(key: str, action: str, description: str) -> Binding:
    """Return a binding with priority: its action must run before the next key, as it may open the input for that."""
    return Binding(key, action, description, priority=True, show=False)
