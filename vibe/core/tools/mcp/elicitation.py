"""Elicitation: puts a server's questions during a call, mostly forms, to the person, and checks the answers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

from anyio import CancelScope, current_time, to_thread
from msgspec import Struct

from vibe.core.schemas import list_of, table_of
from vibe.core.tools.questions import HEADER_LENGTH, Choice, Question, QuestionAnswer, UnansweredError, UserInput
from vibe.system.plain_text import one_line, plain, plain_line, shortened

if TYPE_CHECKING:
    from mcp.types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult, ErrorData


Value: TypeAlias = "str | int | float | bool | list[str]"
Values: TypeAlias = "dict[str, Value | None]"

MOST_FIELDS = 20
"""The most fields of a form."""
MOST_VALUES = 50
"""The most values of a field to choose from."""
MOST_OPTIONS = 4
"""The most options of a question. If a field has more values, the text lists them and the person types one."""
MESSAGE_LENGTH = 2_000
"""The most characters of a server's message that are shown."""
LABEL_LENGTH = 100
"""The most characters of a label."""

YES, NO = "Yes", "No"
BLANK, DECLINE, NOT_NOW = "Leave it blank", "Decline to answer", "Not now"


class UnusableFormError(ValueError):
    """A form can't be put as questions. The text says why."""


class DeclinedError(Exception):
    """The person declines to answer, or if ``later`` only does so for now."""

    def __init__(self, *, later: bool = False) -> None:
        super().__init__()
        self.later = later


class FormField(Struct, frozen=True, kw_only=True):
    """One value that a form asks for.

    ``values`` maps the values to choose from to their labels. If it is empty, any value is allowed.
    """

    name: str
    schema: Mapping[str, Any]
    kind: str
    is_required: bool
    values: Mapping[str, str]

    @property
    def has_options(self) -> bool:
        """True if the values are few enough to be the options of a question."""
        return 2 <= len(self.values) <= (MOST_OPTIONS if self.is_required else MOST_OPTIONS - 1)

    def question(self, header: str, before: str = "") -> Question:
        """Return the question for this field, with ``before`` in front of the field's own text."""
        text = "\n".join(filter(None, (before, self._text())))
        if self.has_options:
            default = self._default()
            options = [
                Choice(label=label, description="the default" if default is not None and value in default else "")
                for value, label in self.values.items()
            ]
            options += [] if self.is_required else [Choice(label=BLANK)]
        else:
            options = [Choice(label=label) for label in self._other_options()]
        return Question(
            question=text,
            header=shortened(header, HEADER_LENGTH),
            options=options,
            multi_select=self.kind == "array" and self.has_options,
            typed=not self.has_options,
        )

    def value(self, answer: QuestionAnswer) -> Value | None:
        """Return the value that an answer gives, or None if it is left blank. Blocks.

        Raises:
            ValueError: the form does not accept the answer; the text says why.
            DeclinedError: the person declines to give one.
        """
        answer_text = answer.answer.strip()
        if answer_text == BLANK and not self.is_required:
            return None
        if answer_text in {DECLINE, NOT_NOW} and not self.has_options:
            raise DeclinedError(later=answer_text == NOT_NOW)
        if self.kind == "array":
            return self._checked([self._value_named(part.strip()) for part in answer_text.split(",") if part.strip()])
        if self.kind == "boolean":
            return self._value_named(answer_text) == "true"
        return self._checked(self._value_named(answer_text) if self.values else answer_text)

    def _value_named(self, text: str) -> str:
        """Return the value that is named by its label or by itself."""
        for value, label in self.values.items():
            if text.casefold() in {label.casefold(), value.casefold()}:
                return value
        raise ValueError(f"{shortened(text, LABEL_LENGTH)!r} is none of: {', '.join(self.values.values())}")

    def _checked(self, given: str | list[str]) -> Value:
        value: Value = given
        try:
            if isinstance(given, str) and self.kind in NUMBERS:
                value = _number(given, self.kind)
            if isinstance(given, str) and (check := FORMATS.get(str(self.schema.get("format")))):
                check(given)
        except ValueError as error:
            kind = NUMBERS.get(self.kind) or f"a valid {self.schema.get('format')}"
            raise ValueError(f"{_line(given)!r} is not {kind}") from error
        from vibe.core.tools.json_schema import value_problems

        if problems := value_problems(self.schema, value):
            raise ValueError(problems[0].removeprefix("value: "))
        return value

    def _text(self) -> str:
        schema = self.schema
        title = _line(schema.get("title") or self.name)
        about = plain(shortened(str(schema.get("description") or ""), MESSAGE_LENGTH))
        hints = [*_limits(schema), *([] if self.is_required else ["may be left blank"])]
        if self.values and not self.has_options:
            several = "some, with commas between" if self.kind == "array" else "one"
            hints.append(f"{several} of: {', '.join(self.values.values())}")
        text = f"{title}: {about}" if about else title
        return f"{text} ({'; '.join(hints)})" if hints else text

    def _other_options(self) -> list[str]:
        default = self._default()
        given = [] if default is None else [", ".join(self.values.get(value, value) for value in default)]
        ways = [one for one in given if one.strip() and one == _line(one)]
        ways += [] if self.is_required else [BLANK]
        return [*ways, DECLINE, *([] if ways else [NOT_NOW])]

    def _default(self) -> list[str] | None:
        default = self.schema.get("default")
        if default is None:
            return None
        return [str(value).lower() if isinstance(value, bool) else str(value) for value in list_of(default)]


def fields_of(schema: Mapping[str, Any]) -> list[FormField]:
    """Return the fields of a form. Blocks.

    Raises:
        UnusableFormError: it is not flat, or too long.
    """
    from vibe.core.tools.json_schema import schema_problems

    if problems := schema_problems(schema):
        raise UnusableFormError(f"its schema is none: {problems[0].message}")
    if schema.get("type", "object") != "object":
        raise UnusableFormError("its schema is not that of an object")
    given, required = table_of(schema.get("properties")), list_of(schema.get("required"))
    if len(given) > MOST_FIELDS:
        raise UnusableFormError(f"it has {len(given)} fields, more than {MOST_FIELDS}")
    return [_field(name, table_of(each), is_required=name in required) for name, each in given.items()]


def _field(name: str, schema: Mapping[str, Any], *, is_required: bool) -> FormField:
    kind = schema.get("type", "string" if "enum" in schema or "oneOf" in schema else None)
    values: Mapping[str, str] = {}
    match kind:
        case "string":
            values = _values(schema, "oneOf")
        case "array":
            values = _values(table_of(schema.get("items")), "anyOf")
            if not values:
                raise UnusableFormError(f"field {_line(name)!r} is a list, and not of values to choose from")
        case "boolean":
            values = {"true": YES, "false": NO}
        case "number" | "integer":
            pass
        case _:
            raise UnusableFormError(f"field {_line(name)!r} is of type {kind!r}, which no form may have")
    return FormField(name=name, schema=schema, kind=str(kind), is_required=is_required, values=values)


def _values(schema: Mapping[str, Any], titled: str) -> Mapping[str, str]:
    """Return the labels of the values to choose from, by value."""
    values = [str(value) for value in list_of(schema.get("enum"))]
    labels = [str(name) for name in list_of(schema.get("enumNames"))] or values
    if "enum" not in schema:
        tables = [table_of(one) for one in list_of(schema.get(titled) or schema.get("oneOf"))]
        values = [str(one["const"]) for one in tables if "const" in one]
        labels = [str(one.get("title") or one["const"]) for one in tables if "const" in one]
    if len(values) > MOST_VALUES:
        raise UnusableFormError(f"a field has {len(values)} values to choose from, more than {MOST_VALUES}")
    shown = [_line(label).replace(",", ";") for label in labels]
    if len(shown) != len(values) or len({*shown}) != len(values) or not all(shown):
        shown = [_line(value).replace(",", ";") or f"value {number}" for number, value in enumerate(values, 1)]
    return dict(zip(values, shown, strict=True))


def _number(text: str, kind: str) -> int | float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return int(text) if kind == "integer" else number


def _address(text: str) -> None:
    if not urlsplit(text).scheme or " " in text:
        raise ValueError


def _email(text: str) -> None:
    if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s.]+", text):
        raise ValueError


NUMBERS: Final = MappingProxyType({"integer": "a whole number", "number": "a number"})
FORMATS: Final[Mapping[str, Callable[[str], object]]] = MappingProxyType({
    "date": date.fromisoformat,
    "date-time": datetime.fromisoformat,
    "email": _email,
    "uri": _address,
})


def _limits(schema: Mapping[str, Any]) -> Sequence[str]:
    """Return what a value must be like, in words."""
    kind = NUMBERS.get(str(schema.get("type")))
    hints = [kind] if kind else []
    words = {
        "minimum": "at least {}",
        "maximum": "at most {}",
        "minLength": "at least {} characters",
        "maxLength": "at most {} characters",
        "minItems": "at least {}",
        "maxItems": "at most {}",
        "format": "{}",
    }
    hints += [text.format(_line(schema[key])) for key, text in words.items() if schema.get(key) is not None]
    return hints


def _line(text: object) -> str:
    return one_line(str(text), LABEL_LENGTH)


MOST_ROUNDS = 3
"""The most times a form is put to a person whose answers do not fit it."""
ACCEPT, OPENED, REFUSE = "Accept", "I have opened it", "Decline"
INVALID_PARAMS = -32602
"""The JSON-RPC code for a form that can't be used."""
SCHEMES = frozenset({"http", "https"})
"""Schemes of addresses that a server may ask the person to open."""


class CallUnderWay:
    """A request to a server that has no answer yet.

    ``ask`` puts the server's questions to the user; if it is None, they are declined. ``patience`` ends the request
    once the server has taken ``seconds``, not counting the time spent waiting for a person.
    """

    def __init__(self, seconds: float, ask: UserInput | None = None) -> None:
        self.ask = ask
        self.patience = CancelScope(deadline=current_time() + seconds)
        self._questions: set[CancelScope] = set()
        self._seconds_left = 0.0

    def end(self) -> None:
        """Withdraw the questions that are still open."""
        for scope in self._questions:
            scope.cancel()

    async def elicit(self, server: str, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Return the answer to a server's question. It is cancelled with the call."""
        from mcp.types import ElicitResult, ErrorData

        if self.ask is None:
            return ElicitResult(action="decline")
        with CancelScope() as scope:
            if not self._questions:
                self._seconds_left, self.patience.deadline = self.patience.deadline - current_time(), math.inf
            self._questions.add(scope)
            try:
                return ElicitResult(action="accept", content=await _ask_question(server, params, self.ask))
            except DeclinedError as declined:
                return ElicitResult(action="cancel" if declined.later else "decline")
            except UnansweredError:
                return ElicitResult(action="decline")
            except UnusableFormError as error:
                return ErrorData(code=INVALID_PARAMS, message=f"this form can't be put to a person: {error}")
            finally:
                self._questions.discard(scope)
                if not self._questions:
                    self.patience.deadline = current_time() + self._seconds_left
        return ElicitResult(action="cancel")


async def _ask_question(server: str, params: ElicitRequestParams, ask: UserInput) -> Values | None:
    """Put a server's question to the person. Return None if they accept and it asks for no values.

    Raises:
        UnusableFormError: it can't be put to a person.
        DeclinedError: the person declines to answer.
    """
    heading = f"MCP server {plain_line(server)!r} asks: {plain(shortened(params.message, MESSAGE_LENGTH))}"
    if params.mode != "url":
        return await _ask_form(server, heading, params, ask)
    if urlsplit(params.url).scheme not in SCHEMES:
        raise DeclinedError
    text = f"{heading}\nIt wants you to open this address yourself: {plain_line(params.url)}"
    await _agree(server, text, OPENED, ask)
    return None


async def _ask_form(server: str, heading: str, params: ElicitRequestFormParams, ask: UserInput) -> Values:
    """Put the fields of a form to the person, and those with unfit answers again, after what is wrong with them.

    Raises:
        UnusableFormError: it can't be put to a person.
        DeclinedError: the person declines to answer.
    """
    fields = await to_thread.run_sync(fields_of, params.requested_schema)
    if not fields:
        await _agree(server, heading, ACCEPT, ask)
    given: Values = {}
    wrong = {field.name: "" for field in fields}
    for _ in range(MOST_ROUNDS if fields else 0):
        asked = [field for field in fields if field.name in wrong]
        wrong[asked[0].name] = "\n".join(filter(None, (heading, wrong[asked[0].name])))
        answers = await ask([field.question(server, wrong[field.name]) for field in asked])
        if answers is None:
            raise DeclinedError
        wrong = {}
        for field, answer in zip(asked, answers, strict=True):
            try:
                given[field.name] = await to_thread.run_sync(field.value, answer)
            except ValueError as error:
                wrong[field.name] = f"Not taken: {error}"
        if not wrong:
            break
    if wrong:
        raise DeclinedError(later=True)
    return {field.name: value for field in fields if (value := given[field.name]) is not None}


async def _agree(server: str, text: str, agreement: str, ask: UserInput) -> None:
    options = [Choice(label=agreement), Choice(label=REFUSE)]
    answers = await ask([Question(question=text, header=shortened(server, HEADER_LENGTH), options=options)])
    if answers is None or answers[0].answer != agreement:
        raise DeclinedError
