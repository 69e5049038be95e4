"""Reads settings that flags give for one command's runs: values, instructions, tools to leave out, MCP servers."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from vibe.cli.environment import CliEnvironment
from vibe.cli.parser import CommandLineError
from vibe.cli.piped import read_text
from vibe.core.config.loader import DENIED, INSTRUCTIONS, MCP, GivenSettings
from vibe.core.config.paths import in_utf8
from vibe.core.config.schema import known_key, parse_word, type_of
from vibe.system.errors import UsageError
from vibe.system.grouping import by_key

SET = "--set"


def given_settings(words: Iterable[tuple[str, str]], env: CliEnvironment) -> GivenSettings:
    """Return the settings in the given flags and their values; reads the files that they name.

    Raises:
        UsageError: there is no such setting, or a file can't be used.
    """
    by_flag = by_key(words)
    instructions = by_flag.get(INSTRUCTIONS, ())
    texts = (read_text(INSTRUCTIONS, word[1:], env) if word[:1] == "@" else in_utf8(word) for word in instructions)
    return GivenSettings(
        values=dict(_value(word) for word in by_flag.get(SET, ())),
        instructions="\n\n".join(text.strip() for text in texts),
        disabled_tools=tuple(map(in_utf8, by_flag.get(DENIED, ()))),
        servers=tuple(server for word in by_flag.get(MCP, ()) for server in _servers(word, env)),
    )


def _value(word: str) -> tuple[str, Any]:
    """Return a setting and its value, parsed as TOML where its type allows that, else as text."""
    key, equals, text = word.partition("=")
    kind = type_of(known_key(key.strip(), SET)) if key.strip() else None
    if kind is None or not equals:
        raise CommandLineError(f"{SET} {word}: write it as {SET} KEY=VALUE")
    value = parse_word(text, kind)
    with suppress(tomllib.TOMLDecodeError):
        if value == text and text[:1] in {'"', "'"}:
            value = tomllib.loads(f"value = {text}")["value"]
    return key.strip(), value


def _servers(name: str, env: CliEnvironment) -> Iterator[Mapping[str, Any]]:
    from vibe.cli.commands.mcp import read_servers  # noqa: PLC0415  few runs need what it loads

    for found in read_servers(read_text(MCP, name, env), f"{MCP} {name}"):
        if found.problem:
            raise UsageError(f"{MCP} {name}: server {found.name!r}: {found.problem}")
        yield {"name": found.name, **found.entry}
