"""Derives from the settings' models which keys exist, and how text becomes a value of each."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel

from vibe.core.config.models import VibeConfig
from vibe.system.errors import ConfigError, UsageError, closest, did_you_mean

Key: TypeAlias = tuple[str, ...]
"""The path of a setting: field names, with ``[name]`` for an entry of a list of tables."""

TOOLS = "tools"
_KEY_PART = re.compile(r"\.?([A-Za-z0-9_-]+)|\[([^\]]+)\]|\.?\"([^\"]+)\"")

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


def written(key: Key) -> str:
    """Return ``key`` as users see it: ``models[mine].provider``."""
    return ".".join(key).replace(".[", "[")


def parse_key(text: str) -> Key:
    """Parse a text such as ``tools.bash.allowlist`` or ``models[mine].temperature`` as a key.

    Raises:
        ConfigError: the text is not a key.
    """
    parts = list(_KEY_PART.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text or text.startswith(("[", ".")):
        raise ConfigError("KEY", text, "is not a key; write it as active_model or tools.bash.permission")
    return tuple(part[1] or part[3] or f"[{part[2]}]" for part in parts)


def section_of(annotation: Any) -> type[BaseModel] | None:
    """Return the model of a table, or None if the annotation is not one."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def entry_of(annotation: Any) -> type[BaseModel] | None:
    """Return the model of the entries of a list of tables, or None if the annotation is not one."""
    return section_of(get_args(annotation)[0]) if get_origin(annotation) is tuple else None


def leaves(section: type[BaseModel] = VibeConfig, prefix: Key = ()) -> Iterator[Key]:
    """Yield the key of every single setting, also in tables, but without lists of tables and tools."""
    for name, field in section.model_fields.items():
        key = (*prefix, name)
        inner = section_of(field.annotation)
        if inner is not None:
            yield from leaves(inner, key)
        elif entry_of(field.annotation) is None and key != (TOOLS,):
            yield key


def suggestion(name: str, section: type[BaseModel], table: Key) -> list[str]:
    """Return the setting most likely meant by ``name`` in ``table``, written in full; empty if none is similar."""
    elsewhere = [written(key) for key in leaves() if key[-1] == name]
    if elsewhere:
        return elsewhere[:1]
    near = _beginning_with(name, section) or closest(name, section.model_fields)
    if near:
        return [written((*table, near[0]))]
    groups = () if table else ("providers", "models")
    entries = ((group, entry_of(VibeConfig.model_fields[group].annotation)) for group in groups)
    return [f"{group}[NAME].{near}" for group, entry in entries if entry for near in _beginning_with(name, entry)][:1]


FOREIGN_SETTING_NAMES = {
    "base_url": "api_base",
    "endpoint": "api_base",
    "url": "api_base",
    "max_tokens": "max_output_tokens",
}
"""Names that other programs use for settings of ours."""


def _beginning_with(name: str, section: type[BaseModel]) -> list[str]:
    """Return the setting with this name, or whose name begins with it.

    So ``api_key`` suggests ``api_key_env_var`` and not the more similar ``api_base``.
    """
    wanted = FOREIGN_SETTING_NAMES.get(name, name)
    return [known for known in section.model_fields if known == wanted or known.startswith(f"{wanted}_")][:1]


def section_at(table: Key) -> type[BaseModel]:
    """Return the model of a table, or that of the nearest known table around it."""
    section: type[BaseModel] = VibeConfig
    for name in table:
        field = section.model_fields.get(name)  # None for the name of an entry, or a misspelled key
        section = (field and (section_of(field.annotation) or entry_of(field.annotation))) or section
    return section


def type_of(key: Key) -> Any:
    """Return the type of a setting, also in an entry of a list of tables: None if there is no such setting.

    It is Any for a tool's own settings.
    """
    if len(key) > 2 and key[0] == TOOLS:
        return Any
    section: type[BaseModel] | None = VibeConfig
    annotation: Any = None
    for name in key:
        if name.startswith("["):
            section, annotation = entry_of(annotation), None
            continue
        field = section.model_fields.get(name) if section else None
        annotation = field.annotation if field else None
        section = section_of(annotation)
    return annotation


class UnknownSettingError(UsageError):
    """There is no setting with this key."""

    def __init__(self, key: Key, named: str = "") -> None:
        near, name = suggestion(key[-1], section_at(key[:-1]), key[:-1]), written(key) or "''"
        hint = did_you_mean(near, "see `vibe config show`")
        is_table = f"is a table; name one of its keys, see `vibe config get {name}`"
        problem = is_table if name in near else f"no such setting; {hint}"
        super().__init__(f"{named} {name}: {problem}".lstrip())


def known_key(name: str, named: str) -> Key:
    """Return the key of the setting ``name``. Errors begin with ``named``, the source of the setting.

    Raises:
        UsageError: there is no such setting.
    """
    key: Key = (name,)
    with suppress(ConfigError):
        key = parse_key(name)
    if type_of(key) is None:
        raise UnknownSettingError(key, named)
    return key


def parse_word(word: str, annotation: Any) -> Any:
    """Convert ``word``, from a variable or a flag, to a setting's type.

    Text stays text; lists and tables are read as JSON or TOML. A word that does not fit is returned unchanged, and
    validation will report it.
    """
    kinds = _kinds(annotation)
    if kinds & {str} or annotation is None:
        return word
    if bool in kinds:
        return True if word.lower() in _TRUE else False if word.lower() in _FALSE else word
    return _read(word, int, float) if kinds & {int, float} else _read(word, json.loads, _toml)


def _kinds(annotation: Any) -> set[Any]:
    origin = get_origin(annotation)
    if origin in {Union, UnionType}:
        return {kind for inner in get_args(annotation) for kind in _kinds(inner)}
    if origin is Annotated:
        return _kinds(get_args(annotation)[0])
    if origin is Literal or (isinstance(annotation, type) and issubclass(annotation, Enum)):
        return {str}
    return {origin or annotation}


def _read(word: str, *ways: Callable[[str], Any]) -> Any:
    """Return the result of the first parser that accepts the word, or the word itself if none does."""
    for way in ways:
        with suppress(ValueError):
            return way(word)
    return word


def _toml(word: str) -> Any:
    return tomllib.loads(f"value = {word}")["value"]
