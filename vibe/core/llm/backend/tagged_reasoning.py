"""Parts reasoning that comes in tags from the text of an answer."""

from __future__ import annotations

from enum import Enum


class _Tagged(Enum):
    """Parts of an answer with a tag, by what came of it so far."""

    BEFORE = "before"
    INSIDE = "inside"
    BEHIND = "behind"


class TaggedReasoning:
    """Parts reasoning from an answer that begins with ``<tag>``, however the pieces are cut.

    What may still turn out to be a tag is held back; ``rest`` gives it out in the end.
    """

    def __init__(self, tag: str) -> None:
        self._opening, self._closing = f"<{tag}>", f"</{tag}>"
        self._held = ""
        self._state = _Tagged.BEFORE
        self._at_tag = False  # nothing came behind the last tag yet: line ends there are its own

    def take(self, text: str) -> tuple[str, str]:
        """Take a piece: the reasoning and the text that are certain now."""
        self._held += text
        if self._state is _Tagged.BEFORE:
            start = self._held.lstrip()
            if start.startswith(self._opening):
                self._held, self._state, self._at_tag = start.removeprefix(self._opening), _Tagged.INSIDE, True
            elif not self._opening.startswith(start):
                self._state = _Tagged.BEHIND
        if self._at_tag:
            self._held = self._held.lstrip("\n")
            self._at_tag = not self._held
        if self._state is _Tagged.INSIDE:
            return self._inside()
        if self._state is _Tagged.BEHIND:
            held, self._held = self._held, ""
            return "", held
        return "", ""

    def rest(self) -> tuple[str, str]:
        """Return what was held back."""
        held, self._held = self._held, ""
        return (held, "") if self._state is _Tagged.INSIDE else ("", held)

    def _inside(self) -> tuple[str, str]:
        thought, closing, text = self._held.partition(self._closing)
        if closing:
            text = text.lstrip("\n")
            self._held, self._state, self._at_tag = "", _Tagged.BEHIND, not text
            return thought, text
        sizes = range(len(self._closing) - 1, 0, -1)
        kept = next((size for size in sizes if thought.endswith(self._closing[:size])), 0)
        border = len(thought) - kept
        self._held = thought[border:]
        return thought[:border], ""
