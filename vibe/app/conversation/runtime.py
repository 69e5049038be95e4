"""Runtime: all conversations of a process, each open until it is closed or the process ends."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from anyio import CancelScope, create_task_group, to_thread
from anyio.abc import TaskStatus
from msgspec.structs import replace

from ipc.events import ErrorEvent
from ipc.sink import TaggingSink
from vibe.app.conversation.answering import ConversationParts
from vibe.app.conversation.control import ConversationControl
from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.opening import Opening, Seat
from vibe.app.conversation.session import ChatSession
from vibe.app.conversation.setup import Setup, set_up
from vibe.app.engine.event_publishing import publishing
from vibe.app.engine.host import Host
from vibe.app.engine.tool_servers import ToolServers, tool_servers
from vibe.core.config.paths import VibePaths
from vibe.core.messages import Outcome
from vibe.core.tools.background import background_commands
from vibe.system.errors import EnvironmentFailure, UsageError

NAME_LENGTH = 8


class Runtime:
    """Opens conversations, any number of them side by side.

    It is an async context manager that closes whatever is still open. It owns neither signals nor the process.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self._conversations: list[Conversation] = []

    async def __aenter__(self) -> Self:
        """Start the task group that holds the conversations."""
        self._holders = create_task_group()
        await self._holders.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The task group must not see the error: it would wrap it in an exception group.
        try:
            with CancelScope(shield=True):
                for conversation in self.conversations:
                    outcome = Outcome.INTERRUPTED if conversation.is_busy or error else Outcome.COMPLETED
                    await conversation.aclose(outcome)
        finally:
            self._holders.cancel_scope.cancel()
            await self._holders.__aexit__(None, None, None)

    @property
    def conversations(self) -> tuple[Conversation, ...]:
        """The open conversations, in the order they were opened."""
        return tuple(self._conversations)

    async def open_conversation(self, opening: Opening, seat: Seat | None = None) -> Conversation:
        """Open a new session, or continue one. Without a ``seat``, no user watches or answers.

        Raises:
            UsageError: a flag, the agent, the model, the session or the configuration is wrong.
            EnvironmentFailure, ipc.errors.IpcError: a key is missing, or the disk, a lock or the bus refuses.
        """
        return await self._holders.start(self._hold, opening, seat or Seat())

    async def _hold(self, opening: Opening, seat: Seat, *, task_status: TaskStatus[Conversation]) -> None:
        """Hold the parts of one conversation until it is closed."""
        host = self.host.as_writer()
        setup = await to_thread.run_sync(set_up, host, opening, seat)
        session = await to_thread.run_sync(_open_session, host, setup)
        parts: ConversationParts | None = None
        error: Exception | None = None
        try:
            async with AsyncExitStack() as stack:
                parts = await self._parts(host, setup, session, seat, stack)
                conversation = Conversation(parts)
                self._conversations.append(conversation)
                stack.callback(self._conversations.remove, conversation)
                if not opening.wait_for_servers:
                    connecting = await stack.enter_async_context(create_task_group())
                    stack.callback(connecting.cancel_scope.cancel)
                    connecting.start_soon(_connect, parts)
                task_status.started(conversation)
                await parts.ending.wait()
        except Exception as raised:
            if parts is None:
                raise
            error = raised
        finally:
            with CancelScope(shield=True):
                if parts is not None and error is None and not parts.ending.is_set():  # cancelled while still open
                    await to_thread.run_sync(session.close, Outcome.INTERRUPTED)
                await to_thread.run_sync(session.release)
            if parts is not None:
                parts.error = error
                parts.ending.set()
                parts.ended.set()

    async def _parts(
        self, host: Host, setup: Setup, session: ChatSession, seat: Seat, stack: AsyncExitStack
    ) -> ConversationParts:
        """Return the parts of a conversation; ``stack`` ends them."""
        opening, config = setup.opening, setup.engine.config
        seat, board = seat.with_board()
        control = ConversationControl(board, seat.prompted)
        stack.push_async_callback(setup.engine.aclose)
        attended = seat.user_input is not None
        started = tool_servers(setup.engine, host, opening.workdir, opening.servers, attended=attended)
        # An agent that only looks gets no servers, because a server is a program that may do anything.
        servers = ToolServers(setup.engine) if opening.observe else await stack.enter_async_context(started)
        opened = await stack.enter_async_context(
            publishing(host, config, seat.listeners, kept=config.session_logging.enabled, control=control.router)
        )
        own = replace(opened, session_id=session.session_id)
        channel = await own.about(opening.workdir, opening.title)
        background = await stack.enter_async_context(background_commands())
        name = f"conversation {session.session_id[:NAME_LENGTH]}"
        hold = await to_thread.run_sync(host.workspaces.enter, opening.workdir, name)
        stack.callback(host.workspaces.leave, hold)
        folders = [opening.workdir, *opening.extra_roots]
        return ConversationParts(
            host=host,
            hold=hold,
            turn=host.turn(folders, name),
            seat=seat,
            setup=setup,
            session=session,
            channel=channel,
            servers=servers,
            background=background,
            control=control,
            closing=stack,
        )


async def _connect(parts: ConversationParts) -> None:
    """Connect the MCP servers while prompts are answered. Agents have their tools from their next turn on."""
    sink = TaggingSink(parts.channel.sink, session_id=parts.session.session_id)
    try:
        await parts.servers.equip(sink)
    except (EnvironmentFailure, UsageError) as error:
        sink.publish(ErrorEvent(code="mcp", message=str(error)))


def _open_session(host: Host, setup: Setup) -> ChatSession:
    kept = setup.engine.config.session_logging.enabled
    opening = replace(setup.opening, model=setup.model.key, agent=setup.profile.name)
    return ChatSession.open(VibePaths(host.home), opening, kept=kept)
