"""The line at the bottom: what it says, what goes where it is short, and that it rests while nothing goes on."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.content import Content

from ipc import events as e
from ipc.events import Event
from tests.unit.cli.textual_ui.overview.views import HOSTILE, SURVEYED, TALKED, WHO, give, until, view_of
from vibe.cli.textual_ui.overview.ticker import Ticker, ticker_line

NOW = 1092.0
ASKED = e.ApprovalRequestEvent(request_id="r", tool_call_id="1", tool="bash", arguments={}, rule="ask", **WHO)
PROMPT = e.PromptStartedEvent(prompt_id="p", conversation_id="chat", session_id="chat")


@dataclass(frozen=True)
class Case:
    name: str
    events: tuple[Event, ...]
    width: int
    line: str


CASES = [
    Case("nothing known", (), 80, ""),
    Case(
        "a plan",
        SURVEYED,
        120,
        " 1/4 steps · 1 running · 41k tok · $0.12 · 01:32   ⠦ slugify: bash pytest -q",
    ),
    Case(
        "a plan on 80 columns",
        SURVEYED,
        80,
        " 1/4 steps · 1 running · 41k tok · $0.12 · 01:32   ⠦ slugify: bash pytest -q",
    ),
    Case("a plan on 40 columns", SURVEYED, 40, " 1/4 steps · 01:32   ⠦ slugify: bash py…"),
    Case(
        "a person is waited for",
        (*SURVEYED, ASKED),
        120,
        " 1/4 steps · 1 running · 41k tok · $0.12 · 01:32   slugify: waits for your approval of bash            ? 1 waits for you",
    ),
    Case("a conversation", TALKED, 80, " default · large · high · ask · 34% context · 34k tok · $0.05"),
    Case(
        "a conversation at work",
        (*TALKED, PROMPT),
        100,
        " default · large · high · ask · 34% context · 34k tok · $0.05   ⠦ 18:12 · starting",
    ),
    Case("a conversation on 40 columns", TALKED, 40, " default · large · 34% context · $0.05"),
    Case(
        "a plan that ended",
        (
            *SURVEYED,
            e.PlanCompletedEvent(
                plan_id="plan", status="completed", outcome="completed", duration_s=92.0, counts={}, ts=1095.0
            ),
        ),
        100,
        " 1/4 steps · 1 running · 41k tok · $0.12 · 01:35 · completed",
    ),
    Case(
        "talk after a plan",
        (
            *SURVEYED,
            e.PlanCompletedEvent(
                plan_id="plan", status="completed", outcome="completed", duration_s=92.0, counts={}, ts=1095.0
            ),
            *TALKED,
            e.UserMessageEvent(session_id="chat", text="thanks", ts=1100.0),
        ),
        80,
        " default · large · high · ask · 34% context · 75k tok · $0.17",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_line(case: Case) -> None:
    view = view_of(*case.events)
    assert ticker_line(view, view.main, NOW, case.width).plain.rstrip() == case.line


@pytest.mark.parametrize("width", [1, 5, 20, 40, 80, 110, 200])
@pytest.mark.parametrize("events", [(), SURVEYED, (*SURVEYED, *TALKED, PROMPT, ASKED)])
def test_the_line_is_never_wider_than_the_screen(width: int, events: tuple[Event, ...]) -> None:
    view = view_of(*events)
    assert cell_len(ticker_line(view, view.main, NOW, width, "ctrl+t").plain) <= width


def test_what_comes_from_outside_moves_no_cursor_and_is_no_markup() -> None:
    view = view_of(
        *TALKED,
        PROMPT,
        e.ToolCallEvent(session_id="chat", tool_call_id="1", tool="bash", arguments={}, summary=HOSTILE),
    )
    line = ticker_line(view, view.main, NOW, 200).plain
    assert "[red]boo[/red] second [@click=app.quit]line[/]" in line
    assert not {"\x1b", "\u202e", "\x07", "\n"} & set(line)


class CountingTicker(Ticker):
    drawn = 0

    def render(self) -> Content:
        self.drawn += 1
        return super().render()


class TickerApp(App[None]):
    def compose(self) -> ComposeResult:
        yield CountingTicker(clock=lambda: NOW)


def shown(app: App[None]) -> str:
    return app.query_one(Ticker).render_line(0).text


@pytest.mark.parametrize(("size", "says_key"), [((80, 24), True), ((120, 36), False), ((200, 60), False)])
async def test_a_narrow_screen_names_the_key_of_the_overview(size: tuple[int, int], *, says_key: bool) -> None:
    app = TickerApp()
    async with app.run_test(size=size) as pilot:
        app.query_one(Ticker).present(view_of(*TALKED))
        await until(pilot, lambda: "large" in shown(app))
        assert ("Ctrl+T overview" in shown(app)) is says_key


async def test_it_keeps_time_only_while_something_goes_on() -> None:
    app = TickerApp()
    async with app.run_test(size=(120, 36)) as pilot:
        ticker = app.query_one(Ticker)
        view = view_of(*TALKED)
        ticker.present(view)
        await until(pilot, lambda: "large" in shown(app))
        assert not ticker.refresher.beats
        ticker.present(view, give(view, PROMPT))
        await until(pilot, lambda: ticker.refresher.beats)
        ended = e.PromptEndedEvent(prompt_id="p", conversation_id="chat", session_id="chat", outcome="completed")
        ticker.present(view, give(view, ended))
        await until(pilot, lambda: not ticker.refresher.beats)
        assert "starting" not in shown(app)


async def test_many_changes_are_one_redraw() -> None:
    app = TickerApp()
    async with app.run_test(size=(120, 36)) as pilot:
        ticker = app.query_one(CountingTicker)
        view = view_of(*TALKED)
        ticker.present(view)
        await until(pilot, lambda: "large" in shown(app))
        before = ticker.drawn
        for _ in range(1_000):
            ticker.present(view, give(view, TALKED[-1]))
        await until(pilot, lambda: "34M tok" in shown(app))
        assert ticker.drawn <= before + 3
