"""Names that a shell completes: those of plans, sessions, agents, models, providers and MCP servers there are here."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vibe.cli.environment import CliEnvironment
from vibe.core.config.paths import VibePaths

if TYPE_CHECKING:
    from vibe.core.config.loader import LoadedConfig

MOST = 100
_SAFE = re.compile(r"[\w.@:/+-]+", re.ASCII)
"""Shells expand the words they are given: a name with anything else in it is typed by hand."""


def names_of(kind: str, env: CliEnvironment) -> list[str]:
    """Return the names of a kind, the latest plans and sessions first."""
    return [name for name in dict.fromkeys(_KINDS[kind](env)) if _SAFE.fullmatch(name) and name[0] != "-"][:MOST]


def _plans(env: CliEnvironment) -> list[str]:
    found = _latest(VibePaths(env.home).plans)
    return [*found, "latest"] if found else []


def _sessions(env: CliEnvironment) -> list[str]:
    return _latest(VibePaths(env.home).sessions)


def _latest(folder: Path) -> list[str]:
    try:
        entries = [entry for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith(".")]
    except OSError:
        return []
    return [entry.name for entry in sorted(entries, key=lambda entry: entry.stat().st_mtime, reverse=True)]


def _agents(env: CliEnvironment) -> Iterable[str]:
    from vibe.app.engine.build import load_agents  # noqa: PLC0415  costs what plans and sessions do without
    from vibe.core.agents.profiles import AgentType  # noqa: PLC0415  as above

    profiles = load_agents(env.home, _loaded(env)).profiles.values()
    return (profile.name for profile in profiles if profile.agent_type is not AgentType.SUBAGENT)


def _models(env: CliEnvironment) -> Iterable[str]:
    return (model.key for model in _loaded(env).config.models)


def _providers(env: CliEnvironment) -> Iterable[str]:
    from vibe.core.config.presets import PRESETS  # noqa: PLC0415  as above

    return (*(provider.name for provider in _loaded(env).config.providers), *PRESETS)


def _servers(env: CliEnvironment) -> Iterable[str]:
    return (server.name for server in _loaded(env).config.mcp_servers)


def _loaded(env: CliEnvironment) -> LoadedConfig:
    from vibe.core.config.loader import ConfigRequest, load_config  # noqa: PLC0415  as above

    return load_config(ConfigRequest(home=env.home, workdir=env.cwd, environ=env.environ))


_KINDS: Mapping[str, Callable[[CliEnvironment], Iterable[str]]] = {
    "plans": _plans,
    "sessions": _sessions,
    "agents": _agents,
    "models": _models,
    "providers": _providers,
    "servers": _servers,
}
