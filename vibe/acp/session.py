"""EditorSession: one conversation of an editor, with the prompt that is answered in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import MappingProxyType

from acp import Client, RequestError, schema
from acp.helpers import update_available_commands, update_current_mode
from anyio import CancelScope, to_thread
from anyio import Event as Signal
from anyio.abc import TaskGroup
from msgspec import Struct, field

from ipc.events import ConversationConfiguredEvent, Event, ToolServerEvent
from vibe.acp.channel import SessionChannel
from vibe.acp.content import ContentBlock, prompt_of
from vibe.acp.files import EditorFiles
from vibe.acp.handshake import EditorAbilities
from vibe.acp.history import replayed
from vibe.acp.options import options_of
from vibe.acp.permissions import EditorPerson
from vibe.acp.terminals import EditorTerminals
from vibe.acp.updates import as_code, said
from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.opening import Opening, PromptResult, Seat
from vibe.app.conversation.runtime import Runtime
from vibe.core.llm.errors import ContextTooLongError, ModelKeyError, ModelOverloadedError
from vibe.core.messages import Image
from vibe.core.outcome import Outcome
from vibe.system.errors import UsageError

CODES = MappingProxyType({ModelKeyError: -32000, ContextTooLongError: -32003, ModelOverloadedError: -32004})
"""Error codes of the protocol; of all other errors it is ``FAILED``."""
FAILED = -32603


class EditorTurn(Struct):
    """One prompt of an editor, from its coming to its answer."""

    scope: CancelScope = field(default_factory=CancelScope)
    is_cancelled: bool = False
    result: PromptResult | None = None
    ended: Signal = field(default_factory=Signal)


class SessionBusyError(UsageError):
    """An editor sent a prompt while another one is being answered."""

    def __init__(self) -> None:
        super().__init__("the last prompt of this session is not answered yet: wait for its end, or cancel it")


class SessionCommands(ABC):
    """The slash commands of one session, given at the server's start."""

    @abstractmethod
    async def renew(self) -> list[schema.AvailableCommand]:
        """Return the commands there are now, with those of the project and the user; reads files."""

    @abstractmethod
    async def run(self, line: str) -> bool:
        """Carry a line out, to the end of all it begins; False: it is no command, and no answer to one."""

    @abstractmethod
    async def stop(self) -> None:
        """Have a plan that runs come to rest."""


class EditorSession:
    """A session as an editor knows it by the id of its ``channel``, which stays as it is; ``open`` makes it.

    ``runtime``, ``opening`` and ``seat`` are those its conversation was opened with, ``person`` is at the editor, which
    ``can`` do so much. ``slash`` makes its slash commands.
    """

    def __init__(
        self,
        runtime: Runtime,
        opening: Opening,
        client: Client,
        can: EditorAbilities,
        tasks: TaskGroup,
        slash: Callable[[EditorSession], SessionCommands],
    ) -> None:
        self.runtime = runtime
        self.opening = opening
        self.channel = SessionChannel(client, opening.workdir, self.cancel)
        terminals = EditorTerminals(self.channel)
        self.person = EditorPerson(self.channel, terminals.approve, has_forms=can.forms)
        self.seat = Seat(
            listeners=[self.channel, self],
            approver=self.person,
            user_input=self.person,
            files=EditorFiles(self.channel, can) if can.reads or can.writes else None,
            commands=terminals if can.terminals else None,
        )
        self.conversation: Conversation
        self._tasks = tasks
        self._commands = slash(self)
        self._sending = CancelScope()
        self._turn: EditorTurn | None = None
        self._title = ""
        self._offered: list[schema.AvailableCommand] | None = None

    async def open(self, session_id: str = "") -> None:
        """Open the conversation; a new one gives the session its id.

        Raises:
            UsageError, EnvironmentFailure, ipc.errors.IpcError: as ``Runtime.open_conversation``.
        """
        self.conversation = await self.runtime.open_conversation(self.opening, self.seat)
        self.channel.session_id = session_id or self.conversation.conversation_id

    def begin(self) -> None:
        """Send updates from now on; the answer to the request comes first."""
        self._tasks.start_soon(self._send_updates)
        self._tasks.start_soon(self._offer_all)

    async def _offer_all(self) -> None:
        """Offer the commands, and once the MCP servers are there, those for their prompts."""
        await self.offer_commands()
        await self.conversation.servers.settled()
        await self.offer_commands()

    async def offer_commands(self) -> None:
        """Tell the editor which slash commands there are, if they are others than it knows; reads files."""
        offered = await self._commands.renew()
        if offered != self._offered:
            self._offered = offered
            self.channel.put(update_available_commands(offered))

    async def prompt(self, blocks: Sequence[ContentBlock]) -> schema.PromptResponse:
        """Answer a prompt.

        Raises:
            SessionBusyError: another one is, and this is no text to tell the agent at work.
            UsageError: it can't be answered as it is; nothing was said.
            RequestError: the work failed.
        """
        if self._turn is not None:
            return await self._steered(self._turn, blocks)
        turn = self._turn = EditorTurn()
        try:
            with turn.scope:
                given = await to_thread.run_sync(prompt_of, blocks, self.opening.workdir)
                if not await self._commands.run(given.typed):
                    await self.answer(given.text, given.images)
        finally:
            self._turn = None
            turn.ended.set()
            self.channel.put(*self.channel.updates.stopped())  # none looks as if it still ran
        await self.channel.flush()
        return _response(turn)

    async def _steered(self, turn: EditorTurn, blocks: Sequence[ContentBlock]) -> schema.PromptResponse:
        """Tell a prompt to the agent at work; it ends with the turn that goes on."""
        given = await to_thread.run_sync(prompt_of, blocks, self.opening.workdir)
        if given.images or given.typed.startswith("/") or not self.conversation.steer(given.text):
            raise SessionBusyError
        await turn.ended.wait()
        await self.channel.flush()
        return _response(turn)

    async def answer(self, prompt: str, images: tuple[Image, ...] = ()) -> None:
        """Have the agent answer in the turn that goes on.

        Raises:
            UsageError: it can't be answered as it is; nothing was said.
        """
        result = await self.conversation.send(prompt, images=images)
        if self._turn is not None:
            self._turn.result = result
        self._tell_title()

    def cancel(self) -> None:
        """Cancel the prompt that is being answered, if there is one."""
        if self._turn is None:
            return
        self._turn.is_cancelled = True
        if not self.conversation.interrupt():
            self._tasks.start_soon(self._end, self._turn)

    def check_idle(self) -> None:
        """Check that no prompt is being answered.

        Raises:
            SessionBusyError: one is.
        """
        if self._turn is not None:
            raise SessionBusyError

    def replay(self) -> None:
        """Send the history of the conversation as updates."""
        self.channel.put(*replayed(self.conversation.messages, self.opening.workdir))

    def publish(self, event: Event) -> None:
        """Tell the editor of settings and commands that have changed, here or elsewhere."""
        if isinstance(event, ToolServerEvent):
            self._tasks.start_soon(self.offer_commands)
        if isinstance(event, ConversationConfiguredEvent):
            self.channel.put(update_current_mode(event.agent))
            options: list[schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean] = [
                *options_of(self.conversation)
            ]
            self.channel.put(schema.ConfigOptionUpdate(session_update="config_option_update", config_options=options))

    async def close(self) -> None:
        """End it: what is at work is interrupted, and the conversation saved."""
        self.cancel()
        await self.conversation.aclose()
        self._sending.cancel()

    def say(self, text: str, *, is_code: bool = False) -> None:
        """Tell the person something of our own; ``is_code``: in the letters and lines it came in."""
        self.channel.put(said(f"{as_code(text) if is_code else text}\n"))

    async def _end(self, turn: EditorTurn) -> None:
        await self._commands.stop()
        turn.scope.cancel()

    def _tell_title(self) -> None:
        title = self.conversation.session.title
        if title != self._title:
            self._title = title
            self.channel.put(schema.SessionInfoUpdate(session_update="session_info_update", title=title))

    async def _send_updates(self) -> None:
        with self._sending:
            await self.channel.run()


def _response(turn: EditorTurn) -> schema.PromptResponse:
    """Return the end of a turn.

    Raises:
        RequestError: the work failed.
    """
    result = turn.result
    if result is None:
        return schema.PromptResponse(stop_reason="cancelled" if turn.is_cancelled else "end_turn")
    used = result.usage
    usage = schema.Usage(
        total_tokens=used.total_tokens,
        input_tokens=used.prompt_tokens,
        output_tokens=used.completion_tokens,
        cached_read_tokens=used.cached_tokens,
    )
    acted = result.acted
    if turn.is_cancelled or acted.outcome is Outcome.INTERRUPTED:
        return schema.PromptResponse(stop_reason="cancelled", usage=usage)
    if acted.outcome is Outcome.COMPLETED:
        return schema.PromptResponse(stop_reason="end_turn", usage=usage)
    if acted.outcome is Outcome.LIMIT and acted.reason == "turns":
        return schema.PromptResponse(stop_reason="max_turn_requests", usage=usage)
    if acted.outcome is Outcome.LIMIT and acted.reason == "tokens":
        return schema.PromptResponse(stop_reason="max_tokens", usage=usage)
    why = acted.detail or acted.reason or "no reason given"
    code = next((code for kind, code in CODES.items() if isinstance(acted.error, kind)), FAILED)
    raise RequestError(code, f"{acted.outcome.value}: {why}", {"reason": acted.reason})
