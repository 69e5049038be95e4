"""ToolManager: one agent's view of the tools that were found, with settings and instances of its own.

An agent's profile is laid over a view to say which tools exist for the agent, and with which settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from vibe.core.agents.manager import BrokenAgentError
from vibe.core.agents.models import AgentProfile, AgentSafety
from vibe.core.config.layers import InvalidConfigError
from vibe.core.config.loader import FLAG_NAMES
from vibe.core.config.models import ToolTable, VibeConfig
from vibe.core.config.patterns import TOOL_ALIASES, NamePatterns, canonical_tool_name, our_tool_name, tool_spellings
from vibe.core.llm.port import ToolSchema
from vibe.core.tools import builtins
from vibe.core.tools.base import AnyTool, BaseToolConfig, ToolClass, ToolPermission
from vibe.core.tools.discovery import BUILTIN, GIVEN, PROGRAM, Discovery, ToolSources, discover
from vibe.core.tools.errors import NoSuchToolError
from vibe.core.tools.schema import describe_problems
from vibe.shell.sandbox.settings import SandboxMode
from vibe.system.errors import ConfigError, closest, did_you_mean


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
        instances: dict[str, AnyTool] | None = None,
    ) -> None:
        self._sources = sources
        self.config = config
        self._parent = parent
        self._derive = derive
        self._offered: tuple[ToolSurvey, tuple[ToolSchema, ...]] | None = None
        self._instances: dict[str, AnyTool] = {} if instances is None else instances
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
        places = self._sources.places
        known = _configured(found, tables, places)
        for name in (name for name in tables if name not in found.tools):
            found.warnings.append(f"[tools.{name}] matches no tool; {_hint(name, found.tools)}")
        enabled, disabled, denied = config.enabled_tools, config.disabled_tools, config.denied_tools
        nameable = (*known, *GIVEN)
        named = {"enabled_tools": enabled, "disabled_tools": disabled, "denied_tools": denied}
        flags = dict(FLAG_NAMES.items() & places.items())
        found.warnings += _unmatched(nameable, found.tools, **{flags.get(key, key): one for key, one in named.items()})
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

    def get(self, name: str) -> AnyTool:
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
        return self._view(
            lambda base: replace(base, names=tuple(name for name in base.names if keep(base.known[name].cls)))
        )

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
        view = view.only(lambda cls: _is_safe(cls) or (_can_be_held(cls) and cls.get_name() in profile.tool_tables))
    problems = [*_problems(tools, profile)]
    if problems:
        raise BrokenAgentError(profile.name, problems)

    def change(cls: ToolClass, config: BaseToolConfig) -> BaseToolConfig:
        table = profile.tool_tables.get(cls.get_name())
        overlaid = config if table is None else _overlaid(config, table, may_widen=may_widen)
        return _held_to_reading(cls, overlaid) if safe else overlaid

    return view.reconfigured(change)


def observing(tools: ToolManager) -> ToolManager:
    """Return the view of ``tools`` for an agent that only looks, whatever its profile allows, and for all it starts.

    Only built-in tools and the embedding program's own remain, because another tool's claim to be harmless can't be
    checked. A shell is restricted to reading.
    """

    def keep(cls: ToolClass) -> bool:
        ours = cls.__module__.startswith(f"{builtins.__name__}.") or tools.origin(cls.get_name()) == PROGRAM
        return ours and (_is_safe(cls) or _can_be_held(cls))

    return tools.only(keep).reconfigured(_held_to_reading)


def unattended(tools: ToolManager) -> ToolManager:
    """Return the view of ``tools`` for an agent without a user: without interactive tools."""
    return tools.only(lambda cls: not cls.interactive)


def _can_be_held(cls: ToolClass) -> bool:
    """Return whether a tool that may do more, such as a shell, can be held to reading."""
    return READS_ONLY in cls.config_class().model_fields


def _held_to_reading(cls: ToolClass, config: BaseToolConfig) -> BaseToolConfig:
    return config.model_copy(update={READS_ONLY: True}) if _can_be_held(cls) else config


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


def _problems(tools: ToolManager, profile: AgentProfile) -> Iterator[ConfigError]:
    """Yield the entries in a profile's tables and tool lists that would have no effect, or the wrong one."""
    known = tools.known()
    for tool, table in profile.tool_tables.items():
        if tool not in known:
            near = closest(tool, [*known, *TOOL_ALIASES], cutoff=MISSPELLED_RATIO)
            if near:
                yield _problem(profile, (tool,), f"is not a tool, {did_you_mean(near)}")
        elif tool in tools.available:
            yield from _table_problems(tools, profile, tool, table)
    for key, patterns in (("enabled_tools", profile.enabled_tools), ("disabled_tools", profile.disabled_tools)):
        for pattern in patterns:
            near = closest(pattern, known, cutoff=MISSPELLED_RATIO) if pattern.isidentifier() else []
            if pattern not in {*known, *TOOL_ALIASES} and near:
                yield ConfigError(profile.where(key), key, f"{pattern!r} is not a tool, {did_you_mean(near)}")


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
