from __future__ import annotations

import pytest

from vibe.front.request_text import (
    Choosing,
    Declined,
    MenuItem,
    OwnWords,
    Picked,
    Reading,
    Unclear,
    options_text,
    prompt_text,
    read_choice,
)

OPTIONS = (MenuItem(label="PostgreSQL", description="a server"), MenuItem(label="SQLite"), MenuItem(label="Files"))
ONE = Choosing(options=OPTIONS)
SEVERAL = Choosing(options=OPTIONS, several=True)
WITH_DEFAULT = Choosing(options=OPTIONS, default=(1,), declines="later")
FREE = Choosing(options=OPTIONS, own_words=True)
TYPED = Choosing(options=OPTIONS, own_words=True, typed=True)


@pytest.mark.parametrize(
    ("choosing", "line", "reading"),
    [
        (ONE, "2", Picked(positions=(1,))),
        (ONE, " 1) ", Picked(positions=(0,))),
        (ONE, "", Declined()),
        (ONE, "\x1b", Declined()),
        (ONE, "1,2", Unclear("Choose only one.")),
        (ONE, "2 2", Picked(positions=(1,))),
        (SEVERAL, "3, 1", Picked(positions=(0, 2))),
        (SEVERAL, "3;9", Unclear("Answer with a number from 1 to 3.")),
        (ONE, "0", Unclear("Answer with a number from 1 to 3.")),
        (ONE, "4", Unclear("Answer with a number from 1 to 3.")),
        (ONE, ",", Unclear("Answer with a number from 1 to 3.")),
        (ONE, "SQLite", Unclear("Answer with a number from 1 to 3.")),
        (WITH_DEFAULT, "", Picked(positions=(1,))),
        (WITH_DEFAULT, "\x1b", Declined()),
        (FREE, "4", OwnWords()),
        (FREE, "neither, use Redis", Picked(words="neither, use Redis")),
        (FREE, "5", Unclear("Answer with a number from 1 to 3.")),
        (TYPED, "1", Picked(words="1")),
        (TYPED, "", Declined()),
    ],
)
def test_what_was_typed_is_understood(choosing: Choosing, line: str, reading: Reading) -> None:
    assert read_choice(line, choosing) == reading


def test_the_answers_are_numbered_and_what_enter_takes_is_marked() -> None:
    assert options_text(WITH_DEFAULT).splitlines() == [
        "   1) PostgreSQL: a server",
        "  *2) SQLite",
        "   3) Files",
    ]
    assert "Enter: 2, Esc: later" in prompt_text(WITH_DEFAULT)


def test_own_words_are_one_more_answer_only_where_they_are_wanted() -> None:
    assert "   4) something else…" in options_text(FREE)
    assert "else" not in options_text(ONE)
    assert options_text(TYPED) == "   or type: PostgreSQL | SQLite | Files\n"


def test_nothing_a_model_wrote_reaches_the_terminal_as_it_is() -> None:
    shown = options_text(Choosing(options=(MenuItem(label="a\x1b[2J", description="b\nc\x9b"), MenuItem(label="ok"))))
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert len(shown.splitlines()) == 2
