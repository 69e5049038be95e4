"""A picker as lines: that it fits, which rows are visible, and which match a query."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec import structs
from rich.cells import cell_len

from vibe.front.cells import text_of
from vibe.front.picker import FRAME, Picker, PickRow, PickState, matching_rows, picker_lines
from vibe.view.figures import ago

ROWS = [
    PickRow(f"/do {number}", f"number {number} 日本", f"{number} min", words="even" * (number % 2 == 0))
    for number in range(60)
]
PICKER = Picker(
    title="Things",
    rows=lambda _: ROWS,
    preview=lambda row, _: [[(row.title, "bold")], [("long " * 60, "")]],
    modes=[("one", ""), ("other", " other")],
)

PREVIEWED = structs.replace(PICKER, is_previewed=True)


def drawn(state: PickState, cols: int, rows: int, picker: Picker = PICKER) -> list[str]:
    return ["".join(text for text, _ in line) for line in picker_lines(picker, state, cols, rows)]


@pytest.mark.parametrize("cols", [20, 40, 73, 76, 116, 200])
@pytest.mark.parametrize("rows", [4, 5, 8, 18, 40])
@pytest.mark.parametrize("picker", [PICKER, PREVIEWED])
def test_every_line_is_as_wide_as_it_may_be_and_the_marked_row_is_in_sight(
    cols: int, rows: int, picker: Picker
) -> None:
    preview = [[("what it stands for ", "")], [("x" * 300, "muted")], *[[("more", "")]] * 60]
    for marked in (0, 7, 59):
        lines = drawn(PickState(rows=ROWS, marked=marked, preview=preview), cols, rows, picker)

        assert {cell_len(line) for line in lines} == {cols}
        assert len(lines) == max(rows, FRAME + 1) or rows < FRAME + 1
        if rows > FRAME:
            assert sum(line.startswith("▸ ") for line in lines) == 1


def test_the_preview_stands_beside_the_list_where_there_is_room() -> None:
    state = PickState(rows=ROWS, preview=[[("what it stands for", "")]])

    assert "what it stands for" in drawn(state, 76, 18)[2]
    assert not any("what it stands for" in line for line in drawn(state, 70, 18))


def test_what_must_be_seen_first_stands_below_the_list_where_there_is_no_room_beside_it() -> None:
    state = PickState(
        rows=ROWS, marked=30, preview=[[("2 files go back", "")], [], *[[(f"{n}.py", "")] for n in "abc"]]
    )
    lines = drawn(state, 60, 12, PREVIEWED)

    assert [line.strip() for line in lines[6:9]] == ["2 files go back", "a.py", "b.py"]
    assert sum("number" in line for line in lines) == 4
    assert any(line.startswith("▸ number 30") for line in lines)


def test_the_head_has_the_query_and_the_foot_the_keys_and_the_mode() -> None:
    first, *_, last = map(text_of, picker_lines(PICKER, PickState(query="numb", rows=ROWS, mode=1), 100, 18))

    assert first.split() == ["Things", "numb▏", "60"]
    assert last.strip() == "↑↓ move   Tab one | other   Enter choose   Esc back"
    narrow = text_of(picker_lines(PICKER, PickState(rows=ROWS, mode=1), 50, 18)[-1])
    assert narrow.strip() == "↑↓ move   Tab other   Enter choose   Esc back"
    nothing = text_of(picker_lines(PICKER, PickState(query="x"), 100, 18)[-1])
    assert "Enter" not in nothing


def test_all_words_must_fit_in_whatever_order_or_the_row_was_found_otherwise() -> None:
    assert [row.line for row in matching_rows(ROWS, "MIN number 17")] == ["/do 17"]
    assert len(matching_rows(ROWS, "even")) == 30
    assert [row.line for row in matching_rows(ROWS, "nowhere", {"/do 3"})] == ["/do 3"]
    assert matching_rows(ROWS, "") == ROWS


def test_an_age_is_said_in_the_largest_unit_and_after_a_week_as_a_date() -> None:
    now = datetime(2026, 11, 24, 12, tzinfo=UTC).timestamp()
    said = [ago(now - then, now) for then in (5, 60, 7_300, 200_000, 8 * 86_400)]
    date = datetime.fromtimestamp(now - 8 * 86_400, tz=UTC).astimezone().date()
    assert said == ["now", "1 min", "2 h", "2 d", date.isoformat()]


def test_commands_whose_names_begin_so_come_by_name_before_what_only_has_the_word_somewhere() -> None:
    rows = [PickRow("/attach", "Attach"), PickRow("/theme", "Colours"), PickRow("/tell", "Tell")]

    assert [row.line for row in matching_rows(rows, "t")] == ["/tell", "/theme", "/attach"]
    assert [row.line for row in matching_rows(rows, "")] == ["/attach", "/theme", "/tell"]
