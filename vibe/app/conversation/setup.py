"""Setup: the engine, agent, model and tools chosen for a conversation. A change makes a new one."""

from __future__ import annotations

from msgspec import Struct

from subagents.agent.spawner import SpawnPool
from vibe.app.conversation.opening import Opening, Seat
from vibe.app.conversation.session import ChatSession
from vibe.app.engine.build import Engine, EngineRequest, build_engine
from vibe.app.engine.host import Host
from vibe.core.agents.models import AgentProfile, AgentSafety
from vibe.core.config.models import ModelConfig
from vibe.core.skills.command_files import NoSuchCommandError
from vibe.core.tools.base import ToolClass
from vibe.core.tools.executor import unreadable_globs
from vibe.core.tools.hand_in import PROPOSE_PLAN
from vibe.core.tools.manager import ToolManager, observing, profile_view, unattended
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import Files
from vibe.core.tools.workspace import Workspace
from vibe.system.errors import MissingKeyError, explained_by

PROPOSES = (
    "If a request has several parts that do not depend on one another, propose a plan with propose_plan before you "
    "change anything: read first what the parts touch. The user decides whether agents do them side by side."
)


class Setup(Struct, frozen=True, kw_only=True):
    """The engine of a conversation, and what was chosen for it."""

    opening: Opening
    engine: Engine
    profile: AgentProfile
    model: ModelConfig
    tools: ToolManager
    pool: SpawnPool
    """The pool of its subagents."""
    writes: bool
    """True if its tools can change anything."""
    missing_key: MissingKeyError | None = None
    """Set while the model has no key, if the opening allows that."""

    @property
    def role(self) -> str:
        """The part of the agent's prompt about proposing plans; empty if the agent should not suggest any."""
        may_suggest = self.engine.config.planner.suggest == "auto" and PROPOSE_PLAN in self.tools.available
        return PROPOSES if may_suggest else ""

    @property
    def approval_mode(self) -> ApprovalMode:
        """The mode that was asked for, else the configured one."""
        if self.opening.approvals is not None:
            return self.opening.approvals
        unasked = self.engine.config.auto_approve or self.profile.auto_approve
        return ApprovalMode.ALL if unasked else ApprovalMode.ASK

    def workspace(self, session: ChatSession, files: Files | None) -> Workspace:
        """Return the agent's workspace, with the given ``files`` or those on disk. Reads the file system."""
        opening = self.opening
        return self.engine.workspace(
            opening.workdir, extra_roots=opening.extra_roots, read_roots=session.earlier_outputs, files=files
        ).without_reading(unreadable_globs(self.engine.tools))

    @property
    def refused(self) -> frozenset[str]:
        """The tools that the agent is denied because it is meant only to read."""
        if self.writes or not (self.opening.observe or self.profile.safety is AgentSafety.SAFE):
            return frozenset()
        available, own = self.engine.tools.available, self.tools.available
        return frozenset(name for name, tool in available.items() if name not in own and not tool.read_only)


def set_up(host: Host, opening: Opening, seat: Seat) -> Setup:
    """Choose the engine, agent, model and tools for a conversation, and check that they fit together. Reads files.

    Raises:
        UsageError: a flag, the agent, the model, the prompt or the configuration is wrong.
        EnvironmentFailure: a key is missing.
    """
    request = EngineRequest(
        workdir=opening.workdir,
        flags=opening.flags,
        agent=opening.agent or "",
        trust=opening.trust,
        snapshot=True,
        tools=opening.tools,
        hooks=opening.hooks,
    )
    engine = build_engine(host.beside(opening.extra_roots), request)
    profile = engine.chosen
    given = host.given.values.get("active_model") if host.given else None
    models, missing_key, alias = engine.models, None, opening.model or given or profile.model
    with explained_by(engine.warnings):
        model = models.resolve_priced(alias) if opening.priced else models.resolve(alias)
        try:
            models.backend(model)
        except MissingKeyError as error:
            if not opening.key_may_come_later:
                raise
            missing_key = error
        try:
            engine.guidance.expand_command(opening.prompt)  # raises now if the command or prompt it names is missing
        except NoSuchCommandError as error:
            servers = {one.name for one in (*engine.config.mcp_servers, *opening.servers)}
            if not any(error.name.startswith(f"{name}:") for name in servers):  # its prompts are known only later
                raise
        engine.guidance.base_prompt(profile.system_prompt_id, engine.base_prompt)
    if opening.thinking is not None:
        model = model.model_copy(update={"thinking": opening.thinking})
    given = engine.tools if model.plans_at_once else with_proposing(engine, seat.proposing)
    tools = profile_view(given, profile, may_widen=True)
    if seat.user_input is None:
        tools = unattended(tools)
    if opening.observe:
        tools = observing(tools)
    writes = not opening.observe and not all(tool.read_only for tool in tools.available.values())
    return Setup(
        opening=opening,
        engine=engine,
        profile=profile,
        model=model,
        tools=tools,
        pool=SpawnPool(engine.agents, engine.config.subagents),
        writes=writes,
        missing_key=missing_key,
    )


def with_proposing(engine: Engine, tool: ToolClass | None) -> ToolManager:
    """Return the tools, with the tool for proposing plans if there is one and the settings allow it."""
    config = engine.config
    if tool is None or not config.planner.enabled or config.planner.suggest == "never":
        return engine.tools
    enabled = config.enabled_tools
    left_out = config.denied_tools if enabled else (*config.disabled_tools, *config.denied_tools)
    return engine.tools.with_tool(tool).filtered(enabled or None, left_out)
