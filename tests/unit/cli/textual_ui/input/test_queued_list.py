"""Waiting prompts are listed above the input."""

from __future__ import annotations

from textual.app import App, ComposeResult

from vibe.cli.textual_ui.overview.ticker import QueuedList, queued_lines
from vibe.cli.textual_ui.state_store import QueuedLine, ScreenPhase, UIStateStore


class QueueStage(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.store = UIStateStore(lambda: None)
        self.listed = QueuedList(self.store)
        self.store.add(self.listed.present)

    def compose(self) -> ComposeResult:
        yield self.listed

    @property
    def shown(self) -> str:
        return str(self.listed.content) if self.listed.display else ""

    def wait_with(self, *texts: str, phase: ScreenPhase = ScreenPhase.READY) -> None:
        self.store.change(queued=tuple(map(QueuedLine, texts)), phase=phase)
        self.store.flush()


async def test_what_waits_is_listed_in_order_and_takes_no_room_once_it_is_sent() -> None:
    async with (app := QueueStage()).run_test() as pilot:
        app.wait_with("first", "second\nof two lines")
        await pilot.pause()
        assert app.shown.splitlines() == [
            "waiting:",
            "1. first",
            "2. second of two lines",
            "Ctrl+S sends now · Alt+Up edits the last",
        ]
        app.wait_with()
        await pilot.pause()

        assert app.shown == ""
        assert app.listed.region.height == 0


async def test_while_the_engine_starts_no_agent_can_be_told() -> None:
    async with (app := QueueStage()).run_test():
        app.wait_with("early", phase=ScreenPhase.STARTING)

        assert app.shown == "waiting:\n1. early"


async def test_a_narrow_screen_cuts_the_lines() -> None:
    async with (app := QueueStage()).run_test(size=(20, 10)) as pilot:
        app.wait_with("a prompt that is longer than the screen is wide")
        await pilot.pause()

        assert app.shown.splitlines()[1] == "1. a prompt that…"


def test_of_many_the_next_ones_and_the_last_are_shown() -> None:
    queued = tuple(QueuedLine(f"prompt {number}") for number in range(1, 10))

    assert queued_lines(queued, 80) == [
        "waiting:",
        "1. prompt 1",
        "2. prompt 2",
        "3. prompt 3",
        "… 5 more",
        "9. prompt 9",
    ]


def test_escapes_in_a_prompt_reach_no_terminal() -> None:
    assert queued_lines((QueuedLine("a\x1b[2J\x07b" + "x" * 5_000),), 10) == ["waiting:", "1. abxxxx…"]
