"""Reads each source of settings into a layer of the same flat form, merges the layers and validates the result."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

from msgspec import Struct, field
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from vibe.core.config.foreign_keys import MOVED, OUR_NAMES, foreign_note, is_foreign, moved
from vibe.core.config.models import (
    DEFAULT_MODELS,
    DEFAULT_PROVIDERS,
    LOCAL_ENGINE,
    LOCAL_MODEL,
    LOCAL_PROVIDER,
    BackendKind,
    McpTransport,
    ProviderConfig,
    ToolTable,
    VibeConfig,
    hint_for,
)
from vibe.core.config.paths import absolute
from vibe.core.config.patterns import NamePatterns, canonical_tool_name
from vibe.core.config.presets import PresetError, filled
from vibe.core.config.schema import TOOLS, Key, entry_of, section_of, suggestion, written
from vibe.core.config.toml_source import RawPath, TomlSource, dotted
from vibe.core.schemas import table_of
from vibe.system.errors import ConfigError, did_you_mean
from vibe.system.plain_text import shortened

DEFAULT_ORIGIN = "default"
NO_ADDRESS = "must be an address such as https://host/v1"
OriginOf: TypeAlias = Callable[[RawPath], str]


class Setting(Struct, frozen=True):
    """A value and where it was set."""

    value: Any
    origin: str


class Layer(Struct, frozen=True, kw_only=True):
    """The settings of one source. ``entries`` maps the entries of lists of tables to their origins, in order."""

    settings: dict[Key, Setting] = field(default_factory=dict[Key, Setting])
    entries: dict[Key, str] = field(default_factory=dict[Key, str])
    warnings: list[str] = field(default_factory=list[str])
    foreign: list[str] = field(default_factory=list[str])
    """Sentences about settings that only Mistral Vibe has."""
    problems: list[ConfigError] = field(default_factory=list[ConfigError])


def read_layer(data: Mapping[str, Any], origin_of: OriginOf, *, base: Path, user_home: Path) -> Layer:
    """Return all settings in ``data``.

    ``origin_of`` tells where the value at a raw path was set. Relative paths in values start from ``base``.
    """
    return _LayerReader(origin_of, base=base, user_home=user_home).read(data)


def layer_of(source: TomlSource | None, user_home: Path) -> Layer:
    """Return all settings in a file, or none if there is no file."""
    return read_layer(source.data, source.where, base=source.folder, user_home=user_home) if source else Layer()


class _LayerReader:
    """Flattens nested tables into a layer: warns about unknown keys, keys entries by name, and resolves paths."""

    def __init__(self, origin_of: OriginOf, *, base: Path, user_home: Path) -> None:
        self.layer = Layer()
        self._origin_of = origin_of
        self._base = base
        self._user_home = user_home

    def read(self, data: Mapping[str, Any]) -> Layer:
        self._table(VibeConfig, data, (), ())
        return self.layer

    def _table(self, section: type[BaseModel], data: Mapping[str, Any], raw: RawPath, key: Key) -> None:
        """Read a table: ``raw`` is its path in the source, ``key`` the setting it belongs to."""
        for given, value in data.items():
            path = (*raw, given)
            if not key and given in MOVED:
                if MOVED[given][0] not in self.layer.settings:
                    self._set(MOVED[given][0], moved(given, value), path)
                continue
            name = OUR_NAMES.get((key[0], given), given) if key else given
            if name not in section.model_fields:
                self._warn_unknown(section, path, key)
                continue
            self._field(section.model_fields[name].annotation, value, path, (*key, name))

    def _field(self, annotation: Any, value: Any, raw: RawPath, key: Key) -> None:
        """Read one value by the type of its setting: a table, a list of tables, the tools' tables, or a plain value."""
        inner, entry = section_of(annotation), entry_of(annotation)
        if inner is not None and isinstance(value, dict):
            self._table(inner, cast("dict[str, Any]", value), raw, key)
        elif entry is not None and isinstance(value, list):
            self._entries(entry, cast("list[Any]", value), raw, key)
        elif key == (TOOLS,) and isinstance(value, dict):
            self._tools(cast("dict[str, Any]", value), raw)
        else:
            self._set(key, value, raw)

    def _entries(self, section: type[BaseModel], items: list[Any], raw: RawPath, key: Key) -> None:
        """Read a list of tables, whose entries are keyed by their alias or name."""
        for index, given in enumerate(items):
            path = (*raw, index)
            item = self._with_preset(given, path) if key == ("providers",) else given
            name = _entry_name(item)
            entry = (*key, f"[{name}]")
            if not isinstance(item, dict):
                self._problem(path, f"must be a table such as [[{written(key)}]], not {item!r}")
            elif name is None:
                self._problem((*path, "name"), "is missing or empty, give the entry a name")
            elif entry in self.layer.entries:
                first = self.layer.entries[entry]
                self._problem(path, f"{name!r} is already set at {first}, remove one of the two or give one an alias")
            else:
                self.layer.entries[entry] = self._origin_of(path)
                self._table(section, cast("dict[str, Any]", item), path, entry)

    def _with_preset(self, item: Any, path: RawPath) -> Any:
        """Return a provider's entry completed by its preset."""
        if not isinstance(item, dict):
            return item
        entry = cast("dict[str, Any]", item)
        try:
            return filled(entry)
        except PresetError as error:
            self._problem((*path, error.field), str(error))
            return {"name": entry.get("preset"), **entry}

    def _tools(self, tables: dict[str, Any], raw: RawPath) -> None:
        """Read the tools' tables under our names of the tools."""
        seen: dict[str, str] = {}
        for name, value in tables.items():
            tool, path = canonical_tool_name(name), (*raw, name)
            if is_foreign(TOOLS, name):
                self.layer.foreign.append(foreign_note(self._origin_of(path), dotted(path)))
                continue
            if tool in seen and not _have_no_conflict(value, tables[seen[tool]]):
                problem = f"is the same tool as {TOOLS}.{seen[tool]}, put both tables into [{TOOLS}.{tool}]"
                self._problem(path, problem)
                continue
            seen[tool] = name
            self._warn_misspelled(table_of(value), path)
            self._tool_values(value, path, (TOOLS, tool))

    def _tool_values(self, value: Any, raw: RawPath, key: Key) -> None:
        """Read the values in a tool's table, which may be nested and have any names."""
        if not isinstance(value, dict):
            self._set(key, value, raw)
            return
        for name, inner in cast("dict[str, Any]", value).items():
            path = (*raw, name)
            if is_foreign(written(key), name):
                self.layer.foreign.append(foreign_note(self._origin_of(path), dotted(path)))
            else:
                self._tool_values(inner, path, (*key, name))

    def _set(self, key: Key, value: Any, raw: RawPath) -> None:
        text = json.dumps(value, default=str, ensure_ascii=False)
        if text.encode("utf-8", "replace").decode() != text:
            self._problem(raw, "holds what is not UTF-8")
        elif key[0] != TOOLS and "\\u0000" in text.replace("\\\\", ""):
            self._problem(raw, "holds a NUL character, remove it")
        else:
            self.layer.settings[key] = Setting(self._resolved(key, value), self._origin_of(raw))

    def _resolved(self, key: Key, value: Any) -> Any:
        """Return a value with our names of tools, and with absolute paths."""
        if key in {("enabled_tools",), ("disabled_tools",), ("denied_tools",)}:
            return _each_text(value, canonical_tool_name)
        if key in {("tool_paths",), ("agent_paths",), ("skill_paths",)}:
            return _each_text(value, lambda text: absolute(text, self._base, self._user_home))
        is_file = (key[0] == "providers" and key[-1] == "script") or key in {
            ("local", "model_path"),
            ("cluster", "certificates"),
        }
        if is_file and isinstance(value, str) and value:
            return absolute(value, self._base, self._user_home)
        return value

    def _problem(self, raw: RawPath, problem: str) -> None:
        self.layer.problems.append(ConfigError(self._origin_of(raw), dotted(raw), problem))

    def _warn_unknown(self, section: type[BaseModel], raw: RawPath, table: Key) -> None:
        where, name = self._origin_of(raw), str(raw[-1])
        if is_foreign(table[0] if table else "", name):
            self.layer.foreign.append(foreign_note(where, dotted(raw)))
            return
        near = suggestion(name, section, table)
        hint = did_you_mean(near, "remove it")
        self.layer.warnings.append(f"{where}: unknown setting {dotted(raw)} has no effect, {hint}")

    def _warn_misspelled(self, table: dict[str, Any], raw: RawPath) -> None:
        for name in table:
            if near := ToolTable.meant_by(name):
                path = (*raw, name)
                self.layer.warnings.append(f"{self._origin_of(path)}: {dotted(path)}: {did_you_mean(near)}")


def default_layer() -> Layer:
    """Return the built-in models and providers; the local ones only if their engine is installed.

    All other defaults are those of ``VibeConfig``.
    """
    layer = Layer()
    is_local = importlib.util.find_spec(LOCAL_ENGINE) is not None  # imports nothing
    models = (*DEFAULT_MODELS, LOCAL_MODEL) if is_local else DEFAULT_MODELS
    providers = (*DEFAULT_PROVIDERS, LOCAL_PROVIDER) if is_local else DEFAULT_PROVIDERS
    entries: list[tuple[Key, BaseModel]] = [(("models", f"[{model.key}]"), model) for model in models]
    entries += [(("providers", f"[{provider.name}]"), provider) for provider in providers]
    for key, entry in entries:
        layer.entries[key] = DEFAULT_ORIGIN
        for field_name, value in entry.model_dump(mode="json", exclude_none=True).items():
            layer.settings[*key, field_name] = Setting(value, DEFAULT_ORIGIN)
    return layer


def merge(layers: Iterable[Layer]) -> Layer:
    """Merge ``layers``, the lowest precedence first.

    A later layer replaces single settings and whole entries of lists of tables. Its new entries come before the others.
    """
    merged = Layer()
    for layer in layers:
        for key in (*layer.entries, *layer.settings):
            # It replaces all below it, and any plain value where it needs a table.
            for old in [old for old in merged.settings if old[: len(key)] == key or key[: len(old)] == old]:
                del merged.settings[old]
        merged.settings.update(layer.settings)
        kept = {key: origin for key, origin in merged.entries.items() if key not in layer.entries}
        merged.entries.clear()
        merged.entries.update(layer.entries | kept)
        merged.warnings.extend(layer.warnings)
        merged.foreign.extend(layer.foreign)
        merged.problems.extend(layer.problems)
    return merged


def nested(layer: Layer) -> dict[str, Any]:
    """Return the settings nested for validation, with lists of tables in the order of ``entries``."""
    data: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {}
    for key in layer.entries:
        groups.setdefault(key[0], {})[key[1]] = {}
    for key, setting in layer.settings.items():
        table: dict[str, Any] = data
        path = key
        if len(key) > 1 and key[:2] in layer.entries:
            table, path = groups[key[0]][key[1]], key[2:]
        for name in path[:-1]:
            table = table.setdefault(name, {})
        table[path[-1]] = setting.value
    return {**data, **{group: list(entries.values()) for group, entries in groups.items() if group not in data}}


def _entry_name(item: Any) -> str | None:
    table = table_of(item)
    return str(table.get("alias") or table["name"]) if table.get("name") else None  # the validation refuses numbers


def _have_no_conflict(one: Any, other: Any) -> bool:
    """Return whether two tables of the same tool have no conflicting values."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return False
    known = cast("dict[str, Any]", other)
    return all(known.get(name, value) == value for name, value in cast("dict[str, Any]", one).items())


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if not isinstance(value, list):
        return value
    return [change(item) if isinstance(item, str) else item for item in cast("list[Any]", value)]


M = TypeVar("M", bound=BaseModel)

_LONGEST_VALUE = 60

_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a table",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "model_attributes_type": "a table",
    "model_type": "a table",
    "string_type": "a string",
    "tuple_type": 'a list such as ["a", "b"]',
}


def wording(details: ErrorDetails) -> str:
    """Return the problem with a value, worded to follow ``key:``."""
    kind, context = details["type"], details.get("ctx", {})
    got = shown_value(details["input"])
    if kind == "missing":
        return "is missing, set it"
    if kind in _EXPECTED:
        return f"must be {_EXPECTED[kind]}, not {got}"
    if kind in {"enum", "literal_error"}:
        return f"must be {_IN_TOML.get(context['expected'], context['expected'])}, not {got}"
    bound = next((name for name in ("ge", "gt", "le") if name in context), None)
    if bound is not None:
        return f"must be {_BOUNDS[bound]} {context[bound]:g}, not {got}"
    return f"{details['msg']}, not {got}"


_IN_TOML = {"True": "true", "False": "false"}

_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most"}


def shown_value(value: object) -> str:
    """Return a value as JSON, shortened to ``_LONGEST_VALUE`` characters."""
    return shortened(json.dumps(value, default=str, ensure_ascii=False), _LONGEST_VALUE)


class InvalidConfigError(ConfigError):
    """The settings are not valid; ``problems`` has every problem, and the other attributes are those of the first."""

    def __init__(self, problems: tuple[ConfigError, ...]) -> None:
        first = problems[0]
        super().__init__(first.where, first.key, first.problem)
        self.args = ("\n".join(str(problem) for problem in problems),)
        self.problems = problems


UI = "ui"
STDIO_FIELDS = ("command", "args", "env")
PATTERN_KEYS = (
    *(f"{which}_{kind}" for kind in ("tools", "agents", "skills") for which in ("enabled", "disabled")),
    "denied_tools",
)
HTTP_FIELDS = ("url", "headers", "api_key_env", "api_key_header", "api_key_format")


def validate(merged: Layer) -> VibeConfig:
    """Return the configuration of the merged layers.

    Raises:
        InvalidConfigError: settings are wrong; the error lists all problems.
    """
    data = nested(merged)
    config = _parsed(VibeConfig, data, merged)
    problems = [*merged.problems, *_tool_problems(data, merged)]
    if isinstance(config, list):
        raise InvalidConfigError((*problems, *config))
    for check in (_model_problems, _provider_problems, _server_problems, _pattern_problems):
        problems.extend(check(config, merged))
    if problems:
        raise InvalidConfigError(tuple(problems))
    return config


def shape_problems(merged: Layer) -> list[ConfigError]:
    """Return the values that have a wrong type or are out of bounds, without checks across settings."""
    parsed = _parsed(VibeConfig, nested(merged), merged)
    return parsed if isinstance(parsed, list) else []


def drop_invalid_ui(merged: Layer) -> tuple[str, ...]:
    """Remove wrong values in ``[ui]``, on which no work depends, and return a sentence about each."""
    bad = [problem for problem in shape_problems(merged) if (problem.key or "").startswith(f"{UI}.")]
    for problem in bad:
        merged.settings.pop(tuple((problem.key or "").split(".")), None)
    return tuple(f"{problem}; it is as usual" for problem in bad)


def origin_of(merged: Layer, key: Key) -> str:
    """Return where ``key``, or else the nearest table around it, was set."""
    for length in range(len(key), 0, -1):
        head = key[:length]
        if head in merged.settings:
            return merged.settings[head].origin
        if head in merged.entries:
            return merged.entries[head]
    return DEFAULT_ORIGIN


def _parsed(model: type[M], data: Any, merged: Layer, prefix: Key = ()) -> M | list[ConfigError]:
    """Return the data below ``prefix`` as a ``model``, or the problems with it."""
    try:
        # Validate JSON: only there does strict mode accept a list for a tuple and a string for an enum.
        return model.model_validate_json(json.dumps(data, default=str), strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False)
        return [_config_error((*prefix, *_key(details["loc"], merged)), wording(details), merged) for details in found]


def _tool_problems(data: Mapping[str, Any], merged: Layer) -> Iterator[ConfigError]:
    for name, table in table_of(data.get(TOOLS)).items():
        parsed = _parsed(ToolTable, table, merged, (TOOLS, name)) if isinstance(table, dict) else None
        yield from parsed if isinstance(parsed, list) else ()


def _config_error(key: Key, problem: str, merged: Layer) -> ConfigError:
    return ConfigError(origin_of(merged, key), written(key), problem)


def _key(location: tuple[str | int, ...], merged: Layer) -> Key:
    """Return the key of an error's location, with positions in lists of tables replaced by the entries' names."""
    key: Key = ()
    for part in location:
        if isinstance(part, str):
            key = (*key, part)
            continue
        entries = [entry for entry in merged.entries if entry[:-1] == key]
        key = entries[part] if part < len(entries) else (*key, f"[{part}]")
    return key


def _model_problems(config: VibeConfig, merged: Layer) -> Iterator[ConfigError]:
    if config.find_model(config.active_model) is None:
        problem = _unknown("model", config.active_model, [model.key for model in config.models])
        yield _config_error(("active_model",), problem, merged)
    for model in config.models:
        if config.find_provider(model.provider) is None:
            problem = _unknown("provider", model.provider, [provider.name for provider in config.providers])
            yield _config_error(("models", f"[{model.key}]", "provider"), problem, merged)


def _unknown(what: str, name: str, known: list[str]) -> str:
    meant = hint_for(name, known)
    return f"unknown {what} {shortened(name, _LONGEST_VALUE)!r}{meant and f', {meant}'} (known: {', '.join(known)})"


def _provider_problems(config: VibeConfig, merged: Layer) -> Iterator[ConfigError]:
    for provider in config.providers:
        if name := _missing_field(provider):
            problem = f"is missing, backend {str(provider.backend)!r} needs it"
            yield _config_error(("providers", f"[{provider.name}]", name), problem, merged)

        elif provider.is_server and not _is_address(provider.api_base):
            problem = f"{NO_ADDRESS}, not {shown_value(provider.api_base)}"
            yield _config_error(("providers", f"[{provider.name}]", "api_base"), problem, merged)


def _missing_field(provider: ProviderConfig) -> str | None:
    if provider.backend is BackendKind.SCRIPTED:
        return None if provider.script else "script"
    return "api_base" if provider.is_server and not provider.api_base else None


def _is_address(text: str) -> bool:
    """Return whether a text is an HTTP address with a host and a valid port."""
    with suppress(ValueError):
        parts = urlsplit(text.strip())
        is_whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and len(text.split()) == 1
        return is_whole and parts.port != 0
    return False


def _server_problems(config: VibeConfig, merged: Layer) -> Iterator[ConfigError]:
    """Yield the problems of servers with their transport, since the model has the fields of all transports."""
    for server in config.mcp_servers:
        key = ("mcp_servers", f"[{server.name}]")
        stdio = server.transport is McpTransport.STDIO
        needed, foreign = ("command", HTTP_FIELDS) if stdio else ("url", STDIO_FIELDS)
        kind = f"a server with transport {server.transport.value!r}"
        wrong: dict[str, str] = {}
        if not getattr(server, needed):
            wrong[needed] = f"is missing, {kind} needs it"
        elif not stdio and "${" not in server.url and not _is_address(server.url):
            wrong["url"] = f"{NO_ADDRESS}, not {shown_value(server.url)}"
        wrong |= {name: f"has no effect for {kind}, remove it" for name in foreign if (*key, name) in merged.settings}
        if "{token}" not in server.api_key_format:
            wrong["api_key_format"] = "must contain {token} where the key goes"
        yield from (_config_error((*key, name), problem, merged) for name, problem in wrong.items())


def _pattern_problems(config: VibeConfig, merged: Layer) -> Iterator[ConfigError]:
    for key in PATTERN_KEYS:
        patterns: tuple[str, ...] = getattr(config, key)
        try:
            NamePatterns(patterns, where=origin_of(merged, (key,)), key=key)
        except ConfigError as error:
            yield error
