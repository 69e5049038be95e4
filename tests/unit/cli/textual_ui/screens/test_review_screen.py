"""Changes are read, judged and commented on with keys, and the verdicts are kept until they are sent."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual import events
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input

from tests.fakes.reviews import CART, FIXED, SHOP, FakeReview, changed
from tests.fakes.snapshots import rows_of
from vibe.cli.textual_ui.screens.review_screen import ReviewScreen
from vibe.front.review import ReviewDraft, key_of


@asynccontextmanager
async def opened(
    draft: ReviewDraft, review: FakeReview | None = None, size: tuple[int, int] = (120, 36)
) -> AsyncGenerator[tuple[Pilot[Any], list[bool | None]]]:
    app, results = App[None](), list[bool | None]()
    async with app.run_test(size=size) as pilot:
        await app.push_screen(ReviewScreen((review or FakeReview()).as_review, draft), results.append)
        await pilot.pause()
        yield pilot, results


async def test_files_are_accepted_and_rejected_and_esc_keeps_the_draft() -> None:
    draft = ReviewDraft()
    async with opened(draft) as (pilot, results):
        await pilot.press("a", "down", "down", "x")
        assert "1 accepted · 1 rejected · 2 open" in rows_of(pilot.app)[0]
        await pilot.press("escape")

    assert results == [False]
    assert (draft.accepted, draft.rejected) == ({key_of(SHOP[0])}, {key_of(SHOP[2]): False})
    async with opened(draft) as (pilot, results):
        assert "give back 1 file" in rows_of(pilot.app)[-1]
        await pilot.press("a", "down", "down", "x", "enter")
    assert (results, draft) == ([False], ReviewDraft())


async def test_a_comment_is_written_on_the_marked_line() -> None:
    draft = ReviewDraft()
    async with opened(draft) as (pilot, results):
        await pilot.press("j", "j", "j", "j", "j", "j", "c", *"axc z", "enter")
        assert draft.comments == {(key_of(SHOP[0]), 11): (11, "axc z")}
        assert any("▌ you  axc z" in row for row in rows_of(pilot.app))
        await pilot.press("c", "escape", "k", "enter")

    assert results == [True]


async def test_esc_in_a_comment_leaves_what_was_typed_to_go_on_with() -> None:
    draft = ReviewDraft()
    async with opened(draft) as (pilot, results):
        await pilot.press(*"jjjjjjc", *"half a", "escape")
        assert any("▌ you  half a" in row for row in rows_of(pilot.app))
        assert not results
        await pilot.press("c", *" comment")
        assert draft.comments == {(key_of(SHOP[0]), 11): (11, "half a comment")}, "kept while it is being typed"
        await pilot.press("escape", "escape")

    assert results == [False]


async def test_keys_that_come_at_once_are_a_way_and_then_a_comment() -> None:
    draft = ReviewDraft()
    async with opened(draft) as (pilot, _):
        for key in (*"jjjjjjc", *"why"):
            pilot.app.post_message(events.Key(key, key))  # without a pause, as when they are pasted
        await pilot.press("enter")
        assert draft.comments == {(key_of(SHOP[0]), 11): (11, "why")}


async def test_all_lines_of_what_is_pasted_into_a_comment_are_kept() -> None:
    draft = ReviewDraft()
    async with opened(draft) as (pilot, _):
        await pilot.press("c")
        pilot.app.post_message(events.Paste("round half up,\n\tnot to even\r\n"))
        await pilot.press("enter")
        assert [text for _, text in draft.comments.values()] == ["round half up, not to even"]
        await pilot.press("c", "ctrl+u")
        pilot.app.post_message(events.Paste("long " * 1_000_000))
        await pilot.press("end", *" of it", "alt+b", "alt+d", "alt+backspace", "!", "enter")
        assert [text for _, text in draft.comments.values()] == [f"{('long ' * 4_000)}!"]


@pytest.mark.parametrize(("before", "after", "told"), [("a", "a", "only its permissions"), (None, "", "file is empty")])
async def test_a_change_without_a_diff_says_what_it_is(before: str | None, after: str, told: str) -> None:
    async with opened(ReviewDraft(), FakeReview([changed("one", "run.sh", before, after)])) as (pilot, _):
        assert any(told in row for row in rows_of(pilot.app))


async def test_a_comment_on_a_line_that_went_is_on_the_one_in_its_place() -> None:
    draft = ReviewDraft()
    async with opened(draft) as (pilot, _):
        await pilot.press("j", "j", "j")
        assert any(" 10 -" in row for row in marked(pilot))
        await pilot.press("c", *"axc", "enter")
        assert draft.comments == {(key_of(SHOP[0]), 10): (10, "axc")}
        assert any(" 10 +" in row for row in marked(pilot))


async def test_a_file_without_lines_says_that_it_has_none_to_comment_on() -> None:
    draft = ReviewDraft()
    async with opened(draft, FakeReview([changed("one", "empty", None, "")])) as (pilot, _):
        await pilot.press("c")
        await pilot.pause()
        assert "this file has no line to comment on" in rows_of(pilot.app)[-1]
        assert not pilot.app.screen.query_one(Input).display


def marked(pilot: Pilot[Any]) -> list[str]:
    return [row.partition("│")[2] for row in rows_of(pilot.app) if "▸" in row.partition("│")[2]]


async def test_a_comment_is_written_on_several_lines() -> None:
    draft, place = ReviewDraft(), (key_of(SHOP[0]), 11)
    async with opened(draft, size=(152, 36)) as (pilot, _):
        assert "Shift+↑↓ more lines" in rows_of(pilot.app)[-1]
        await pilot.press(*"jjjjj", "shift+down", "c")
        assert sum(row.count("▸") for row in rows_of(pilot.app)) == 3, "with the one of the file"
        assert pilot.app.screen.query_one(Input).placeholder == "your comment on lines 10 to 11"
        await pilot.press(*"why", "enter")
        assert draft.comments == {place: (10, "why")}
        assert any("▌ you  10–11: why" in row for row in rows_of(pilot.app))  # noqa: RUF001  to
        await pilot.press("c", "ctrl+u", "enter")

    assert draft == ReviewDraft(), "on the last of its lines it is changed, and taken back"


async def test_a_file_that_others_changed_since_is_said_to_be_before_it_is_given_back() -> None:
    draft = ReviewDraft()
    async with opened(draft) as (pilot, _):
        await pilot.press("down", "down", "down", "x")
        await pilot.pause()
        assert any("README.md was changed by someone" in row for row in rows_of(pilot.app))
        assert draft.rejected == {key_of(SHOP[3]): True}
        await pilot.press("x")

    assert draft.rejected == {}


@pytest.mark.parametrize(("size", "is_wide"), [((120, 36), False), ((160, 36), True)])
async def test_texts_are_side_by_side_in_wide_windows_and_by_a_key(size: tuple[int, int], is_wide: bool) -> None:  # noqa: FBT001  a table
    async with opened(ReviewDraft(), size=size) as (pilot, _):
        assert any("10 -" in row and "10 +" in row for row in rows_of(pilot.app)) is is_wide
        await pilot.press("z")
        await pilot.pause()
        assert any("10 -" in row and "10 +" in row for row in rows_of(pilot.app)) is not is_wide


async def test_many_files_open_at_once_and_only_rows_in_sight_are_painted() -> None:
    changes = [
        changed(f"step-{number // 10}", f"src/module_{number}.py", CART * 20, FIXED * 20) for number in range(200)
    ]
    review = FakeReview(changes)
    async with opened(ReviewDraft(), size=(120, 36)) as (pilot, _):
        screen = ReviewScreen(review.as_review, ReviewDraft())
        before = time.process_time()
        await pilot.app.push_screen(screen)
        while not any("module_0.py" in row for row in rows_of(pilot.app)):
            await pilot.pause(0.01)
        assert time.process_time() - before < 1.5, "0.3 s where nothing else runs"
        screen.action_file(199)
        await pilot.pause()
        assert any("src/module_199.py" in row for row in rows_of(pilot.app))
