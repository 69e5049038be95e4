"""Arguments of tool calls: their JSON Schema for the model, parsing, and descriptions of what is wrong with them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType, UnionType
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
import typing_extensions as extensions
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from ipc.errors import is_deep
from vibe.core.schemas import refuse_constant
from vibe.core.tools.errors import ToolArgumentsError

CONTEXT_PARAMETER = "ctx"
"""The name of the parameter by which a ``run`` takes the context of a call."""


class KeywordArguments(BaseModel):
    """Marks a tool that names no argument model: its arguments are the parameters of its ``run``."""

    model_config = ConfigDict(extra="forbid")


class SignatureProblem(Exception):
    """No schema can be derived from a signature. The text completes "it can't be called: ..."."""


class _Untitled(GenerateJsonSchema):
    """Generates JSON Schema without the titles pydantic derives from names, which cost tokens and say nothing new."""

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Suppress the warning, because standard error belongs to the program."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  pydantic's interface
        return False


def parameter_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments.

    It has the same bytes every time, and is always an object with ``properties``.
    """
    return dict(_generated(model))


@lru_cache(maxsize=512)
def _generated(model: type[BaseModel]) -> dict[str, Any]:
    """Generate a model's schema.

    Cached, because every call of a tool needs it and generating takes half a millisecond.
    """
    schema = model.model_json_schema(by_alias=True, schema_generator=_Untitled)
    for definition in (schema, *schema.get("$defs", {}).values()):
        if isinstance(definition.get("title"), str):  # The class's own; a property named "title" stays.
            del definition["title"]
    schema.pop("description", None)
    schema.setdefault("properties", {})
    return schema


def describe_problems(error: ValidationError, root: str) -> tuple[str, ...]:
    """Return a phrase for each problem, opening with its schema path: ``arguments.todos[0].id: field required``.

    The given values are not repeated, because they may be secrets.
    """
    return tuple(f"{_path(root, problem['loc'])}: {_phrase(problem['msg'])}" for problem in error.errors())


def derive_arguments(name: str, run: Callable[..., Any]) -> type[BaseModel]:
    """Return a model whose fields are the parameters of ``run`` except ``self`` and ``ctx``, with their defaults.

    Raises:
        SignatureProblem: a parameter can't be an argument, or an annotation can't be resolved.
    """
    return arguments_model(name, run, argument_parameters(run))


def arguments_model(
    name: str,
    function: Callable[..., Any],
    parameters: Iterable[inspect.Parameter],
    described: Mapping[str, str] = MappingProxyType({}),
) -> type[BaseModel]:
    """Return a model whose fields are the given parameters of a function.

    ``described`` holds descriptions by parameter name. A description in an annotation takes precedence.

    Raises:
        SignatureProblem: a parameter can't be an argument, or an annotation can't be resolved.
    """
    called = getattr(function, "__name__", name)
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise SignatureProblem(f"an annotation of {called} can't be resolved ({error})") from error
    fields: dict[str, Any] = {}
    for index, parameter in enumerate(parameters):
        if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
            raise SignatureProblem(f"{called} takes {parameter}, which is not a named argument")
        default = ... if parameter.default is parameter.empty else parameter.default
        plain = not hasattr(BaseModel, parameter.name) and not parameter.name.startswith(("_", "model_"))
        field_name = parameter.name if plain else f"argument{index}"
        annotation = known(hints.get(parameter.name, Any))
        if parameter.name in described:
            kind, *rest = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
            annotation = Annotated[(kind, Field(description=described[parameter.name]), *rest)]
        own = Field(default, alias=None if plain else parameter.name)
        fields[field_name] = (annotation, default if isinstance(default, FieldInfo) else own)
    return create_model(f"{name}_arguments", __base__=KeywordArguments, **fields)


_NEEDS = (extensions.Required, extensions.NotRequired)


def known(kind: Any) -> Any:
    """Return a type in a form pydantic accepts.

    Before Python 3.12 pydantic only accepts the ``TypedDict`` of ``typing_extensions``.
    """
    if extensions.is_typeddict(kind) and type(kind).__module__ == "typing":
        hints = get_type_hints(kind, include_extras=True)
        plain = {name: _NEEDS[name not in kind.__required_keys__][hint] for name, hint in hints.items()}
        given = {name: hint if get_origin(hint) in _NEEDS else plain[name] for name, hint in hints.items()}
        fields = {name: cast("Any", get_origin(hint))[known(get_args(hint)[0])] for name, hint in given.items()}
        return cast("Any", extensions.TypedDict)(kind.__name__, fields)
    origin, parts = get_origin(kind), get_args(kind)
    rebuilt = (known(parts[0]), *parts[1:]) if origin is Annotated else tuple(map(known, parts))
    return kind if rebuilt == parts else (extensions.Union if origin is UnionType else origin)[rebuilt]


def argument_parameters(run: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """Return the parameters of an unbound ``run`` except ``self`` and ``ctx``."""
    parameters = list(inspect.signature(run).parameters.values())[1:]
    return (parameter for parameter in parameters if parameter.name != CONTEXT_PARAMETER)


def keyword_values(args: BaseModel) -> dict[str, Any]:
    """Return the arguments by parameter name, unconverted: models stay models."""
    fields = type(args).model_fields
    return {field.alias or name: getattr(args, name) for name, field in fields.items()}


@lru_cache(maxsize=512)
def generic_arguments(cls: type, generic: type) -> tuple[Any, ...] | None:
    """Return the arguments ``cls`` gives to the type variables of ``generic``, directly or through its base classes.

    None if it gives none.
    """
    for base in cast("tuple[Any, ...]", cls.__dict__.get("__orig_bases__", ())):
        origin: Any = get_origin(base)
        if origin is generic:
            return get_args(base)
        if isinstance(origin, type) and issubclass(origin, generic):
            inner = generic_arguments(origin, generic)
            return None if inner is None else _substitute(inner, origin, get_args(base))
    for base in cls.__bases__:
        if base is not generic and issubclass(base, generic):
            return generic_arguments(base, generic)
    return None


def _substitute(inner: Sequence[Any], origin: type, given: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments of ``origin``'s base, with ``origin``'s own type variables replaced."""
    variables: tuple[Any, ...] = getattr(origin, "__parameters__", ())
    replaced = dict(zip(variables, given, strict=False))
    return tuple(replaced.get(item, item) if isinstance(item, TypeVar) else item for item in inner)


def _path(root: str, location: Sequence[int | str]) -> str:
    path = root + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return path.removeprefix(".")


def _phrase(message: str) -> str:
    """Return pydantic's sentence as part of one of ours."""
    text = message.removeprefix("Value error, ").removesuffix(".")
    return text[:1].lower() + text[1:]


Kind = TypeVar("Kind", bound=BaseModel)


def type_argument(cls: type, origin: type, position: int, kind: type[Kind]) -> type[Kind]:
    """Return the argument that ``cls`` gives to one of the type variables of ``origin``.

    Raises:
        TypeError: it gives none, or something other than a subclass of ``kind``.
    """
    given = generic_arguments(cls, origin)
    if given is None:
        raise TypeError("it names no types: write BaseTool[Args, Result, Config, State] or BaseTool[Config]")
    found = given[position]
    if not (isinstance(found, type) and issubclass(found, kind)):
        raise TypeError(f"BaseTool[...] names {found!r} where a subclass of {kind.__name__} belongs")
    return found


DEEPEST = 100
"""The most levels of lists and objects in arguments.

No tool needs more, and deeper values can't be passed on reliably.
"""


def parse_arguments(tool: str, text: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Parse the JSON object in ``text``. Empty text counts as an empty object.

    Raises:
        ToolArgumentsError: it is not JSON (the message says where), not an object, too deep, or can't be encoded (a
            lone surrogate). The message repeats the schema.
    """
    if not text.strip():
        return {}
    try:
        value: object = json.loads(text, parse_constant=refuse_constant)
        msgspec.json.encode(value)
    except (ValueError, OverflowError, RecursionError) as error:  # A lone surrogate, among others.
        raise _problem(tool, f"is not valid JSON: {str(error).replace('(char', '(character')}", schema) from error
    if not isinstance(value, dict):
        raise _problem(tool, f"is {_KINDS.get(type(value), 'a number')}, not an object", schema)
    if is_deep(cast("object", value), DEEPEST):
        raise _problem(tool, f"is nested more than {DEEPEST} levels deep", schema)
    return cast("dict[str, Any]", value)


_KINDS: dict[type, str] = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


def _problem(tool: str, problem: str, schema: dict[str, Any]) -> ToolArgumentsError:
    wanted = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return ToolArgumentsError(tool, [f"arguments: {problem}; send an object of this JSON Schema: {wanted}"])
