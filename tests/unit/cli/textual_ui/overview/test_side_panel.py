"""The overview beside the chat: what is in it, how it is gone through by keys, and that a large plan stays fast."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.widget import Widget
from textual.widgets import Input

from ipc import events as e
from ipc.events import Event
from tests.unit.cli.textual_ui.overview.views import (
    HOSTILE,
    SURVEYED,
    TALKED,
    WHO,
    give,
    moved,
    outline,
    until,
    view_of,
)
from vibe.cli.textual_ui.overview.side_panel import RowList, SidePanel, agent_row
from vibe.view.view import View

NOW = 1092.0
PROMPT = e.PromptStartedEvent(prompt_id="p", conversation_id="chat", session_id="chat")
TODO = e.ToolResultEvent(
    session_id="chat",
    tool_call_id="t",
    tool="todo",
    status="ok",
    content="",
    display=e.TodoDisplay(
        items=(
            e.TodoEntry(id="1", content="Read the code", status="completed", priority="low"),
            e.TodoEntry(id="2", content="Write the fix", status="in_progress", priority="low"),
        )
    ),
)


class PanelApp(App[None]):
    def __init__(self, width: int = 41) -> None:
        super().__init__()
        self.opened: list[tuple[str, ...]] = []
        self.panel_width = width

    def compose(self) -> ComposeResult:
        yield Input()
        yield SidePanel(clock=lambda: NOW)

    def on_mount(self) -> None:
        self.query_one(SidePanel).styles.width = self.panel_width

    def on_side_panel_opened(self, message: SidePanel.Opened) -> None:
        self.opened.append(("agent", message.agent_id) if message.agent_id else ("step", *message.step))


def lines_of(widget: Widget) -> list[str]:
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]


def shown(app: App[Any]) -> list[str]:
    panel = app.query_one(SidePanel)
    return [line for child in panel.children if child.display for line in lines_of(child)]


async def test_plan_agents_todo_context_and_cost_are_in_it() -> None:
    app = PanelApp()
    async with app.run_test(size=(120, 36)) as pilot:
        app.query_one(SidePanel).present(view_of(*TALKED, PROMPT, TODO, *SURVEYED))
        await until(pilot, lambda: all(any(text in line for line in shown(app)) for text in ("spent", "the fix")))
        assert shown(app) == [
            "Give textkit two functions.",
            "1/4 steps · 1 running · $0.12 · 1:32",
            " ✓ Learn how textkit is built  ⌕ 4.2 s",
            " ├ ▸ Write slugify()    ◆ 12 s 41k/50k",
            " │ ╰ bash pytest -q",
            " ├ · Write shorten()            ◆ next",
            " · Run all tests     ◎ after slugify,…",
            "Agents",
            " ▸ default                     34k tok",
            " ╰ todo: done",
            " ▸ slugify                     41k tok",
            " ╰ bash pytest -q",
            "Todo 1/2",
            " ✓ Read the code",
            " ▸ Write the fix",
            "context ███▍······         34% of 100k",
            "spent                  75k tok · $0.17",
            "F2 opens a step or agent",
        ]


@pytest.mark.parametrize(("size", "width"), [((80, 24), 80), ((120, 36), 40), ((200, 60), 60)])
async def test_it_fits_every_screen(size: tuple[int, int], width: int) -> None:
    app = PanelApp(width)
    async with app.run_test(size=size) as pilot:
        panel = app.query_one(SidePanel)
        panel.present(view_of(*TALKED, PROMPT, TODO, *SURVEYED))
        await until(pilot, lambda: any(line.startswith(" ├ ▸ Write slugify()") for line in shown(app)))
        await until(pilot, lambda: any("Write the fix" in line for line in shown(app)))
        for child in panel.children:
            assert panel.region.contains_region(child.region) or not child.display, child


async def test_without_a_plan_it_says_how_to_get_one() -> None:
    app = PanelApp()
    async with app.run_test(size=(120, 36)) as pilot:
        app.query_one(SidePanel).present(view_of(*TALKED))
        await until(pilot, lambda: any("default" in line for line in shown(app)))
        assert shown(app)[0] == "no plan yet: /plan GOAL proposes one"


async def test_keys_choose_a_step_and_open_it() -> None:
    app = PanelApp()
    async with app.run_test(size=(120, 36)) as pilot:
        panel = app.query_one(SidePanel)
        panel.present(view_of(*TALKED, *SURVEYED))
        await until(pilot, lambda: any("survey" in line or "Learn" in line for line in shown(app)))
        app.screen.set_focus(app.query_one(Input))
        panel.focus_plan()
        await pilot.press("home", "down", "down", "enter")
        assert app.opened == [("step", "plan", "shorten")]
        await pilot.press("up", "enter", "end", "enter")
        assert app.opened[1:] == [("step", "plan", "slugify"), ("step", "plan", "test")]
        await pilot.press("escape")
        assert app.focused is app.query_one(Input)


async def test_the_step_at_work_is_opened_by_the_first_enter() -> None:
    app = PanelApp()
    async with app.run_test(size=(120, 36)) as pilot:
        panel = app.query_one(SidePanel)
        panel.present(view_of(*TALKED, *SURVEYED))
        await until(pilot, lambda: any("survey" in line or "Learn" in line for line in shown(app)))
        panel.focus_plan()
        await pilot.press("enter")
        assert app.opened == [("step", "plan", "slugify")]


async def test_keys_choose_an_agent_and_open_it() -> None:
    app = PanelApp()
    async with app.run_test(size=(120, 36)) as pilot:
        panel = app.query_one(SidePanel)
        panel.present(view_of(*TALKED, *SURVEYED))
        await until(pilot, lambda: any("default" in line for line in shown(app)))
        panel.query_one("#agents").focus()
        await pilot.press("home", "enter", "down", "enter")
        assert app.opened == [("agent", "chat"), ("agent", "agent")]


async def test_a_click_opens_a_step() -> None:
    app = PanelApp()
    async with app.run_test(size=(120, 36)) as pilot:
        app.query_one(SidePanel).present(view_of(*SURVEYED))
        await until(pilot, lambda: any("Learn" in line for line in shown(app)))
        await pilot.pause()
        await pilot.click("#plan", offset=(4, 2))
        assert app.opened == [("step", "plan", "slugify")]


async def test_it_shows_what_happens() -> None:
    app = PanelApp()
    async with app.run_test(size=(120, 36)) as pilot:
        panel = app.query_one(SidePanel)
        view = view_of(*SURVEYED)
        panel.present(view)
        await until(pilot, lambda: any("bash pytest" in line for line in shown(app)))
        assert panel.refresher.beats
        asked = e.ApprovalRequestEvent(request_id="r", tool_call_id="1", tool="bash", arguments={}, rule="ask", **WHO)
        panel.present(view, give(view, asked))
        await until(pilot, lambda: any("├ ? Write slugify()" in line for line in shown(app)))
        failed = moved("slugify", "failed", "in_progress", reason="verify", detail="2 tests failed", duration_s=20.0)
        panel.present(view, give(view, failed, moved("test", "blocked")))
        await until(pilot, lambda: any("├ ✗ Write slugify()" in line for line in shown(app)))
        assert any("╰ verify: 2 tests failed" in line for line in shown(app))
        end = e.PlanCompletedEvent(
            plan_id="plan", status="failed", outcome="failed", duration_s=92.0, counts={}, ts=1095.0
        )
        panel.present(view, give(view, end))
        await until(pilot, lambda: not panel.refresher.beats)


@pytest.mark.parametrize(("outcome", "mark"), [("completed", "✓"), ("interrupted", "×"), ("limit", "✗")])  # noqa: RUF001
def test_an_agent_that_was_stopped_has_not_failed(outcome: str, mark: str) -> None:
    end = e.SubAgentFinishedEvent(outcome=outcome, reason=None, tokens=1, turns=1, duration_s=1.0, ts=1090.0, **WHO)
    view = view_of(*SURVEYED, end)

    row = agent_row(view, view.agents[WHO["subagent_id"]])
    assert [text for text, _ in row.left[1:2]] == [f"{mark} "]


async def test_while_hidden_it_rests() -> None:
    app = PanelApp()
    async with app.run_test(size=(120, 36)) as pilot:
        panel = app.query_one(SidePanel)
        panel.present(view_of(*SURVEYED))
        await until(pilot, lambda: panel.refresher.beats)
        panel.display = False
        await until(pilot, lambda: not panel.refresher.beats)
        panel.display = True
        await until(pilot, lambda: panel.refresher.beats)


async def test_what_comes_from_outside_moves_no_cursor_and_is_no_markup() -> None:
    hostile: tuple[Event, ...] = (
        e.PlanStartedEvent(
            plan_id="plan", goal=HOSTILE, steps=(outline("a", title=HOSTILE), outline("b", "a", mode=HOSTILE)), ts=1.0
        ),
        moved("a", "failed", reason=HOSTILE),
        e.SubAgentStartedEvent(
            title=HOSTILE, mode="code", model="m", tools=(), max_tokens=1, max_turns=1, plan_id="plan", subagent_id="x"
        ),
        e.ToolCallEvent(tool_call_id="1", tool="bash", arguments={}, summary=HOSTILE, plan_id="plan", subagent_id="x"),
    )
    app = PanelApp(100)
    async with app.run_test(size=(200, 36)) as pilot:
        app.query_one(SidePanel).present(view_of(*hostile))
        literal = "[red]boo[/red] second [@click=app.quit]line[/]"
        await until(pilot, lambda: "\n".join(shown(app)).count(literal) == 5)
        text = "".join(shown(app))
        assert not {"\x1b", "\u202e", "\x07"} & set(text)


def large(steps: int) -> View:
    outlines = tuple(outline(f"s{number}", *([f"s{number - 1}"] if number else [])) for number in range(steps))
    events: list[Event] = [e.PlanStartedEvent(plan_id="plan", goal="g", steps=outlines, ts=1000.0)]
    events += [moved(f"s{number}", "completed", duration_s=1.0) for number in range(500)]
    events.append(moved("s500", "in_progress", ts=1080.0))
    return view_of(*events)


async def test_of_a_plan_of_a_thousand_steps_only_what_is_in_sight_is_made() -> None:
    app = PanelApp()
    async with app.run_test(size=(120, 36)) as pilot:
        panel = app.query_one(SidePanel)
        view = large(1_000)
        panel.present(view)
        await until(pilot, lambda: any("▸ S500" in line for line in shown(app)))
        assert not any("S900" in line for line in shown(app))
        tree = panel.query_one("#plan", RowList)
        assert tree.virtual_size.height == 1_001
        tree.focus()
        await pilot.press("end")
        await until(pilot, lambda: any("S999" in line for line in shown(app)))


async def test_a_thousand_changes_of_a_large_plan_cost_little() -> None:
    app = PanelApp()
    async with app.run_test(size=(120, 36)) as pilot:
        panel = app.query_one(SidePanel)
        view = large(1_000)
        panel.present(view)
        await until(pilot, lambda: any("▸ S500" in line for line in shown(app)))
        begun = process_time()
        for number in range(1_000):
            usage = e.UsageEvent(
                model="m",
                prompt_tokens=1_000,
                completion_tokens=0,
                cost_usd=0.01,
                plan_id="plan",
                subagent_step_id="s500",
            )
            panel.present(view, give(view, usage))
            if number % 100 == 0:
                await pilot.pause()
        await until(pilot, lambda: any("1.0M tok" in line for line in shown(app)))
        assert process_time() - begun < 10


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light"])
async def test_what_matters_less_stands_out_less_in_dark_and_in_light(theme: str) -> None:
    app = PanelApp()
    async with app.run_test(size=(120, 36)) as pilot:
        app.theme = theme
        panel = app.query_one(SidePanel)
        panel.present(view_of(*SURVEYED))
        await until(pilot, lambda: any("Learn" in line for line in shown(app)))
        contrast: dict[str, int] = {}
        for segment in panel.query_one("#plan", RowList).render_line(0):
            style = segment.style
            assert style is not None
            assert style.color is not None
            assert style.bgcolor is not None
            pairs = zip(style.color.get_truecolor(), style.bgcolor.get_truecolor(), strict=True)
            contrast[segment.text.strip()] = sum(abs(front - back) for front, back in pairs)
        assert contrast["4.2 s"] < contrast["Learn how textkit is built"]
