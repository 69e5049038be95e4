"""ToolManager: finds the tools and gives each agent its own view of them, with settings and instances.

Built-in tools are found by import; users' tools are loaded from their files by running them. An agent's profile is laid
over a view to say which tools exist for the agent, and with which settings.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, MappingProxyType, ModuleType
from typing import Any, TypeAlias, cast

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import BaseModel, PydanticUserError, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic_core import SchemaError

from vibe.core.agents.manager import BrokenAgentError
from vibe.core.agents.models import AgentProfile, AgentSafety
from vibe.core.config.foreign_imports import advice_on
from vibe.core.config.layers import InvalidConfigError
from vibe.core.config.models import ToolTable, VibeConfig
from vibe.core.config.patterns import TOOL_ALIASES, NamePatterns, canonical_tool_name, our_tool_name, tool_spellings
from vibe.core.llm.port import ToolSchema
from vibe.core.tools import builtins
from vibe.core.tools.base import BaseTool, BaseToolConfig, ToolPermission, shape_of
from vibe.core.tools.errors import NoSuchToolError
from vibe.core.tools.schema import KeywordArguments, SignatureProblem, describe_problems
from vibe.shell.sandbox.settings import SandboxMode
from vibe.system.errors import ConfigError, UsageError, closest, did_you_mean
from vibe.system.files import typed_path

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names that every provider accepts for a function."""
POSITIONAL = frozenset({inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD})


def check_signature(cls: type[BaseTool[Any, Any, Any, Any]]) -> str | None:
    """Return why every call of the tool would fail, or None if nothing is wrong with its class."""
    try:
        cls.config_class()
        cls.state_class()
        return _name_problem(cls) or _run_problem(cls) or _schema_problem(cls)
    except (TypeError, SignatureProblem) as error:
        return str(error)


def _name_problem(cls: type[BaseTool[Any, Any, Any, Any]]) -> str | None:
    name = cast("object", cls.get_name())  # A user's own get_name may return anything.
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
    positional, named = shape_of(run).call_arguments(None, None)
    try:
        inspect.signature(run).bind(None, *positional, **named)
    except TypeError:
        written = ", ".join(str(one.replace(annotation=one.empty)) for one in parameters[1:])
        return f"run takes ({written}), but a tool with an argument model is called as run(args) or run(args, ctx)"
    return None


def _schema_problem(cls: type[BaseTool[Any, Any, Any, Any]]) -> str | None:
    """Return why the arguments have no JSON Schema or are not an object, or None."""
    model: type[BaseModel] = cls.args_model()
    try:
        schema = cls.get_parameters()
    except (PydanticUserError, PydanticUndefinedAnnotation, SchemaError) as error:
        return f"{model.__name__} has no JSON Schema ({str(error).splitlines()[0]})"
    return None if schema.get("type") == "object" else f"{model.__name__} is not an object with named fields"


ToolClass: TypeAlias = type[BaseTool[Any, Any, Any, Any]]


class ToolSources(Struct, frozen=True, kw_only=True):
    """The places that tools come from, besides the built-in ones."""

    root: Path
    """The folder that relative ``tool_paths`` start from."""
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where each setting was set, by its dotted key, for errors."""
    project_tools: Path | None = None
    """The project's tools folder. None if the project is not trusted."""
    user_tools: Path | None = None
    """The user's own tools folder."""
    extra: tuple[ToolClass, ...] = ()
    """Classes made elsewhere, such as proxies of MCP servers' tools.

    They never replace another tool of the same name.
    """
    given: tuple[str, ...] = ()
    """Names of tools that the host gives to some agents only."""
    own: tuple[ToolClass, ...] = ()
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
    for cls in sources.own:
        name = cls.get_name()
        holder = BUILTIN if name in sources.given else found.origins.get(name)
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
    for folder in (sources.project_tools, sources.user_tools):
        if folder is not None and os.path.isdir(folder):
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


class _Tool(Struct, frozen=True, kw_only=True):
    """A tool with its settings, usage hints for the prompt, and origin."""

    cls: ToolClass
    config: BaseToolConfig
    origin: str
    prompt: str = ""


class ToolSurvey(Struct, frozen=True, kw_only=True):
    """Everything found for one configuration, ready to be adopted.

    It is immutable, and ``names`` are the visible tools.
    """

    known: Mapping[str, _Tool]
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class ToolManager:
    """One agent's view of the tools.

    Instances belong to the view, and so do the tools' states, so each agent needs a view of its own. Names are accepted
    in either vocabulary (``read`` is ``read_file``). ``disabled_tools`` only counts if ``enabled_tools`` is empty.

    Construction reads files and runs users' tool modules, so do it before the event loop starts, or in a thread.

    Raises:
        ConfigError: a ``[tools.*]`` table does not fit its tool, or a pattern is not valid.
    """

    def __init__(
        self,
        sources: ToolSources,
        config: VibeConfig,
        *,
        parent: ToolManager | None = None,
        derive: Callable[[ToolSurvey], ToolSurvey] = lambda seen: seen,
        instances: dict[str, BaseTool[Any, Any, Any, Any]] | None = None,
    ) -> None:
        self._sources = sources
        self.config = config
        self._parent = parent
        self._derive = derive
        self._offered: tuple[ToolSurvey, tuple[ToolSchema, ...]] | None = None
        self._instances: dict[str, BaseTool[Any, Any, Any, Any]] = {} if instances is None else instances
        self.warnings: tuple[str, ...] = ()
        if parent is None:
            self.adopt(self.survey(sources.extra))
        else:
            self._seen = parent.visible
            self._tools = derive(self._seen)

    def survey(self, extra: Iterable[ToolClass], notes: tuple[str, ...] = ()) -> ToolSurvey:
        """Find all tools, with ``extra`` as those made elsewhere, and ``notes`` on how to use them.

        Reads files and changes nothing.

        Raises:
            ConfigError: a ``[tools.*]`` table does not fit its tool.
        """
        config = self.config
        found = discover(replace(self._sources, extra=tuple(extra)), config.tool_paths)
        tables = {canonical_tool_name(name): table for name, table in config.tools.items()}
        if config.sandbox.mode is SandboxMode.OFF or not self._sources.is_sandboxed():
            found.tools.update({name: _unsandboxed(cls) for name, cls in found.tools.items()})
        known = _configured(found, tables, self._sources.places)
        for name in (name for name in tables if name not in found.tools):
            found.warnings.append(f"[tools.{name}] matches no tool; {_hint(name, found.tools)}")
        enabled, disabled, denied = config.enabled_tools, config.disabled_tools, config.denied_tools
        nameable = (*known, *self._sources.given)
        named = {"enabled_tools": enabled, "disabled_tools": disabled, "denied_tools": denied}
        found.warnings += _unmatched(nameable, found.tools, **named)
        if enabled and disabled:
            found.warnings.append("disabled_tools is ignored because enabled_tools is set")
        names = _choose(known, enabled or None, denied if enabled else (*disabled, *denied))
        return ToolSurvey(known=known, names=names, notes=notes, warnings=tuple(found.warnings))

    def adopt(self, survey: ToolSurvey) -> None:
        """Use the result of a survey. Views made from this one follow, each within its own patterns."""
        self._tools = survey
        self.warnings = survey.warnings

    @property
    def visible(self) -> ToolSurvey:
        """The tools of the view, derived again whenever those of its parent have changed."""
        if self._parent is not None:
            base = self._parent.visible
            if base is not self._seen:
                self._seen, self._tools = base, self._derive(base)
        return self._tools

    @property
    def available(self) -> Mapping[str, ToolClass]:
        """The tools of this view by name, sorted by name."""
        tools = self.visible
        return MappingProxyType({name: tools.known[name].cls for name in tools.names})

    available_tools = available
    """The name Mistral Vibe uses for it."""

    def get(self, name: str) -> BaseTool[Any, Any, Any, Any]:
        """Return this view's instance of a tool, creating it on first use.

        Raises:
            NoSuchToolError: this view has no such tool.
        """
        tool = self._tool(name)
        known = tool.cls.get_name()
        if type(self._instances.get(known)) is not tool.cls:
            self._instances[known] = tool.cls.from_config(tool.config)
        return self._instances[known]

    def get_tool_config(self, name: str) -> BaseToolConfig:
        """Return a tool's settings: its defaults, overlaid with its ``[tools.<name>]`` table.

        Raises:
            NoSuchToolError: this view has no such tool.
        """
        return self._tool(name).config

    def filtered(self, allowed: Sequence[str] | None, denied: Sequence[str] = ()) -> ToolManager:
        """Return a new view of the tools that match ``allowed`` (None allows all) but not ``denied``.

        Its instances are fresh. It never has a tool that this view lacks. Its ``warnings`` are about these patterns.

        Raises:
            ConfigError: a pattern is not valid.
        """
        view = self._view(lambda base: replace(base, names=_choose(base.names, allowed, denied)))
        tools = self.visible
        view.warnings = tuple(_unmatched(tools.known, tools.names, allowed_tools=allowed or (), denied_tools=denied))
        return view

    def only(self, keep: Callable[[ToolClass], bool]) -> ToolManager:
        """Return a view with fresh instances of the tools that ``keep`` accepts, including those adopted later."""

        def derive(base: ToolSurvey) -> ToolSurvey:
            return replace(base, names=tuple(name for name in base.names if keep(base.known[name].cls)))

        return self._view(derive)

    def with_tool(self, cls: ToolClass) -> ToolManager:
        """Return a view with one more tool, which the host gives to this agent alone.

        It shares this view's instances.
        """
        tool = _Tool(cls=cls, config=cls.config_class()(), origin=BUILTIN)

        def derive(base: ToolSurvey) -> ToolSurvey:
            name = cls.get_name()
            return replace(base, known={**base.known, name: tool}, names=tuple(sorted({*base.names, name})))

        return ToolManager(self._sources, self.config, parent=self, derive=derive, instances=self._instances)

    def reconfigured(self, change: Callable[[ToolClass, BaseToolConfig], BaseToolConfig]) -> ToolManager:
        """Return a view with fresh instances of the same tools, with the settings that ``change`` returns for each."""

        def changed(tool: _Tool) -> _Tool:
            config = change(tool.cls, tool.config)
            if config == tool.config:
                return tool
            return replace(tool, config=config, prompt=tool.cls.prompt_with(config) or "")

        def derive(base: ToolSurvey) -> ToolSurvey:
            return replace(base, known={**base.known, **{name: changed(base.known[name]) for name in base.names}})

        return self._view(derive)

    def known(self) -> tuple[str, ...]:
        """Return the names of all tools there are, whether or not in this view."""
        return tuple(sorted(self.visible.known))

    def origin(self, name: str) -> str:
        """Return where a tool of this view comes from: a file, or the part it belongs to.

        Raises:
            NoSuchToolError: this view has no such tool.
        """
        return self._tool(name).origin

    def schemas(self) -> tuple[ToolSchema, ...]:
        """Return the tools as offered to the model, sorted by name, without those whose permission is ``never``."""
        tools = self.visible
        if self._offered is None or self._offered[0] is not tools:
            self._offered = (tools, _schemas(tools))
        return self._offered[1]

    def prompts(self) -> Mapping[str, str]:
        """Return the usage hints of the tools that have any, by name. A hint that several tools share appears once."""
        tools = self.visible
        first = {tools.known[name].prompt: name for name in reversed(tools.names)}
        return MappingProxyType({name: text for text, name in sorted(first.items(), key=lambda item: item[1]) if text})

    def _view(self, derive: Callable[[ToolSurvey], ToolSurvey]) -> ToolManager:
        return ToolManager(self._sources, self.config, parent=self, derive=derive)

    def _tool(self, name: str) -> _Tool:
        tools = self.visible
        for spelling in (name, our_tool_name(name)):
            if spelling in tools.names:
                return tools.known[spelling]
        raise NoSuchToolError(name, tools.names)


def unknown_tools(tools: ToolManager, patterns: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the ``patterns`` that match no tool, in this view or not, each with a hint.

    Those that could match a configured server's tools are left out, since those may still arrive.
    """
    known = tools.known()
    servers = tuple(f"{server.name}_" for server in tools.config.mcp_servers)
    for pattern in _ToolPatterns(patterns).unmatched(known):
        start = re.split(r"^re:|[*?\[]", pattern)[0]
        if not any(start.startswith(server) or (start != pattern and server.startswith(start)) for server in servers):
            yield pattern, _hint(pattern, known)


def _schemas(tools: ToolSurvey) -> tuple[ToolSchema, ...]:
    return tuple(
        ToolSchema(
            name=name,
            description=tool.cls.get_description(),
            parameters=tool.cls.get_parameters(),
            ends_work=tool.cls.ends_work,
        )
        for name in tools.names
        if (tool := tools.known[name]).config.permission is not ToolPermission.NEVER
    )


class _ToolPatterns(NamePatterns):
    """Patterns over tool names. They also match a tool by its name in the other vocabulary."""

    def matches(self, name: str) -> bool:
        return any(map(super().matches, tool_spellings(name)))

    def unmatched(self, names: Iterable[str]) -> tuple[str, ...]:
        return super().unmatched(spelling for name in names for spelling in tool_spellings(name))


def _unmatched(known: Iterable[str], seen: Iterable[str], **selections: Sequence[str]) -> Iterator[str]:
    """Yield a warning for each pattern that matches no known tool, with a hint at the visible ones."""
    for key, patterns in selections.items():
        for pattern in _ToolPatterns(patterns, key=key).unmatched(known):
            yield f"{key}: {pattern!r} matches no tool; {_hint(pattern, seen)}"


def _choose(names: Iterable[str], allowed: Sequence[str] | None, denied: Sequence[str]) -> tuple[str, ...]:
    keep = None if allowed is None else _ToolPatterns(allowed, key="allowed_tools")
    drop = _ToolPatterns(denied, key="denied_tools")
    return tuple(sorted(name for name in names if (keep is None or keep.matches(name)) and not drop.matches(name)))


def _unsandboxed(cls: ToolClass) -> ToolClass:
    """Return the tool class with its argument model for runs without a sandbox, if it has one."""
    arguments = cls.unsandboxed_arguments
    if arguments is None:
        return cls
    members: dict[str, Any] = {"__doc__": cls.__doc__, "__module__": cls.__module__}
    members["args_model"] = classmethod(lambda _: arguments)
    return cast("ToolClass", type(cls.__name__, (cls,), members))


def _configured(found: Discovery, tables: Mapping[str, Any], places: Mapping[str, str]) -> dict[str, _Tool]:
    """Return the tools with their settings.

    A tool that requires a table it does not have is left out, with a warning.
    """
    known: dict[str, _Tool] = {}
    for name, cls in found.tools.items():
        table, origin = tables.get(name, {}), found.origins[name]
        try:
            config = cls.config_class().model_validate(table)
        except ValidationError as error:
            if name in tables:
                told = (text.split(": ", 1) for text in describe_problems(error, f"tools.{name}"))
                placed = ((places.get(key.partition("[")[0], "the configuration"), key, what) for key, what in told)
                raise InvalidConfigError(tuple(ConfigError(*each) for each in placed)) from error
            missing = "; ".join(describe_problems(error, ""))
            found.warnings.append(f"{origin}: {name} is not offered, set [tools.{name}] {missing}")
            continue
        known[name] = _Tool(cls=cls, config=config, origin=origin, prompt=cls.prompt_with(config) or "")
        _warn_unknown_keys(found, name, table)
    return known


def _warn_unknown_keys(found: Discovery, name: str, table: Mapping[str, Any]) -> None:
    """Warn about keys the tool does not know, except for those that the reader of the settings names with their line.

    A user's own tool may read any key, so there only keys that look misspelled are reported.
    """
    fields = found.tools[name].config_class().model_fields
    for key in table:
        close = closest(key, fields)
        if key not in fields and not ToolTable.meant_by(key) and (close or found.origins[name] == BUILTIN):
            hint = did_you_mean(close, f"known: {', '.join(fields)}")
            found.warnings.append(f"[tools.{name}]: {key!r} is unknown and ignored; {hint}")


def _hint(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    return did_you_mean(closest(name, names, most=2, cutoff=0.5), f"available: {', '.join(names)}")


LEVELS = (ToolPermission.ALWAYS, ToolPermission.ASK, ToolPermission.NEVER)
"""Permissions, from the widest to the narrowest."""
READS_ONLY = "reads_only"
"""The setting that restricts a tool to reading. It is set for every safe agent that names the tool."""
BUILTIN_MODULES = "vibe.core.tools.builtins."
"""The prefix of the names of modules that define built-in tools."""
MISSPELLED_RATIO = 0.8
"""The similarity (0 to 1) from which on a name counts as misspelled.

Below it, an MCP server may still offer the tool.
"""


def profile_view(tools: ToolManager, profile: AgentProfile, *, may_widen: bool) -> ToolManager:
    """Return the view of ``tools`` for an agent with this profile.

    The profile's settings are laid over the user's. If ``may_widen``, a person chose the profile, so it may allow what
    would be asked about; otherwise it can only narrow. The user's ``never`` and deny lists always hold.

    Raises:
        BrokenAgentError: the profile's tool tables don't fit the tools.
    """
    view = tools.filtered(profile.enabled_tools, profile.disabled_tools)
    safe = profile.safety is AgentSafety.SAFE
    if safe:
        view = view.only(
            lambda cls: _is_safe(cls) or (READS_ONLY in _settings(cls) and cls.get_name() in profile.tool_tables)
        )
    problems = _problems(tools, profile)
    if problems:
        raise BrokenAgentError(profile.name, problems)

    def overlaid(cls: ToolClass, config: BaseToolConfig) -> BaseToolConfig:
        table = profile.tool_tables.get(cls.get_name())
        overlaid = config if table is None else _overlaid(config, table, may_widen=may_widen)
        return overlaid.model_copy(update={READS_ONLY: True}) if safe and READS_ONLY in _settings(cls) else overlaid

    return view.reconfigured(overlaid)


def observing(tools: ToolManager) -> ToolManager:
    """Return the view of ``tools`` for an agent that only looks, whatever its profile allows, and for all it starts.

    Only built-in tools and the embedding program's own remain, because another tool's claim to be harmless can't be
    checked. A shell is restricted to reading.
    """

    def keep(cls: ToolClass) -> bool:
        ours = cls.__module__.startswith(BUILTIN_MODULES) or tools.origin(cls.get_name()) == PROGRAM
        return ours and (_is_safe(cls) or READS_ONLY in _settings(cls))

    def held(cls: ToolClass, config: BaseToolConfig) -> BaseToolConfig:
        return config.model_copy(update={READS_ONLY: True}) if READS_ONLY in _settings(cls) else config

    return tools.only(keep).reconfigured(held)


def unattended(tools: ToolManager) -> ToolManager:
    """Return the view of ``tools`` for an agent without a user: without interactive tools."""
    return tools.only(lambda cls: not cls.interactive)


def _settings(cls: ToolClass) -> Container[str]:
    return cls.config_class().model_fields


def _is_safe(cls: ToolClass) -> bool:
    return cls.read_only and not cls.uses_network


def _overlaid(config: BaseToolConfig, table: Mapping[str, Any], *, may_widen: bool) -> BaseToolConfig:
    merged = {**config.model_dump(), **table} if may_widen else config.model_dump()
    wanted = ToolPermission(table.get("permission", config.permission))
    if config.permission is ToolPermission.NEVER:
        wanted = ToolPermission.NEVER
    merged["permission"] = wanted if may_widen else max(config.permission, wanted, key=LEVELS.index)
    merged["denylist"] = list(dict.fromkeys((*config.denylist, *table.get("denylist", ()))))
    if "allowlist" in table and not may_widen:
        merged["allowlist"] = [entry for entry in config.allowlist if entry in table["allowlist"]]
    try:
        return type(config).model_validate(merged)
    except ValidationError:  # The tool was adopted later; the tools that existed earlier have been checked.
        return config.model_copy(update={"permission": ToolPermission.NEVER})


def _problems(tools: ToolManager, profile: AgentProfile) -> list[ConfigError]:
    """Return the entries in a profile's tables and tool lists that would have no effect, or the wrong one."""
    known, problems = tools.known(), list[ConfigError]()
    for tool, table in profile.tool_tables.items():
        if tool not in known:
            near = closest(tool, [*known, *TOOL_ALIASES], cutoff=MISSPELLED_RATIO)
            if near:
                problems.append(_problem(profile, (tool,), f"is not a tool, {did_you_mean(near)}"))
        elif tool in tools.available:
            problems.extend(_table_problems(tools, profile, tool, table))
    for key, patterns in (("enabled_tools", profile.enabled_tools), ("disabled_tools", profile.disabled_tools)):
        for pattern in patterns:
            near = closest(pattern, known, cutoff=MISSPELLED_RATIO) if pattern.isidentifier() else []
            if pattern not in {*known, *TOOL_ALIASES} and near:
                problems.append(
                    ConfigError(profile.where(key), key, f"{pattern!r} is not a tool, {did_you_mean(near)}")
                )
    return problems


def _table_problems(
    tools: ToolManager, profile: AgentProfile, tool: str, table: Mapping[str, Any]
) -> Iterator[ConfigError]:
    model = tools.available[tool].config_class()
    for key in table:
        near = closest(key, model.model_fields)
        if key not in model.model_fields and near:
            yield _problem(profile, (tool, key), f"unknown setting of {tool}, {did_you_mean(near)}")
    try:
        model.model_validate({**tools.get_tool_config(tool).model_dump(), **table})
    except ValidationError as error:
        yield _problem(profile, (tool,), "; ".join(describe_problems(error, "")))


def _problem(profile: AgentProfile, path: tuple[str, ...], problem: str) -> ConfigError:
    tables: Mapping[str, Any] = {} if profile.file is None else profile.file.data.get("tools", {})
    written = next((name for name, ours in TOOL_ALIASES.items() if ours == path[0] and name in tables), path[0])
    return ConfigError(profile.where("tools", written, *path[1:]), ".".join(("tools", written, *path[1:])), problem)
