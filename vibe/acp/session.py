"""EditorSession: one conversation of an editor, with the prompt that is answered in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from acp import Client, RequestError
from acp.helpers import update_current_mode
from acp.schema import (
    ConfigOptionUpdate,
    PromptResponse,
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionInfoUpdate,
    SessionModeState,
    Usage,
)
from anyio import CancelScope, to_thread
from anyio.abc import TaskGroup

from ipc.events import ConversationConfiguredEvent, Event
from vibe.acp.content import ContentBlock, prompt_of
from vibe.acp.line import EditorLine
from vibe.acp.options import change_of, modes_of, options_of
from vibe.acp.permissions import EditorPerson
from vibe.acp.saved import replayed
from vibe.acp.updates import said
from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.opening import Opening, PromptResult, Seat
from vibe.app.conversation.runtime import Runtime
from vibe.core.errors import UsageError
from vibe.core.outcome import Outcome

FAILED = -32603


@dataclass(slots=True)
class EditorTurn:
    """One prompt of an editor, from its coming to its answer."""

    scope: CancelScope = field(default_factory=CancelScope)
    is_cancelled: bool = False

    def end(self) -> None:
        """End it at once."""
        self.scope.cancel()


class SessionBusyError(UsageError):
    """An editor gave a prompt before the last one was answered."""

    def __init__(self) -> None:
        super().__init__("the last prompt of this session is not answered yet: wait for its end, or cancel it")


class EditorSession:
    """A session as an editor knows it by ``session_id``, which stays as it is; ``open`` makes it.

    ``runtime``, ``opening`` and ``seat`` are those its conversation was opened with.
    """

    def __init__(self, runtime: Runtime, opening: Opening, client: Client, tasks: TaskGroup) -> None:
        self.runtime = runtime
        self.opening = opening
        self.line = EditorLine(client, opening.workdir, self.cancel)
        person = EditorPerson(self.line, lambda _call, _command: None)
        self.seat = Seat(listeners=[self.line, self], approver=person, user_input=person)
        self.conversation: Conversation
        self._tasks = tasks
        self._sending = CancelScope()
        self._turn: EditorTurn | None = None
        self._title = ""

    @property
    def session_id(self) -> str:
        """The id under which the editor knows it."""
        return self.line.session_id

    async def open(self, session_id: str = "") -> None:
        """Open the conversation; a new one gives the session its id.

        Raises:
            UsageError, EnvironmentFailure, ipc.errors.IpcError: as ``Runtime.open_conversation``.
        """
        self.conversation = await self.runtime.open_conversation(self.opening, self.seat)
        self.line.session_id = session_id or self.conversation.conversation_id

    def begin(self) -> None:
        """Tell the editor what happens from now on; an answer that is on its way comes first."""
        self._tasks.start_soon(self._send_updates)

    async def prompt(self, blocks: Sequence[ContentBlock]) -> PromptResponse:
        """Have a prompt answered.

        Raises:
            SessionBusyError: another one is.
            UsageError: it can't be answered as it is; nothing was said.
            RequestError: the work failed.
        """
        self.check_idle()
        turn = self._turn = EditorTurn()
        result: PromptResult | None = None
        try:
            with turn.scope:
                given = await to_thread.run_sync(prompt_of, blocks, self.opening.workdir)
                result = await self.conversation.send(given.text, images=given.images)
                self._tell_title()
        finally:
            self._turn = None
        await self.line.flush()
        return _response(turn, result)

    def cancel(self) -> None:
        """Stop what is at work; harmless if nothing is."""
        if self._turn is None:
            return
        self._turn.is_cancelled = True
        if not self.conversation.interrupt():
            self._turn.end()

    def check_idle(self) -> None:
        """See that no prompt is being answered.

        Raises:
            SessionBusyError: one is.
        """
        if self._turn is not None:
            raise SessionBusyError

    def replay(self) -> None:
        """Tell all that was said in the conversation."""
        for update in replayed(self.conversation.messages, self.opening.workdir):
            self.line.put(update)

    @property
    def modes(self) -> SessionModeState:
        """The modes there are, and the one in force."""
        return modes_of(self.conversation)

    @property
    def options(self) -> Sequence[SessionConfigOptionSelect]:
        """The settings there are, with their values."""
        return options_of(self.conversation)

    async def set_option(self, option: str, value: object) -> None:
        """Change a setting, from the next prompt on.

        Raises:
            UsageError: there is no such setting, or it can't have this value.
            EnvironmentFailure: the key of a model is missing.
        """
        await self.conversation.configure(change_of(self.conversation, option, value))

    def publish(self, event: Event) -> None:
        """Tell the editor of settings that have changed, whoever changed them."""
        if isinstance(event, ConversationConfiguredEvent):
            self.line.put(update_current_mode(event.agent))
            options: list[SessionConfigOptionSelect | SessionConfigOptionBoolean] = [*options_of(self.conversation)]
            self.line.put(ConfigOptionUpdate(session_update="config_option_update", config_options=options))

    async def close(self) -> None:
        """End it: what is at work is interrupted, and the conversation saved."""
        self.cancel()
        await self.conversation.aclose()
        self._sending.cancel()

    def say(self, text: str) -> None:
        """Tell the person something of our own."""
        self.line.put(said(f"{text}\n"))

    def _tell_title(self) -> None:
        title = self.conversation.session.title
        if title != self._title:
            self._title = title
            self.line.put(SessionInfoUpdate(session_update="session_info_update", title=title))

    async def _send_updates(self) -> None:
        with self._sending:
            await self.line.run()


def _response(turn: EditorTurn, result: PromptResult | None) -> PromptResponse:
    """Return the end of a turn.

    Raises:
        RequestError: the work failed.
    """
    if result is None:
        return PromptResponse(stop_reason="cancelled" if turn.is_cancelled else "end_turn")
    used = result.usage
    usage = Usage(
        total_tokens=used.total_tokens,
        input_tokens=used.prompt_tokens,
        output_tokens=used.completion_tokens,
        cached_read_tokens=used.cached_tokens,
    )
    acted = result.acted
    if turn.is_cancelled or acted.outcome is Outcome.INTERRUPTED:
        return PromptResponse(stop_reason="cancelled", usage=usage)
    if acted.outcome is Outcome.COMPLETED:
        return PromptResponse(stop_reason="end_turn", usage=usage)
    if acted.outcome is Outcome.LIMIT and acted.reason == "turns":
        return PromptResponse(stop_reason="max_turn_requests", usage=usage)
    if acted.outcome is Outcome.LIMIT and acted.reason == "tokens":
        return PromptResponse(stop_reason="max_tokens", usage=usage)
    why = acted.detail or acted.reason or "no reason given"
    raise RequestError(FAILED, f"{acted.outcome.value}: {why}")
