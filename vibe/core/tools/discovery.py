"""Finds the tools there are: built-in ones by import, a program's own, and users' tools by running their files."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import cast

from msgspec import Struct, field
from pydantic import PydanticUserError
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic_core import SchemaError

from vibe.core.config.foreign_imports import advice_on
from vibe.core.tools import builtins
from vibe.core.tools.base import BaseTool, ToolClass, shape_of
from vibe.core.tools.hand_in import HAND_IN, PROPOSE_PLAN
from vibe.core.tools.schema import KeywordArguments, SignatureProblem
from vibe.system.errors import UsageError
from vibe.system.files import typed_path

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names that every provider accepts for a function."""
POSITIONAL = frozenset({inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD})


def check_signature(cls: ToolClass) -> str | None:
    """Return why every call of the tool would fail, or None if nothing is wrong with its class."""
    try:
        cls.config_class()
        cls.state_class()
        return _name_problem(cls) or _run_problem(cls) or _schema_problem(cls)
    except (TypeError, SignatureProblem) as error:
        return str(error)


def _name_problem(cls: ToolClass) -> str | None:
    name = cast("object", cls.get_name())  # A user's own get_name may return anything.
    if isinstance(name, str) and TOOL_NAME.fullmatch(name):
        return None
    return f"its name {name!r} is not made of 1 to 64 letters, digits, '_' and '-'"


def _run_problem(cls: ToolClass) -> str | None:
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
    positional, named = shape_of(run).call_arguments(None, None)
    try:
        inspect.signature(run).bind(None, *positional, **named)
    except TypeError:
        written = ", ".join(str(one.replace(annotation=one.empty)) for one in parameters[1:])
        return f"run takes ({written}), but a tool with an argument model is called as run(args) or run(args, ctx)"
    return None


def _schema_problem(cls: ToolClass) -> str | None:
    """Return why the arguments have no JSON Schema or are not an object, or None."""
    model = cls.args_model()
    try:
        schema = cls.get_parameters()
    except (PydanticUserError, PydanticUndefinedAnnotation, SchemaError) as error:
        return f"{model.__name__} has no JSON Schema ({str(error).splitlines()[0]})"
    return None if schema.get("type") == "object" else f"{model.__name__} is not an object with named fields"


class ToolSources(Struct, frozen=True, kw_only=True):
    """The places that tools come from, besides the built-in ones."""

    root: Path
    """The folder that relative ``tool_paths`` start from."""
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where each setting was set, by its dotted key, for errors."""
    folders: tuple[Path, ...] = ()
    """The tools folders of the project, if it is trusted, and of the user. They need not exist."""
    extra: tuple[ToolClass, ...] = ()
    """Classes made elsewhere, such as proxies of MCP servers' tools.

    They never replace another tool of the same name.
    """
    program: tuple[ToolClass, ...] = ()
    """Tools of the program that embeds vibe."""
    is_sandboxed: Callable[[], bool] = lambda: True
    """Returns whether commands are confined. May be slow."""


class Discovery(Struct):
    """The tools found by name, where each comes from, and what went wrong on the way.

    A user's file replaces a built-in tool of the same name, with a warning. Among users' files, the first one found
    wins: ``tool_paths``, then the project's folder, then the user's own.
    """

    tools: dict[str, ToolClass] = field(default_factory=dict[str, ToolClass])
    origins: dict[str, str] = field(default_factory=dict[str, str])
    warnings: list[str] = field(default_factory=list[str])

    def add(self, cls: ToolClass, origin: str) -> None:
        """Add a tool, unless a tool that takes precedence already has its name."""
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


GIVEN = (HAND_IN, PROPOSE_PLAN)
"""The tools that the host gives to some agents only; no other tool can have their names."""
BUILTIN = "vibe itself"
SERVER = "a server"
PROGRAM = "the program"
"""The origins of tools that don't come from a file, as messages name them."""


def discover(sources: ToolSources, tool_paths: Iterable[str]) -> Discovery:
    """Return the tools of all sources.

    They are found in this order: built-in, the program's own, ``tool_paths``, the project's, the user's, extra ones.

    Raises:
        UsageError: one of the program's tools has a name that is taken.
    """
    found = Discovery()
    for cls in builtin_tools():
        found.add(cls, BUILTIN)
    for cls in sources.program:
        name = cls.get_name()
        holder = BUILTIN if name in GIVEN else found.origins.get(name)
        if holder is not None:
            raise UsageError(f"tool {name!r}: {holder} has one of that name: give yours another, @tool(name=...)")
        found.add(cls, PROGRAM)
    for path in dict.fromkeys(_files(sources, tool_paths, found)):
        load_file(path, found)
    for cls in sources.extra:
        found.add(cls, SERVER)
    return found


def builtin_tools() -> Iterator[ToolClass]:
    """Yield the built-in tools, in the order of their modules' names."""
    for info in sorted(pkgutil.iter_modules(builtins.__path__), key=lambda info: info.name):
        if not info.name.startswith("_"):
            yield from tool_classes(importlib.import_module(f"{builtins.__name__}.{info.name}"))


def load_file(path: Path, found: Discovery) -> None:
    """Add the tools of a file. What can't be used becomes a warning that names the file and the reason."""
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
    """Return the concrete tools that a module itself defines, in order."""
    own = [item for item in vars(module).values() if isinstance(item, type) and item.__module__ == module.__name__]
    classes = cast("list[ToolClass]", [item for item in own if issubclass(item, BaseTool)])
    return tuple(cls for cls in classes if not inspect.isabstract(cls))


class _SourceOnly(SourceFileLoader):
    """Loads a file without leaving bytecode beside it."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _import(path: Path) -> ModuleType:
    """Import a file under a name derived from its path and content, so that names never clash and nothing is stale."""
    digest = hashlib.blake2b(str(path).encode() + b"\0" + path.read_bytes(), digest_size=12).hexdigest()
    name = f"vibe_tool_file_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path, loader=_SourceOnly(name, str(path)))
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python source file")
    module = module_from_spec(spec)
    sys.modules[name] = module  # Pydantic looks here to resolve the module's annotations.
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _files(sources: ToolSources, tool_paths: Iterable[str], found: Discovery) -> Iterator[Path]:
    for text in tool_paths:
        path = Path(os.path.realpath(typed_path(sources.root, text)))
        if os.path.isfile(path) or os.path.isdir(path):
            yield from _sources_below(path)
        else:
            found.warnings.append(f"tool_paths: {text!r} is neither a file nor a folder")
    for folder in sources.folders:
        if os.path.isdir(folder):
            yield from _sources_below(Path(os.path.realpath(folder)))


def _sources_below(path: Path) -> Iterator[Path]:
    """Yield a file itself, or every ``*.py`` below a folder.

    Files and folders whose names start with ``_`` or ``.`` are skipped.
    """
    if os.path.isfile(path):
        yield path
        return
    for file in sorted(path.rglob("*.py")):
        if os.path.isfile(file) and not any(part.startswith(("_", ".")) for part in file.relative_to(path).parts):
            yield Path(os.path.realpath(file))


def _reason(error: BaseException, path: Path) -> str:
    """Return an error on one line, with the line of the file that raised it."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    text = " ".join(str(error).split()) or "no message"
    advice = advice_on(error)
    return f"{f'line {lines[-1]}: ' if lines else ''}{type(error).__name__}: {text}{f'; {advice}' if advice else ''}"
