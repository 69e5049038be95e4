"""Finding tools: the built-in ones by import, a user's from files anywhere. Reads the disk and runs what it finds."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeAlias, cast

from msgspec import Struct, field
from pydantic import BaseModel, PydanticUserError
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic_core import SchemaError

from vibe.core.config.foreign_imports import advice_on
from vibe.core.tools import builtins
from vibe.core.tools.base import BaseTool, shape_of
from vibe.core.tools.schema import KeywordArguments, SignatureProblem

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names that every provider takes for a function."""
POSITIONAL = frozenset({inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD})


def check_signature(cls: type[BaseTool[Any, Any, Any, Any]]) -> str | None:
    """Return why a call of the tool would fail whatever its arguments; None if nothing is wrong with it."""
    try:
        cls.config_class()
        cls.state_class()
        return _name_problem(cls) or _run_problem(cls) or _schema_problem(cls)
    except (TypeError, SignatureProblem) as error:
        return str(error)


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
    if not parameters or parameters[0].kind not in POSITIONAL:
        return "run does not take self"
    if issubclass(cls.args_model(), KeywordArguments):
        return None
    positional, named = shape_of(run).given(None, None)
    try:
        inspect.signature(run).bind(None, *positional, **named)
    except TypeError:
        written = ", ".join(str(one.replace(annotation=one.empty)) for one in parameters[1:])
        return f"run takes ({written}), but a tool with an argument model is called as run(args) or run(args, ctx)"
    return None


def _schema_problem(cls: type[BaseTool[Any, Any, Any, Any]]) -> str | None:
    """Return what keeps the arguments from having a JSON Schema, or from being an object."""
    model: type[BaseModel] = cls.args_model()
    try:
        schema = cls.get_parameters()
    except (PydanticUserError, PydanticUndefinedAnnotation, SchemaError) as error:
        return f"{model.__name__} has no JSON Schema ({str(error).splitlines()[0]})"
    return None if schema.get("type") == "object" else f"{model.__name__} is not an object with named fields"


ToolClass: TypeAlias = type[BaseTool[Any, Any, Any, Any]]


class ToolSources(Struct, frozen=True, kw_only=True):
    """Places of tools besides the built-in ones.

    ``root`` is what relative ``tool_paths`` start from; ``project_tools`` is None where the folder is not trusted.
    ``extra`` are classes made elsewhere (proxies of servers): they take no name that is taken. ``is_sandboxed`` tells
    whether commands are confined, and may take its time.
    """

    root: Path
    project_tools: Path | None = None
    user_tools: Path | None = None
    extra: tuple[ToolClass, ...] = ()
    is_sandboxed: Callable[[], bool] = lambda: True


class Discovery(Struct):
    """Tools found by name, with where each comes from and what was wrong on the way.

    A user's file replaces a built-in tool of the same name, with a warning. Among users' files the first found stays:
    ``tool_paths``, then the project's, then the user's own.
    """

    tools: dict[str, ToolClass] = field(default_factory=dict[str, ToolClass])
    origins: dict[str, str] = field(default_factory=dict[str, str])
    warnings: list[str] = field(default_factory=list[str])

    def add(self, cls: ToolClass, origin: str) -> None:
        """Take a tool unless its name is taken by something that comes first."""
        name = cls.get_name()
        holder = self.origins.get(name)
        if holder is not None:
            replaces = holder == BUILTIN and origin != SERVER
            kept, dropped = (origin, holder) if replaces else (holder, origin)
            self.warnings.append(f"two tools are called {name!r}: the one of {kept} is used, not the one of {dropped}")
            if not replaces:
                return
        self.tools[name] = cls
        self.origins[name] = origin


BUILTIN = "vibe itself"
SERVER = "a server"


def discover(sources: ToolSources, tool_paths: Iterable[str]) -> Discovery:
    """Every tool of every source, in order: built-in, ``tool_paths``, the project's, the user's, extra ones."""
    found = Discovery()
    for cls in builtin_tools():
        found.add(cls, BUILTIN)
    seen: set[Path] = set()
    for path in _files(sources, tool_paths, found):
        if path not in seen:
            seen.add(path)
            load_file(path, found)
    for cls in sources.extra:
        found.add(cls, SERVER)
    return found


def builtin_tools() -> Iterator[ToolClass]:
    """The tools that come with the package, by module name."""
    for info in sorted(pkgutil.iter_modules(builtins.__path__), key=lambda info: info.name):
        if not info.name.startswith("_"):
            yield from tool_classes(importlib.import_module(f"{builtins.__name__}.{info.name}"))


def load_file(path: Path, found: Discovery) -> None:
    """Add the tools of a file; what can't be used becomes a warning that names the file and the reason."""
    try:
        module = _import(path)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a user's file may raise anything while it loads
        found.warnings.append(f"{path}: not loaded: {_reason(error, path)}")
        return
    classes = tool_classes(module)
    if not classes:
        found.warnings.append(f"{path}: defines no tool; helper files are left alone if their name starts with '_'")
    for cls in classes:
        try:
            problem = check_signature(cls)
        except Exception as error:  # noqa: BLE001  get_name and the like are the user's code too
            problem = _reason(error, path)
        if problem is None:
            found.add(cls, str(path))
        else:
            found.warnings.append(f"{path}: {cls.__name__} is not offered, a call of it would fail: {problem}")


def tool_classes(module: ModuleType) -> tuple[ToolClass, ...]:
    """The concrete tools a module defines itself, in order."""
    found: list[ToolClass] = []
    for item in vars(module).values():
        if isinstance(item, type) and issubclass(item, BaseTool) and item.__module__ == module.__name__:
            cls = cast("ToolClass", item)
            if not inspect.isabstract(cls):
                found.append(cls)
    return tuple(found)


class _SourceOnly(SourceFileLoader):
    """Loads a file without leaving bytecode beside it."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _import(path: Path) -> ModuleType:
    """The module of a file, under a name of its content: no clash with another, and nothing stale."""
    digest = hashlib.blake2b(str(path).encode() + b"\0" + path.read_bytes(), digest_size=12).hexdigest()
    name = f"vibe_tool_file_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path, loader=_SourceOnly(name, str(path)))
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python source file")
    module = module_from_spec(spec)
    sys.modules[name] = module  # pydantic resolves the annotations of a module through here
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _files(sources: ToolSources, tool_paths: Iterable[str], found: Discovery) -> Iterator[Path]:
    for text in tool_paths:
        path = Path(os.path.realpath(sources.root / Path(text).expanduser()))
        if path.is_file() or path.is_dir():
            yield from _sources_below(path)
        else:
            found.warnings.append(f"tool_paths: {text!r} is neither a file nor a folder")
    for folder in (sources.project_tools, sources.user_tools):
        if folder is not None and folder.is_dir():
            yield from _sources_below(Path(os.path.realpath(folder)))


def _sources_below(path: Path) -> Iterator[Path]:
    """A file itself; of a folder every ``*.py`` below it, but for what starts with ``_`` or ``.``."""
    if path.is_file():
        yield path
        return
    for file in sorted(path.rglob("*.py")):
        if file.is_file() and not any(part.startswith(("_", ".")) for part in file.relative_to(path).parts):
            yield Path(os.path.realpath(file))


def _reason(error: BaseException, path: Path) -> str:
    """The error in one line, with the line of the file it comes from."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    text = " ".join(str(error).split()) or "no message"
    advice = advice_on(error)
    return f"{f'line {lines[-1]}: ' if lines else ''}{type(error).__name__}: {text}{f'; {advice}' if advice else ''}"
