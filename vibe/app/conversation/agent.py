"""ConversationAgent: the agent that answers in a conversation until another is chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ipc.events import WarningEvent
from ipc.sink import EventSink
from subagents.agent.agent_factory import AgentParts, AgentState, agent_kit
from subagents.agent.budget import Account
from subagents.agent.run_context import AgentContext, RunContext
from subagents.agent.spawner import Spawner, SpawnPool
from vibe.app.conversation.mentions import mentioned_images, with_mentioned_files
from vibe.app.conversation.opening import Seat
from vibe.app.conversation.session import ChatSession
from vibe.app.conversation.setup import Setup
from vibe.app.engine.piped import with_piped
from vibe.core.guidance import AgentPlace
from vibe.core.messages import Image
from vibe.core.session.write_turn import WriteTurn
from vibe.core.tools.approvals import Approvals
from vibe.core.tools.background import BackgroundCommands
from vibe.core.tools.files.text_files import FileAccessError
from vibe.core.tools.guidance import CallGuidance
from vibe.core.tools.workspace import ReadTracker, Workspace
from vibe.core.turn import AgentKit
from vibe.system.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Belongings:
    """The parts of a conversation that stay when its agent goes."""

    sink: EventSink
    account: Account
    approvals: Approvals
    pool: SpawnPool
    reads: ReadTracker
    background: BackgroundCommands
    turn: WriteTurn
    seat: Seat


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationAgent:
    """An agent in a session."""

    setup: Setup
    kit: AgentKit
    spawner: Spawner
    taught: CallGuidance
    workspace: Workspace
    outputs: Path

    @classmethod
    def make(cls, setup: Setup, session: ChatSession, belongings: Belongings) -> ConversationAgent:
        """Return the agent of a setup, in the session as it is now; reads files."""
        engine, seat = setup.engine, belongings.seat
        workspace = setup.workspace(session, seat.files)
        place = AgentPlace(
            root=setup.opening.workdir,
            sink=belongings.sink,
            environ=engine.environ,
            conversation=session.transcript.messages,
        )
        taught = replace(engine.guidance, session_id=session.session_id).for_agent(place)
        taught.profile, taught.refused = setup.profile.name, setup.refused
        context = AgentContext(
            run=RunContext(
                base_prompt=engine.base_prompt,
                confinement=engine.confinement,
                commands=seat.commands,
                turns=belongings.turn.held,
            ),
            models=engine.models,
            default_model=setup.model.key,
            tools=setup.tools,
            workspace=workspace,
            approvals=belongings.approvals,
            sink=belongings.sink,
            account=belongings.account,
            environ=engine.environ,
            agents=engine.agents,
            guidance=engine.guidance.below(taught),
            user_input=seat.user_input,
        )
        spawner = belongings.pool.below(session.session_id, context, session.folder.path / "subagents")
        kit = agent_kit(
            context,
            AgentParts(
                state=AgentState(
                    agent_id=session.session_id,
                    conversation=session.transcript,
                    outputs=session.folder.outputs,
                    background=belongings.background,
                    reads=belongings.reads,
                ),
                model=setup.model,
                profile=setup.profile,
                taught=taught,
                subagents=spawner,
                middleware=setup.middleware(session, belongings.turn),
                fork=session.fork,
                keeps_partial=True,
            ),
        )
        return cls(
            setup=setup, kit=kit, spawner=spawner, taught=taught, workspace=workspace, outputs=session.folder.outputs
        )

    def told(self, prompt: str, piped: bytes = b"") -> str:
        """Return the prompt with the command or skill it names, what was piped in, and the files it mentions.

        Reads files, and keeps what was piped in if that is long. Nothing in it is a command or a mention.

        Raises:
            UsageError: there is no such command, or its file can't be used.
            EnvironmentFailure: the disk refuses what was piped in.
        """
        started = self.setup.engine.guidance.started(prompt)
        text = self.taught.prompt(started)
        return with_mentioned_files(text, self.workspace, with_piped(text, piped, self.outputs))

    def pictures(self, prompt: str) -> tuple[Image, ...]:
        """Return the picture files that a prompt mentions; a model that sees none gets none, and that is said.

        Raises:
            UsageError: one is larger than models take.
        """
        try:
            images = mentioned_images(prompt, self.workspace)
        except FileAccessError as error:
            raise UsageError(str(error)) from error
        if images and not self.setup.model.sees_images:
            said = f"{', '.join(images)}: not attached, as {self.setup.model.key} sees no images (sees_images = false)"
            self.kit.sink.publish(WarningEvent(code="images", message=said))
            return ()
        return tuple(images.values())
