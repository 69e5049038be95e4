"""The line at the bottom: its text, what it drops when short of room, and that it rests while nothing happens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from anyio import to_thread
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.content import Content

from ipc import events as e
from ipc.events import Event
from tests.unit.cli.textual_ui.overview.views import HOSTILE, SURVEYED, TALKED, give, until, view_of
from tests.unit.cli.textual_ui.scenes import made_app
from vibe.cli.textual_ui.overview.ticker import KEYS, Ticker, ticker_line

NOW = 1092.0
ASKED = e.ApprovalRequestEvent(
    request_id="r", tool_call_id="1", tool="bash", arguments={}, rule="ask", session_id="chat"
)
PROMPT = e.PromptStartedEvent(prompt_id="p", conversation_id="chat", session_id="chat")


@dataclass(frozen=True)
class Case:
    name: str
    events: tuple[Event, ...]
    width: int
    line: str


CASES = [
    Case("nothing known", (), 80, ""),
    Case("a conversation", TALKED, 80, " asks · large · thinking high · 34% of 100k · 34k tok · $0.05"),
    Case(
        "a conversation at work", (*TALKED, PROMPT), 80, " asks · large · thinking high · 34% of 100k · 34k tok · $0.05"
    ),
    Case("a conversation on 40 columns", TALKED, 40, " asks · large · 34% of 100k · 34k tok"),
    Case("a conversation on 30 columns", TALKED, 30, " asks · large · 34% of 100k"),
    Case("a conversation on 20 columns", TALKED, 20, " asks · large"),
    Case("a plan, whose card tells how far it is", SURVEYED, 80, " 41k tok · $0.12"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_line(case: Case) -> None:
    view = view_of(*case.events)
    assert ticker_line(view, view.main, case.width).plain.rstrip() == case.line


@pytest.mark.parametrize(
    ("agent", "approvals", "thinking", "line"),
    [
        ("default", "ask", "off", " asks · m"),
        ("accept-edits", "ask", "", " accepts edits · m"),
        ("default", "edits", "low", " accepts edits · m · thinking low"),
        ("plan", "ask", "off", " plan mode · m"),
        ("plan", "edits", "off", " plan mode · m"),
        ("lean", "ask", "off", " lean · asks · m"),
        ("auto-approve", "all", "off", " AUTO-APPROVES EVERYTHING · m"),
        ("lean", "all", "off", " lean · AUTO-APPROVES EVERYTHING · m"),
    ],
)
def test_the_mode_is_in_words_and_thinking_is_told_only_if_it_is_on(
    agent: str, approvals: str, thinking: str, line: str
) -> None:
    set_so = e.ConversationConfiguredEvent(
        conversation_id="chat", session_id="chat", agent=agent, model="m", thinking=thinking, approvals=approvals
    )
    view = view_of(set_so)
    content = ticker_line(view, view.main, 80)
    assert content.plain.rstrip() == line
    assert any("$text-error" in str(span.style) for span in content.spans) is ("AUTO" in line)


@pytest.mark.parametrize("width", [12, 30])
def test_a_short_line_says_in_red_that_everything_is_approved(width: int) -> None:
    set_so = e.ConversationConfiguredEvent(
        conversation_id="chat", session_id="chat", agent="default", model="large", thinking="", approvals="all"
    )
    view = view_of(set_so)
    content = ticker_line(view, view.main, width)
    (red,) = [span for span in content.spans if "$text-error" in str(span.style)]
    assert content.plain[red.start : red.end].startswith("AUTO-APPR")


@pytest.mark.parametrize("width", [1, 5, 20, 40, 80, 110, 200])
@pytest.mark.parametrize("events", [(), SURVEYED, (*SURVEYED, *TALKED, PROMPT, ASKED)])
@pytest.mark.parametrize("lead", ["", "▸ 1/4 steps · 1:32"])
def test_the_line_is_never_wider_than_the_screen(width: int, events: tuple[Event, ...], lead: str) -> None:
    view = view_of(*events)
    assert cell_len(ticker_line(view, view.main, width, lead=lead, ends=[("ctrl+t", "")]).plain) <= width


def test_what_comes_from_outside_moves_no_cursor_and_is_no_markup() -> None:
    set_so = e.ConversationConfiguredEvent(
        conversation_id="chat", session_id="chat", agent="default", model=HOSTILE, thinking="", approvals="ask"
    )
    view = view_of(set_so)
    line = ticker_line(view, view.main, 200).plain
    assert "[red]boo[/red] second [@click" in line
    assert not {"\x1b", "\u202e", "\x07", "\n"} & set(line)


class CountingTicker(Ticker):
    drawn = 0

    def render(self) -> Content:
        self.drawn += 1
        return super().render()


class TickerApp(App[None]):
    now = NOW
    is_hidden = True
    wanted = 0

    def compose(self) -> ComposeResult:
        yield CountingTicker(is_hidden=lambda _: self.is_hidden, clock=lambda: self.now)

    def on_ticker_plan_wanted(self) -> None:
        self.wanted += 1


def shown(app: App[None]) -> str:
    return app.query_one(Ticker).render_line(0).text


@pytest.mark.parametrize(
    ("events", "size", "keys"),
    [
        (TALKED, (30, 24), ""),
        (TALKED, (80, 24), "Ctrl+T overview · F1 help"),
        (TALKED, (120, 36), KEYS),
        (TALKED, (200, 60), KEYS),
        (SURVEYED, (80, 24), "F2 agents"),
        (SURVEYED, (120, 36), "F2 agents"),
    ],
)
async def test_it_names_the_keys_that_help_now(events: tuple[Event, ...], size: tuple[int, int], keys: str) -> None:
    app = TickerApp()
    async with app.run_test(size=size) as pilot:
        app.query_one(Ticker).present(view_of(*events))
        await until(pilot, lambda: " · " in shown(app))
        assert shown(app).rstrip().endswith(keys or "34% of 100k")


async def test_it_tells_what_waits_for_the_person_before_the_keys() -> None:
    app = TickerApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.query_one(Ticker).present(view_of(*TALKED))
        app.query_one(Ticker).show_sign("? 1 waits for you · Tab", "bold $text-warning")
        await until(pilot, lambda: "Tab   Ctrl+T overview" in shown(app))


@pytest.mark.parametrize("width", [20, 40, 44, 59, 60, 80])
async def test_nothing_is_cut_in_the_middle_where_there_is_little_room(width: int) -> None:
    app = TickerApp()
    async with app.run_test(size=(width, 24)) as pilot:
        app.is_hidden = True
        app.query_one(Ticker).present(view_of(*SURVEYED))
        app.query_one(Ticker).show_sign("? 1", "bold $text-warning")
        await until(pilot, lambda: "▸ 1/" in shown(app))
        assert shown(app).rstrip().endswith("F2 agents" if width >= 60 else "? 1")


async def test_the_keys_it_names_exist(tmp_path: Path) -> None:
    app = await to_thread.run_sync(made_app, "vibe-dark", tmp_path)
    async with app.run_test() as pilot:
        await pilot.pause()
        bound = set(app.screen.active_bindings)
        named = {key.lower() for key in re.findall(r"\S+\+\S+", KEYS)}
        assert {*named, "f2"} <= bound


async def test_it_keeps_time_only_for_a_plan_whose_card_is_out_of_sight() -> None:
    app = TickerApp()
    async with app.run_test(size=(120, 36)) as pilot:
        ticker = app.query_one(Ticker)
        ticker.present(view_of(*TALKED))
        await until(pilot, lambda: "large" in shown(app))
        await pilot.click(Ticker)
        assert not ticker.refresher.every

        view = view_of(*SURVEYED)
        ticker.present(view)
        await until(pilot, lambda: shown(app).startswith(" ▸ 1/4 steps · 1:32   41k tok · $0.12"))
        app.now += 3
        await until(pilot, lambda: "1:35" in shown(app))
        await pilot.click(Ticker)
        assert app.wanted == 1

        app.is_hidden = False
        ticker.refresher.request()
        await until(pilot, lambda: "steps" not in shown(app))
        assert not ticker.refresher.every


async def test_what_looks_as_before_is_not_drawn_again() -> None:
    app = TickerApp()
    async with app.run_test(size=(120, 36)) as pilot:
        ticker = app.query_one(CountingTicker)
        view = view_of(*TALKED)
        ticker.present(view)
        await until(pilot, lambda: "large" in shown(app))
        before = ticker.drawn
        ticker.present(view, give(view, PROMPT))
        await pilot.pause(0.4)
        assert ticker.drawn == before


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
