"""Inputs of a plan: checks their declarations and placeholders, and reads the values given for them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from planner.plan.diagnostics import InputsInvalidError, Problem, Suggester, listed, quoted
from planner.plan.model import Input, Step
from planner.plan.placeholders import (
    INPUT_VARIABLE,
    INPUTS,
    as_text,
    find,
    problems_in_commands,
    problems_in_text,
    variable_of,
)
from planner.plan.strict_json import JsonRefused, numbered_objects, object_in, parse

MAX_VALUE_BYTES = 64_000
"""The most bytes of one value, as text."""
MAX_VALUES_BYTES = 512_000
"""The most bytes of all values together: a command gets them all in its environment."""

LONGEST_EXAMPLE = 60
"""The most characters of a text that a message offers back as a JSON list."""

_VARIABLE = re.compile(rf"{INPUT_VARIABLE}_\w+")
_TYPES: Mapping[str, tuple[tuple[type, ...], str, str]] = {
    "string": ((str,), "a text", ""),
    "integer": ((int,), "an integer", "write a whole number, such as 3"),
    "number": ((int, float), "a number", "write a number, such as 1.5"),
    "boolean": ((bool,), "true or false", "write true or false"),
    "list": ((list,), "a list", "write a JSON list, such as {}"),
}


def input_values(declared: Sequence[Input], given: Mapping[str, object], where: str) -> dict[str, Any]:
    """Return a value for each input: the one given, else its default.

    Raises:
        InputsInvalidError: an input is missing or unknown, or a value does not suit it; names all of them at once.
    """
    known = {one.name: one for one in declared}
    otherwise = f"its inputs: {listed(known)}" if known else "the plan has no inputs"
    problems = [
        f"unknown input {quoted(name)}; {Suggester().fix(name, known, otherwise)}"
        for name in given
        if name not in known
    ]
    values, missing = dict[str, Any](), list[Input]()
    for name, one in known.items():
        if name not in given and one.default is None:
            missing.append(one)
            continue
        value, problem = read_value(one, given.get(name, one.default))
        if problem:
            problems.append(f"input {name!r}: {problem}")
        else:
            values[name] = value
    problems = [
        f"input {one.name!r} ({one.type}) is missing: give --with {one.name}=VALUE" for one in missing
    ] + problems
    if sum(len(as_text(value).encode()) for value in values.values()) > MAX_VALUES_BYTES:
        problems.append(f"the values of its inputs are longer than {MAX_VALUES_BYTES:,} bytes together")
    if problems:
        only_missing = len(problems) == len(missing)
        place = f"plan {Path(where).stem}" if Path(where).suffix else where
        raise InputsInvalidError(place, problems, [one.name for one in missing] if only_missing else ())
    return values


def read_value(declared: Input, given: object) -> tuple[object, str]:
    """Return the value of an input, which may be given as text, and what is wrong with it, or blank."""
    if declared.type != "string" and isinstance(given, str):
        with suppress(JsonRefused):
            given = parse(given)
    given = list(cast("tuple[object, ...]", given)) if isinstance(given, tuple) else given
    return given, _value_problem(declared.type, declared.choices, given)


def _value_problem(kind: str, choices: Sequence[Any] | None, value: object) -> str:
    """Return why a value does not suit its kind or its choices, or blank if it does."""
    types, description, fix = _TYPES[kind]
    is_infinite = isinstance(value, float) and not math.isfinite(value)
    if not isinstance(value, types) or (isinstance(value, bool) and kind != "boolean") or is_infinite:
        return f"{quoted(value)} is not {description}{fix and f'; {fix.format(_as_list(value))}'}"
    try:
        json.dumps(value, allow_nan=False)
        text = as_text(value)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError):
        return f"{quoted(value)} can't be written as JSON"
    if "\0" in text or size > MAX_VALUE_BYTES:
        return "has a NUL character" if "\0" in text else f"is {size:,} bytes long; the limit is {MAX_VALUE_BYTES:,}"
    members = cast("list[object]", value) if isinstance(value, list) else [value]
    wrong = [member for member in members if choices is not None and member not in choices]
    return f"{quoted(wrong[0])} is none of its choices: {listed(map(as_text, choices or ()))}" if wrong else ""


def _as_list(value: object) -> str:
    """Return the JSON list that a person may have meant by a text with commas."""
    members = value.split(",") if isinstance(value, str) and len(value) <= LONGEST_EXAMPLE else ["a", "b"]
    return as_text([member.strip() for member in members])


def check_inputs(raw: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with the inputs a document declares, and with the placeholders in its texts."""
    names: dict[str, str] = {}
    for index, declared in numbered_objects(raw.get("inputs")):
        name, path = declared.get("name"), f"inputs[{index}]"
        if isinstance(name, str):
            variable = variable_of(INPUT_VARIABLE, name)
            if variable in names:
                message = f"{quoted(name)} has the same variable as the input {quoted(names[variable])}: {variable}"
                yield Problem(f"{path}.name", message, "give each input a name of its own")
            names[variable] = name
        yield from _declaration_problems(path, declared)
    yield from _placeholder_problems(raw, list(names.values()))


def _declaration_problems(path: str, declared: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield problems of the choices and the default of one declared input."""
    kind, choices, default = declared.get("type", "string"), declared.get("choices"), declared.get("default")
    if not isinstance(kind, str) or kind not in _TYPES:
        return
    listed_choices = cast("list[object]", choices) if isinstance(choices, list) else []
    for index, choice in enumerate(listed_choices):
        if kind != "list" and (problem := _value_problem(kind, None, choice)):
            yield Problem(f"{path}.choices[{index}]", problem)
    if default is not None and (problem := _value_problem(kind, listed_choices or None, default)):
        yield Problem(f"{path}.default", problem)


def _placeholder_problems(raw: Mapping[str, Any], inputs: Sequence[str]) -> Iterator[Problem]:
    """Yield problems of the placeholders in all texts and commands of a document."""
    steps = numbered_objects(raw.get("steps"))
    texts = [(name, raw.get(name)) for name in ("goal", "context")]
    texts += [(f"decisions[{i}].question", one.get("question")) for i, one in numbered_objects(raw.get("decisions"))]
    for path, text in texts:
        yield from problems_in_text(path, text, inputs=inputs, items=False)
    for index, step in steps:
        for name in ("title", "prompt"):
            items = step.get("for_each") is not None
            yield from problems_in_text(f"steps[{index}].{name}", step.get(name), inputs=inputs, items=items)
    for path, settings in [("defaults", object_in(raw.get("defaults"))), *((f"steps[{i}]", step) for i, step in steps)]:
        for name in ("command", "verify"):
            yield from problems_in_commands(f"{path}.{name}", settings.get(name))


def inputs_used(step: Step, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs that a step's commands or unfilled texts name; its content key covers them."""
    named = {one.variable for text in (step.title, step.prompt or "") for one in find(text) if one.root == INPUTS}
    for line in filter(None, (step.command, *step.verify)):
        named.update(_VARIABLE.findall(line))
    return {name: value for name, value in values.items() if variable_of(INPUT_VARIABLE, name) in named}
