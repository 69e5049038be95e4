"""Tools made from a program's functions: schema from signature and docstring, run without blocking the event loop."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, Literal, ParamSpec, TypeAlias, TypeVar, cast, overload

from pydantic import BaseModel, PydanticUserError
from pydantic_core import to_jsonable_python

from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, InvokeContext, ToolClass
from vibe.core.tools.discovery import check_signature
from vibe.core.tools.permissions import ToolPermission
from vibe.core.tools.schema import CONTEXT_PARAMETER, KeywordArguments, SignatureProblem, arguments_model
from vibe.sdk.options import check
from vibe.sdk.people import called
from vibe.system.errors import UsageError

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
Permission: TypeAlias = Literal["always", "ask", "never"]


@dataclass(frozen=True, kw_only=True)
class Tool(Generic[P, R_co]):
    """A function of the program that agents may call. It can still be called as a function."""

    function: Callable[P, R_co]
    name: str
    description: str
    permission: Permission = "always"
    read_only: bool = False

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[P, R_co]) -> Tool[P, R_co]: ...
@overload
def tool(
    *, name: str = "", description: str = "", permission: Permission = "always", read_only: bool = False
) -> Callable[[Callable[P, R_co]], Tool[P, R_co]]: ...


def tool(function: Callable[..., Any] | None = None, **said: Any) -> Any:
    """Turn a function into a tool that agents may call.

    ``name`` and ``description`` default to the function's name and docstring, and are what the model sees.
    ``permission`` says whether a call may run (``"always"``), needs approval (``"ask"``) or never runs (``"never"``).
    ``read_only`` says that the function changes nothing, so that read-only agents have the tool too and its calls may
    run side by side.
    """
    return partial(_made, said) if function is None else _made(said, function)


def _made(given: dict[str, Any], function: Callable[..., Any]) -> Tool[..., Any]:
    check(**given)
    if isinstance(function, Tool):
        function = cast("Tool[..., Any]", function).function
    named: dict[str, Any] = {"name": getattr(_inner(function), "__name__", "")}
    named |= {word: one for word, one in given.items() if one}
    named.setdefault("description", parsed_docstring(function)[0] or named["name"])
    return Tool(function=function, **named)


_SECTION = re.compile(r"\n+(?=(?:Args|Arguments|Returns|Yields|Raises|Examples?|Notes?):\s*\n|:\w+[^:\n]*:)")
_ENTRY = re.compile(
    r"^(?:\s+|:param (?:[\w.\[\], |]+ )?)(\w+)(?: \([^)\n]*\))?:[ \t]*(.*(?:\n(?!\s*\w+(?: \(.*\))?:)[ \t]+.*)*)",
    re.MULTILINE,
)


def _inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that has a name and annotations, which a partial takes from the function it wraps."""
    while isinstance(function, partial):
        function = function.func
    return function


def _annotated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same; for a callable object, its ``__call__`` method."""
    inner = _inner(function)
    return inner if hasattr(inner, "__name__") else type(inner).__call__


def parsed_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return a docstring's description and that of each parameter. Google style and ``:param x:`` are understood."""
    text, *sections = _SECTION.split(f"\n{inspect.getdoc(_annotated(function)) or ''}")
    about_parameters = (one for one in sections if one.startswith(("Args", "Arguments", ":param")))
    entries = (_ENTRY.findall(one.partition("\n")[2] if one.startswith("A") else one) for one in about_parameters)
    return text.strip(), {name: " ".join(description.split()) for found in entries for name, description in found}


class FunctionTool(BaseTool[KeywordArguments, BaseModel, BaseToolConfig, BaseToolState]):
    """Base class of the tools made from functions. ``tool_class`` derives a class from it for each function."""

    made: ClassVar[Tool[..., Any]]
    arguments: ClassVar[type[BaseModel]]
    settings: ClassVar[type[BaseToolConfig]]
    takes_context: ClassVar[bool]

    async def run(self, /, ctx: InvokeContext, **given: Any) -> Any:
        """Call the function and return its result: text and models as they are, all else converted to JSON types."""
        if self.takes_context:
            given[CONTEXT_PARAMETER] = ctx
        result = await called(self.made.function, **given)
        return result if isinstance(result, str | BaseModel | None) else to_jsonable_python(result)

    @classmethod
    def get_name(cls) -> str:
        """Return the name that was given, or the function's."""
        return cls.made.name

    @classmethod
    def get_tool_prompt(cls) -> str | None:
        """Return None, since the description says everything."""
        return None

    @classmethod
    def args_model(cls) -> type[BaseModel]:
        """Return the model of the function's parameters."""
        return cls.arguments

    @classmethod
    def config_class(cls) -> type[BaseToolConfig]:
        """Return the tool's settings table, with the permission it was made with as the default."""
        return cls.settings


def tool_class(given: Callable[..., Any] | ToolClass) -> ToolClass:
    """Return the tool class for a program's function, tool, or ``BaseTool`` class.

    Raises:
        UsageError: it can't be used as a tool. The message names it.
    """
    if isinstance(given, type) and issubclass(given, BaseTool):
        cls, name, problem = cast("ToolClass", given), given.__name__, None
    else:
        is_made = isinstance(given, Tool)
        as_tool = cast("Tool[..., Any]", given) if is_made else _made({}, cast("Callable[..., Any]", given))
        name = repr(as_tool.name or as_tool.function)
        cls, problem = _of_function(as_tool)
    if problem := problem or check_signature(cls):
        raise UsageError(f"tool {name} can't be used: {problem}")
    return cls


def _of_function(made: Tool[..., Any]) -> tuple[ToolClass, str | None]:
    """Return the class of a function's tool, and what is wrong with the function, if anything."""
    function = made.function
    members: dict[str, Any] = {"__module__": __name__, "__doc__": made.description, "made": made}
    members |= {"description": made.description, "read_only": made.read_only, "arguments": KeywordArguments}
    problem = None
    try:
        parameters = inspect.signature(function).parameters
        named = [one for name, one in parameters.items() if name != CONTEXT_PARAMETER]
        members["arguments"] = arguments_model(made.name, _annotated(function), named, parsed_docstring(function)[1])
        members["takes_context"] = CONTEXT_PARAMETER in parameters
    except (SignatureProblem, PydanticUserError, TypeError, ValueError, RecursionError) as error:
        problem = str(error).partition("\n")[0]
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        problem = "it is a generator: return one value"
    default = {"permission": ToolPermission(made.permission), "__annotations__": {"permission": ToolPermission}}
    members["settings"] = type("FunctionConfig", (BaseToolConfig,), {"__module__": __name__, **default})
    return cast("ToolClass", type("FunctionTool", (FunctionTool,), members)), problem
