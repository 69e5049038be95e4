from __future__ import annotations

import subprocess
import sys

import pytest

from tests.unit.cli.textual_ui.log.page import LogPage, numbered
from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.cli.textual_ui.log.painter import MOST_LINES

KINDS = ("user", "answer", "reasoning", "call", "note", "shell")


@pytest.mark.parametrize("kind", KINDS)
async def test_no_kind_lets_through_what_a_terminal_obeys(kind: str) -> None:
    evil = "a\x1b[2Jb\x1b]52;c;aGk=\x07c\x9bd\u202ee\x00 [red]x[/red] &#x202e;\n```\n\x1b[31mf\n"
    entry = LogEntry(kind, evil, title=evil, diff=evil, status="error", folded=False)
    page = LogPage(entry)
    async with page.run_test(size=(60, 40)) as pilot:
        await pilot.pause()
        text = page.text().replace("\n", "")

        assert text.isprintable()
        assert "[red]x[/red]" in text


async def test_a_line_of_a_megabyte_and_a_hundred_thousand_lines_are_cut() -> None:
    many = "\n".join(f"line {number}" for number in range(100_000))
    call = LogEntry("call", many, title="Bash", status="ok", folded=False)
    page = LogPage(LogEntry("call", "y" * 1_000_000, title="Read", status="ok", folded=False), call)
    async with page.run_test(size=(60, 20)) as pilot:
        log = page.log_view
        await pilot.pause()
        assert "line 99999" in page.text()
        assert log.virtual_size.height < 4_000 // 50 + MOST_LINES + 20
        log.action_scroll_home()
        log.scroll_relative(y=160)
        assert "99800 more lines: click, or Alt+M in the chat" in page.text()

        log.focus()
        height = log.virtual_size.height
        await pilot.press("m")
        assert log.virtual_size.height > height + 1000


async def test_wide_characters_and_other_directions_stay_on_their_rows() -> None:
    page = LogPage(LogEntry("answer", "👩‍👩‍👧 漢字漢字漢字漢字漢字 שלום עולם 🇩🇪 é " * 3))
    async with page.run_test(size=(24, 20)) as pilot:
        await pilot.pause()
        log = page.log_view
        assert {log.render_line(y).cell_length for y in range(log.size.height)} == {log.size.width}
        assert "שלום" in page.text()


async def test_a_storm_of_resizes_loses_nothing_and_keeps_the_place() -> None:
    entries = numbered(40)
    page = LogPage(*entries)
    async with page.run_test(size=(100, 30)) as pilot:
        log = page.log_view
        await pilot.pause()
        log.find("first of 20")
        before = page.lines()
        for width in (40, 90, 20, 5, 61, 33, 120):
            await pilot.resize_terminal(width, 10 + width % 9)
            assert any("first of 20" in line for line in page.lines()) or width < 12
        await pilot.resize_terminal(100, 30)
        assert page.lines() == before

        log.to_end()
        await pilot.resize_terminal(40, 12)
        assert "last of 39" in page.text()
        shown: list[str] = []
        log.action_scroll_home()
        while True:
            shown += [line for line in page.lines() if "of" in line]
            if log.scroll_offset.y >= log.max_scroll_y:
                break
            log.action_move(-1, 1)
        for number in range(40):
            assert any(f"first of {number}" in line for line in shown)
            assert any(f"last of {number}" in line for line in shown)


async def test_it_works_in_a_window_of_a_few_cells() -> None:
    page = LogPage(LogEntry("answer", "| a | b |\n|---|---|\n| long cell | x |\n\n- a\n  - b"), *numbered(3))
    async with page.run_test(size=(3, 2)) as pilot:
        await pilot.pause()
        for width, height in ((1, 1), (2, 9), (20, 5)):
            await pilot.resize_terminal(width, height)
        page.log_view.action_scroll_home()
        assert "a" in page.text()


async def test_colours_follow_the_theme() -> None:
    page = LogPage(LogEntry("answer", "# Head\n\n```python\nx = 1\n```"), LogEntry("call", title="x", status="error"))
    async with page.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        looks: list[list[object]] = []
        for theme in ("textual-light", "textual-dark"):
            page.theme = theme
            await pilot.pause()
            looks.append([segment.style for y in range(8) for segment in page.log_view.render_line(y) if segment.style])
        assert all(light != dark for light, dark in zip(*looks, strict=True))


async def test_without_colour_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    page = LogPage(LogEntry("shell", "\x1b[31mred\x1b[0m", title="ls"), LogEntry("call", title="x", status="error"))
    async with page.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        strip = page.log_view.render_lines(page.log_view.size.region)[1]
        colours = [part.style.color.triplet for part in strip if part.style and part.style.color]
        assert all(colour is None or colour.red == colour.green == colour.blue for colour in colours)


def test_nothing_heavy_is_imported_with_the_log() -> None:
    heavy = ("markdown_it", "pygments", "rich.syntax", "rich.markdown", "textual.highlight", "linkify_it")
    script = f"import sys, vibe.cli.textual_ui.log.chat_log; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


async def test_the_end_is_followed_when_a_tiny_window_becomes_a_tall_one() -> None:
    page = LogPage(*numbered(3, "longerwords " * 2_400), *numbered(9, "x"), LogEntry("answer", "end"))
    async with page.run_test(size=(20, 5)) as pilot:
        await pilot.pause()
        assert page.lines()[-1] == "  end"
        await pilot.resize_terminal(40, 100)
        await pilot.pause()

        assert page.lines()[-1] == "  end"
