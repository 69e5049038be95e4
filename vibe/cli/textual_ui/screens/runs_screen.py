"""RunsScreen: lists all runs on this machine, those that wait for the person first, to answer, open and find them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from msgspec import Struct
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from vibe.cli.textual_ui.log.painted_sheet import PaintedSheet
from vibe.cli.textual_ui.log.rows import LinesPage
from vibe.front.cells import Line, fit, spread
from vibe.front.run_list import ListPlace, answer_of, head_line, list_body, request_detail
from vibe.system.errors import EnvironmentFailure

if TYPE_CHECKING:
    from ipc.commands import RunCommand
    from vibe.app.watch.board import Board, WaitingRequest
    from vibe.app.watch.commands import CommandOutcome
    from vibe.app.watch.runs import KnownRun

    Send: TypeAlias = Callable[[KnownRun, RunCommand], Awaitable[CommandOutcome]]

BY: Final = "dashboard"
MOST_COLUMNS: Final = 140
"""The most columns of a line, so that its figures are not far from its goal."""
GUARD_S: Final = 0.5
"""The time, in seconds, in which a request ignores keys after it appeared or moved."""
NOTIFICATION_S: Final = 2.0
"""The time, in seconds, for which to show who answered a request elsewhere."""
DRAW_S: Final = 0.25
"""The interval at which to check for changes."""
FRAME: Final = 3
"""The rows besides the list: the head line, the blank one below it, and the keys."""
KEYS: Final = (
    ("↑↓", "choose"),
    ("Enter", "attach"),
    ("y n 1-9", "answer"),
    ("w", "next waiting"),
    ("/", "find"),
    ("o", "page"),
    ("q", "leave"),
)
LOOKING: Final = "looking for runs …"
NONE: Final = "no run, and none before: `vibe plan run FILE` or `vibe` begins one"
NOT_FOUND: Final = "no run has these words"
IN_FULL: Final = "Enter shows all of it: it is answered there"


class RunsDesk(Struct, kw_only=True):
    """The state of the list, which outlives its screen.

    ``board`` is None until it is loaded. ``send`` sends answers, and ``page`` serves the browser's page and returns its
    address for a run. ``query`` is the search text, or None if all runs are shown. ``clock`` returns Unix seconds,
    ``seconds`` monotonic ones.
    """

    board: Board | None = None
    send: Send | None = None
    page: Callable[[str], Awaitable[str]] | None = None
    chosen: ListPlace | None = None
    query: str | None = None
    clock: Callable[[], float] = time.time
    seconds: Callable[[], float] = time.monotonic


class RunsScreen(Screen[str]):
    """The list of runs; its result is the run to attach to, or blank if the person leaves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up"),
        Binding("down,j", "move(1)", "Down"),
        Binding("pageup", "move(-10)", "Up"),
        Binding("pagedown", "move(10)", "Down"),
        Binding("enter", "attach", "Attach"),
        Binding("w", "next_waiting", "Next that waits"),
        Binding("slash", "find", "Find"),
        Binding("o", "open_page", "Open the page in a browser"),
        Binding("escape", "stop_finding", "Find no more"),
        Binding("q", "dismiss('')", "Leave"),
    ]

    def __init__(self, desk: RunsDesk) -> None:
        super().__init__()
        self._desk = desk
        self._finding = False
        self._page = LinesPage(self._draw_page)
        self._steady: tuple[object, float] = (None, 0.0)
        """The chosen place with its row on the screen, and when it came there."""
        self._shown: list[ListPlace | None] = []
        self._places: list[ListPlace] = []
        self._answering: set[str] = set()
        self._open: dict[str, WaitingRequest] = {}
        self._in_full = True

    def compose(self) -> ComposeResult:
        """Compose the page."""
        yield self._page

    def on_mount(self) -> None:
        """Redraw on changes, and every second for the times."""
        self.set_interval(DRAW_S, self._draw_changed)
        self.set_interval(1.0, self._page.refresh)

    def _draw_changed(self) -> None:
        board = self._desk.board
        if board is not None and board.take_changed():
            self._page.refresh()

    # --- keys

    def on_key(self, event: events.Key) -> None:
        """Take a key of the search text, or the answer to the chosen request."""
        if self._finding:
            query = self._desk.query or ""
            if event.key == "enter":
                self._finding = False
            elif event.key == "backspace":
                self._desk.query = query[:-1]
            elif event.is_printable and event.character:
                self._desk.query = query + event.character
            else:
                return
            event.stop()
            self._page.refresh()
        elif event.character and event.character in "123456789ysan":
            event.stop()
            self._answer(event.character)

    def action_move(self, by: int) -> None:
        """Choose another place, unless the person is typing a search."""
        known = self._places
        if self._desk.chosen in known and not self._finding:
            at = known.index(self._desk.chosen)
            self._choose(known[max(0, min(at + by, len(known) - 1))])

    def action_next_waiting(self) -> None:
        """Choose the next request, from the last around to the first."""
        waiting = [place for place in self._places if place.request]
        if waiting:
            at = waiting.index(self._desk.chosen) + 1 if self._desk.chosen in waiting else 0
            self._choose(waiting[at % len(waiting)])

    def _choose(self, place: ListPlace) -> None:
        self._desk.chosen = place
        self._page.refresh()

    def action_find(self) -> None:
        """Start searching for what is typed."""
        self._finding, self._desk.query = True, self._desk.query or ""
        self._page.refresh()

    def action_stop_finding(self) -> None:
        """Show all runs again."""
        self._finding, self._desk.query = False, None
        self._page.refresh()

    def action_attach(self) -> None:
        """Attach to the chosen run if it is live; otherwise say which command shows or resumes its plan."""
        place, board = self._desk.chosen, self._desk.board
        if place is None or board is None:
            return
        run = next((each for each in board.runs if each.key == place.run), None)
        if run is not None and run.live:
            self.dismiss(run.key)
        elif run is not None and run.is_plan:
            row = board.rows()[run.key]
            left = row.get("status") in {"lost", "paused"}
            self.notify(f"`vibe plan {'resume' if left else 'report'} {run.key}`", title="it has ended", markup=False)

    def action_open_page(self) -> None:
        """Open the browser's page at the chosen run."""
        place, page = self._desk.chosen, self._desk.page
        if page is not None:
            self.run_worker(self._open_page(page, "" if place is None else place.run), group="page", exclusive=True)

    async def _open_page(self, page: Callable[[str], Awaitable[str]], key: str) -> None:
        try:
            self.post_message(PaintedSheet.LinkClicked(await page(key)))
        except EnvironmentFailure as error:
            self.notify(str(error), severity="warning", markup=False)

    def on_click(self, event: events.Click) -> None:
        """Choose what was clicked, or attach to it if it is chosen already."""
        row = event.screen_y - 2
        place = self._shown[row] if 0 <= row < len(self._shown) else None
        if place is not None and place == self._desk.chosen:
            self.action_attach()
        elif place is not None:
            self._choose(place)

    # --- answers

    def _answer(self, key: str) -> None:
        waiting = self._waiting()
        if waiting is None or self._desk.seconds() - self._steady[1] < GUARD_S or waiting.request.id in self._answering:
            return
        if not self._in_full:
            self.notify(IN_FULL, markup=False)
            return
        command = answer_of(waiting.request, key, BY)
        if command is not None and self._desk.send is not None:
            self._answering.add(waiting.request.id)
            self.run_worker(self._send(waiting, command, self._desk.send), exit_on_error=False)

    async def _send(self, waiting: WaitingRequest, command: RunCommand, send: Send) -> None:
        outcome = await send(waiting.run, command)
        if outcome.state != "done":
            self._answering.discard(waiting.request.id)
            self.notify(outcome.message, severity="warning", markup=False)

    def _waiting(self) -> WaitingRequest | None:
        """Return the chosen request, or None."""
        chosen, board = self._desk.chosen, self._desk.board
        every = () if board is None or chosen is None else board.waiting
        return next((each for each in every if chosen and each.request.id == chosen.request), None)

    def _show_settled(self, board: Board) -> None:
        """Say who answered the requests that are gone, unless that was done here."""
        before, self._open = self._open, {each.request.id: each for each in board.waiting}
        for request_id in before.keys() - self._open.keys() - self._answering:
            outcome = before[request_id].settled
            if outcome is not None and outcome.by != BY:
                words = f"{outcome.message.removeprefix('already ')}: {before[request_id].request.asked}"
                self.call_later(self.notify, words, timeout=NOTIFICATION_S, markup=False)

    # --- the picture

    def _draw_page(self, cols: int, rows: int) -> Sequence[Line]:
        board, cols = self._desk.board, min(cols, MOST_COLUMNS)
        if board is None or not board.ready.is_set():
            return [fit([(" vibe", "bold")], cols), fit([], cols), fit([(f" {LOOKING}", "muted")], cols)]
        runs, requests, now = board.rows(), board.requests(), self._desk.clock()
        self._show_settled(board)
        body = [*list_body(runs, requests, self._desk.chosen, self._desk.query or "", now, cols)]
        self._places = list(dict.fromkeys(place for _, place in body if place is not None))
        if self._desk.chosen not in self._places:
            self._desk.chosen = self._nearest()
            body = [*list_body(runs, requests, self._desk.chosen, self._desk.query or "", now, cols)]
        room = max(1, rows - FRAME)
        body = self._in_sight(body, cols, room)
        self._shown = [place for _, place in body]
        lines = [line for line, _ in body] or [fit([(f" {NOT_FOUND if runs else NONE}", "muted")], cols)]
        blank = [fit([], cols)] * (room - len(lines))
        return [head_line(runs.values(), len(requests), now, cols), fit([], cols), *lines, *blank, self._foot(cols)]

    def _in_sight(
        self, body: list[tuple[Line, ListPlace | None]], cols: int, room: int
    ) -> list[tuple[Line, ListPlace | None]]:
        """Return the part of the list around the chosen place that fits, with the details of a chosen request."""
        at = end = max((row for row, (_, place) in enumerate(body) if place == self._desk.chosen), default=0)
        waiting = self._waiting()
        if waiting is not None:
            detail = request_detail(waiting.request, cols)
            self._in_full = len(detail) < room
            note = fit([(f"     … {IN_FULL}", "warn")], cols)
            shown = detail if self._in_full else [*detail[: max(0, room - 2)], note]
            body[at + 1 : at + 1] = [(line, self._desk.chosen) for line in shown]
            end = at + len(shown)
        first = max(0, min(at - room // 3, len(body) - room), end - room + 1)
        steady = (self._desk.chosen, at - first)
        if steady != self._steady[0]:
            self._steady = (steady, self._desk.seconds())
        return body[first : first + room]

    def _nearest(self) -> ListPlace | None:
        """Return the place to choose after the chosen one is gone: another one of the same run, else the first."""
        chosen = self._desk.chosen
        same = [place for place in self._places if chosen is not None and place.run == chosen.run]
        return next(iter(same or self._places), None)

    def _foot(self, cols: int) -> Line:
        if self._desk.query is not None:
            cursor = ("▏" if self._finding else "", "accent")
            return spread([(" / ", "bold accent"), (self._desk.query, ""), cursor], [("Esc all ", "muted")], cols)
        pieces = (piece for key, word in KEYS for piece in ((key, "bold accent"), (f" {word}  ", "muted")))
        return fit([(" ", ""), *pieces], cols)
