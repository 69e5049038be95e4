"""Answers one prompt of a conversation, with the agent that is chosen at that time."""

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
from subagents.agent.agent_factory import AgentParts, AgentState, agent_kit, with_hand_in
from subagents.agent.budget import Account
from subagents.agent.run_context import AgentContext, RunContext
from subagents.agent.spawner import Spawner
from subagents.step_result import ENVIRONMENT_REASON, AgentUsage
from vibe.app.conversation.control import ConversationControl
from vibe.app.conversation.mentions import mentioned_images, with_mentioned_files, with_piped
from vibe.app.conversation.opening import NO_LIMITS, PromptLimits, PromptResult, Seat
from vibe.app.conversation.session import ChatSession
from vibe.app.conversation.setup import Setup
from vibe.app.engine.event_publishing import Publishing
from vibe.app.engine.host import Hold, Host
from vibe.app.engine.tool_servers import ToolServers
from vibe.core.agent_loop import ActResult, AgentLoop
from vibe.core.messages import Image, Outcome, total_of
from vibe.core.middleware.file_history import FileHistory
from vibe.core.session.write_turn import WriteTurn
from vibe.core.skills.command_files import NoSuchCommandError
from vibe.core.tools.background import BackgroundCommands
from vibe.core.tools.gate import Approvals
from vibe.core.tools.hand_in import PROPOSE_PLAN, HandIn
from vibe.core.tools.workspace import ReadTracker
from vibe.core.turn import AgentKit
from vibe.system.errors import EnvironmentFailure, UsageError


class ConversationParts(Struct, kw_only=True):
    """The parts of an open conversation. They end with it, as ``closing`` says.

    ``setup`` is the one in force; the other parts stay when the agent changes. ``ending`` is set to ask for the end,
    and ``ended`` once everything is closed, with the ``error`` that closing led to, if any.
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
    """An agent in a session, made from a setup."""

    setup: Setup
    kit: AgentKit
    context: AgentContext
    own: AgentParts
    spawner: Spawner
    outputs: Path

    @classmethod
    def make(
        cls, parts: ConversationParts, sink: EventSink, account: Account, approvals: Approvals, reads: ReadTracker
    ) -> ConversationAgent:
        """Return the agent of a conversation for its present setup and session. Reads files."""
        setup, session, seat = parts.setup, parts.session, parts.seat
        engine, messages = setup.engine, session.transcript.messages
        workspace = setup.workspace(session, seat.files)
        guidance = replace(engine.guidance, session_id=session.session_id)
        taught = guidance.for_agent(setup.opening.workdir, sink, engine.environ, conversation=messages)
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
            account=account,
            environ=engine.environ,
            agents=engine.agents,
            guidance=engine.guidance.for_subagents(taught),
            user_input=seat.user_input,
        )
        subagents_context = replace(context, tools=setup.tools.filtered(None, (PROPOSE_PLAN,)))
        spawner = setup.pool.below(session.session_id, subagents_context, session.folder.path / "subagents")
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
            fork=lambda restart: to_thread.run_sync(session.fork, restart),
            keeps_partial=True,
        )
        kit, outputs = agent_kit(context, own), session.folder.outputs
        return cls(setup=setup, kit=kit, context=context, own=own, spawner=spawner, outputs=outputs)

    def kit_for(self, hand_in: HandIn | None) -> AgentKit:
        """Return the kit for answering a prompt, with the duty to hand in a value if there is one. Reads files."""
        return self.kit if hand_in is None else with_hand_in(self.kit, self.context, self.own, hand_in)

    def as_sent(self, prompt: str, piped: bytes = b"", *, expand: bool = True) -> str:
        """Return a prompt with the command or skill it names, the piped input and the files it mentions filled in.

        Reads files, and keeps long piped input in one. Nothing in the piped input counts as a command or a mention;
        without ``expand``, nothing in the prompt does either.

        Raises:
            UsageError: there is no such command, or its file can't be used.
            EnvironmentFailure: the piped input can't be written to disk.
        """
        text = self.own.taught.skills.invoked(self.setup.engine.guidance.expand_command(prompt)) if expand else prompt
        full_text = with_piped(text, piped, self.outputs, self.kit.tools.masked)
        return with_mentioned_files(text, self.context.workspace, full_text) if expand else full_text

    def attached_images(self, prompt: str) -> tuple[Image, ...]:
        """Return the image files that a prompt mentions. If the model sees no images, warn and return none.

        Raises:
            UsageError: an image is larger than models take.
        """
        images = mentioned_images(prompt, self.context.workspace)
        if images and not self.setup.model.sees_images:
            note = f"{', '.join(images)}: not attached, as {self.setup.model.key} sees no images (sees_images = false)"
            self.kit.sink.publish(WarningEvent(code="images", message=note))
            return ()
        return tuple(images.values())


class Prompt(Struct, frozen=True, kw_only=True):
    """A prompt and how far to go for it. A blank text without images continues where the conversation was cut off.

    ``piped`` is data that came with it on standard input. ``hand_in`` is the value that the answer must have.
    """

    text: str
    images: tuple[Image, ...] = ()
    limits: PromptLimits = NO_LIMITS
    piped: bytes = b""
    hand_in: HandIn | None = None
    expand: bool = True
    """True if a command or skill at its beginning, and the files it mentions, are to be filled in."""


class Answering:
    """The work on one prompt, charged to ``account``. Its time starts now."""

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
        """Send a message to the agent; return False if the agent has not begun or has ended."""
        return self._loop is not None and self._loop.steer(text, by)

    def interrupt(self) -> None:
        """Stop at once."""
        self._scope.cancel()

    async def answer(self, make_agent: Callable[[], Awaitable[ConversationAgent]]) -> PromptResult:
        """Have the agent that ``make_agent`` returns do the work, and return how it ended.

        Raises:
            UsageError: there is nothing to continue from, or no such slash command. Nothing was said to the agent.
        """
        acted: ActResult | None = None
        agent, spawned_before = None, 0
        try:
            with self._scope:
                agent = await make_agent()
                spawned_before = len(agent.spawner.started)
                acted = await self._act(agent)
        except EnvironmentFailure as error:  # a server is missing, or the conversation can no longer be saved
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
        prompt, transcript = self._prompt, self._transcript
        try:
            sent = await to_thread.run_sync(partial(agent.as_sent, prompt.text, prompt.piped, expand=prompt.expand))
        except NoSuchCommandError:
            text = await self._servers.prompted(prompt.text[1:])
            if text is None:
                raise
            sent = await to_thread.run_sync(agent.as_sent, text, prompt.piped)
        images = prompt.images
        is_new = bool(sent.strip() or images)
        if not is_new and not transcript.messages:
            raise UsageError("the session has no message to continue from: give a prompt")
        if prompt.expand:
            images += await to_thread.run_sync(agent.attached_images, prompt.text)
        kit = await to_thread.run_sync(agent.kit_for, prompt.hand_in)
        loop = self._loop = AgentLoop(kit, turns_before=transcript.turns)
        async with agent.setup.engine.confinement.at_work():
            return await (loop.act(sent, images=images) if is_new else loop.resume())
        raise AssertionError("at_work() suppresses no exception")  # tells the type checker that this is never reached

    def _cut_short(self) -> ActResult:
        """Return the result of a prompt that was interrupted or ran out of time."""
        if self._loop is not None:
            self._transcript.close_dangling_calls()
        limit = self._prompt.limits.time_limit
        if limit is None or self._scope.deadline > anyio.current_time():
            return self._so_far()
        message = f"the time limit of {limit:g} s is reached"
        return replace(self._so_far(), outcome=Outcome.LIMIT, reason="timeout", detail=message)

    def _so_far(self) -> ActResult:
        if self._loop is not None:
            return self._loop.interrupted()
        return ActResult(outcome=Outcome.INTERRUPTED, reason="stopped", detail="stopped before the end")

    def _own_usage(self, spawned: Sequence[AgentUsage]) -> AgentUsage:
        """Return what the agent itself used, without the agents it started."""
        theirs, cost = total_of(spawned), self._account.cost_usd
        own_cost = None if cost is None or theirs.cost_usd is None else cost - theirs.cost_usd
        return AgentUsage(agent_id="", usage=self._account.usage - theirs.usage, cost_usd=own_cost)
