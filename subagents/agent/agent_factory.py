"""Assembles an AgentKit from what a run shares and what is one agent's own."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from subagents.agent.run_context import AgentContext
from vibe.core.agents.manager import AgentManager
from vibe.core.agents.models import AgentProfile
from vibe.core.guidance import AgentPrompt
from vibe.core.middleware.reminders import GuidanceNotices, todo_reminders
from vibe.core.session.folder import Transcript
from vibe.core.tools.background import BackgroundCommands
from vibe.core.tools.base import InvokeContext
from vibe.core.tools.executor import ToolExecutor
from vibe.core.tools.guidance import CallGuidance
from vibe.core.tools.hand_in import HandIn
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.ports import SubagentSpawner
from vibe.core.tools.workspace import ReadTracker
from vibe.core.turn import SUMMARY_PROMPT, AgentKit, AgentTraits

TASK_TOOL = "task"


class AgentState(Struct, frozen=True, kw_only=True):
    """One agent's state: its conversation, and what it leaves on disk and in the background."""

    agent_id: str = ""
    """The id under which its provider may know the conversation."""
    conversation: Transcript
    outputs: Path | None = None
    """The folder for tool outputs that are too long for the conversation."""
    subagents: Path | None = None
    """The folder for the folders of its subagents, or None if it starts none."""
    background: BackgroundCommands | None = None
    """Its background commands, or None if none of its commands may outlast its call."""
    reads: ReadTracker = field(default_factory=ReadTracker)
    """The files it has read already."""


class AgentParts(AgentTraits, frozen=True, kw_only=True):
    """The parts of an agent besides its context; see ``AgentKit`` for fields not explained here."""

    state: AgentState
    profile: AgentProfile | None
    taught: CallGuidance
    base_prompt: str | None = None
    """The beginning of its system prompt, or None for that of its profile or the run."""
    role: str = ""
    """The part of its prompt about its kind of work."""
    lean: bool = False
    """True to leave files and git out of its prompt."""
    subagents: SubagentSpawner | None = None
    """Starts its subagents; None if it has none."""


def agent_kit(context: AgentContext, own: AgentParts) -> AgentKit:
    """Return the kit that the agent works with. Reads files.

    Raises:
        UsageError: the profile's prompt can't be loaded.
    """
    traits = {name: getattr(own, name) for name in AgentTraits.__struct_fields__}
    traits["middleware"] = (*own.middleware, GuidanceNotices(own.taught))
    todo = todo_reminders(context.tools, own.state.conversation)
    return AgentKit(
        **traits,
        backend=context.models.backend(own.model),
        tools=_executor(context, own),
        offered=context.tools.schemas,
        notes=lambda: context.tools.visible.notes,
        system_prompt=_system_prompt(context, own),
        transcript=own.state.conversation,
        sink=context.sink,
        budget=context.account,
        session_id=own.state.agent_id,
        context_warnings=context.models.warns_of_context,
        reminders=lambda: (*todo(), *own.taught.reminders()),
        summarising=partial(context.guidance.library.load, SUMMARY_PROMPT),
    )


def with_hand_in(kit: AgentKit, context: AgentContext, own: AgentParts, hand_in: HandIn) -> AgentKit:
    """Return ``kit``, made from ``context`` and ``own``, for a prompt of the same conversation with a hand-in."""
    tools = context.tools.with_tool(hand_in.tool_class())
    executor = _executor(replace(context, tools=tools), own)
    return replace(kit, hand_in=hand_in, tools=executor, offered=tools.schemas, notes=lambda: tools.visible.notes)


def _executor(context: AgentContext, own: AgentParts) -> ToolExecutor:
    return ToolExecutor(
        tools=context.tools,
        context=InvokeContext(
            workspace=context.workspace,
            reads=own.state.reads,
            output_dir=own.state.outputs,
            environ=context.environ,
            agent_manager=context.agents,
            user_input_callback=context.user_input,
            subagents=own.subagents,
            commands=context.run.commands,
            background=own.state.background,
            confinement=context.run.confinement,
            network=context.network,
            sees_images=own.model.sees_images,
        ),
        approvals=context.approvals,
        sink=context.sink,
        guidance=own.taught,
        turns=context.run.turns,
    )


def _system_prompt(context: AgentContext, own: AgentParts) -> str:
    guidance = context.guidance
    return guidance.system_prompt(
        own.base_prompt or guidance.base_prompt(own.profile and own.profile.system_prompt_id, context.run.base_prompt),
        AgentPrompt(
            workspace=context.workspace.root,
            model=own.model.name,
            tool_prompts=tuple(context.tools.prompts().values()),
            subagents=_subagent_list(context.agents, context.tools),
            role=own.role,
            lean=own.lean,
        ),
    )


def _subagent_list(agents: AgentManager | None, tools: ToolManager) -> dict[str, str]:
    """Return the names and descriptions of the subagents that an agent with these tools can start."""
    if agents is None or TASK_TOOL not in tools.available:
        return {}
    return {profile.name: profile.description for profile in agents.subagents()}
