"""Builds what every use case starts from: configuration, models and tools of one workspace."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from vibe.app.engine.host import Host, one_deeper
from vibe.app.engine.settings import Settings
from vibe.core.agents.manager import AgentManager, load_agents
from vibe.core.agents.models import AgentProfile
from vibe.core.config.loader import ConfigRequest, GivenSettings, LoadedConfig, load_config, with_keyring
from vibe.core.config.models import BackendKind, ModelConfig, ProviderConfig, VibeConfig
from vibe.core.guidance import Guidance, load_guidance
from vibe.core.hooks.runner import Hook
from vibe.core.llm.factory import ModelCatalog
from vibe.core.llm.limiter import CallLimiter
from vibe.core.tools.base import ToolClass
from vibe.core.tools.discovery import ToolSources
from vibe.core.tools.gate import Approvals
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import Approver, Files
from vibe.core.tools.workspace import Workspace, bounds_of
from vibe.shell.sandbox.confinement import Confinement, check_paths, confines, remove_remains
from vibe.shell.sandbox.records import put_back_abandoned, records_of
from vibe.system.own_places import OwnPlaces

REPLAY = "replay"
"""The name of the provider and the model that stand for a demonstration's script."""
APPROVED_KEY = "approved"


class EngineRequest(Struct, frozen=True, kw_only=True):
    """The workspace and the command line settings that an engine is built for."""

    workdir: Path
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Values by dotted configuration key."""
    given: GivenSettings | None = None
    """Further settings of the run. None means those of its host."""
    agent: str | None = None
    """The profile that the user chose, which may set anything. Empty means the default one; None means no choice was
    made."""
    trust: bool = False
    replay: Path | None = None
    """A script that serves as the model."""
    slowed: float = 1.0
    """The factor by which the script's delays are lengthened."""
    snapshot: bool = False
    """True if the prompt is to show the workspace's files and git state, for an agent that a person talks to."""
    tools: tuple[ToolClass, ...] = ()
    """Tools that the program brings, for all agents."""
    hooks: tuple[Hook, ...] = ()
    """Hooks that the program brings. They run after those of files."""


class Engine(Struct, frozen=True, kw_only=True):
    """The parts that agents are built from."""

    request: EngineRequest
    loaded: LoadedConfig
    profile: AgentProfile | None
    """The agent that the request names."""
    models: ModelCatalog
    tools: ToolManager
    agents: AgentManager
    guidance: Guidance
    base_prompt: str
    confinement: Confinement
    approvals: Callable[[ApprovalMode, Approver | None], Approvals]
    """Makes a run's approvals from its mode and the user who can be asked (None if no user is there)."""
    warnings: tuple[str, ...]
    """Sentences for the user."""
    own_places: OwnPlaces
    """The places in a workspace that belong to vibe and not to the work."""

    @property
    def config(self) -> VibeConfig:
        """The merged configuration."""
        return self.loaded.config

    @property
    def chosen(self) -> AgentProfile:
        """The agent a person chose, or the default one."""
        return self.profile or self.agents.main(self.config.default_agent)

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment variables, with what the user's ``.env`` adds."""
        return self.loaded.environ

    async def aclose(self) -> None:
        """Close the connections and remove the temporary files at the end of the run."""
        await self.models.aclose()
        await to_thread.run_sync(self.confinement.close)

    def workspace(
        self,
        root: Path,
        *,
        extra_roots: tuple[Path, ...] = (),
        read_roots: tuple[Path, ...] = (),
        files: Files | None = None,
    ) -> Workspace:
        """Return the workspace of an agent in ``root``. Its tools have the same bounds as its commands.

        Without ``files``, it uses those on disk. Reads the file system.
        """
        bounds = bounds_of(self.confinement, self.environ)
        workspace = Workspace(
            root=root, extra_roots=extra_roots, read_roots=read_roots, bounds=bounds, own_places=self.own_places
        )
        return workspace if files is None else replace(workspace, files=files)


ALWAYS_KEPT = "planner.enable_persistence = false has no effect: plans are always kept, `vibe plan clean` removes them"


def build_engine(host: Host, request: EngineRequest, limiter_of: Callable[[str], CallLimiter] | None = None) -> Engine:
    """Load the configuration and build the parts from it. Reads files, so it must not run on an event loop.

    ``limiter_of`` returns the limiter of calls to a provider, by its name, for runs that share one.

    Raises:
        UsageError: the configuration, or something it names, is wrong.
    """
    put_back = put_back_abandoned(records_of(host.home))  # before any of these files is read
    request = replace(request, given=request.given or host.given)  # the processes of steps need to know them too
    config_request = ConfigRequest(
        home=host.home,
        workdir=request.workdir,
        environ=one_deeper(host.environ),
        flags=request.flags,
        given=request.given,
        trust_workdir=request.trust,
    )
    loaded = load_config(config_request)
    nested = loaded.nested_projects()
    agents = load_agents(loaded, nested)
    profile = None
    if request.agent is not None:
        with loaded.explaining():
            profile = agents.main(request.agent or loaded.config.default_agent)
        if profile.settings and profile.file is not None:
            settings = dataclasses.replace(profile.file, data=profile.settings)
            loaded = load_config(replace(config_request, agent=settings))
            agents = load_agents(loaded, nested)
    if request.replay is None:
        loaded = with_keyring(loaded)
    config = loaded.config if request.replay is None else _with_replay(loaded.config, request.replay, request.slowed)
    folders = tuple(folder / "tools" for folder in loaded.own_folders)
    sources = ToolSources(root=request.workdir, places=loaded.origins, folders=folders, program=request.tools)
    confinement = _confinement(host, loaded, request.workdir)
    with ThreadPoolExecutor(max_workers=2) as executor:
        # The one waits for git and the other for bwrap, so they run side by side.
        guided = executor.submit(load_guidance, loaded, nested, snapshot=request.snapshot)
        is_confined = executor.submit(confines, confinement)
        tools = ToolManager(replace(sources, is_sandboxed=is_confined.result), config)
        guidance = guided.result()
        guidance = replace(guidance, hooks=(*guidance.hooks, *request.hooks))
    return Engine(
        request=request,
        loaded=loaded,
        profile=profile,
        models=ModelCatalog(config, loaded.environ, limiter_of, host.retries, host.limiters),
        tools=guidance.tools(tools),
        agents=agents,
        guidance=guidance,
        base_prompt=guidance.library.load(config.system_prompt_id),
        confinement=confinement,
        approvals=partial(approvals_for, host, config, request.workdir),
        warnings=(
            *put_back.splitlines(),
            *loaded.warnings,
            *(() if config.planner.enable_persistence else (ALWAYS_KEPT,)),
            # With MCP servers, the warnings about tools are known once the servers are there: see tool_servers.
            *(() if any(server.in_use for server in config.mcp_servers) else tools.warnings),
            *agents.warnings,
            *guidance.warnings,
        ),
        own_places=host.own_places,
    )


def network_flags(*, on: bool) -> Mapping[str, Any]:
    """Return the settings that ``--network`` stands for."""
    return {"sandbox.network": "on"} if on else {}


def _confinement(host: Host, loaded: LoadedConfig, workdir: Path) -> Confinement:
    """Return the confinement of commands. If it is required and missing, that is an error at this point."""
    config = loaded.config
    check_paths(config.sandbox, workdir, loaded.origins)
    keys = [*(one.api_key_env_var for one in config.providers), *(one.api_key_env for one in config.mcp_servers)]
    confinement = Confinement(loaded.config.sandbox, loaded.environ, host.home, keys=keys)
    if confinement.required:
        confinement.choice()
    remove_remains(loaded.environ, workdir)  # here, since a run that confines no command would never do it
    return confinement


def _with_replay(config: VibeConfig, script: Path, slowed: float) -> VibeConfig:
    provider = ProviderConfig(name=REPLAY, backend=BackendKind.SCRIPTED, script=str(script), slowed=slowed)
    model = ModelConfig(name=REPLAY, provider=REPLAY)
    added = {"providers": (*config.providers, provider), "models": (*config.models, model), "active_model": REPLAY}
    return config.model_copy(update=added)


def approvals_for(
    host: Host, config: VibeConfig, workspace: Path, mode: ApprovalMode, approver: Approver | None
) -> Approvals:
    """Return the approvals of a run in ``workspace``, including those that the user's settings remember for it.

    Further ones that a person gives for good are written to the settings.
    """
    prefix = f"{workspace}: "

    def keep(keys: Sequence[str]) -> None:
        writer = Settings(host, workspace).writer(project=False, key=APPROVED_KEY)
        writer.add_to_list(APPROVED_KEY, *(prefix + key for key in keys))

    remembered = {entry.removeprefix(prefix) for entry in config.approved if entry.startswith(prefix)}
    return Approvals(mode, approver, remembered, keep)
