"""UIStateStore: holds the view of all runs and the screen's own state, and notifies presenters of changes."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct, field, structs

from ipc.events import Event
from vibe.view.agent_view import Key
from vibe.view.view import View, apply

SCREEN: Key = ("screen",)
"""The key that stands for the screen's own state among the keys that changed."""


class ScreenPhase(Enum):
    """The phases in the life of the screen."""

    STARTING = auto()
    """Keys are taken, but what is sent waits for the engine."""
    READY = auto()
    LEAVING = auto()


class QueuedLine(Struct, frozen=True):
    """A queued line and the image files that go with it; without ``is_line`` it is a prompt, never a command."""

    text: str
    images: tuple[Path, ...] = ()
    is_line: bool = True


class ScreenState(Struct, frozen=True, kw_only=True):
    """The screen's own state; ``queued`` are lines that wait for the agent's prompt to end, or for the engine."""

    phase: ScreenPhase = ScreenPhase.STARTING
    queued: tuple[QueuedLine, ...] = ()


Present: TypeAlias = Callable[[View, frozenset[Key]], object]
"""Updates widgets with the part of the state that changed; presenters are called in the order they were added."""


class UIStateStore(Struct, eq=False):
    """An event sink that also takes changes of the screen, and passes all changes to presenters.

    ``wake`` is called when there is something to show, and not again until ``flush`` has shown it.
    """

    _wake: Callable[[], object]
    view: View = field(default_factory=View)
    screen: ScreenState = field(default_factory=ScreenState)
    _presenters: list[Present] = field(default_factory=list[Present])
    _changed: set[Key] = field(default_factory=set[Key])

    def add(self, present: Present) -> None:
        """Add a presenter, which gets the changes from now on."""
        self._presenters.append(present)

    def remove(self, present: Present) -> None:
        """Remove a presenter."""
        self._presenters.remove(present)

    def publish(self, event: Event) -> None:
        """Fold one event into the view."""
        self._note(apply(self.view, event))

    def change(self, **fields: Any) -> None:
        """Change the screen's own state."""
        self.screen = structs.replace(self.screen, **fields)
        self._note((SCREEN,))

    def flush(self) -> None:
        """Call the presenters with all that changed since the last flush."""
        changed, self._changed = frozenset(self._changed), set()
        if changed:
            for present in self._presenters:
                present(self.view, changed)

    def restart(self) -> None:
        """Start with an empty view, for another chat or run."""
        self.view = View()
        self._note((SCREEN,))

    def _note(self, keys: tuple[Key, ...]) -> None:
        was_asleep = not self._changed
        self._changed.update(keys)
        if was_asleep and self._changed:
            self._wake()
