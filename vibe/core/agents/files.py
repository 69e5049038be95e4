"""Agent files: TOML to AgentProfile, all or nothing, every problem with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from vibe.core.agents.models import DELEGATED_SETTINGS, AgentProfile, AgentSafety, AgentType
from vibe.core.config.checks import InvalidConfigError, shape_problems, wording
from vibe.core.config.foreign_keys import is_foreign
from vibe.core.config.layers import default_layer, merge, read_layer
from vibe.core.config.models import ToolTable, VibeConfig
from vibe.core.config.patterns import NamePatterns, canonical_tool_name
from vibe.core.config.toml_source import RawPath, TomlSource, dotted, read_toml
from vibe.core.errors import ConfigError
from vibe.core.plain_text import closest, did_you_mean

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
Word = Annotated[str, Field(min_length=1)]


class AgentFile(BaseModel):
    """Content of an agent file; its keys stand at the top level."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str | None, Field(pattern=NAME_PATTERN)] = None
    """Its name for ``--agent`` and ``task``; not set: the name of the file."""
    display_name: str = ""
    """The name people see; not set: the name."""
    description: str = ""
    """Its purpose; other agents choose by it."""
    safety: AgentSafety = AgentSafety.NEUTRAL
    """`safe` agents have no tool that writes or reaches the network."""
    agent_type: AgentType = AgentType.AGENT
    """`subagent`: other agents delegate to it, and no person talks to it."""
    active_model: Word | None = None
    """Its model; not set: the configured one."""
    system_prompt_id: Word | None = None
    """Its system prompt; not set: the configured one."""
    enabled_tools: tuple[str, ...] | None = None
    """Patterns of the only tools it has; not set: all."""
    disabled_tools: tuple[str, ...] = ()
    """Patterns of tools it has not."""
    auto_approve: bool = False
    """Run its calls without asking; needs `safety = "yolo"`."""
    tools: dict[str, ToolTable] = {}
    """A table a tool, such as `[tools.bash]`, over the one of the configuration."""


OWN_KEYS = frozenset(AgentFile.model_fields)


def read_agent_file(path: Path, label: str) -> AgentProfile:
    """The profile in a file.

    Raises:
        ConfigError: it can't be read or is not TOML.
        InvalidConfigError: keys or values are wrong; all of them are told.
    """
    source = read_toml(path, label)
    if source is None:
        raise ConfigError(label, "", "is missing, restore it")
    if not source.data:
        raise ConfigError(label, "", "is empty, give it at least a description and safety")
    problems = _problems(source)
    if problems:
        raise InvalidConfigError(tuple(problems))
    parsed = _parse(source)
    name = parsed.name or path.stem
    return AgentProfile(
        name=name,
        display_name=parsed.display_name or name,
        description=parsed.description,
        safety=parsed.safety,
        agent_type=parsed.agent_type,
        active_model=parsed.active_model,
        system_prompt_id=parsed.system_prompt_id,
        enabled_tools=("*",) if parsed.enabled_tools is None else parsed.enabled_tools,
        disabled_tools=parsed.disabled_tools,
        auto_approve=parsed.auto_approve,
        tool_tables={canonical_tool_name(tool): source.data["tools"][tool] for tool in parsed.tools},
        settings=_settings(source),
        file=source,
    )


def _parse(source: TomlSource) -> AgentFile:
    # As JSON, since only there strictness takes a list for a tuple and a string for an enum, and nothing else.
    settings = _settings(source)
    own = {key: value for key, value in source.data.items() if key not in settings and not is_foreign("", key)}
    return AgentFile.model_validate_json(json.dumps(own, default=str), strict=True)


def _settings(source: TomlSource) -> dict[str, Any]:
    """Return what the file sets of the configuration besides what every profile has."""
    return {key: source.data[key] for key in source.data if key in VibeConfig.model_fields and key not in OWN_KEYS}


def _problems(source: TomlSource) -> list[ConfigError]:
    try:
        parsed = _parse(source)
    except ValidationError as error:
        return [_told(details, source) for details in error.errors(include_url=False)]
    return [
        *_contradictions(parsed, source),
        *_bad_patterns(parsed, source),
        *_misspelled(parsed, source),
        *_setting_problems(source),
    ]


def _setting_problems(source: TomlSource) -> list[ConfigError]:
    """Return what is wrong with its settings, each by itself; what only warns in a settings file is wrong here."""
    layer = read_layer(_settings(source), source.where, base=source.folder, user_home=source.folder)
    warned = [warning.partition(": ") for warning in layer.warnings]
    unknown = [ConfigError(where, "", what) for where, _, what in warned]
    return [*layer.problems, *unknown, *shape_problems(merge([default_layer(), layer]))]


def _told(details: ErrorDetails, source: TomlSource) -> ConfigError:
    path: RawPath = details["loc"]
    if details["type"] == "extra_forbidden":
        return ConfigError(source.where(path), dotted(path), _unknown(str(path[-1]), details["input"]))
    if details["type"] == "string_pattern_mismatch":
        problem = "may have letters, digits, '.', '_' and '-' and must start with a letter or digit"
        return ConfigError(source.where(path), dotted(path), problem)
    return ConfigError(source.where(path), dotted(path), wording(details))


def _unknown(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return "is not a table of an agent file, write its keys at the top level and tools as [tools.<name>]"
    near = closest(name, {**AgentFile.model_fields, **VibeConfig.model_fields})
    known = ", ".join(AgentFile.model_fields)
    hint = did_you_mean(near, f"known keys: {known} and those of config.toml")
    return f"is not a key of an agent file, {hint}"


def _contradictions(parsed: AgentFile, source: TomlSource) -> list[ConfigError]:
    problems: list[ConfigError] = []
    if parsed.auto_approve and parsed.safety is not AgentSafety.YOLO:
        problem = 'needs safety = "yolo", because it acts without asking'
        problems.append(ConfigError(source.where(("auto_approve",)), "auto_approve", problem))
    if parsed.agent_type is AgentType.SUBAGENT:
        problem = "works only for an agent the user chooses: remove it from a subagent"
        personal = (key for key in _settings(source) if key not in DELEGATED_SETTINGS)
        problems.extend(ConfigError(source.where((key,)), key, problem) for key in personal)
    seen: dict[str, str] = {}
    for name in parsed.tools:
        tool = canonical_tool_name(name)
        if tool in seen:
            problem = f"is the same tool as tools.{seen[tool]}, put both tables into [tools.{tool}]"
            problems.append(ConfigError(source.where(("tools", name)), f"tools.{name}", problem))
        seen[tool] = name
    return problems


def _bad_patterns(parsed: AgentFile, source: TomlSource) -> list[ConfigError]:
    problems: list[ConfigError] = []
    for key, patterns in (("enabled_tools", parsed.enabled_tools or ()), ("disabled_tools", parsed.disabled_tools)):
        try:
            NamePatterns(patterns, where=source.where((key,)), key=key)
        except ConfigError as error:
            problems.append(error)
    return problems


def _misspelled(parsed: AgentFile, source: TomlSource) -> list[ConfigError]:
    """Keys of tool tables that look like the ones every tool has; the rest is the tool's own business."""
    problems: list[ConfigError] = []
    for name, table in parsed.tools.items():
        for key in table.model_extra or {}:
            near = closest(key, ToolTable.model_fields, cutoff=0.8)
            if near:
                path = ("tools", name, key)
                problems.append(ConfigError(source.where(path), dotted(path), did_you_mean(near)))
    return problems
