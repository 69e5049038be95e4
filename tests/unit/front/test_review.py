"""The rows of a review, and how they are drawn."""

from __future__ import annotations

import pytest

from tests.fakes.reviews import CART, SHOP, changed
from vibe.front.cells import Line, cells_of, text_of
from vibe.front.review import ReviewDraft, draw_files, draw_keys, draw_row, draw_title, key_of, review_rows

DRAFT = ReviewDraft()


def text(line: Line) -> str:
    return text_of(line).replace("\N{MINUS SIGN}", "-")


def drawn(
    draft: ReviewDraft = DRAFT, cols: int = 80, *, wide: bool = False, changes: tuple[int, ...] = (0,)
) -> list[str]:
    shown = [SHOP[number] for number in changes]
    rows = list(review_rows(shown, draft, wide=wide))
    lines = [draw_row(row, shown[row.file], draft, cols, wide=wide) for row in rows]
    assert {cells_of(line) for line in lines} == {cols}
    return [text(line) for line in lines]


def test_old_and_new_lines_stand_below_each_other_with_their_numbers() -> None:
    lines = drawn()

    assert lines[0].startswith("shop/cart.py  by totals, try 2")
    assert lines[0].endswith("+2 -2  open")
    assert lines[5:9] == [
        "   10 -         total = sum(item.price for item in self.items)",
        "   11 -         return total - self.discount",
        "   10 +         total = sum(item.price * item.count for item in self.items)",
        "   11 +         return round(total * (1 - self.discount), 2)",
    ]
    assert lines[9] == "   12"


def test_side_by_side_each_text_has_its_half() -> None:
    lines = drawn(cols=143, wide=True)

    left, right = lines[6].split(" │ ")
    assert left == "   11 -         return total - self.discount".ljust(70)
    assert right == "   11 +         return round(total * (1 - self.discount), 2)"
    assert [line.split(" │ ")[0].strip() for line in drawn(cols=100, wide=True, changes=(2,))[2:9]] == [""] * 7


def test_a_comment_stands_below_its_line_and_says_where_it_goes() -> None:
    draft = ReviewDraft(comments={(key_of(SHOP[0]), 11): (11, "round half up")})

    for wide in (False, True):
        lines = drawn(draft, cols=120, wide=wide)
        at = next(number for number, line in enumerate(lines) if "round half up" in line)
        assert lines[at].startswith("▌ you  round half up")
        assert lines[at].endswith("goes to totals")
        assert "return round(total" in lines[at - 1]


@pytest.mark.parametrize("cols", [10, 20, 40])
def test_rows_fit_narrow_windows(cols: int) -> None:
    assert drawn(cols=cols, changes=(0, 1, 2, 3))


def test_what_is_no_text_is_said_and_has_no_lines() -> None:
    change = changed("a", "pic.png", None, None)
    rows = list(review_rows([change], DRAFT, wide=False))

    assert not any(row.is_code for row in rows)


def test_a_removed_file_can_be_commented_on_and_a_line_that_went_cannot() -> None:
    gone, kept = changed("a", "x.py", CART, None), SHOP[0]

    def commented(number: int, *, wide: bool = False) -> int:
        changes = [gone, kept]
        draft = ReviewDraft(comments={(key_of(changes[number]), 10): (10, "why?")})
        return sum(bool(row.comment) for row in review_rows(changes, draft, wide=wide))

    assert (commented(0), commented(1), commented(1, wide=True)) == (1, 1, 1)
    head = draw_row(next(review_rows([gone], DRAFT, wide=False)), gone, DRAFT, 60, wide=False)
    assert text(head).startswith("x.py  by a  deleted")


def test_without_a_step_comments_come_into_the_line() -> None:
    change = changed("", "x.py", CART, None)
    place = (key_of(change), 10)
    draft = ReviewDraft(comments={place: (9, "why?")})
    lines = [text(draw_row(row, change, draft, 80, wide=False)) for row in review_rows([change], draft, wide=False)]

    assert " by " not in lines[0]
    assert next(line for line in lines if "why?" in line).startswith("▌ you  9–10: why?")  # noqa: RUF001  to
    assert next(line for line in lines if "why?" in line).endswith("goes into your line")
    assert "Enter 1 comment into your line" in text(draw_keys(draft, 120))


def test_the_files_stand_below_their_steps_and_the_chosen_one_is_in_sight() -> None:
    draft = ReviewDraft(accepted={key_of(SHOP[0])}, rejected={key_of(SHOP[2]): False})

    assert [text(line) for line in draw_files(SHOP, draft, 0, (30, 20))] == [
        "totals",
        "▸ ✓ shop/cart.py         +2 -2",
        "  · tests/test_cart.py   +3 -0",
        "export",
        "  ✗ shop/export.py       +7 -0",
        "docs",
        "  · README.md            +2 -0",
    ]
    assert "▸ · README.md" in text_of(draw_files(SHOP, draft, 3, (30, 2))[-1])
    assert text_of(draw_title("Sell", SHOP, draft, 60)).endswith("1 accepted · 1 rejected · 2 open")


def test_the_keys_say_what_enter_does() -> None:
    draft = ReviewDraft(comments={(key_of(SHOP[0]), 11): (11, "why?")}, rejected={key_of(SHOP[2]): False})

    assert "Enter" not in text_of(draw_keys(DRAFT, 120))
    assert "Enter send 1 comment, give back 1 file" in text_of(draw_keys(draft, 120))
