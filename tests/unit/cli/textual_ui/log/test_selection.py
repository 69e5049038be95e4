from __future__ import annotations

import pytest
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection

from tests.unit.cli.textual_ui.log.page import LogPage, numbered
from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.cli.textual_ui.log.painted_sheet import row_y


async def drag(pilot: Pilot[None], start: tuple[int, int], end: tuple[int, int]) -> None:
    log = pilot.app.query_one("ChatLog")
    await pilot.mouse_down(log, offset=start)
    await pilot.hover(log, offset=end)
    await pilot.mouse_up(log, offset=end)


async def test_copied_text_has_no_breaks_at_wraps_and_no_gutter() -> None:
    words = "several words that are more than one row holds"
    page = LogPage(LogEntry("user", words), LogEntry("answer", f"{words}\n\n```py\nif x:\n    y\n```"))
    async with page.run_test(size=(24, 20)) as pilot:
        await pilot.pause()
        await drag(pilot, page.at(0, 0), page.at(20, 9))
        page.log_view.focus()
        await pilot.press("c")

        assert page.clipboard == f"{words}\n\n{words}\n\nif x:\n    y"


async def test_a_word_that_a_wrap_split_is_copied_as_one() -> None:
    page = LogPage(LogEntry("answer", "x" * 50))
    async with page.run_test(size=(24, 20)) as pilot:
        await pilot.pause()
        await drag(pilot, page.at(2, 0), page.at(20, 2))
        page.log_view.action_copy()

        assert page.clipboard == "x" * 50


async def test_a_selection_stays_with_its_text_when_rows_above_become_known() -> None:
    page = LogPage(*(LogEntry("answer", f"text {number}\n\n| a |\n|---|\n| b |\n\nmore") for number in range(40)))
    async with page.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        at = next(y for y, line in enumerate(page.lines()) if "text 39" in line)
        await drag(pilot, page.at(2, at), page.at(9, at))
        for _ in range(30):
            page.log_view.scroll_relative(y=-5)
        await pilot.press("end")

        assert pilot.app.screen.get_selected_text() == "text 39"


async def test_what_is_selected_stays_where_it_is_while_text_comes() -> None:
    page = LogPage(*numbered(20))
    async with page.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        place = page.at(2, 6)
        await pilot.mouse_down(page.log_view, offset=place)
        await pilot.hover(page.log_view, offset=(12, 7))
        before = page.lines()
        page.log_view.append(LogEntry("answer", "more\n\nand more"))
        assert page.lines()[:-1] == before[:-1]
        assert page.log_view.has_unseen

        await pilot.mouse_up(page.log_view, offset=(12, 7))
        await pilot.press("end")
        page.log_view.append(LogEntry("answer", "the last"))
        assert page.lines()[-1].strip() == "the last"


@pytest.mark.parametrize("more", [1, 3, 30])
async def test_a_log_that_is_lower_than_its_window_stays_while_text_is_selected(more: int) -> None:
    page = LogPage(LogEntry("answer", "one\n\ntwo"))
    async with page.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        log = page.log_view

        def shown() -> list[str]:
            return [log.render_line(y).text.strip() for y in range(log.size.height)]

        await pilot.mouse_down(log, offset=page.at(2, 0))
        await pilot.hover(log, offset=page.at(3, 2))
        before = shown()
        assert before[-3:] == ["one", "", "two"]
        for number in range(more):
            log.append(LogEntry("answer", f"more {number}"))
            await pilot.hover(log, offset=(4, before.index("two")))
            assert [line.replace("↓ more below, End", "").strip() for line in shown()] == before
            assert log.has_unseen
        await pilot.mouse_up(log, offset=(4, before.index("two")))
        assert page.screen.get_selected_text() == "one\n\ntwo"
        await pilot.press("end")
        assert shown()[-1] == f"more {more - 1}"
        page.screen.clear_selection()
        log.append(LogEntry("answer", "the last"))
        assert shown()[-1] == "the last"


async def test_the_end_is_followed_again_once_nothing_is_selected() -> None:
    page = LogPage(*numbered(20))
    async with page.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        await drag(pilot, page.at(2, 6), (12, 7))
        page.screen.clear_selection()
        await pilot.pause()
        page.log_view.append(LogEntry("answer", "the last"))
        assert page.lines()[-1].strip() == "the last"


async def test_a_drag_over_empty_lines_is_nothing_special() -> None:
    page = LogPage(LogEntry("answer", "one\n\ntwo"))
    async with page.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        await drag(pilot, page.at(0, 1), page.at(30, 2))
        assert page.screen.get_selected_text() == "\ntwo"


async def test_two_clicks_select_a_word_and_three_the_entry() -> None:
    page = LogPage(LogEntry("answer", "one two\n\nthree"))
    async with page.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        await pilot.click(page.log_view, offset=page.at(7, 0), times=2)
        assert page.screen.get_selected_text() == "two"
        await pilot.click(page.log_view, offset=page.at(12, -3), times=1)
        await pilot.click(page.log_view, offset=page.at(3, 0), times=3)
        assert page.screen.get_selected_text() == "one two\n\nthree"


async def test_all_of_the_log_is_copied_as_it_was_written() -> None:
    page = LogPage(LogEntry("user", "say"), LogEntry("answer", "**said**"))
    async with page.run_test(size=(40, 12)):
        page.log_view.text_select_all()
        assert page.screen.get_selected_text() == "say\n\n**said**"


async def test_a_click_on_a_link_says_where_it_leads_and_a_drag_does_not() -> None:
    page = LogPage(LogEntry("answer", "see [here](https://a.b/c) and [file](x.py)"))
    async with page.run_test(size=(60, 12)) as pilot:
        await pilot.pause()
        await pilot.click(page.log_view, offset=page.at(7, 0))
        await pilot.click(page.log_view, offset=page.at(page.lines()[0].index("file") + 1, 0))
        assert page.links == ["https://a.b/c", "x.py"]

        await drag(pilot, page.at(3, 0), page.at(8, 0))
        assert page.links == ["https://a.b/c", "x.py"]


async def test_a_terminal_gets_the_address_of_a_link_on_the_web() -> None:
    page = LogPage(LogEntry("answer", "[here](https://a.b/c) [file](javascript:x) [local](a.py)"))
    async with page.run_test(size=(60, 12)) as pilot:
        await pilot.pause()
        links = {segment.style.link for segment in page.log_view.render_line(page.above) if segment.style is not None}
        assert links == {None, "https://a.b/c"}


async def test_a_drag_over_a_heading_folds_nothing() -> None:
    page = LogPage(LogEntry("call", "inside", title="Read it", status="ok"), LogEntry("answer", "x"))
    async with page.run_test(size=(60, 12)) as pilot:
        await pilot.pause()
        await drag(pilot, page.at(4, 2), page.at(6, 0))
        assert "inside" not in page.text()


async def test_keys_copy_an_answer_and_its_blocks_of_code_from_the_last_up() -> None:
    answer = "Do\n\n```sh\nfirst\n```\n\nthen\n\n```sh\nsecond\n```\n\nand be glad."
    page = LogPage(LogEntry("answer", "```sh\nabove\n```"), LogEntry("user", "go"), LogEntry("answer", answer))
    async with page.run_test(size=(60, 24)) as pilot:
        page.log_view.focus()
        copied: list[str] = []
        for key in ("b", "b", "b", "b", "c", "k", "k", "k", "c", "b"):
            await pilot.press(key)
            copied.append(page.clipboard)
        assert copied[:5] == ["second", "first", "above", "second", answer]
        assert copied[-2:] == ["```sh\nabove\n```", "above"]


async def test_the_line_in_the_place_of_others_shows_them_by_a_click() -> None:
    page = LogPage(LogEntry("user", "\n".join(f"line {number}" for number in range(60))))
    async with page.run_test(size=(60, 50)) as pilot:
        await pilot.pause()
        row = next(number for number, line in enumerate(page.lines()) if "20 more lines" in line)
        assert "line 30" not in page.text()
        await pilot.click(page.log_view, offset=page.at(4, row))
        await pilot.pause()
        assert "line 30" in page.text()
        page.log_view.entries[0].whole = False
        assert page.log_view.find("line 31")
        assert page.screen.get_selected_text() == "line 31"


async def test_what_is_found_is_in_sight_and_marked() -> None:
    page = LogPage(*numbered(200), LogEntry("call", "a needle", title="Grep", status="ok"), *numbered(50))
    async with page.run_test(size=(60, 20)) as pilot:
        log = page.log_view
        await pilot.pause()
        assert log.find("NEEDLE")
        assert "a needle" in page.text()
        assert page.screen.get_selected_text() == "needle"

        assert log.find("first of 9")
        assert "first of 99" in page.text()
        assert log.find("first of 9")
        assert "first of 98" in page.text()
        assert not log.find("first of 199", wraps=False)
        assert log.find("first of 199")

        assert not log.find("nowhere")


async def test_rows_that_are_selected_are_shown_so() -> None:
    page = LogPage(LogEntry("answer", "one 漢字 three"))
    async with page.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        plain = page.log_view.render_line(page.above)
        page.screen.selections = {page.log_view: Selection(Offset(6, row_y(0, 0)), Offset(8, row_y(0, 0)))}
        shown = page.log_view.render_line(page.above)

        assert shown.text == plain.text
        look = page.screen.get_component_rich_style("screen--selection")
        assert [part.text for part in shown if part.style and part.style.bgcolor == look.bgcolor] == ["漢字"]
