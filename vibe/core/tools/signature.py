"""Check of a tool's signature: what would only fail at the first call is found when the tool is loaded."""

from __future__ import annotations

import inspect
import re
from typing import Any, cast

from pydantic import BaseModel, PydanticUserError
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic_core import SchemaError

from vibe.core.tools.base import BaseTool
from vibe.core.tools.schema import CONTEXT_PARAMETER, KeywordArguments, SignatureProblem

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names that every provider takes for a function."""


UNHEARD_HOOKS = (
    "accesses",
    "must_ask",
    "approval_keys",
    "permission_reason",
    "check_in_workspace",
    "reason_in_workspace",
)


def check_signature(cls: type[BaseTool[Any, Any, Any, Any]]) -> str | None:
    """Return why a call of the tool would fail whatever its arguments; None if nothing is wrong with it."""
    try:
        cls.config_class()
        cls.state_class()
        return _name_problem(cls) or _run_problem(cls) or _schema_problem(cls) or _hook_problem(cls)
    except (TypeError, SignatureProblem) as error:
        return str(error)


def _hook_problem(cls: type[BaseTool[Any, Any, Any, Any]]) -> str | None:
    """Return which rules of the tool would go unheard: they stood in methods of their own once."""
    unheard = [name for name in UNHEARD_HOOKS if hasattr(cls, name)]
    if not unheard or cls.assess is not cast("Any", BaseTool).assess:
        return None
    return (
        f"nothing asks {', '.join(unheard)}: say the same in assess(self, args, workspace), which returns an Assessment"
    )


def _name_problem(cls: type[BaseTool[Any, Any, Any, Any]]) -> str | None:
    name = cast("object", cls.get_name())  # a user's own get_name may return anything
    if isinstance(name, str) and TOOL_NAME.fullmatch(name):
        return None
    return f"its name {name!r} is not made of 1 to 64 letters, digits, '_' and '-'"


def _run_problem(cls: type[BaseTool[Any, Any, Any, Any]]) -> str | None:
    run = cls.run
    if isinstance(inspect.getattr_static(cls, "run"), (staticmethod, classmethod)):
        return "run is not an ordinary method: it needs self"
    if not (inspect.iscoroutinefunction(run) or inspect.isasyncgenfunction(run)):
        return "run is not async: write async def run"
    parameters = list(inspect.signature(run).parameters.values())
    if not parameters or parameters[0].kind not in {
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    }:
        return "run does not take self"
    return None if issubclass(cls.args_model(), KeywordArguments) else _positional_problem(parameters[1:])


def _positional_problem(parameters: list[inspect.Parameter]) -> str | None:
    """Return what keeps ``run(args)`` or ``run(args, ctx)`` from working."""
    kinds = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    shape = "run takes ({}), but a tool with an argument model is called as run(args) or run(args, ctx)"
    written = ", ".join(str(p.replace(annotation=p.empty)) for p in parameters)
    if not parameters or parameters[0].kind not in kinds or parameters[0].name == CONTEXT_PARAMETER:
        return shape.format(written)
    unfilled = [p for p in parameters[1:] if p.name != CONTEXT_PARAMETER and _must_be_given(p)]
    has_context = any(p.name == CONTEXT_PARAMETER for p in parameters)
    # A second parameter of another name is taken for the context.
    if unfilled and not has_context and unfilled[0] is parameters[1] and parameters[1].kind in kinds:
        unfilled = unfilled[1:]
    return shape.format(written) if unfilled else None


def _must_be_given(parameter: inspect.Parameter) -> bool:
    optional = parameter.default is not parameter.empty
    return not optional and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}


def _schema_problem(cls: type[BaseTool[Any, Any, Any, Any]]) -> str | None:
    """Return what keeps the arguments from having a JSON Schema, or from being an object."""
    model: type[BaseModel] = cls.args_model()
    try:
        schema = cls.get_parameters()
    except (PydanticUserError, PydanticUndefinedAnnotation, SchemaError) as error:
        return f"{model.__name__} has no JSON Schema ({str(error).splitlines()[0]})"
    return None if schema.get("type") == "object" else f"{model.__name__} is not an object with named fields"
