"""Turns validation errors of pydantic into problems that a person can act on."""

from __future__ import annotations

from typing import cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from planner.plan.diagnostics import Problem, Suggester, listed, quoted
from planner.plan.model import Decision, Dependency, Input, Option, Plan, PlanBudget, Sample, Step, StepSettings
from planner.plan.strict_json import JsonPath, shown_path
from subagents.step_model import ForEach

_MODELS: dict[str, type[BaseModel]] = {
    "": Plan,
    "steps": Step,
    "depends_on": Dependency,
    "for_each": ForEach,
    "decisions": Decision,
    "inputs": Input,
    "options": Option,
    "budget": PlanBudget,
    "defaults": StepSettings,
    "sample": Sample,
}

_ID_FIX = "use a-z, 0-9, '-' and '_', at most 64 of them, with a letter or digit first"

_KINDS: dict[str, str] = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}

_LIMITS: dict[str, tuple[str, str]] = {
    "greater_than": ("must be more than", "gt"),
    "greater_than_equal": ("must be at least", "ge"),
    "less_than": ("must be less than", "lt"),
    "less_than_equal": ("must be at most", "le"),
    "too_short": ("must have at least", "min_length"),
    "too_long": ("must have at most", "max_length"),
}


def field_problems(error: ValidationError, document: dict[str, object]) -> list[Problem]:
    """Return a problem for each error that pydantic found in the raw document."""
    suggester = Suggester()
    found: dict[JsonPath, list[Problem]] = {}
    unused: dict[JsonPath, Problem] = {}
    for detail in error.errors(include_url=False, include_context=True, include_input=False):
        path, value, is_used = _located(detail, document)
        problem = _problem(detail, path, value, suggester)
        if is_used:
            found.setdefault(path, []).append(problem)
        else:
            unused.setdefault(path, problem)
    for path, problem in unused.items():  # of a value that fits no branch of a union, report the first
        if not any(other[: len(path)] == path for other in found):
            found[path] = [problem]
    return [problem for problems in found.values() for problem in problems]


def _located(detail: ErrorDetails, document: object) -> tuple[JsonPath, object, bool]:
    """Return the path of an error in the document, the value there, and whether it is about a form the author used.

    The paths of pydantic also name branches of unions and keys of mappings, which are no places in the document.
    """
    path: list[str | int] = []
    value: object = document
    for part in detail["loc"]:
        if isinstance(value, dict) and part in value:
            value = cast("dict[object, object]", value)[part]
            path.append(part)
        elif isinstance(value, list) and isinstance(part, int):
            value = cast("list[object]", value)[part]
            path.append(part)
        elif detail["type"] == "missing" and part == detail["loc"][-1]:
            path.append(part)
        elif isinstance(part, str) and not _is_branch_of(part, cast("object", value)):
            return tuple(path), cast("object", value), False
    return tuple(path), cast("object", value), True


def _is_branch_of(branch: str, value: object) -> bool:
    if branch == "[key]":
        return True
    if isinstance(value, dict):
        return branch == Dependency.__name__
    if isinstance(value, list):
        return branch.startswith("list[")
    if branch == "constrained-int" or branch.startswith("literal["):  # a count or a word
        return isinstance(value, str) == branch.startswith("literal[")
    return branch != Dependency.__name__ and not branch.startswith("list[")


def _problem(detail: ErrorDetails, path: JsonPath, value: object, suggester: Suggester) -> Problem:
    kind, shown = detail["type"], shown_path(path)
    context = detail.get("ctx", {})
    if kind in _KINDS:
        wanted = "a step id or an object" if len(path) > 1 and path[-2] == "depends_on" else _KINDS[kind]
        return Problem(shown, f"must be {wanted}, not {_kind_of(value)}")
    if kind in _LIMITS:
        text, key = _LIMITS[kind]
        limit = int(context[key]) if context[key] == int(context[key]) else context[key]
        if isinstance(value, list):
            entries = "1 entry" if limit == 1 else f"{limit} entries"
            return Problem(shown, f"{text} {entries}, not {len(cast('list[object]', value))}")
        return Problem(shown, f"{text} {limit}, not {quoted(value)}")
    return Problem(shown, *_message_and_fix(detail, path, value, suggester))


def _message_and_fix(detail: ErrorDetails, path: JsonPath, value: object, suggester: Suggester) -> tuple[str, str]:
    """Return the words for an error that is not about a type or a limit."""
    match detail["type"]:
        case "missing":
            return "is required", f"add {quoted(path[-1])}"
        case "extra_forbidden":
            return "is not a field", _known_fields(path, suggester)
        case "string_too_short":
            return "must not be blank", ""
        case "string_pattern_mismatch" if path[-1] == "title":
            return "must be one line", "put the rest into `prompt`"
        case "string_pattern_mismatch" if path[-1] in {"at", "key"}:
            return f"{quoted(value)} is not a JSON pointer", "begin it with /, as in /files"
        case "string_pattern_mismatch":
            return f"{quoted(value if isinstance(value, str) else path[-1])} is not an id", _ID_FIX
        case "enum" | "literal_error":
            return _no_choice(value, suggester, str(detail.get("ctx", {}).get("expected", "")))
        case _:
            return detail["msg"][:1].lower() + detail["msg"][1:], ""


def _kind_of(value: object) -> str:
    names: dict[type, str] = {dict: "an object", list: "a list", bool: "a truth value", type(None): "null"}
    return names.get(type(value)) or quoted(value)


def _known_fields(path: JsonPath, suggester: Suggester) -> str:
    containers = [part for part in path[:-1] if isinstance(part, str)]
    known = _MODELS.get(containers[-1] if containers else "", Step).model_fields
    fields = [about.alias or name for name, about in known.items()]
    return suggester.fix(str(path[-1]), fields, f"the fields here are {listed(fields)}")


def _no_choice(value: object, suggester: Suggester, allowed: str) -> tuple[str, str]:
    names = [part.strip("'\" ") for part in allowed.replace(" or ", ",").split(",")]
    choices = f"use one of {listed(names)}"
    fix = suggester.fix(value, names, choices) if isinstance(value, str) else choices
    return f"{quoted(value)} is not one of {allowed}", fix if fix != choices else ""
