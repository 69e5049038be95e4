"""Answering: one prompt at work in a conversation, by the agent that answers there until another is chosen."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import anyio
from anyio import CancelScope, to_thread
from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from ipc.events import WarningEvent
from ipc.sink import EventSink
from subagents.agent.agent_factory import AgentParts, AgentState, agent_kit, with_duty
from subagents.agent.budget import Account
from subagents.agent.run_context import AgentContext, RunContext
from subagents.agent.spawner import Spawner
from subagents.step_result import ENVIRONMENT_REASON, AgentUsage
from vibe.app.conversation.control import ConversationControl
from vibe.app.conversation.mentions import mentioned_images, with_mentioned_files, with_piped
from vibe.app.conversation.opening import NO_LIMITS, PromptLimits, PromptResult, Seat
from vibe.app.conversation.session import ChatSession
from vibe.app.conversation.setup import Setup
from vibe.app.engine.build import PROPOSE_PLAN
from vibe.app.engine.event_publishing import Publishing
from vibe.app.engine.host import Hold, Host
from vibe.app.engine.tool_servers import ToolServers
from vibe.core.agent_loop import ActResult, AgentLoop
from vibe.core.guidance import AgentPlace
from vibe.core.messages import Image, Outcome, total_of
from vibe.core.middleware.file_history import FileHistory
from vibe.core.session.write_turn import WriteTurn
from vibe.core.skills.command_files import NoSuchCommandError
from vibe.core.tools.background import BackgroundCommands
from vibe.core.tools.files.text_files import FileAccessError
from vibe.core.tools.gate import Approvals
from vibe.core.tools.hand_in import HandIn
from vibe.core.tools.workspace import ReadTracker
from vibe.core.turn import AgentKit
from vibe.system.errors import EnvironmentFailure, UsageError


class ConversationParts(Struct, kw_only=True):
    """The parts of an open conversation, which end with it, as ``closing`` says.

    ``setup`` is the one in force; the other parts stay when the agent goes. ``ending`` is set to ask for the end;
    ``ended`` once all is closed, with the ``error`` that this came to.
    """

    host: Host
    seat: Seat
    setup: Setup
    session: ChatSession
    channel: Publishing
    servers: ToolServers
    background: BackgroundCommands
    control: ConversationControl
    closing: AsyncExitStack
    hold: Hold
    turn: WriteTurn
    ending: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    error: Exception | None = None


class ConversationAgent(Struct, frozen=True, kw_only=True):
    """An agent in a session."""

    setup: Setup
    kit: AgentKit
    context: AgentContext
    own: AgentParts
    spawner: Spawner
    outputs: Path

    @classmethod
    def make(
        cls, parts: ConversationParts, sink: EventSink, paid: Account, approvals: Approvals, reads: ReadTracker
    ) -> ConversationAgent:
        """Return the agent of a conversation as it is set up, in the session as it is now; reads files."""
        setup, session, seat = parts.setup, parts.session, parts.seat
        engine, messages = setup.engine, session.transcript.messages
        workspace = setup.workspace(session, seat.files)
        place = AgentPlace(root=setup.opening.workdir, sink=sink, environ=engine.environ, conversation=messages)
        taught = replace(engine.guidance, session_id=session.session_id).for_agent(place)
        taught.profile, taught.refused = setup.profile.name, setup.refused
        context = AgentContext(
            run=RunContext(
                base_prompt=engine.base_prompt,
                confinement=engine.confinement,
                commands=seat.commands,
                turns=parts.turn.held,
            ),
            models=engine.models,
            default_model=setup.model.key,
            tools=setup.tools,
            workspace=workspace,
            approvals=approvals,
            sink=sink,
            account=paid,
            environ=engine.environ,
            agents=engine.agents,
            guidance=engine.guidance.below(taught),
            user_input=seat.user_input,
        )
        theirs = replace(context, tools=setup.tools.filtered(None, (PROPOSE_PLAN,)))
        spawner = setup.pool.below(session.session_id, theirs, session.folder.path / "subagents")
        history = FileHistory(partial(session.snapshots, engine.environ, engine.own_places), parts.turn)
        own = AgentParts(
            state=AgentState(
                agent_id=session.session_id,
                conversation=session.transcript,
                outputs=session.folder.outputs,
                background=parts.background,
                reads=reads,
            ),
            model=setup.model,
            profile=setup.profile,
            taught=taught,
            role=setup.role,
            subagents=spawner,
            middleware=(history,) if setup.writes else (),
            fork=session.fork,
            keeps_partial=True,
        )
        kit, outputs = agent_kit(context, own), session.folder.outputs
        return cls(setup=setup, kit=kit, context=context, own=own, spawner=spawner, outputs=outputs)

    def kit_for(self, hand_in: HandIn | None) -> AgentKit:
        """Return what it answers a prompt with; reads files."""
        return self.kit if hand_in is None else with_duty(self.kit, self.context, self.own, hand_in)

    def told(self, prompt: str, piped: bytes = b"", *, expand: bool = True) -> str:
        """Return the prompt with the command or skill it names, what was piped in, and the files it mentions.

        Reads files, and keeps what was piped in if that is long. Nothing in that is a command or a mention, and without
        ``expand`` nothing in the prompt.

        Raises:
            UsageError: there is no such command, or its file can't be used.
            EnvironmentFailure: the disk refuses what was piped in.
        """
        text = self.own.taught.prompt(self.setup.engine.guidance.started(prompt)) if expand else prompt
        told = with_piped(text, piped, self.outputs, self.kit.tools.masked)
        return with_mentioned_files(text, self.context.workspace, told) if expand else told

    def pictures(self, prompt: str) -> tuple[Image, ...]:
        """Return the picture files that a prompt mentions; a model that sees none gets none, and that is said.

        Raises:
            UsageError: one is larger than models take.
        """
        try:
            images = mentioned_images(prompt, self.context.workspace)
        except FileAccessError as error:
            raise UsageError(str(error)) from error
        if images and not self.setup.model.sees_images:
            said = f"{', '.join(images)}: not attached, as {self.setup.model.key} sees no images (sees_images = false)"
            self.kit.sink.publish(WarningEvent(code="images", message=said))
            return ()
        return tuple(images.values())


class Prompt(Struct, frozen=True, kw_only=True):
    """A prompt and how far to go for it; an empty text goes on where the conversation was cut off.

    ``piped`` is data that came with it on standard input. ``hand_in`` is the value it wants for an answer.
    """

    text: str
    images: tuple[Image, ...] = ()
    limits: PromptLimits = NO_LIMITS
    piped: bytes = b""
    hand_in: HandIn | None = None
    expand: bool = True
    """A command or skill that it begins with, and the files it mentions, are put into it."""


class Answering:
    """The work on one prompt, charged to ``account``; its time runs from here on."""

    def __init__(self, prompt: Prompt, parts: ConversationParts, account: Account) -> None:
        limits = prompt.limits
        self._prompt = prompt
        self._servers = parts.servers
        self._transcript = parts.session.transcript
        self._account = account
        self._started = time.monotonic()
        self._scope = CancelScope(deadline=anyio.current_time() + (limits.time_limit or float("inf")))
        self._loop: AgentLoop | None = None
        account.renew(limits)

    def steer(self, text: str, by: str = "") -> bool:
        """Send a message to the agent; False: it has not begun, or has ended."""
        return self._loop is not None and self._loop.steer(text, by)

    def interrupt(self) -> None:
        """Stop at once."""
        self._scope.cancel()

    async def answer(self, make_agent: Callable[[], Awaitable[ConversationAgent]]) -> PromptResult:
        """Return the end of the work, which is left to the agent that ``make_agent`` gives.

        Raises:
            UsageError: there is nothing to go on from, or no such slash command; nothing was said.
        """
        acted: ActResult | None = None
        agent, spawned_before = None, 0
        try:
            with self._scope:
                agent = await make_agent()
                spawned_before = len(agent.spawner.started)
                acted = await self._act(agent)
        except EnvironmentFailure as error:  # a server is missing, or the conversation can't be written down any more
            acted = replace(self._so_far(), outcome=Outcome.FAILED, reason=ENVIRONMENT_REASON, detail=str(error))
        if acted is None:
            acted = self._cut_short()
        spawned = agent.spawner.started[spawned_before:] if agent else ()
        return PromptResult(
            acted=acted,
            usage=self._account.usage,
            cost_usd=self._account.cost_usd,
            duration_s=time.monotonic() - self._started,
            agents=(self._own_usage(spawned), *spawned),
            value=UNSET if self._prompt.hand_in is None else acted.output,
        )

    async def _act(self, agent: ConversationAgent) -> ActResult:
        prompt, before = self._prompt, self._transcript
        try:
            told = await to_thread.run_sync(partial(agent.told, prompt.text, prompt.piped, expand=prompt.expand))
        except NoSuchCommandError:
            text = await self._servers.prompted(prompt.text[1:])
            if text is None:
                raise
            told = await to_thread.run_sync(agent.told, text, prompt.piped)
        if not told and not before.messages:
            raise UsageError("the session has no message to continue from: give a prompt")
        images = prompt.images
        if prompt.expand:
            images += await to_thread.run_sync(agent.pictures, prompt.text)
        kit = await to_thread.run_sync(agent.kit_for, prompt.hand_in)
        loop = self._loop = AgentLoop(kit, max_turns=prompt.limits.max_turns, turns_before=before.turns)
        async with agent.setup.engine.confinement.at_work():
            return await (loop.act(told, images=images) if told else loop.resume())
        raise AssertionError("nothing in there is swallowed")  # for the type checker

    def _cut_short(self) -> ActResult:
        """Return what a prompt came to that was interrupted or ran out of time."""
        if self._loop is not None:
            self._transcript.close_dangling_calls()
        limit = self._prompt.limits.time_limit
        if limit is None or self._scope.deadline > anyio.current_time():
            return self._so_far()
        said = f"the time limit of {limit:g} s is reached"
        return replace(self._so_far(), outcome=Outcome.LIMIT, reason="timeout", detail=said)

    def _so_far(self) -> ActResult:
        if self._loop is not None:
            return self._loop.interrupted()
        before = self._transcript
        return ActResult(
            outcome=Outcome.INTERRUPTED,
            reason="stopped",
            detail="stopped before the end",
            usage=before.usage,
            cost_usd=before.cost_usd,
            turns=before.turns,
        )

    def _own_usage(self, spawned: Sequence[AgentUsage]) -> AgentUsage:
        """Return what the agent itself took, without those it started."""
        theirs, cost = total_of(spawned), self._account.cost_usd
        own_cost = None if cost is None or theirs.cost_usd is None else cost - theirs.cost_usd
        return AgentUsage(agent_id="", usage=self._account.usage - theirs.usage, cost_usd=own_cost)
