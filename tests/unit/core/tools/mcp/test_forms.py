from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from mcp.types import ElicitRequestFormParams

from vibe.core.tools.mcp.elicitation import (
    BLANK,
    DECLINE,
    NOT_NOW,
    CallUnderWay,
    DeclinedError,
    FormField,
    UnusableFormError,
    fields_of,
)
from vibe.core.tools.questions import Question, QuestionAnswer


def one_field(schema: dict[str, Any], *, required: bool = True) -> FormField:
    form = {"type": "object", "properties": {"it": schema}, "required": ["it"] if required else []}
    return fields_of(form)[0]


def said(text: str) -> QuestionAnswer:
    return QuestionAnswer(question="", answer=text)


@dataclass(frozen=True, kw_only=True)
class Case:
    schema: dict[str, Any]
    options: list[str]
    taken: dict[str, Any]
    refused: dict[str, str] = field(default_factory=dict[str, str])
    required: bool = True


COLOURS = ["red", "green", "blue", "black", "white"]
CASES = {
    "text": Case(
        schema={"type": "string", "minLength": 2, "maxLength": 5},
        options=[DECLINE, NOT_NOW],
        taken={"abc": "abc", "😀😀": "😀😀"},
        refused={"a": "too short", "abcdef": "too long"},
    ),
    "pattern": Case(
        schema={"type": "string", "pattern": "^[a-z]+$"},
        options=[DECLINE, NOT_NOW],
        taken={"abc": "abc"},
        refused={"a1": "does not match"},
    ),
    "optional": Case(
        schema={"type": "string"}, options=[BLANK, DECLINE], taken={BLANK: None, "x": "x"}, required=False
    ),
    "default": Case(
        schema={"type": "integer", "default": 3, "minimum": 1, "maximum": 5},
        options=["3", DECLINE],
        taken={"3": 3, "5": 5, " 1 ": 1},
        refused={"0": "less than the minimum", "6": "greater than the maximum", "2.5": "not a whole number", "": "no"},
    ),
    "number": Case(
        schema={"type": "number"},
        options=[DECLINE, NOT_NOW],
        taken={"2.5": 2.5, "-1e3": -1000.0},
        refused={"nan": "not a number", "inf": "not a number", "1,5": "not a number"},
    ),
    "boolean": Case(
        schema={"type": "boolean"},
        options=["Yes", "No"],
        taken={"Yes": True, "no": False, "TRUE": True},
        refused={"maybe": "none of: Yes, No"},
    ),
    "optional boolean": Case(
        schema={"type": "boolean", "default": True},
        options=["Yes", "No", BLANK],
        taken={"Yes": True, BLANK: None},
        required=False,
    ),
    "choice": Case(
        schema={"type": "string", "enum": ["s", "m"], "enumNames": ["Small, thin", "Medium"]},
        options=["Small; thin", "Medium"],
        taken={"Small; thin": "s", "m": "m"},
        refused={"large": "none of"},
    ),
    "titled choice": Case(
        schema={"type": "string", "oneOf": [{"const": "a", "title": "A!"}, {"const": "b", "title": "B!"}]},
        options=["A!", "B!"],
        taken={"A!": "a", "b": "b"},
    ),
    "long choice": Case(
        schema={"type": "string", "enum": COLOURS, "default": "red"},
        options=["red", DECLINE],
        taken={"White": "white"},
        refused={"pink": "none of: red, green, blue, black, white"},
    ),
    "several": Case(
        schema={"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "minItems": 1, "maxItems": 2},
        options=["a", "b", "c"],
        taken={"a, c": ["a", "c"]},
        refused={"a, b, c": "too long", ",": "non-empty", "d": "none of"},
    ),
    "date": Case(
        schema={"type": "string", "format": "date"},
        options=[DECLINE, NOT_NOW],
        taken={"2026-02-28": "2026-02-28"},
        refused={"2026-02-30": "not a valid date", "tomorrow": "not a valid date"},
    ),
    "email": Case(
        schema={"type": "string", "format": "email"},
        options=[DECLINE, NOT_NOW],
        taken={"a@b.example": "a@b.example"},
        refused={"a@b": "not a valid email", "a b@c.example": "not a valid email"},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_field_becomes_a_question_and_the_answer_its_value(case: Case) -> None:
    asked = one_field(case.schema, required=case.required)

    assert [option.label for option in asked.question("shop").options] == case.options
    for text, value in case.taken.items():
        got = asked.value(said(text))
        assert (got, type(got)) == (value, type(value))
    for text, problem in case.refused.items():
        with pytest.raises(ValueError, match=problem):
            asked.value(said(text))


def test_a_person_who_would_rather_not_says_so() -> None:
    asked = one_field({"type": "string"})

    for text, later in ((DECLINE, False), (NOT_NOW, True)):
        with pytest.raises(DeclinedError) as declined:
            asked.value(said(text))
        assert declined.value.later is later


def test_what_a_server_writes_moves_no_cursor_and_says_what_is_wanted() -> None:
    asked = one_field({"type": "integer", "title": "Many\x1b[2J\n?", "description": "How\u202e many", "minimum": 2})

    question = asked.question("a-server-with-a-long-name", "MCP server asks")

    assert question.question == "MCP server asks\nMany ?: How many (a whole number; at least 2)"
    assert len(question.header) <= 12


UNUSABLE: dict[str, tuple[dict[str, Any], str]] = {
    "nested": ({"a": {"type": "object", "properties": {}}}, "'a' is of type 'object'"),
    "free list": ({"a": {"type": "array", "items": {"type": "string"}}}, "is a list"),
    "no type": ({"a": {}}, "of type None"),
    "no schema": ({"a": True}, "of type None"),
    "long": ({f"f{number}": {"type": "string"} for number in range(30)}, "30 fields"),
    "wrong": ({"a": {"type": "string", "minLength": "two"}}, "schema is none"),
}


@pytest.mark.parametrize(("properties", "problem"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_form_that_is_not_flat_is_not_put(properties: dict[str, Any], problem: str) -> None:
    with pytest.raises(UnusableFormError, match=problem):
        fields_of({"type": "object", "properties": properties})


async def test_the_time_a_person_takes_is_not_the_servers_and_the_end_of_the_call_withdraws_the_question() -> None:
    asked = anyio.Event()
    actions: list[str] = []

    async def wait(questions: Sequence[Question], request_id: str = "") -> list[QuestionAnswer] | None:  # noqa: ARG001
        asked.set()
        await anyio.sleep_forever()

    async def elicit() -> None:
        form = {"type": "object", "properties": {"a": {"type": "string"}}}
        answer = await call.elicit("shop", ElicitRequestFormParams(message="?", requested_schema=form))
        actions.append(getattr(answer, "action", ""))

    call = CallUnderWay(5.0, wait)
    async with anyio.create_task_group() as group:
        group.start_soon(elicit)
        await asked.wait()
        assert call.patience.deadline == float("inf")
        call.end()
    assert actions == ["cancel"]
    assert call.patience.deadline <= anyio.current_time() + 5.0


async def test_whoever_gives_no_fitting_answer_three_times_is_asked_no_more() -> None:
    asked: list[str] = []

    async def nonsense(questions: Sequence[Question], request_id: str = "") -> list[QuestionAnswer]:  # noqa: ARG001
        await anyio.lowlevel.checkpoint()
        asked.extend(question.question for question in questions)
        return [said("many") if number == 0 else said("Yes") for number, _ in enumerate(questions)]

    form = {"type": "object", "properties": {"n": {"type": "integer"}, "b": {"type": "boolean"}}, "required": ["n"]}
    answer = await CallUnderWay(5.0, nonsense).elicit(
        "shop", ElicitRequestFormParams(message="Order", requested_schema=form)
    )

    assert getattr(answer, "action", "") == "cancel"
    assert len(asked) == 2 + 1 + 1
    assert asked[0].startswith("MCP server 'shop' asks: Order\nn (a whole number)")
    assert "'many' is not a whole number" in asked[2]
