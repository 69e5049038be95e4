"""An agent profile over a view of the tools: what exists for the agent, and with which settings."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from pydantic import ValidationError

from vibe.core.agents.errors import BrokenAgentError
from vibe.core.agents.models import AgentProfile, AgentSafety
from vibe.core.config.patterns import TOOL_ALIASES
from vibe.core.errors import ConfigError
from vibe.core.plain_text import closest, did_you_mean
from vibe.core.tools.base import BaseToolConfig, ToolPermission
from vibe.core.tools.loading import ToolClass
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.schema import describe_problems

LEVELS = (ToolPermission.ALWAYS, ToolPermission.ASK, ToolPermission.NEVER)
"""From the widest to the narrowest."""
READS_ONLY = "reads_only"
"""The setting of a tool that can be held to reading: a safe agent that names the tool has it so."""
BUILTIN_MODULES = "vibe.core.tools.builtins."
MISSPELLED = 0.8
"""From this likeness on a name is taken for a slip; below it, for a tool of a server that may come."""


def profile_view(tools: ToolManager, profile: AgentProfile, *, may_widen: bool) -> ToolManager:
    """The tools of an agent of this profile, out of ``tools``.

    Settings of the profile are laid over those of the user. ``may_widen``: a person chose the profile, so it may allow
    what would be asked; else it can only narrow. ``never`` and deny lists of the user stay in either case.

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
    """The tools of an agent that only looks, whatever its profile lets it do, and so of all whom it starts.

    Only our own tools are left: what else calls itself harmless is not known to be. A shell is held to reading.
    """

    def keep(cls: ToolClass) -> bool:
        ours = cls.__module__.startswith(BUILTIN_MODULES)
        return ours and (_is_safe(cls) or READS_ONLY in _settings(cls))

    def held(cls: ToolClass, config: BaseToolConfig) -> BaseToolConfig:
        return config.model_copy(update={READS_ONLY: True}) if READS_ONLY in _settings(cls) else config

    return tools.only(keep).reconfigured(held)


def unattended(tools: ToolManager) -> ToolManager:
    """The tools of an agent that nobody watches: without those that need a person at the prompt."""
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
    merged["denylist"] = [
        *config.denylist,
        *(entry for entry in table.get("denylist", ()) if entry not in config.denylist),
    ]
    if "allowlist" in table and not may_widen:
        merged["allowlist"] = [entry for entry in config.allowlist if entry in table["allowlist"]]
    try:
        return type(config).model_validate(merged)
    except ValidationError:  # of a tool that came later; those that were there have been checked
        return config.model_copy(update={"permission": ToolPermission.NEVER})


def _problems(tools: ToolManager, profile: AgentProfile) -> list[ConfigError]:
    """Return what stands in a profile's tables and would have no effect, or the wrong one."""
    known, problems = tools.known(), list[ConfigError]()
    for tool, table in profile.tool_tables.items():
        if tool not in known:
            near = closest(tool, [*known, *TOOL_ALIASES], cutoff=MISSPELLED)
            if near:
                problems.append(_problem(profile, (tool,), f"is not a tool, {did_you_mean(near)}"))
        elif tool in tools.available:
            problems.extend(_table_problems(tools, profile, tool, table))
    for key, patterns in (("enabled_tools", profile.enabled_tools), ("disabled_tools", profile.disabled_tools)):
        for pattern in patterns:
            near = closest(pattern, known, cutoff=MISSPELLED) if pattern.isidentifier() else []
            if pattern not in {*known, *TOOL_ALIASES} and near:
                problems.append(
                    ConfigError(profile.where(key), key, f"{pattern!r} is not a tool, {did_you_mean(near)}")
                )
    return problems


def _table_problems(
    tools: ToolManager, profile: AgentProfile, tool: str, table: Mapping[str, Any]
) -> list[ConfigError]:
    model = tools.available[tool].config_class()
    problems: list[ConfigError] = []
    for key in table:
        near = closest(key, model.model_fields)
        if key not in model.model_fields and near:
            problems.append(_problem(profile, (tool, key), f"unknown setting of {tool}, {did_you_mean(near)}"))
    try:
        model.model_validate({**tools.get_tool_config(tool).model_dump(), **table})
    except ValidationError as error:
        problems.append(_problem(profile, (tool,), "; ".join(describe_problems(error, ""))))
    return problems


def _problem(profile: AgentProfile, path: tuple[str, ...], problem: str) -> ConfigError:
    written = next((name for name, ours in TOOL_ALIASES.items() if ours == path[0] and _wrote(profile, name)), path[0])
    return ConfigError(profile.where("tools", written, *path[1:]), ".".join(("tools", written, *path[1:])), problem)


def _wrote(profile: AgentProfile, name: str) -> bool:
    return profile.file is not None and name in profile.file.data.get("tools", {})
