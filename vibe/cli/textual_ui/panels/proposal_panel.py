"""ProposalPanel: shows a proposed plan for the person to inspect step by step, revise, run or drop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.geometry import Size
from textual.message import Message

from ipc.events import PlanProposedEvent
from vibe.cli.textual_ui.panels.panel_frame import Line, LineView, PanelFrame

if TYPE_CHECKING:
    from vibe.front.plan_graph import GraphPlace


DROPS: Final = "d again drops the plan; any other key keeps it"
DEFAULT_PATH: Final = "plan.json"
BACK_KEYS: Final = frozenset({"escape", "enter", "left", "q"})
KEY_ROWS: Final = 2
"""The rows kept free for the keys."""
SHARE: Final = 0.8
"""The share of the window's height that the panel may take."""
USUAL_ROOM: Final = (80, 24)
"""The cells and rows assumed until the window is measured."""


class Page(Enum):
    """The pages of a proposal."""

    PLAN = "plan"
    STEP = "step"
    COMMANDS = "commands"


class ProposalPanel(PanelFrame):
    """Shows a proposed plan; nothing of it runs before the person says so.

    Once the person has asked for a revision, they can only drop the plan, until the new version is shown or ``tell``
    says why there is none.
    """

    TITLE: ClassVar[str] = "Proposed plan"
    DEFAULT_CSS = """
    ProposalPanel { border-left: outer $primary; }
    ProposalPanel.-asleep { border-left: outer $panel; }
    """

    @dataclass
    class Answered(Message):
        """Posted when the person decides about the plan: ``word`` is one of ``VerdictKind``, with an optional ``text``.

        For ``edit``, the plan is to be opened in their editor; after it is saved, it is still a proposal.
        """

        word: str
        text: str = ""

    def __init__(self, event: PlanProposedEvent, before: PlanProposedEvent | None = None) -> None:
        super().__init__()
        self.event = event
        self._before = before
        self._chosen = ""
        self._group = ""
        """The group of steps that is open; blank if none is."""
        self._page = Page.PLAN
        self._room = USUAL_ROOM
        """The cells per line, and the rows for all lines."""
        self._places: Mapping[str, GraphPlace] = MappingProxyType({})
        """The places of the drawn steps, or of their groups, in the order they are drawn."""
        self._revision = ""
        self._is_dropping = False
        self._acts: dict[str, Callable[[], object]] = {
            "a": lambda: self.post_message(self.Answered("run")),
            "e": lambda: self.post_message(self.Answered("edit")),
            "r": partial(self.ask_words, "what should change?", self._revise),
            "s": partial(self.ask_words, f"file to write; Enter: {DEFAULT_PATH}", self._save),
            "c": partial(self._turn_to, Page.COMMANDS),
            "enter": self._open,
        }

    def lines(self) -> Sequence[Line]:
        """Return the lines of the open page."""
        from vibe.cli.textual_ui.panels import proposal_lines as pages  # noqa: PLC0415  after the first frame

        self._chosen = self._chosen or pages.first_choice(self.event, self._group)
        shown = pages.ShownProposal(event=self.event, before=self._before, chosen=self._chosen, group=self._group)
        if self._page is Page.COMMANDS:
            return list(pages.commands_page(shown))
        if self._page is Page.STEP:
            return list(pages.step_page(shown))
        cols, rows = self._room
        lines, self._places = pages.plan_page(shown, cols, rows, self._revision)
        return lines

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys of the open page."""
        if self._page is not Page.PLAN:
            return [("Esc", "back to the plan")]
        if self._revision:
            return [("d", "drop…")]
        short = self.is_narrow
        return [
            ("a", "run" if short else "accept and run"),
            ("r", "revise" if short else "revise by a sentence"),
            ("e", "edit"),
            ("s", "save"),
            ("d", "drop…"),
            *([("Enter", "open"), ("Esc", "later")] if short else []),
        ]

    def _hint(self) -> str:
        """Return the keys for looking around."""
        if self._page is not Page.PLAN or self._revision or self.is_narrow:
            return ""
        return f"←↑↓→ step · Enter opens · Esc {'all groups' if self._group else 'later'}"

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the rows that the proposal takes, after drawing it again if the room has changed."""
        room = (max(1, width - 3), int(viewport.height * SHARE) - KEY_ROWS)
        if room != self._room:
            self._room = room
            self.redraw()
        return super().get_content_height(container, viewport, width)

    def tell(self, notice: str) -> None:
        """Show a notice, such as why there is no new version; all keys work again."""
        self._revision = ""
        super().tell(notice)

    def pressed(self, key: str) -> bool:
        """Handle a key; the plan is dropped only by a second ``d``, as it took tokens and time to write."""
        self._is_dropping &= key == "d"
        if self._page is not Page.PLAN:
            return self._pressed_in_page(key)
        if key in {"up", "down"}:
            return self._move(1 if key == "down" else -1)
        if key in {"left", "right"}:
            return self._follow(key)
        if key == "escape":
            self._leave()
        elif key == "d" and not self._is_dropping:
            self.tell(DROPS)
            self._is_dropping = True
        elif key == "d":
            self.post_message(self.Answered("drop"))
        elif key not in self._acts:
            return False
        elif not self._revision:
            self._acts[key]()
        return True

    def _revise(self, sentence: str) -> None:
        self.end_words()
        if sentence:
            self._revision = sentence
            self.post_message(self.Answered("revise", sentence))
            self.redraw(from_top=True)

    def _save(self, path: str) -> None:
        self.end_words()
        self.post_message(self.Answered("save", path or DEFAULT_PATH))

    def _open(self) -> None:
        """Open the chosen step or group of steps."""
        if any(step.id == self._chosen for step in self.event.steps):
            self._turn_to(Page.STEP)
        elif self._chosen:
            self._group, self._chosen = self._chosen, ""
            self.redraw(from_top=True)

    def _turn_to(self, page: Page) -> None:
        self._page = page
        self.redraw(from_top=True)

    def _pressed_in_page(self, key: str) -> bool:
        if key not in BACK_KEYS and (key != "c" or self._page is not Page.COMMANDS):
            return False
        self._page = Page.PLAN
        self.redraw(reveal=self._chosen)
        return True

    def _leave(self) -> None:
        """Go back from a group to all groups, or put the plan off."""
        if not self._group:
            self.post_message(self.PutOff())
            return
        self._chosen, self._group = self._group, ""
        self.redraw(reveal=self._chosen)

    def _move(self, step: int) -> bool:
        """Choose the next (1) or previous (-1) step in drawn order; return False at the end."""
        names = list(self._places)
        at = names.index(self._chosen) + step if self._chosen in names else -1
        if not 0 <= at < len(names):
            return False
        self._choose(names[at])
        return True

    def _follow(self, key: str) -> bool:
        """Choose the nearest step that depends on the chosen one (right), or that it depends on (left).

        Return False if there is none.
        """
        own = next((step for step in self.event.steps if step.id == self._chosen), None)
        if own is None:
            return False
        near = own.depends_on
        if key == "right":
            near = tuple(step.id for step in self.event.steps if own.id in step.depends_on)
        row = self._places[own.id].row
        ids = [each for each in near if each in self._places]
        if ids:
            self._choose(min(ids, key=lambda each: abs(self._places[each].row - row)))
        return bool(ids)

    def _choose(self, name: str) -> None:
        self._chosen = name
        self.redraw(reveal=self._chosen)

    @on(LineView.Pointed)
    def _point(self, event: LineView.Pointed) -> None:
        event.stop()
        if not self.asleep and self._page is Page.PLAN:
            self._choose(event.key)
