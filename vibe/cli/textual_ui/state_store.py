"""UIStateStore: the one view of what runs, the small state of the screen beside it, and who shows which of it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ipc.events import Event
from vibe.view.agent_view import Key
from vibe.view.view import View, apply

SCREEN: Key = ("screen",)
"""The key of the screen's own state among the keys that changed."""


class ScreenPhase(Enum):
    """The life of the screen."""

    STARTING = auto()
    """Keys are taken; what is sent waits for the engine."""
    READY = auto()
    LEAVING = auto()


class QueuedLine(Struct, frozen=True):
    """A line that waits, with the image files that go with it; one that is no line as typed is a prompt in any case."""

    text: str
    images: tuple[Path, ...] = ()
    is_line: bool = True


class ScreenState(Struct, frozen=True, kw_only=True):
    """The screen's own state. ``queued`` are prompts that wait for the agent's turn to end, or for the engine."""

    phase: ScreenPhase = ScreenPhase.STARTING
    queued: tuple[QueuedLine, ...] = ()


Present: TypeAlias = Callable[[View, frozenset[Key]], object]
"""Puts a part of the state into widgets, as far as it changed; called in the order in which such were added."""


class UIStateStore:
    """Takes events and changes of the screen, and has presenters show them; an event sink.

    ``wake`` is called once when there is something to show, until ``flush`` shows it.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self.view = View()
        self.screen = ScreenState()
        self._wake = wake
        self._presenters: list[Present] = []
        self._changed: set[Key] = set()

    def add(self, present: Present) -> None:
        """Have one more show what changes from now on."""
        self._presenters.append(present)

    def remove(self, present: Present) -> None:
        """Have one show nothing any more."""
        self._presenters.remove(present)

    def publish(self, event: Event) -> None:
        """Take one event."""
        self._note(apply(self.view, event))

    def change(self, **fields: Any) -> None:
        """Change the screen's own state."""
        self.screen = replace(self.screen, **fields)
        self._note((SCREEN,))

    def flush(self) -> None:
        """Show all that changed since the last time."""
        changed, self._changed = frozenset(self._changed), set()
        if changed:
            for present in self._presenters:
                present(self.view, changed)

    def restart(self) -> None:
        """Forget what ran; for a run elsewhere that is looked at from here on."""
        self.view = View()
        self._note((SCREEN,))

    def _note(self, keys: tuple[Key, ...]) -> None:
        was_asleep = not self._changed
        self._changed.update(keys)
        if was_asleep and self._changed:
            self._wake()
