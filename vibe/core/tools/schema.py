"""Arguments of calls: the JSON Schema a model sees of them, and what it wrote, read and with its problems in words."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType, UnionType
from typing import Annotated, Any, NoReturn, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
import typing_extensions as extensions
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from vibe.core.tools.errors import ToolArgumentsError

CONTEXT_PARAMETER = "ctx"


class KeywordArguments(BaseModel):
    """Stands where a tool names no argument model: its arguments are the parameters of its ``run``."""

    model_config = ConfigDict(extra="forbid")


class SignatureProblem(Exception):
    """A signature no schema can be derived from; the text completes "it can't be called: ..."."""


class _Untitled(GenerateJsonSchema):
    """JSON Schema without the titles pydantic derives from names: they cost tokens and say nothing new."""

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Say nothing on a stream that is the program's own."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  pydantic's interface
        return False


def parameter_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments; the same bytes every time, and always an object with ``properties``."""
    return dict(_generated(model))


@lru_cache(maxsize=512)
def _generated(model: type[BaseModel]) -> dict[str, Any]:
    """Every call of a tool asks for its schema; making one takes half a millisecond."""
    schema = model.model_json_schema(by_alias=True, schema_generator=_Untitled)
    for definition in (schema, *schema.get("$defs", {}).values()):
        if isinstance(definition.get("title"), str):  # the class's; a property that is called so stays
            del definition["title"]
    schema.pop("description", None)
    schema.setdefault("properties", {})
    return schema


def describe_problems(error: ValidationError, root: str) -> tuple[str, ...]:
    """One phrase a problem, each opening with the path in the schema: ``arguments.todos[0].id: field required``.

    What was given is not repeated: it may be a secret.
    """
    return tuple(f"{_path(root, problem['loc'])}: {_phrase(problem['msg'])}" for problem in error.errors())


def derive_arguments(name: str, run: Callable[..., Any]) -> type[BaseModel]:
    """A model whose fields are the keyword parameters of ``run`` (but for ``self`` and ``ctx``), defaults kept.

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
    """A model whose fields are these parameters of a function; their descriptions give way to those of annotations.

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
    """A type as pydantic takes it: before Python 3.12 it knows a ``TypedDict`` of ``typing_extensions`` alone."""
    if extensions.is_typeddict(kind) and type(kind).__module__ == "typing":
        hints = get_type_hints(kind, include_extras=True)
        plain = {name: _NEEDS[name not in kind.__required_keys__][hint] for name, hint in hints.items()}
        said = {name: hint if get_origin(hint) in _NEEDS else plain[name] for name, hint in hints.items()}
        fields = {name: cast("Any", get_origin(hint))[known(get_args(hint)[0])] for name, hint in said.items()}
        return cast("Any", extensions.TypedDict)(kind.__name__, fields)
    origin, parts = get_origin(kind), get_args(kind)
    made = (known(parts[0]), *parts[1:]) if origin is Annotated else tuple(map(known, parts))
    return kind if made == parts else (extensions.Union if origin is UnionType else origin)[made]


def argument_parameters(run: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """The parameters of an unbound ``run`` but for ``self`` and ``ctx``."""
    parameters = list(inspect.signature(run).parameters.values())[1:]
    return (parameter for parameter in parameters if parameter.name != CONTEXT_PARAMETER)


def keyword_values(args: BaseModel) -> dict[str, Any]:
    """The arguments by their parameter names, unconverted (models stay models)."""
    fields = type(args).model_fields
    return {field.alias or name: getattr(args, name) for name, field in fields.items()}


@lru_cache(maxsize=512)
def generic_arguments(cls: type, generic: type) -> tuple[Any, ...] | None:
    """Return what ``cls`` puts for the type variables of ``generic``, through any classes between.

    None if it names none.
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
    """The arguments of ``origin``'s base with ``origin``'s own type variables replaced."""
    variables: tuple[Any, ...] = getattr(origin, "__parameters__", ())
    replaced = dict(zip(variables, given, strict=False))
    return tuple(replaced.get(item, item) if isinstance(item, TypeVar) else item for item in inner)


def _path(root: str, location: Sequence[int | str]) -> str:
    path = root + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return path.removeprefix(".")


def _phrase(message: str) -> str:
    """Pydantic's sentence as part of ours."""
    text = message.removeprefix("Value error, ").removesuffix(".")
    return text[:1].lower() + text[1:]


Kind = TypeVar("Kind", bound=BaseModel)


def type_argument(cls: type, origin: type, position: int, kind: type[Kind]) -> type[Kind]:
    """Return what ``cls`` puts for one of the type variables of ``origin``.

    Raises:
        TypeError: it names none, or something else than ``kind``.
    """
    given = generic_arguments(cls, origin)
    if given is None:
        raise TypeError("it names no types: write BaseTool[Args, Result, Config, State] or BaseTool[Config]")
    found = given[position]
    if not (isinstance(found, type) and issubclass(found, kind)):
        raise TypeError(f"BaseTool[...] names {found!r} where a subclass of {kind.__name__} belongs")
    return found


DEEPEST = 100
"""Lists and objects in each other; what lies deeper no tool takes, and not everything that passes it on could."""


def parse_arguments(tool: str, text: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The JSON object in ``text``; none at all counts as an empty one.

    Raises:
        ToolArgumentsError: it is no JSON (says where), no object, too deep, or can't go on a wire (half a surrogate
            pair).
            The schema is repeated.
    """
    if not text.strip():
        return {}
    try:
        value: object = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno} column {error.colno} (character {error.pos})"
        raise _problem(tool, f"is not valid JSON: {error.msg} at {at}", schema) from error
    except (ValueError, RecursionError) as error:
        raise _problem(tool, f"is not valid JSON: {error}", schema) from error
    if not isinstance(value, dict):
        raise _problem(tool, f"is {_KINDS.get(type(value), 'a number')}, not an object", schema)
    if is_deep(cast("object", value), DEEPEST):
        raise _problem(tool, f"is nested more than {DEEPEST} levels deep", schema)
    try:
        msgspec.json.encode(value)
    except (ValueError, OverflowError, RecursionError) as error:  # such as half a surrogate pair
        raise _problem(tool, f"holds what can't be passed on: {error}", schema) from error
    return cast("dict[str, Any]", value)


_KINDS: dict[type, str] = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


def _problem(tool: str, problem: str, schema: dict[str, Any]) -> ToolArgumentsError:
    wanted = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return ToolArgumentsError(tool, [f"arguments: {problem}; send an object of this JSON Schema: {wanted}"])


def is_deep(value: object, most: int) -> bool:
    """Return whether more than ``most`` lists and objects lie in each other."""
    inner: list[object] = [value]
    for _ in range(most):
        inner = [one for outer in inner for one in _parts(outer)]
        if not inner:
            return False
    return any(isinstance(one, dict | list) for one in inner)


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
