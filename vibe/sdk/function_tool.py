"""Functions of a program as tools: schema by signature and docstring, run where they do no harm to the loop."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, Literal, ParamSpec, TypeAlias, TypeVar, cast, overload

from pydantic import BaseModel, PydanticUserError
from pydantic_core import to_jsonable_python

from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, InvokeContext
from vibe.core.tools.manager import ToolClass, check_signature
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
    """A function of the program that agents may call; it can still be called as the function it is."""

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
    """Make a function a tool; its name and its docstring are what the model is told, unless said otherwise.

    ``permission`` is that of each call: the program hands the tool over so that it is used. ``read_only``: it changes
    nothing, so that agents that only read have it, too, and its calls run side by side.
    """
    if function is None:
        return partial(_made, said)
    return _made(said, function)


def _made(said: dict[str, Any], function: Callable[..., Any]) -> Tool[..., Any]:
    check(**said)
    if isinstance(function, Tool):
        function = cast("Tool[..., Any]", function).function
    named: dict[str, Any] = {"name": getattr(_inner(function), "__name__", "")}
    named |= {word: one for word, one in said.items() if one}
    named.setdefault("description", documented(function)[0] or named["name"])
    return Tool(function=function, **named)


_SECTION = re.compile(r"\n+(?=(?:Args|Arguments|Returns|Yields|Raises|Examples?|Notes?):\s*\n|:\w+[^:\n]*:)")
_ENTRY = re.compile(
    r"^(?:\s+|:param (?:[\w.\[\], |]+ )?)(\w+)(?: \([^)\n]*\))?:[ \t]*(.*(?:\n(?!\s*\w+(?: \(.*\))?:)[ \t]+.*)*)",
    re.MULTILINE,
)


def _inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that has names and annotations: a partial one has those of what it is a part of."""
    while isinstance(function, partial):
        function = function.func
    return function


def _annotated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same; of an object that can be called, its method."""
    inner = _inner(function)
    return inner if hasattr(inner, "__name__") else type(inner).__call__


def documented(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return what a docstring says of a function, and of each parameter: Google's style, or ``:param x:``."""
    text, *sections = _SECTION.split(f"\n{inspect.getdoc(_annotated(function)) or ''}")
    told = (one for one in sections if one.startswith(("Args", "Arguments", ":param")))
    entries = (_ENTRY.findall(one.partition("\n")[2] if one.startswith("A") else one) for one in told)
    return text.strip(), {name: " ".join(said.split()) for found in entries for name, said in found}


class FunctionTool(BaseTool[KeywordArguments, BaseModel, BaseToolConfig, BaseToolState]):
    """Base of the tools made of functions; ``tool_class`` makes one of it for each."""

    made: ClassVar[Tool[..., Any]]
    arguments: ClassVar[type[BaseModel]]
    settings: ClassVar[type[BaseToolConfig]]
    takes_context: ClassVar[bool]

    async def run(self, /, ctx: InvokeContext, **given: Any) -> Any:
        """Call the function; what it returns is text, a model, or made JSON."""
        if self.takes_context:
            given[CONTEXT_PARAMETER] = ctx
        try:
            said = await called(self.made.function, **given)
        except SystemExit as error:  # it means the function, not the program
            raise RuntimeError(f"it called sys.exit({error})") from error
        return said if isinstance(said, str | BaseModel | None) else to_jsonable_python(said)

    @classmethod
    def get_name(cls) -> str:
        """The name that was given, or the function's."""
        return cls.made.name

    @classmethod
    def get_tool_prompt(cls) -> str | None:
        """None: all is in the description."""
        return None

    @classmethod
    def args_model(cls) -> type[BaseModel]:
        """The parameters of the function."""
        return cls.arguments

    @classmethod
    def config_class(cls) -> type[BaseToolConfig]:
        """The table of the tool, with the permission it was made with."""
        return cls.settings


def tool_class(given: Callable[..., Any] | ToolClass) -> ToolClass:
    """Return a tool of a program as one of vibe.

    Raises:
        UsageError: it can't be called; it is named.
    """
    if isinstance(given, type) and issubclass(given, BaseTool):
        cls, name, problem = cast("ToolClass", given), given.__name__, None
    else:
        is_made = isinstance(given, Tool)
        made = cast("Tool[..., Any]", given) if is_made else _made({}, cast("Callable[..., Any]", given))
        name = repr(made.name or made.function)
        cls, problem = _of_function(made)
    if problem := problem or check_signature(cls):
        raise UsageError(f"tool {name} can't be used: {problem}")
    return cls


def _of_function(made: Tool[..., Any]) -> tuple[ToolClass, str | None]:
    """Return the class of a function's tool, and what is wrong with the function."""
    function = made.function
    members: dict[str, Any] = {"__module__": __name__, "__doc__": made.description, "made": made}
    members |= {"description": made.description, "read_only": made.read_only, "arguments": KeywordArguments}
    problem = None
    try:
        parameters = inspect.signature(function).parameters
        named = [one for name, one in parameters.items() if name != CONTEXT_PARAMETER]
        members["arguments"] = arguments_model(made.name, _annotated(function), named, documented(function)[1])
        members["takes_context"] = CONTEXT_PARAMETER in parameters
    except (SignatureProblem, PydanticUserError, TypeError, ValueError, RecursionError) as error:
        problem = str(error).partition("\n")[0]
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        problem = "it is a generator: return one value"
    default = {"permission": ToolPermission(made.permission), "__annotations__": {"permission": ToolPermission}}
    members["settings"] = type("FunctionConfig", (BaseToolConfig,), {"__module__": __name__, **default})
    return cast("ToolClass", type("FunctionTool", (FunctionTool,), members)), problem
