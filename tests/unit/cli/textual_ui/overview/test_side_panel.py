"""The overview beside the chat: its content, when it appears, and that it does not redraw needlessly."""

from __future__ import annotations

from typing import Any

import pytest
from textual.app import App, ComposeResult

from ipc import events as e
from ipc.events import Event
from tests.unit.cli.textual_ui.overview.views import HOSTILE, SURVEYED, TALKED, WHO, give, until, view_of
from vibe.cli.textual_ui.overview.summaries import SidePanel, has_overview, overview_lines
from vibe.front.cells import cells_of, text_of
from vibe.view.view import View

NOW = 1092.0
CHAT: dict[str, Any] = {"session_id": "chat", "ts": 1000.0}


def todo(*contents: str, done: int = 1) -> e.ToolResultEvent:
    status = ["completed"] * done + ["in_progress"] + ["pending"] * len(contents)
    items = tuple(
        e.TodoEntry(id=f"{at}", content=content, status=status[at], priority="low")
        for at, content in enumerate(contents)
    )
    display = e.TodoDisplay(items=items)
    return e.ToolResultEvent(tool_call_id="t", tool="todo", status="ok", content="", display=display, **CHAT)


def wrote(path: str, added: int, removed: int, **whose: Any) -> e.ToolResultEvent:
    file = e.WrittenFile(path=path, added=added, removed=removed)
    return e.ToolResultEvent(
        tool_call_id="w",
        tool="write_file",
        status="ok",
        content="",
        files_changed=(path,),
        display=e.DiffDisplay(files=(file,)),
        **(whose or CHAT),
    )


STARTED = e.BackgroundStartedEvent(handle="b1", command="npm run dev", **CHAT)
ALL: tuple[Event, ...] = (
    *TALKED,
    todo("Read the code", "Write the fix", "Say so"),
    STARTED,
    *SURVEYED,
    wrote("a.py", 2, 2),
    wrote("a.py", 1, 0),
    wrote("b.py", 6, 4, **WHO),
)


def lines_of(view: View, width: int = 30, rows: int = 40) -> list[str]:
    lines = overview_lines(view, NOW, width, rows)
    assert len(lines) <= rows
    assert all(cells_of(line) == width for line in lines)
    return [text_of(line) for line in lines]


def test_things_to_do_background_commands_changed_files_and_context_are_in_it_and_nothing_of_the_plan() -> None:
    assert lines_of(view_of(*ALL)) == [
        "Todo                       1/3",
        "✓ Read the code",
        "▸ Write the fix",
        "· Say so",
        "",
        "Background",
        "▸ npm run dev             1:32",
        "",
        "Changed                  +9 −6",  # noqa: RUF001
        "  a.py                   +3 −2",  # noqa: RUF001
        "  b.py           +6 −4 slugify",  # noqa: RUF001
        "",
        "Context            34% of 100k",
        "━━━━━━━━━━────────────────────",
    ]


@pytest.mark.parametrize("rows", range(24))
def test_it_fits_and_says_how_much_is_left_out(rows: int) -> None:
    files = [wrote(f"f{number}.py", 1, 0) for number in range(30)]
    lines = lines_of(
        view_of(*TALKED, todo(*(f"do {number}" for number in range(30)), done=20), STARTED, *files), rows=rows
    )
    assert rows < 16 or [line for line in lines if line.endswith(" more")]
    assert rows < 16 or any(line.startswith("▸ do 20") for line in lines), "what is done gives way"


def test_there_is_something_to_see_while_there_is_more_than_the_context() -> None:
    assert not has_overview(View())
    assert not has_overview(view_of(*TALKED, *SURVEYED))
    for event in (todo("one"), STARTED, wrote("b.py", 1, 0, **WHO)):
        assert has_overview(view_of(*TALKED, *SURVEYED, event))


def test_what_comes_from_outside_moves_no_cursor() -> None:
    command = e.BackgroundStartedEvent(handle="b1", command=HOSTILE, **CHAT)
    text = "".join(lines_of(view_of(*TALKED, todo(HOSTILE), command, wrote(HOSTILE, 1, 1)), width=100))
    assert text.count("[red]boo[/red]") == 3
    assert not {"\x1b", "\u202e", "\x07", "\n"} & set(text)


class PanelApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.now = NOW

    def compose(self) -> ComposeResult:
        yield SidePanel(lambda: self.now)

    @property
    def rows(self) -> list[str]:
        panel = self.query_one(SidePanel)
        return [panel.render_line(y).text.strip() for y in range(panel.size.height)]


async def test_it_stands_on_its_foot_and_shows_what_happens_and_time_while_a_command_runs() -> None:
    app = PanelApp()
    view = view_of(*ALL)
    async with app.run_test(size=(120, 36)) as pilot:
        panel = app.query_one(SidePanel)
        panel.present(view)
        await until(pilot, lambda: "━━━" in app.rows[-1] and panel.refresher.every > 0)
        app.now += 10
        await until(pilot, lambda: any("1:42" in row for row in app.rows))
        ended = e.BackgroundEndedEvent(
            handle="b1", command="npm run dev", status="completed", exit_code=0, duration_s=1.0, **CHAT
        )
        panel.present(view, give(view, ended))
        await until(pilot, lambda: "Background" not in app.rows)
        assert not panel.refresher.every


async def test_while_hidden_it_rests() -> None:
    app = PanelApp()
    async with app.run_test(size=(120, 36)) as pilot:
        panel = app.query_one(SidePanel)
        panel.present(view_of(*ALL))
        await until(pilot, lambda: panel.refresher.every > 0)
        panel.display = False
        await until(pilot, lambda: not panel.refresher.every > 0)
        panel.display = True
        await until(pilot, lambda: panel.refresher.every > 0)
