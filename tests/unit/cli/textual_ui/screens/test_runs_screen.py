"""The list of runs: it is moved through, answered from, searched, and left for a run."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual import on
from textual.app import App
from textual.pilot import Pilot

from ipc import events as e
from ipc.commands import Approve, Decide, RunCommand
from tests.fakes.boards import COMMAND, asking_board, board_of, known_run
from vibe.app.watch.board import Board
from vibe.app.watch.commands import CommandOutcome
from vibe.app.watch.runs import KnownRun
from vibe.cli.textual_ui.log.painted_sheet import PaintedSheet
from vibe.cli.textual_ui.log.rows import LinesPage
from vibe.cli.textual_ui.screens.runs_screen import IN_FULL, RunsDesk, RunsScreen
from vibe.system.errors import EnvironmentFailure
from vibe.view.view import apply

NOW = 1_800_000_000.0


class Watching(App[None]):
    """An app with the list on it. ``sent`` holds the answers given there."""

    left_for: str | None = "still there"

    def __init__(self, board: Board | None) -> None:
        super().__init__()
        self.time = 10.0
        self.sent: list[RunCommand] = []
        self.told: list[str] = []
        self.opened: list[str] = []
        self.serves = False
        self.outcome = CommandOutcome(state="done", message="done")
        self.desk = RunsDesk(
            board=board, send=self._send, page=self._page, clock=lambda: NOW, seconds=lambda: self.time
        )

    async def _page(self, key: str) -> str:
        if not self.serves:
            raise EnvironmentFailure("the page can't be served")
        return f"http://127.0.0.1/?run={key}"

    @on(PaintedSheet.LinkClicked)
    def _open(self, message: PaintedSheet.LinkClicked) -> None:
        self.opened.append(message.url)

    async def _send(self, _: KnownRun, command: RunCommand) -> CommandOutcome:
        self.sent.append(command)
        return self.outcome

    def notify(self, message: str, **_: Any) -> None:
        self.told.append(message)

    def on_mount(self) -> None:
        self.open()

    def open(self) -> None:
        """Show the list."""
        self.push_screen(RunsScreen(self.desk), lambda key: setattr(self, "left_for", key))

    @property
    def text(self) -> str:
        return self.screen.query_one(LinesPage).render().plain

    @property
    def chosen(self) -> str:
        place = self.desk.chosen
        return "" if place is None else place.request or place.run


@asynccontextmanager
async def shown(board: Board | None, size: tuple[int, int] = (100, 30)) -> AsyncGenerator[tuple[Watching, Pilot[None]]]:
    app = Watching(board)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        app.text  # noqa: B018  the first picture, after which the guard counts
        yield app, pilot


async def test_what_waits_is_first_and_chosen_and_keys_go_through_all(tmp_path: Path) -> None:
    async with shown(asking_board(tmp_path, NOW)) as (app, pilot):
        headings = [
            line.strip() for line in app.text.splitlines() if line.strip() in {"Waiting for you", "Running", "Earlier"}
        ]
        assert headings == ["Waiting for you", "Running", "Earlier"]
        assert app.chosen == "b7c2d4-20261128:where", "the one that was asked first"
        seen: list[str] = []
        for _ in range(6):
            await pilot.press("down")
            seen.append(app.chosen)
        assert seen == ["r1", "c0ffee-20261128", "three", "d00d1e-20261127", "five", "five"]
        await pilot.press("w")
        assert app.chosen == "b7c2d4-20261128:where"
        await pilot.press("w")
        assert app.chosen == "r1"


async def test_a_request_is_answered_once_it_has_been_there_for_half_a_second(tmp_path: Path) -> None:
    async with shown(asking_board(tmp_path, NOW)) as (app, pilot):
        await pilot.press("2")
        assert app.sent == [], "it has just appeared"
        app.time += 0.6
        await pilot.press("2")
        await pilot.pause()
        assert app.sent == [Decide(decision_id="where", selections=("registry",), by="dashboard")]
        await pilot.press("down")
        app.text  # noqa: B018
        await pilot.press("n")
        assert len(app.sent) == 1, "another was chosen just now"
        app.time += 0.6
        await pilot.press("9", "x", "n")
        await pilot.pause()
        assert app.sent[1:] == [Approve(request_id="r1", allow=False, by="dashboard")]


async def test_a_command_is_shown_whole_before_it_can_be_allowed(tmp_path: Path) -> None:
    async with shown(asking_board(tmp_path, NOW), (60, 24)) as (app, pilot):
        await pilot.press("down")
        assert COMMAND.replace(" ", "") in "".join(app.text.split())
    async with shown(asking_board(tmp_path, NOW), (60, 7)) as (app, pilot):
        await pilot.press("down")
        assert IN_FULL[:20] in app.text
        app.time += 1.0
        await pilot.press("1")
        await pilot.pause()
        assert app.sent == []


async def test_answered_elsewhere_it_goes_and_a_late_answer_says_by_whom(tmp_path: Path) -> None:
    board = asking_board(tmp_path, NOW)
    async with shown(board) as (app, pilot):
        app.outcome = CommandOutcome(state="answered", message="already allowed by Ana", by="Ana")
        app.time += 1.0
        await pilot.press("1")
        await pilot.pause()
        assert app.told == ["already allowed by Ana"]
        view = board.waiting[0].view
        apply(view, e.PlanDecisionEvent(
            decision_id="where", question="", options=("staging", "registry"), selections=("staging",), by="Ana",
            source="one", plan_id="b7c2d4-20261128", ts=NOW,
        ))  # fmt: skip
        assert "Staging first" not in app.text
        assert app.chosen == "r1", "the next one of the same run"
        await pilot.pause()
        assert app.told[1:] == ["answered by Ana: Where should textkit 1.1 go?"]


async def test_enter_leaves_for_a_run_and_the_list_is_where_it_was(tmp_path: Path) -> None:
    async with shown(asking_board(tmp_path, NOW)) as (app, pilot):
        await pilot.press("down", "down", "enter")
        assert app.left_for == "c0ffee-20261128"
        app.open()
        await pilot.pause()
        assert "▸ Move the API to v2" in app.text


async def test_one_that_ended_can_be_read_about_only(tmp_path: Path) -> None:
    ended = known_run("one", "plan-1", NOW - 500, live=False, title="Old")
    async with shown(board_of(tmp_path, (ended, ()))) as (app, pilot):
        await pilot.press("enter")
        assert app.left_for == "still there"
        assert app.told == ["`vibe plan report plan-1`"]


async def test_a_run_is_found_by_words_and_esc_shows_all_again(tmp_path: Path) -> None:
    async with shown(asking_board(tmp_path, NOW)) as (app, pilot):
        await pilot.press("slash", *"api w", "backspace", "q", "backspace", "backspace", "enter")
        assert "/ api" in app.text
        assert (app.chosen, "Rename" in app.text) == ("c0ffee-20261128", False)
        await pilot.press("escape")
        assert "Rename" in app.text
        await pilot.press("slash", *"zzz")
        assert "no run has these words" in app.text


async def test_the_line_to_find_by_is_drawn_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(asking_board(tmp_path, NOW)) as (app, pilot):
        drawn: list[str] = []
        page = app.screen.query_one(LinesPage)
        monkeypatch.setattr(page, "refresh", lambda: drawn.append(app.text.splitlines()[-1]))
        await pilot.press("slash")
        assert drawn
        assert drawn[0].startswith(" / ▏")


async def test_o_opens_the_page_at_the_run_or_says_why_not(tmp_path: Path) -> None:
    async with shown(asking_board(tmp_path, NOW)) as (app, pilot):
        await pilot.press("o")
        await pilot.pause()
        assert (app.opened, app.told) == ([], ["the page can't be served"])
        app.serves = True
        await pilot.press("o")
        await pilot.pause()
        assert app.opened == ["http://127.0.0.1/?run=b7c2d4-20261128"]


async def test_a_click_chooses_and_a_second_one_attaches(tmp_path: Path) -> None:
    async with shown(asking_board(tmp_path, NOW)) as (app, pilot):
        row = next(at for at, line in enumerate(app.text.splitlines()) if "Move the API" in line)
        await pilot.click(LinesPage, offset=(5, row))
        assert (app.chosen, app.left_for) == ("c0ffee-20261128", "still there")
        row = next(at for at, line in enumerate(app.text.splitlines()) if "Move the API" in line)
        await pilot.click(LinesPage, offset=(5, row))
        assert app.left_for == "c0ffee-20261128"


async def test_without_runs_it_says_how_to_begin_and_q_leaves(tmp_path: Path) -> None:
    async with shown(None) as (app, pilot):
        assert "looking for runs" in app.text
        app.desk.board = board_of(tmp_path)
        assert "no run, and none before" in app.text
        await pilot.press("1", "w", "enter", "down", "q")
        assert app.left_for == ""


async def test_of_hundreds_of_earlier_runs_fifty_are_listed_and_all_are_found(tmp_path: Path) -> None:
    many = [(known_run(f"run-{n}", None, NOW - n, live=False, title=f"Number {n}"), ()) for n in range(500)]
    async with shown(board_of(tmp_path, *many), (80, 12)) as (app, pilot):
        for _ in range(6):
            await pilot.press("pagedown")
        assert "▸ Number 49" in app.text
        assert len(app.text.splitlines()) == 12
        await pilot.press("slash", *"number 499")
        assert "▸ Number 499" in app.text
