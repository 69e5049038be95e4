from __future__ import annotations

import gc

from textual.app import ComposeResult
from textual.geometry import Region
from textual.strip import Strip

from tests.unit.cli.textual_ui.log.page import LogPage, numbered
from vibe.cli.textual_ui.log.chat_log import ChatLog
from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.cli.textual_ui.log.rows import Row


async def test_each_kind_of_entry_has_its_look() -> None:
    page = LogPage(
        LogEntry("user", "do it", images=2),
        LogEntry("reasoning", "deep thought"),
        LogEntry("answer", "**done** `x`"),
        LogEntry("call", "output", title="Read a.py", status="ok"),
        LogEntry("call", "boom", title="Bash", status="error", folded=False),
        LogEntry("note", "careful", status="warning"),
        LogEntry("shell", "\x1b[31mred\x1b[0m plain", title="ls"),
    )
    async with page.run_test(size=(60, 30)) as pilot:
        await pilot.pause()
        shown = [line for line in page.lines() if line]

    assert shown == [
        "> do it",
        "  [2 images]",
        "  thought",
        "  done x",
        "✓ Read a.py",
        "✗ Bash",
        "  │ boom",
        "! careful",
        "! ls",
        "  red plain",
    ]


async def test_the_end_stays_in_sight_until_one_scrolls_up() -> None:
    page = LogPage(*numbered(30))
    async with page.run_test(size=(60, 20)) as pilot:
        log = page.log_view
        await pilot.pause()
        assert "last of 29" in page.text()

        log.append(LogEntry("answer", "newest"))
        await pilot.pause()
        assert "newest" in page.text()
        assert not log.has_unseen

        log.focus()
        await pilot.press("pageup")
        before = page.lines()
        log.append(LogEntry("answer", "below"))
        await pilot.pause()
        assert page.lines()[:-1] == before[:-1]
        assert log.has_unseen
        assert "more below, End" in page.lines()[-1]

        await pilot.press("end")
        assert "below" in page.text()
        assert not log.has_unseen


async def test_what_grows_below_is_new_whatever_else_changes_above() -> None:
    entries = [*numbered(9), LogEntry("answer", "growing", status="streaming")]
    page = LogPage(*entries)
    async with page.run_test(size=(60, 12)) as pilot:
        log = page.log_view
        await pilot.pause()
        log.focus()
        await pilot.press("pageup")
        entries[-1].add_text("\n\nmore")
        log._streamed = dict.fromkeys([entries[-1], entries[0]])  # type: ignore[assignment]  the one above comes last
        log.settle()
        assert log.has_unseen


async def test_moving_shifts_the_text_by_as_much_as_asked() -> None:
    table = "| a | b |\n|---|---|\n" + "| x | y |\n" * 9
    entries = [LogEntry("answer", f"{table}\n\nend {number}\n\n```python\nx = {number}\n```") for number in range(60)]
    page = LogPage(*entries)
    async with page.run_test(size=(50, 20)) as pilot:
        log = page.log_view
        await pilot.pause()
        for rows in (*[-3] * 60, -1, -19, 19, 1, 2, -40):
            before = page.lines()
            log.scroll_relative(y=rows)
            after = page.lines()
            kept = before[rows:] if rows > 0 else before[:rows]
            assert kept == (after[: 20 - rows] if rows > 0 else after[-rows:])
        assert log.scroll_offset.y > 0


async def test_enter_and_a_click_on_its_heading_fold_and_open_a_call() -> None:
    call = LogEntry("call", "inside", title="Read", status="ok")
    page = LogPage(LogEntry("answer", "before"), call)
    async with page.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        page.log_view.focus()
        assert "inside" not in page.text()

        await pilot.press("enter")
        assert "inside" in page.text()

        heading = next(y for y, line in enumerate(page.lines()) if "Read" in line)
        await pilot.click(page.log_view, offset=page.at(6, heading))
        assert "inside" not in page.text()


async def test_ctrl_o_opens_all_calls_and_folds_them() -> None:
    page = LogPage(*(LogEntry("call", f"inside {n}", title=f"Read {n}", status="ok") for n in range(5)))
    async with page.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        page.log_view.toggle_all_calls()
        assert all(f"inside {n}" in page.text() for n in range(5))
        page.log_view.toggle_all_calls()
        assert "inside" not in page.text()


async def test_an_answer_streams() -> None:
    answer = LogEntry("answer", status="streaming")
    page = LogPage(answer)
    async with page.run_test(size=(60, 20)) as pilot:
        log = page.log_view
        for piece in ("Hel", "lo **wor", "ld**\n\n```py\nx =", " 1\ny = 2\n", "``", "`\n\nend"):
            answer.add_text(piece)
            log.changed(answer)
        log.settle()
        await pilot.pause()
        assert page.lines()[:6] == ["  Hello world", "", "  x = 1", "  y = 2", "", "  end"]

        answer.status = "done"
        log.changed(answer)
        assert page.lines()[:6] == ["  Hello world", "", "  x = 1", "  y = 2", "", "  end"]


async def test_a_rewind_drops_the_entries_behind_it() -> None:
    page = LogPage(*numbered(30))
    async with page.run_test(size=(60, 20)) as pilot:
        log = page.log_view
        await pilot.pause()
        log.cut(10)
        assert len(log.entries) == 10
        assert "last of 9" in page.text()
        assert "of 10" not in page.text()

        log.reset()
        assert page.text().strip() == ""
        log.append(LogEntry("user", "anew"))
        assert "anew" in page.text()


async def test_what_is_older_is_asked_for_once_near_the_top_and_moves_nothing_in_sight() -> None:
    page = LogPage(*numbered(30))
    async with page.run_test(size=(60, 20)) as pilot:
        log = page.log_view
        log.prepend((), more=True)
        await pilot.pause()
        assert page.wanted == 0

        log.focus()
        await pilot.press("home")
        await pilot.pause()
        assert page.wanted == 1
        before = page.lines()
        log.prepend([LogEntry("note", f"older {number}") for number in range(50)], more=True)
        assert page.lines() == before
        await pilot.press("up", "up")
        assert page.lines()[:2] == ["· older 49", ""]
        assert page.wanted == 1

        await pilot.press("home")
        await pilot.pause()
        assert page.wanted == 2
        log.prepend((), more=False)
        await pilot.press("end", "home")
        await pilot.pause()
        assert page.lines()[0] == "· older 0"
        assert page.wanted == 2


async def test_a_log_that_is_shorter_than_the_screen_asks_at_once_and_stays_at_its_end() -> None:
    page = LogPage(LogEntry("note", "newest"))
    async with page.run_test(size=(60, 10)) as pilot:
        page.log_view.prepend((), more=True)
        await pilot.pause()
        assert page.wanted == 1
        page.log_view.prepend([LogEntry("note", f"older {number}") for number in range(50)], more=False)
        await pilot.pause()

        assert page.lines()[-1].endswith("newest")
        assert [entry.index for entry in page.log_view.entries] == list(range(51))


def rows_kept() -> int:
    gc.collect()
    return sum(isinstance(each, Row) for each in gc.get_objects())


async def test_of_a_long_log_that_was_paged_through_but_some_rows_are_kept() -> None:
    before = rows_kept()
    page = LogPage(*numbered(300))
    async with page.run_test(size=(60, 30)) as pilot:
        await pilot.pause()
        while page.log_view.scroll_offset.y:
            page.log_view.action_move(1, -1)
        assert "first of 0" in page.text()
        assert 100 < rows_kept() - before < 1_100


async def test_rows_share_their_styles_whose_sequences_are_made_once() -> None:
    Strip.render_ansi.cache_clear()
    page = LogPage(*numbered(300))
    async with page.run_test(size=(60, 30)) as pilot:
        await pilot.pause()
        while page.log_view.scroll_offset.y:
            page.log_view.action_move(1, -1)
            for strip in page.log_view.render_lines(page.log_view.size.region):
                strip.render(page.console)  # as a terminal would
        remembered = Strip.render_ansi.cache_info().currsize

    assert 0 < remembered < 20


class CountingLog(ChatLog):
    looks = 0

    @property
    def region(self) -> Region:
        self.looks += 1
        return super().region


class CountingPage(LogPage):
    def compose(self) -> ComposeResult:
        yield CountingLog()


async def test_a_frame_looks_for_the_place_of_the_log_no_more_often_than_a_line_does() -> None:
    page = CountingPage(*numbered(40))
    async with page.run_test(size=(100, 40)) as pilot:
        await pilot.pause()
        log = page.query_one(CountingLog)
        counts = list[int]()
        for rows in (1, 40):
            log.looks = 0
            assert len(log.render_lines(Region(0, 0, 100, rows))) == rows
            counts.append(log.looks)

    assert counts[0] == counts[1]


async def test_a_drawn_line_stays_one_row_whatever_is_in_it() -> None:
    entry = LogEntry(
        "drawn", draw=lambda cols: [[("one\x1b[2J\n two\r", "bold"), ("  \t three", "")], [("next" * cols, "")]]
    )
    page = LogPage(entry)
    async with page.run_test(size=(30, 10)) as pilot:
        await pilot.pause()
        first, second = page.lines()

    assert first == "one twothree"
    assert second.startswith("nextnext")
    assert len(second) == 29
