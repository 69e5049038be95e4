from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from ipc.events import AnswerEvent, PlanDecisionEvent
from vibe.front.cells import text_of
from vibe.front.request_text import (
    OWN_WORDS,
    MenuItem,
    NumberedQuestion,
    PickedOptions,
    answered_lines,
    answers_in,
    answers_of,
    options_text,
    prompt_text,
    read_choice,
)

OPTIONS = (MenuItem(label="PostgreSQL", description="a server"), MenuItem(label="SQLite"), MenuItem(label="Files"))
ONE = NumberedQuestion(options=OPTIONS)
SEVERAL = NumberedQuestion(options=OPTIONS, several=True)
WITH_DEFAULT = NumberedQuestion(options=OPTIONS, default=(1,), declines="later")
FREE = NumberedQuestion(options=OPTIONS, own_words=True)
TYPED = NumberedQuestion(options=OPTIONS, own_words=True, typed=True)


@pytest.mark.parametrize(
    ("choosing", "line", "reading"),
    [
        (ONE, "2", PickedOptions(positions=(1,))),
        (ONE, " 1) ", PickedOptions(positions=(0,))),
        (ONE, "", None),
        (ONE, "\x1b", None),
        (ONE, "1,2", "Choose only one."),
        (ONE, "2 2", PickedOptions(positions=(1,))),
        (SEVERAL, "3, 1", PickedOptions(positions=(0, 2))),
        (SEVERAL, "3;9", "Answer with a number from 1 to 3."),
        (ONE, "0", "Answer with a number from 1 to 3."),
        (ONE, "4", "Answer with a number from 1 to 3."),
        (ONE, ",", "Answer with a number from 1 to 3."),
        (ONE, "SQLite", "Answer with a number from 1 to 3."),
        (WITH_DEFAULT, "", PickedOptions(positions=(1,))),
        (WITH_DEFAULT, "\x1b", None),
        (FREE, "4", OWN_WORDS),
        (FREE, "neither, use Redis", PickedOptions(words="neither, use Redis")),
        (FREE, "5", "Answer with a number from 1 to 3."),
        (TYPED, "1", PickedOptions(words="1")),
        (TYPED, "", None),
    ],
)
def test_what_was_typed_is_understood(
    choosing: NumberedQuestion, line: str, reading: PickedOptions | str | None
) -> None:
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
    shown = options_text(
        NumberedQuestion(options=(MenuItem(label="a\x1b[2J", description="b\nc\x9b"), MenuItem(label="ok")))
    )
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert len(shown.splitlines()) == 2


def test_an_answer_is_kept_with_who_gave_it_and_when_the_longer_one_below_its_question() -> None:
    at = time.mktime((2026, 5, 4, 17, 42, 0, 0, 0, -1))
    lines = answered_lines([("Which format?", "CSV"), ("Why?", "as " * 20)], "user", at, 50)
    assert list(map(text_of, lines)) == [
        "→ Which format?  CSV                    you, 17:42",
        "→ Why?                                  you, 17:42",
        f"  {('as ' * 20)[:47].rstrip()}…",
    ]
    assert text_of(answered_lines([("Q", "A")], "ci bot", at, 50)[0]).endswith("ci bot, 17:42")


def test_answers_are_in_what_an_event_or_a_tool_says() -> None:
    decision = PlanDecisionEvent(
        decision_id="d", question="Which?", options=("a", "b"), labels=("A one", "B two"), selections=("b",), by="user"
    )
    answer = AnswerEvent(request_id="q", answers=({"question": "Which?", "answer": "mine", "is_other": True},))
    assert answers_of(decision) == [("Which?", "B two")]
    assert answers_of(answer) == [("Which?", "mine")]
    assert answers_of(replace(decision, selections=())) == []
    assert answers_in("Which?\n→ a\nAnd\nwhy?\n→ so (own words)") == [("Which?", "a"), ("And\nwhy?", "so (own words)")]
    assert answers_in("The user did not answer") == []
