"""An agent's questions on the screen."""

from __future__ import annotations

import pytest

from tests.unit.cli.textual_ui.panels.stage import stage
from vibe.core.tools.questions import Choice, Question, QuestionAnswer

COLOUR = Question(
    question="Which colour?", header="Look", options=[Choice(label="red", description="loud"), Choice(label="blue")]
)
PARTS = Question(
    question="Which parts?",
    options=[Choice(label="api"), Choice(label="cli"), Choice(label="docs")],
    multi_select=True,
)


async def test_a_number_answers_a_question_with_one_answer() -> None:
    async with stage() as on:
        on.app.steps["q1"] = "paint"
        await on.ask(on.queue.user_input, [COLOUR], "q1")

        assert on.lines == [
            "Question  [Look] Which colour?  for step paint",
            "▸ 1 red   loud",
            "  2 blue",
            "  3 something else…",
        ]
        assert "1-3 answer   ↑↓ Enter choose   Esc skip" in on.screen
        await on.press("2")
        assert on.answers == [[QuestionAnswer(question="Which colour?", answer="blue")]]


async def test_the_cursor_chooses_too() -> None:
    async with stage() as on:
        await on.ask(on.queue.user_input, [COLOUR])
        await on.press("down", "up", "down", "enter")
        assert on.answers == [[QuestionAnswer(question="Which colour?", answer="blue")]]


async def test_several_are_picked_and_then_confirmed() -> None:
    async with stage() as on:
        await on.ask(on.queue.user_input, [PARTS])
        await on.press("enter")
        assert "Pick at least one" in on.screen
        await on.press("1", "3", "1", "2")
        assert on.lines[1:4] == ["  1 [ ] api", "▸ 2 [x] cli", "  3 [x] docs"]
        await on.press("up", "space", "down", "space", "enter")
        assert on.answers == [[QuestionAnswer(question="Which parts?", answer="api, docs")]]


async def test_own_words_go_with_those_that_are_picked() -> None:
    async with stage() as on:
        await on.ask(on.queue.user_input, [PARTS])
        await on.press("1", "4", *"sdk", "enter")
        assert on.answers == [[QuestionAnswer(question="Which parts?", answer="api, sdk", is_other=True)]]


async def test_own_words_are_an_answer_and_esc_goes_back_to_the_options() -> None:
    async with stage() as on:
        await on.ask(on.queue.user_input, [COLOUR])
        await on.press("3", "x", "escape", "3", "enter")
        assert on.answers == []
        await on.press("3", *"sea", "enter")
        assert on.answers == [[QuestionAnswer(question="Which colour?", answer="sea", is_other=True)]]


async def test_questions_come_one_after_the_other_and_one_can_go_back() -> None:
    async with stage() as on:
        await on.ask(on.queue.user_input, [COLOUR, PARTS])
        assert on.lines[0] == "Question  1 of 2: [Look] Which colour?"
        await on.press("1")
        assert on.lines[0] == "Question  2 of 2: Which parts?"
        await on.press("left")
        assert on.lines[1] == "answered: red"
        await on.press("2", "2", "enter")
        assert on.answers == [
            [
                QuestionAnswer(question="Which colour?", answer="blue"),
                QuestionAnswer(question="Which parts?", answer="cli"),
            ]
        ]


async def test_esc_declines_them_all() -> None:
    async with stage() as on:
        await on.ask(on.queue.user_input, [COLOUR, PARTS])
        await on.press("1", "escape")
        assert on.answers == [None]


@pytest.mark.parametrize("size", [(80, 24), (20, 5)])
async def test_hostile_words_are_spelled_out_and_every_option_can_be_reached(size: tuple[int, int]) -> None:
    evil = Question(question="\x1b[2J[red]?\nnext", options=[Choice(label="a\u202eb"), Choice(label="[b]c")])
    async with stage(*size) as on:
        await on.ask(on.queue.user_input, [evil])
        assert on.lines[:4] == ["Question  \\x1b[2J[red]?", "  next", "▸ 1 a\\u202eb", "  2 [b]c"]
        await on.press("down")
        assert "[b]c" in on.screen
        await on.press("enter")
        assert on.answers == [[QuestionAnswer(question="\x1b[2J[red]?\nnext", answer="[b]c")]]
