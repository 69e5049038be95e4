"""Validation of the merged settings: every problem with its place, in words that a user can act on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from vibe.core.config.layers import DEFAULT_ORIGIN, Layer, nested
from vibe.core.config.models import BackendKind, McpTransport, ProviderConfig, ToolTable, VibeConfig
from vibe.core.config.patterns import NamePatterns
from vibe.core.config.schema import TOOLS, Key, written
from vibe.core.schemas import table_of
from vibe.system.errors import ConfigError
from vibe.system.plain_text import closest, did_you_mean

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
    """The problem with a value, as what follows ``key:``."""
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
    """A value as JSON, cut where it is long."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


class InvalidConfigError(ConfigError):
    """The settings do not hold together; ``problems`` has each of them, and the attributes are those of the first."""

    def __init__(self, problems: tuple[ConfigError, ...]) -> None:
        first = problems[0]
        super().__init__(first.where, first.key, first.problem)
        self.args = ("\n".join(str(problem) for problem in problems),)
        self.problems = problems


LOOKS = "ui"
STDIO_FIELDS = ("command", "args", "env")
PATTERN_KEYS = tuple(f"{which}_{kind}" for kind in ("tools", "agents", "skills") for which in ("enabled", "disabled"))
HTTP_FIELDS = ("url", "headers", "api_key_env", "api_key_header", "api_key_format")


def validate(merged: Layer) -> VibeConfig:
    """The configuration the layers make together.

    Raises:
        InvalidConfigError: Something is wrong; every problem is told.
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
    """Return what has the wrong type or is out of bounds, whatever the settings mean together."""
    parsed = _parsed(VibeConfig, nested(merged), merged)
    return parsed if isinstance(parsed, list) else []


def drop_bad_looks(merged: Layer) -> tuple[str, ...]:
    """Take out what is wrong in ``[ui]``, on which no work depends, and return a sentence for each."""
    bad = [problem for problem in shape_problems(merged) if (problem.key or "").startswith(f"{LOOKS}.")]
    for problem in bad:
        merged.settings.pop(tuple((problem.key or "").split(".")), None)
    return tuple(f"{problem}; it is as usual" for problem in bad)


def origin_of(merged: Layer, key: Key) -> str:
    """Return where ``key``, or else the table around it, was set."""
    for length in range(len(key), 0, -1):
        head = key[:length]
        if head in merged.settings:
            return merged.settings[head].origin
        if head in merged.entries:
            return merged.entries[head]
    return DEFAULT_ORIGIN


def _parsed(model: type[M], data: Any, merged: Layer, prefix: Key = ()) -> M | list[ConfigError]:
    """The settings below ``prefix`` by their model, or what is wrong with them."""
    try:
        # As JSON, since only there strictness takes a list for a tuple and a string for an enum, and nothing else.
        return model.model_validate_json(json.dumps(data, default=str), strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False)
        return [_wrong((*prefix, *_key(details["loc"], merged)), wording(details), merged) for details in found]


def _tool_problems(data: Mapping[str, Any], merged: Layer) -> Iterator[ConfigError]:
    for name, table in table_of(data.get(TOOLS)).items():
        parsed = _parsed(ToolTable, table, merged, (TOOLS, name)) if isinstance(table, dict) else None
        yield from parsed if isinstance(parsed, list) else ()


def _wrong(key: Key, problem: str, merged: Layer) -> ConfigError:
    return ConfigError(origin_of(merged, key), written(key), problem)


def _key(location: tuple[str | int, ...], merged: Layer) -> Key:
    """The key of an error's place: positions in a list of tables become the names of its entries."""
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
        choice = _choice(config.active_model, [model.key for model in config.models])
        yield _wrong(("active_model",), f"unknown model {config.active_model!r}, {choice}", merged)
    for model in config.models:
        if config.find_provider(model.provider) is None:
            choice = _choice(model.provider, [provider.name for provider in config.providers])
            problem = f"unknown provider {model.provider!r}, {choice}"
            yield _wrong(("models", f"[{model.key}]", "provider"), problem, merged)


def _choice(name: str, known: list[str]) -> str:
    return f"{did_you_mean(closest(name, known))} (known: {', '.join(known)})".lstrip()


def _provider_problems(config: VibeConfig, merged: Layer) -> Iterator[ConfigError]:
    for provider in config.providers:
        if name := _missing(provider):
            problem = f"is missing, backend {str(provider.backend)!r} needs it"
            yield _wrong(("providers", f"[{provider.name}]", name), problem, merged)


def _missing(provider: ProviderConfig) -> str | None:
    if provider.backend is BackendKind.SCRIPTED:
        return None if provider.script else "script"
    return "api_base" if provider.is_server and not provider.api_base else None


def _server_problems(config: VibeConfig, merged: Layer) -> Iterator[ConfigError]:
    """Yield what does not go with a server's transport: the model has the fields of all of them."""
    for server in config.mcp_servers:
        key = ("mcp_servers", f"[{server.name}]")
        stdio = server.transport is McpTransport.STDIO
        needed, foreign = ("command", HTTP_FIELDS) if stdio else ("url", STDIO_FIELDS)
        kind = f"a server with transport {server.transport.value!r}"
        wrong: dict[str, str] = {}
        if not getattr(server, needed):
            wrong[needed] = f"is missing, {kind} needs it"
        elif not stdio and not server.url.startswith(("http://", "https://", "${")):
            wrong["url"] = f"must begin with http:// or https://, not {shown_value(server.url)}"
        wrong |= {name: f"has no effect for {kind}, remove it" for name in foreign if (*key, name) in merged.settings}
        if "{token}" not in server.api_key_format:
            wrong["api_key_format"] = "must contain {token} where the key goes"
        yield from (_wrong((*key, name), problem, merged) for name, problem in wrong.items())


def _pattern_problems(config: VibeConfig, merged: Layer) -> Iterator[ConfigError]:
    for key in PATTERN_KEYS:
        patterns: tuple[str, ...] = getattr(config, key)
        try:
            NamePatterns(patterns, where=origin_of(merged, (key,)), key=key)
        except ConfigError as error:
            yield error
