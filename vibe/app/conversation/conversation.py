"""Conversation: one session of an agent, over many prompts."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from uuid import uuid4

import anyio
from msgspec import structs

from ipc import events as e
from ipc.sink import TaggingSink
from subagents.agent.budget import Account, Limits
from vibe import __version__
from vibe.app.conversation.answering import Answering, ConversationAgent, ConversationParts, Prompt
from vibe.app.conversation.opening import NO_LIMITS, TITLE_LENGTH, AgentChange, PromptLimits, PromptResult
from vibe.app.conversation.setup import Setup, set_up
from vibe.app.conversation.user_shell import as_message, run_for_user
from vibe.core.agent_loop import ActResult, AgentLoop
from vibe.core.messages import Image, Message, Outcome, UserMessage
from vibe.core.middleware.port import HOST_NOTICE
from vibe.core.session.rewind import RewindReport
from vibe.core.session.write_turn import waits_told
from vibe.core.told_files import split_files
from vibe.core.tools.hand_in import HandIn
from vibe.core.tools.workspace import ReadTracker
from vibe.shell.process.port import CommandResult
from vibe.system.errors import UsageError, VibeError
from vibe.system.racing import shielded
from vibe.system.redaction import Mask

PROMPT_ACCOUNT = "this run"
TAKEN_BACK = "the user has put these files back to what they were before your changes:"


class BusyError(UsageError):
    """Raised because a conversation answers only one prompt at a time."""

    def __init__(self) -> None:
        super().__init__("the agent is working: wait for its answer, steer it or interrupt it")


class Conversation:
    """One session of an agent. ``Runtime.open_conversation`` opens it.

    Transcript, account, approvals, read files, the tools' states and background commands last from prompt to prompt,
    whichever agent or model answers. ``account`` counts all its prompts. ``approvals`` says how far the agents may go
    unasked. Events go through ``channel``, and ``commands`` carries out what others ask of it. ``session`` is what is
    saved, and ``servers`` are its MCP servers. ``conversation_id`` never changes.
    """

    def __init__(self, parts: ConversationParts) -> None:
        self._parts = parts
        self.session, self.channel, self.servers = parts.session, parts.channel, parts.servers
        self.background, self.commands = parts.background, parts.control.router
        self.conversation_id = parts.session.session_id
        self._sink = TaggingSink(
            parts.channel.sink, session_id=lambda: self.session.session_id, conversation_id=self.conversation_id
        )
        self.approvals = parts.setup.engine.approvals(parts.setup.approval_mode, parts.seat.approver)
        self.approvals.writers = partial(parts.host.workspaces.writing_beside, parts.hold)
        self.account = Account("this conversation", Limits())
        self._prompt_account = self.account.open(PROMPT_ACCOUNT, Limits())
        self._reads = ReadTracker()
        self._agent: ConversationAgent | None = None
        self._answering: Answering | None = None
        self._reported_weakness = ""
        self._occupation: anyio.CancelScope | None = None
        self._idle = anyio.Event()
        self._is_closing = False
        parts.control.serve(interrupt=self.interrupt, steer=self.steer, session_id=lambda: self.session_id)
        self._announce()

    @property
    def session_id(self) -> str:
        """The session's id at present. Compacting, clearing, rewinding and forking continue in another session."""
        return self.session.session_id

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation so far, as the model knows it."""
        return self.session.transcript.messages

    @property
    def setup(self) -> Setup:
        """The agent, model and tools in force from the next prompt on."""
        return self._parts.setup

    @property
    def is_busy(self) -> bool:
        """True while a prompt is being answered, or another operation is under way."""
        return self._answering is not None or self._occupation is not None

    async def send(  # noqa: PLR0913  all but the prompt are keywords
        self,
        prompt: str,
        *,
        images: tuple[Image, ...] = (),
        limits: PromptLimits = NO_LIMITS,
        piped: bytes = b"",
        hand_in: HandIn | None = None,
        expand: bool = True,
        prompt_id: str = "",
    ) -> PromptResult:
        """Have a prompt answered. A blank one without images continues where the conversation was cut off.

        Failures of the work are part of the result. Cancelling this call interrupts the work. ``piped`` is put below
        the prompt as data. With ``hand_in`` the agent must end with a fitting value, which is the result's; if it ends
        without one, the result's value is blank. Without ``expand``, nothing in the prompt counts as a command or a
        mention of a file. ``prompt_id`` names the prompt in events; if blank, a new id does.

        Raises:
            BusyError: another prompt is being answered.
            MissingKeyError: the model still has no key; nothing was said.
            UsageError: there is nothing to continue from, or no such slash command; nothing was said.
        """
        self._check_idle()
        if self.setup.missing_key is not None:
            raise self.setup.missing_key
        self.setup.pool.renew()
        asked = Prompt(text=prompt, images=images, limits=limits, piped=piped, hand_in=hand_in, expand=expand)
        self._answering = Answering(asked, self._parts, self._prompt_account)
        if self._parts.control.cancelled:
            self._answering.interrupt()
        prompt_id, is_new = prompt_id or uuid4().hex, False
        result = PromptResult(acted=ActResult(outcome=Outcome.INTERRUPTED))
        origin = "user" if prompt.strip() or images else "resume"
        begun = e.PromptStartedEvent(prompt_id=prompt_id, conversation_id=self.conversation_id, origin=origin)
        self._sink.publish(begun)
        try:
            with self._announced_as_writer():
                self._warn_of_weakness()
                is_new = await self._entitle(prompt)
                result = await self._answering.answer(self._current_agent)
        except VibeError as error:
            result = PromptResult(acted=ActResult(outcome=Outcome.FAILED))
            if is_new and isinstance(error, UsageError):
                await rename(self, "")  # nothing was said, so the next prompt becomes the title
            raise
        else:
            return result
        finally:
            self._answering = None
            self._wake_waiters()
            self._warn_of_weakness()
            self._sink.publish(self._ended_event(prompt_id, result))

    def steer(self, prompt: str, by: str = "") -> bool:
        """Say something to the agent at work, to be read before its next model call; return False if it is idle.

        ``by`` is who says it, if that is from elsewhere.
        """
        return self._answering is not None and self._answering.steer(prompt, by)

    def interrupt(self) -> bool:
        """Stop the agent at once; what it said so far stays in the conversation. Returns False if it is not at work."""
        if self._answering is not None:
            self._answering.interrupt()
        if self._occupation is not None:
            self._occupation.cancel()
        return self.is_busy

    async def compact(self, focus: str = "") -> bool:
        """Replace all but the recent turns by a summary, with an eye on ``focus``.

        Returns False if it could not be done, for which a warning gives the reason.

        Raises:
            BusyError: a prompt is being answered.
            EnvironmentFailure: the disk refuses.
        """
        with self._busy():
            agent = await self._current_agent()
            self._prompt_account.renew(Limits())  # the limits of the last prompt don't apply to it
            done = await AgentLoop(agent.kit).compact(focus)
            self._agent = None
            return done
        return False

    async def clear(self) -> None:
        """Continue without messages, in a new session. The session so far stays as it is.

        Raises:
            BusyError: a prompt is being answered.
            EnvironmentFailure: the disk refuses; nothing has changed.
        """
        with self._busy():
            await shielded(partial(anyio.to_thread.run_sync, self.session.clear))
            self._agent, self._reads = None, ReadTracker()
            new = e.ConversationClearedEvent(conversation_id=self.conversation_id, new_session_id=self.session_id)
            self._sink.publish(new)

    async def rewind(
        self, message_index: int, *, files: bool = True, chat: bool = True, only: Collection[str] = ()
    ) -> RewindReport:
        """Continue before one of the messages, in a new session.

        With ``files``, undo what the agent has changed since.

        Without ``chat``, only the files go back, and the agent is told so. ``only`` restricts which files go back,
        unless it is empty.

        Raises:
            BusyError: a prompt is being answered.
            UsageError: no turn begins there.
            EnvironmentFailure: the files of that time are unknown, others write there, or git or the disk refuses.
        """
        with self._busy():
            engine = self.setup.engine
            there = self.session.transcript.messages[message_index : message_index + 1]
            prompt = "".join(split_files(one.content)[0] for one in there if isinstance(one, UserMessage))
            point = (message_index, engine.environ, engine.own_places)
            rewind = partial(self.session.rewind, *point, files=files, chat=chat, only=only)
            async with self._parts.turn.held(waits_told(self._sink)) if files else nullcontext():
                report = await shielded(partial(anyio.to_thread.run_sync, rewind))
            self._agent, self._reads = None, ReadTracker()
            changed = (*report.files.restored, *report.files.deleted)
            if chat:
                event = e.ConversationRewoundEvent(
                    message_index=message_index,
                    files=changed,
                    conversation_id=self.conversation_id,
                    new_session_id=self.session_id,
                    prompt=prompt,
                )
                self._sink.publish(event)
            elif changed:
                self.session.transcript.append(UserMessage(f"{HOST_NOTICE}{TAKEN_BACK} {', '.join(changed)}"))
            return report
        raise AssertionError("unreachable: a shielded block is not cancelled")

    async def fork(self) -> str:
        """Save a copy of the conversation as another session and return its id. This one continues as it is.

        Raises:
            BusyError: a prompt is being answered.
            EnvironmentFailure: the disk refuses.
        """
        self._check_idle()
        return await anyio.to_thread.run_sync(self.session.copy)

    async def shell(self, command: str, *, tell_model: bool = True, in_colour: bool = False) -> CommandResult | None:
        """Run the user's own command line, unconfined and with their own variables; return None if it was interrupted.

        With ``tell_model``, the agent is told of it with the next prompt. With ``in_colour``, the output may contain
        colours.

        Raises:
            BusyError: a prompt is being answered.
            UsageError: the line is blank.
            CommandStartError: it can't be started.
            EnvironmentFailure: the conversation can't be saved.
        """
        if not command.strip():
            raise UsageError("!COMMAND: say what to run in your shell")
        with self._busy():
            workdir, environ = self.setup.opening.workdir, self._parts.host.environ
            mask = Mask(self.setup.engine.environ)
            result = await run_for_user(command, workdir, environ, self._sink, mask, in_colour=in_colour)
            if tell_model:
                self.session.transcript.append(UserMessage(as_message(command, result)))
            return result
        return None

    async def configure(self, change: AgentChange) -> None:
        """Change agent, model, thinking or approvals. All but the approvals apply from the next prompt on.

        If a new agent is trusted more or less than the last, its approvals come with it, unless some were given on
        opening. An empty change only announces the present settings.

        Raises:
            UsageError: there is no such agent or model; nothing was changed.
            EnvironmentFailure: its key is missing.
        """
        earlier = self._settings()
        given = {name: getattr(change, name) for name in ("agent", "model", "thinking") if getattr(change, name)}
        if given:
            parts, former = self._parts, self.setup
            opening = structs.replace(former.opening, **given, prompt="", key_may_come_later=False)
            if change.agent is not None and change.model is None:
                opening = structs.replace(opening, model=None)  # the agent may name a model of its own
            setup = parts.setup = await anyio.to_thread.run_sync(set_up, parts.host, opening, parts.seat)
            parts.closing.push_async_callback(setup.engine.aclose)
            await self.servers.move_to(setup.engine)
            self._agent = None
            is_other = setup.profile.auto_approve != former.profile.auto_approve
            if is_other and setup.approval_mode is not former.approval_mode:
                self.approvals.set_mode(setup.approval_mode)
        if change.approvals is not None:
            self.approvals.set_mode(change.approvals)
        now = self._settings()
        names = ("agent", "model", "thinking", "approvals")
        changed = tuple(name for name in names if getattr(now, name) != getattr(earlier, name))
        if changed or change == AgentChange():
            self._sink.publish(structs.replace(now, changed=changed))

    def _settings(self) -> e.ConversationConfiguredEvent:
        setup = self.setup
        return e.ConversationConfiguredEvent(
            agent=setup.profile.name,
            model=setup.model.key,
            thinking=setup.model.thinking.value,
            approvals=self.approvals.mode.value,
            conversation_id=self.conversation_id,
            by="user",
        )

    async def aclose(self, outcome: Outcome = Outcome.COMPLETED, exit_code: int = 0) -> None:
        """Save and end the conversation. A prompt at work is interrupted first; a second call waits for the end.

        Raises:
            EnvironmentFailure, ipc.errors.IpcError: its end could not be published.
        """
        if not self._parts.ending.is_set() and not self._is_closing:
            self._is_closing = True
            if self.is_busy and outcome is Outcome.COMPLETED:
                outcome = Outcome.INTERRUPTED
            while self.interrupt():  # everything must be saved before others may continue the session
                await self._idle.wait()
            self._sink.publish(e.SessionEndedEvent(outcome=outcome.value, exit_code=exit_code))
            await anyio.to_thread.run_sync(self.session.close, outcome)
        self._parts.ending.set()
        await self._parts.ended.wait()
        if self._parts.error is not None:
            raise self._parts.error

    def _announce(self) -> None:
        """Publish the first events."""
        setup, sink = self.setup, self._sink
        event = e.SessionStartedEvent(
            workspace=str(setup.opening.workdir), model=setup.model.key, agent=setup.profile.name, version=__version__
        )
        sink.publish(event)
        for warning in setup.engine.warnings:
            sink.publish(e.WarningEvent(code="start", message=warning))
        if self.session.repaired:
            sink.publish(e.WarningEvent(code="session.repaired", message=self.session.repaired))

    async def _entitle(self, prompt: str) -> bool:
        """Name the session after its first prompt, here and for others; return False if it has a title already."""
        title = prompt[:TITLE_LENGTH]
        if is_new := bool(title) and not self.session.title:
            await rename(self, title)
        return is_new

    def _warn_of_weakness(self) -> None:
        """Warn once that commands are not confined as they should be."""
        weakness = self.setup.engine.confinement.weakness
        if weakness and weakness != self._reported_weakness:
            self._reported_weakness = weakness
            self._sink.publish(e.WarningEvent(code="sandbox", message=weakness))

    def _ended_event(self, prompt_id: str, result: PromptResult) -> e.PromptEndedEvent:
        """Return the event for the end of a prompt."""
        acted = result.acted
        return e.PromptEndedEvent(
            prompt_id=prompt_id,
            outcome=acted.outcome.value,
            conversation_id=self.conversation_id,
            reason=acted.reason,
            detail=acted.detail,
            usage=result.usage.for_events(),
            cost_usd=result.cost_usd,
            turns=acted.turns,
            duration_s=result.duration_s,
        )

    def _check_idle(self) -> None:
        if self._is_closing or self._parts.ending.is_set():
            raise UsageError(f"the conversation is closed: resume session {self.session_id}")
        if self.is_busy:
            raise BusyError

    def _wake_waiters(self) -> None:
        """Wake those who wait until nothing is at work any more."""
        rested, self._idle = self._idle, anyio.Event()
        rested.set()

    @contextmanager
    def _busy(self) -> Generator[None]:
        """Be busy while the block runs. An interruption cancels the block, and execution continues after it."""
        self._check_idle()
        self._occupation = anyio.CancelScope()
        try:
            with self._occupation, self._announced_as_writer():
                yield
        finally:
            self._occupation = None
            self._wake_waiters()

    @contextmanager
    def _announced_as_writer(self) -> Generator[None]:
        """Let others in the same folder know that this conversation may write there while the block runs."""
        self._parts.hold.writing = self.setup.writes
        try:
            yield
        finally:
            self._parts.hold.writing = False

    async def _current_agent(self) -> ConversationAgent:
        if self.setup.opening.wait_for_servers:
            await self.servers.equip(self._sink)
        if self._agent is None:
            own = self._parts, self._sink, self._prompt_account, self.approvals, self._reads
            self._agent = await anyio.to_thread.run_sync(ConversationAgent.make, *own)
        return self._agent


async def rename(conversation: Conversation, title: str) -> None:
    """Give the session of a conversation a title, here and for others who look for runs."""
    await shielded(partial(anyio.to_thread.run_sync, partial(conversation.session.entitle, title)))
    await conversation.channel.about(conversation.setup.opening.workdir, title)
