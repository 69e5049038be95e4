"""AgentKit, assembled: the one place where what a run shares and what is one agent's own come together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ipc.sink import EventSink
from subagents.budget import Account
from subagents.surroundings import Surroundings
from vibe.core.agents.manager import AgentManager
from vibe.core.agents.profiles import AgentProfile
from vibe.core.config.models import ModelConfig
from vibe.core.guidance import AgentGuidance, AgentPrompt
from vibe.core.middleware.compactor import SUMMARY_PROMPT, Fork, in_place
from vibe.core.middleware.port import Middleware
from vibe.core.middleware.reminders import todo_reminders
from vibe.core.middleware.taught import taught_reminders
from vibe.core.session.transcript import Transcript
from vibe.core.tools.background import BackgroundCommands
from vibe.core.tools.executor import Callbacks, ToolExecutor
from vibe.core.tools.hand_in import HandIn
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.ports import SubagentSpawner
from vibe.core.turn import AgentKit

TASK_TOOL = "task"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """What is one agent's own.

    ``conversation_id`` is what its provider may know it by. ``tools`` is its view, with what only it has; ``role`` is what its prompt says of its kind of work, and a ``lean``
    prompt tells nothing of files and git. ``outputs`` keeps tool outputs that are too long for the conversation.
    ``subagents`` None: it starts none; ``background`` None: no command of it runs on after its call. ``middleware``
    comes before what it was taught; see ``AgentKit`` for the rest.
    """

    model: ModelConfig
    profile: AgentProfile | None
    tools: ToolManager
    taught: AgentGuidance
    transcript: Transcript
    sink: EventSink
    account: Account
    caller: str = "main"
    conversation_id: str = ""
    role: str = ""
    lean: bool = False
    outputs: Path | None = None
    subagents: SubagentSpawner | None = None
    background: BackgroundCommands | None = None
    middleware: tuple[Middleware, ...] = ()
    fork: Fork = in_place
    hand_in: HandIn | None = None


def agent_kit(around: Surroundings, own: AgentParts) -> AgentKit:
    """What the agent works with; reads files.

    Raises:
        UsageError: the profile's prompt can't be had.
    """
    return AgentKit(
        model=own.model,
        backend=around.models.backend(own.model),
        tools=_executor(around, own),
        schemas=own.tools.schemas(),
        offered=own.tools.schemas,
        system_prompt=_system_prompt(around, own),
        transcript=own.transcript,
        sink=own.sink,
        budget=own.account,
        caller=own.caller,
        session_id=own.conversation_id,
        context_warnings=around.models.warns_of_context,
        middleware=(*own.middleware, *own.taught.middleware),
        reminders=taught_reminders(own.taught.calls, todo_reminders(own.tools, own.transcript)),
        fork=own.fork,
        summarising=partial(around.guidance.library.load, SUMMARY_PROMPT),
        hand_in=own.hand_in,
    )


def _executor(around: Surroundings, own: AgentParts) -> ToolExecutor:
    return ToolExecutor(
        tools=own.tools,
        workspace=around.workspace,
        approvals=around.approvals,
        sink=own.sink,
        output_dir=own.outputs,
        environ=around.environ,
        callbacks=Callbacks(
            user_input=around.user_input,
            confinement=around.confinement,
            network=around.network,
            sees_images=own.model.sees_images,
            agent_manager=around.agents,
            subagents=own.subagents,
            background=own.background,
            guidance=own.taught.calls,
        ),
    )


def _system_prompt(around: Surroundings, own: AgentParts) -> str:
    guidance = around.guidance
    return guidance.system_prompt(
        guidance.base_prompt(own.profile and own.profile.system_prompt_id, around.base_prompt),
        AgentPrompt(
            workspace=around.workspace.root,
            model=own.model.name,
            tool_prompts=tuple(own.tools.prompts().values()),
            subagents=_subagent_list(around.agents, own.tools),
            role=own.role,
            lean=own.lean,
        ),
    )


def _subagent_list(agents: AgentManager | None, tools: ToolManager) -> dict[str, str]:
    """Name and description of the subagents an agent with these tools can start; none if it can start none."""
    if agents is None or TASK_TOOL not in tools.available:
        return {}
    return {profile.name: profile.description for profile in agents.subagents()}
