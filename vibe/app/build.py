"""Builds what every use case starts from: configuration, models and tools of one workspace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vibe.app.host import Host
from vibe.core.config.loader import ConfigRequest, LoadedConfig, load_config
from vibe.core.config.models import BackendKind, ModelConfig, ProviderConfig, VibeConfig
from vibe.core.config.paths import VibePaths
from vibe.core.llm.factory import ModelCatalog
from vibe.core.system_prompt import load_base_prompt
from vibe.core.tools.manager import ToolManager, ToolSources

REPLAY = "replay"
"""The name of the provider and the model that a demonstration's script stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRequest:
    """``flags`` are dotted configuration keys from the command line; ``replay`` is a script that serves as the model."""

    workdir: Path
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])
    trust: bool = False
    replay: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The parts agents are made of. ``warnings`` are sentences for the user."""

    loaded: LoadedConfig
    models: ModelCatalog
    tools: ToolManager
    base_prompt: str
    warnings: tuple[str, ...]

    @property
    def config(self) -> VibeConfig:
        """The merged configuration."""
        return self.loaded.config

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables, with what the user's ``.env`` adds."""
        return self.loaded.environ


def build_engine(host: Host, request: EngineRequest) -> Engine:
    """Load the configuration and build the parts from it; reads files, so not on an event loop.

    Raises:
        UsageError: the configuration, or what it names, is wrong.
    """
    loaded = load_config(
        ConfigRequest(
            home=host.home,
            workdir=request.workdir,
            environ=host.environ,
            flags=request.flags,
            trust_workdir=request.trust,
        )
    )
    config = loaded.config if request.replay is None else _with_replay(loaded.config, request.replay)
    sources = ToolSources(
        root=request.workdir,
        project_tools=loaded.project_dir / "tools" if loaded.project_dir else None,
        user_tools=VibePaths(host.home).tools,
    )
    tools = ToolManager(sources, config)
    return Engine(
        loaded=loaded,
        models=ModelCatalog(config, loaded.environ),
        tools=tools,
        base_prompt=load_base_prompt(),
        warnings=(*loaded.warnings, *(warning.message for warning in tools.warnings)),
    )


def _with_replay(config: VibeConfig, script: Path) -> VibeConfig:
    provider = ProviderConfig(name=REPLAY, backend=BackendKind.SCRIPTED, script=str(script))
    model = ModelConfig(name=REPLAY, provider=REPLAY)
    return config.model_copy(
        update={
            "providers": (*config.providers, provider),
            "models": (*config.models, model),
            "active_model": REPLAY,
        }
    )
