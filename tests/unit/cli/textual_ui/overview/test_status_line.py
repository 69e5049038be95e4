"""The person's part of the bottom line: the command, its input, and its text."""

from __future__ import annotations

import json
from pathlib import Path

from textual.app import App, ComposeResult

from ipc import events as e
from tests.unit.cli.textual_ui.overview.views import SURVEYED, TALKED, give, until, view_of
from vibe.cli.textual_ui.overview.ticker import (
    OVERVIEW_KEY,
    StatusLine,
    Ticker,
    own_content,
    status_document,
    ticker_line,
)
from vibe.view.view import View

ENVIRON = {"PATH": "/usr/bin:/bin"}


def spent(tokens: int) -> e.UsageEvent:
    return e.UsageEvent(session_id="chat", model="large", prompt_tokens=tokens, completion_tokens=0, cost_usd=0.01)


class StatusStage(App[None]):
    def __init__(self, command: str, folder: Path) -> None:
        super().__init__()
        self.said: list[tuple[str, str]] = []
        self.ticker = Ticker()
        self.line = StatusLine(self.ticker, command, ENVIRON, folder, self.say)

    def say(self, text: str, status: str) -> None:
        self.said.append((text, status))

    def compose(self) -> ComposeResult:
        yield self.ticker

    def see(self, view: View, *events: e.Event) -> None:
        changed = give(view, *events)
        self.ticker.present(view, changed)
        self.line.present(view, changed)

    @property
    def shown(self) -> str:
        return self.ticker.render().plain.removesuffix(OVERVIEW_KEY).strip()


async def test_the_first_line_that_the_command_prints_stands_in_the_bottom_line(tmp_path: Path) -> None:
    app = StatusStage("cat > told.json; printf '\\033[1mmine\\033[0m\\nsecond\\n'", tmp_path)
    async with app.run_test(size=(80, 5)) as pilot:
        app.see(view_of(*TALKED), e.UserMessageEvent(text="x", session_id="chat"))
        await until(pilot, lambda: app.shown == "mine")

    told = json.loads((tmp_path / "told.json").read_text())
    assert told == {
        "session_id": "chat",
        "agent": "default",
        "model": "large",
        "folder": str(tmp_path),
        "context_tokens": 34_000,
        "context_limit": 100_000,
        "tokens": 34_000,
        "cost_usd": 0.05,
        "plan": None,
        "plan_status": None,
    }
    assert app.said == []


async def test_it_runs_again_only_for_something_new_and_at_most_once_a_second(tmp_path: Path) -> None:
    app = StatusStage("cat >> told; wc -l < told", tmp_path)
    async with app.run_test(size=(80, 5)) as pilot:
        view = view_of(*TALKED)
        app.see(view)
        await until(pilot, lambda: app.shown == "1")
        app.see(view)
        for tokens in (1, 2, 3):
            app.see(view, spent(tokens))
        await until(pilot, lambda: app.shown == "2")

    documents = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    assert [document["tokens"] for document in documents] == [34_000, 34_006]


async def test_one_that_fails_is_said_once_and_the_line_is_as_usual(tmp_path: Path) -> None:
    command = """case $(cat) in *'"tokens": 34001,'*) echo better;; *) echo 'no such thing' >&2; exit 3;; esac"""
    app = StatusStage(command, tmp_path)
    async with app.run_test(size=(80, 5)) as pilot:
        view = view_of(*TALKED)
        app.see(view)
        await until(pilot, lambda: app.shown.startswith("asks · large") and bool(app.said))
        app.see(view, spent(1))
        await until(pilot, lambda: app.shown == "better")
        app.see(view, spent(1))
        await until(pilot, lambda: app.shown.startswith("asks · large"))

        assert app.said == [("[ui] status_line: the command ended with exit 3: no such thing", "warning")]


def test_a_plan_out_of_sight_stands_before_it_and_is_told() -> None:
    view = view_of(*SURVEYED)
    agent = next(iter(view.agents.values()))
    lead = "▸ 1/4 steps · 1:32"

    line = ticker_line(view, agent, 120, lead=lead, own=own_content("mine")).plain

    assert line.startswith(f" {lead}   mine")
    assert status_document(view, agent, "/x")["plan"] == "1/4"
    assert "mine" not in ticker_line(view, agent, 24, lead=lead, own=own_content("mine")).plain


def test_nothing_but_colours_reaches_the_terminal() -> None:
    content = own_content("\n\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b[2J\tx\u202e\n")

    assert content is not None
    assert content.plain == "red x"
    assert [str(span.style) for span in content.spans]
    assert own_content("\n\n") is None
