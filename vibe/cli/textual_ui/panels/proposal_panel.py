"""ProposalPanel: a plan that was proposed, to look at step by step, to have changed, and to run or drop."""

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
SHARE: Final = 0.8
"""Of the window's height that the panel may take."""
USUAL_ROOM: Final = (80, 24)
"""Cells and rows, before there is a window to be measured."""


class Page(Enum):
    """The page of a proposal that is shown."""

    PLAN = "plan"
    STEP = "step"
    COMMANDS = "commands"


class ProposalPanel(PanelFrame):
    """Shows a proposal; nothing of it runs before the person says so.

    Once another version is asked for, the plan can only be dropped until that is shown, or ``tell`` says why there is
    none.
    """

    TITLE: ClassVar[str] = "Proposed plan"
    DEFAULT_CSS = """
    ProposalPanel { border-left: outer $primary; }
    ProposalPanel.-asleep { border-left: outer $panel; }
    """

    @dataclass
    class Answered(Message):
        """The person said what is to become of the plan: ``word`` is one of ``VerdictKind``, ``text`` goes with it.

        To ``edit``, it is to be opened in their editor; once saved, it stays proposed.
        """

        word: str
        text: str = ""

    def __init__(self, event: PlanProposedEvent, before: PlanProposedEvent | None = None) -> None:
        super().__init__()
        self.event = event
        self._before = before
        self._chosen = ""
        self._group = ""
        """The group of steps that is open."""
        self._page = Page.PLAN
        self._room = USUAL_ROOM
        """Cells of a line, and rows of all."""
        self._places: Mapping[str, GraphPlace] = MappingProxyType({})
        """Of the steps that are drawn, or of their groups, in drawn order."""
        self._wished = ""
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
        """Return the page that is open."""
        from vibe.cli.textual_ui.panels import proposal_lines as pages  # noqa: PLC0415  behind the first frame

        self._chosen = self._chosen or pages.first_choice(self.event, self._group)
        shown = pages.ShownProposal(event=self.event, before=self._before, chosen=self._chosen, group=self._group)
        if self._page is Page.COMMANDS:
            return pages.commands_page(shown)
        if self._page is Page.STEP:
            return pages.step_page(shown)
        cols, rows = self._room
        lines, self._places = pages.plan_page(shown, cols, rows, self._wished)
        return lines

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return what can be done with it."""
        if self._page is not Page.PLAN:
            return [("Esc", "back to the plan")]
        if self._wished:
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
        """Return how to look around."""
        if self._page is not Page.PLAN or self._wished or self.is_narrow:
            return ""
        return f"←↑↓→ step · Enter opens · Esc {'all groups' if self._group else 'later'}"

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the rows that the proposal takes, which is drawn for the width."""
        room = (max(1, width - 3), int(viewport.height * SHARE) - KEY_ROWS)
        if room != self._room:
            self._room = room
            self.redraw()
        return super().get_content_height(container, viewport, width)

    def tell(self, notice: str) -> None:
        """Say something above the lines, such as why there is no other version; the keys count again."""
        self._wished = ""
        super().tell(notice)

    def pressed(self, key: str) -> bool:
        """Do what the key says; what took tokens and time is only dropped by a second ``d``."""
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
        elif not self._wished:
            self._acts[key]()
        return True

    def _revise(self, sentence: str) -> None:
        self.end_words()
        if sentence:
            self._wished = sentence
            self.post_message(self.Answered("revise", sentence))
            self.redraw(from_top=True)

    def _save(self, path: str) -> None:
        self.end_words()
        self.post_message(self.Answered("save", path or DEFAULT_PATH))

    def _open(self) -> None:
        """Open the chosen step, or the chosen group of steps."""
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
        """Go back to all groups, or put the plan off."""
        if not self._group:
            self.post_message(self.PutOff())
            return
        self._chosen, self._group = self._group, ""
        self.redraw(reveal=self._chosen)

    def _move(self, step: int) -> bool:
        """Choose the next step of the plan, as it is drawn; False: there is none further on."""
        names = list(self._places)
        at = names.index(self._chosen) + step if self._chosen in names else -1
        if not 0 <= at < len(names):
            return False
        self._choose(names[at])
        return True

    def _follow(self, key: str) -> bool:
        """Choose the nearest of the steps behind the chosen one, or of those before it; False: there is none."""
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
