"""EditorSession: a conversation of an editor, its settings, the prompt answered in it, and the person who is asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, cast
from uuid import uuid4

from acp import Client, RequestError, schema
from acp.helpers import start_tool_call, update_available_commands, update_current_mode, update_tool_call
from anyio import CancelScope, to_thread
from anyio import Event as Signal
from anyio.abc import TaskGroup
from msgspec import Struct, convert, field

from ipc.events import ApprovalRequestEvent, ConversationConfiguredEvent, Event, ToolServerEvent
from vibe.acp.content import ContentBlock, prompt_of
from vibe.acp.editor import EditorFiles, EditorTerminals
from vibe.acp.history import replayed
from vibe.acp.transport import EditorAbilities
from vibe.acp.updates import (
    SessionChannel,
    as_code,
    changes_of,
    kind_of,
    locations_of,
    reason_of,
    said,
    text_of,
    title_of,
)
from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.opening import AgentChange, Opening, PromptResult, Seat
from vibe.app.conversation.runtime import Runtime
from vibe.core.agents.models import AgentProfile, AgentType
from vibe.core.config.models import Thinking
from vibe.core.llm.errors import ContextTooLongError, ModelKeyError, ModelOverloadedError
from vibe.core.messages import Image, Outcome
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import ApprovalAnswer, ApprovalScope
from vibe.core.tools.questions import Answer, Question
from vibe.system.errors import UsageError
from vibe.system.plain_text import plain, plain_line, shortened, some_of

SCOPES = MappingProxyType({scope.value: scope for scope in ApprovalScope})
NO = "no"
PICK = "pick:"
"""Begins the id of an option, so that none is called as the one for a no."""
BY = "editor"
CHOSEN, TYPED = "answer", "other"
"""Begin the names of a form's fields."""
MOST_COVERED = 3
LABEL_LENGTH = 100


class EditorPerson:
    """Asks by the channel of a session. ``approved`` is called with each call whose command line they said yes to.

    An editor that ``has_forms`` gets questions as one; else, one by one, as choices.
    """

    def __init__(self, channel: SessionChannel, approved: Callable[[str, str], object], *, has_forms: bool) -> None:
        self._channel = channel
        self._approved = approved
        self._has_forms = has_forms

    async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        """Return the person's answer; none is a no."""
        channel = self._channel
        why = request.reason or request.rule
        call = schema.ToolCallUpdate(
            tool_call_id=channel.updates.call_id(request.tool_call_id),
            title=title_of(request),
            kind=kind_of(request.tool),
            status="pending",
            content=[*text_of(plain_line(why)), *changes_of(request.diff, request, channel.root)],
            locations=locations_of(request.arguments, channel.root),
            raw_input=request.arguments,
        )
        chosen, problem = await self._put(call, _offered(request))
        scope = SCOPES.get(chosen)
        if scope is None:
            return ApprovalAnswer(allow=False, reason=problem, by=BY)
        command = request.arguments.get("command")
        if isinstance(command, str):
            self._approved(request.tool_call_id, command)
        return ApprovalAnswer(allow=True, scope=scope, by=BY)

    async def __call__(
        self,
        questions: Sequence[Question],
        request_id: str = "",  # noqa: ARG002  the editor knows a question by another id
    ) -> Sequence[Answer] | None:
        """Return an answer to each question; None if the person would rather not."""
        if self._has_forms:
            return await self._filled(questions)
        answers: list[Answer] = []
        for question in questions:
            told = "\n".join(f"- {one.label}: {one.description}" for one in question.options if one.description)
            labels = {str(at): one.label for at, one in enumerate(question.options)}
            chosen = await self.choose(question.question, told, labels)
            if chosen is None:
                return None
            answers.append(Answer(question=question.question, answer=labels[chosen], by=BY))
        return answers

    async def _filled(self, questions: Sequence[Question]) -> Sequence[Answer] | None:
        fields = {name: field for at, one in enumerate(questions) for name, field in _fields(at, one)}
        message = plain("\n".join(one.question for one in questions))
        form = schema.ElicitationFormSessionMode(
            session_id=self._channel.session_id,
            requested_schema=schema.ElicitationSchema.model_validate({"type": "object", "properties": fields}),
        )
        await self._channel.flush()
        try:
            said = await self._channel.client.create_elicitation(message, form)
        except (RequestError, ConnectionError, ValueError):
            return None
        content = (said.content or {}) if isinstance(said, schema.AcceptElicitationResponse) else {}
        answers = [_answer(at, one, content) for at, one in enumerate(questions)]
        return None if None in answers else [one for one in answers if one is not None]

    async def choose(
        self, question: str, told: str, options: Mapping[str, str], no: str = "None of these"
    ) -> str | None:
        """Return the key of the option that the person picks; None: they pick none.

        The protocol asks about tool calls alone, so the editor is shown one that has the answer as its result.
        """
        question_id, title, content = f"question-{uuid4().hex}", plain_line(question), text_of(told)
        self._channel.put(start_tool_call(question_id, title, kind="other", status="pending", content=content))
        call = schema.ToolCallUpdate(
            tool_call_id=question_id, title=title, kind="other", status="pending", content=content
        )
        offered = [_option(f"{PICK}{key}", label, "allow_once") for key, label in options.items()]
        picked: str | None = None
        try:
            chosen, _ = await self._put(call, [*offered, _option(NO, no, "reject_once")])
            picked = chosen.removeprefix(PICK) if chosen.startswith(PICK) else None
        finally:
            answer = None if picked is None else text_of(options[picked])
            status = "failed" if picked is None else "completed"
            self._channel.put(update_tool_call(question_id, status=status, content=answer))
        return picked

    async def _put(self, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]) -> tuple[str, str]:
        """Return the id of the option that was chosen, or nothing and the reason why none was."""
        channel = self._channel
        await channel.flush()
        try:
            said = await channel.client.request_permission(channel.session_id, call, options)
        except (RequestError, ConnectionError, ValueError) as error:
            return "", f"the editor could not ask: {reason_of(error)}"
        if not isinstance(said.outcome, schema.AllowedOutcome):
            channel.stop()
            return "", "the work was stopped"
        chosen = said.outcome.option_id
        return (chosen, "") if chosen in {option.option_id for option in options} else ("", "no option was chosen")


def _fields(at: int, question: Question) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the fields for a question: one to choose in, and one for an answer in other words."""
    title = plain_line(question.question)
    offered = [
        {"const": one.label, "title": plain_line(f"{one.label}: {one.description}" if one.description else one.label)}
        for one in question.options
    ]
    if question.multi_select:
        yield f"{CHOSEN}{at}", {"type": "array", "title": title, "items": {"anyOf": offered}}
    elif not question.typed:
        yield f"{CHOSEN}{at}", {"type": "string", "title": title, "oneOf": offered}
    yield f"{TYPED}{at}", {"type": "string", "title": title if question.typed else f"{title} (type your answer)"}


def _answer(at: int, question: Question, content: Mapping[str, Any]) -> Answer | None:
    """Return the answer to a question that a form holds; what is typed goes before what is chosen."""
    typed, chosen = content.get(f"{TYPED}{at}"), content.get(f"{CHOSEN}{at}")
    if isinstance(typed, str) and typed.strip():
        return Answer(question=question.question, answer=typed.strip(), is_other=True, by=BY)
    given = cast("list[object]", chosen) if isinstance(chosen, list) else [chosen]
    labels = [one.label for one in question.options if one.label in given]
    return Answer(question=question.question, answer=", ".join(labels), by=BY) if labels else None


def _offered(request: ApprovalRequestEvent) -> list[schema.PermissionOption]:
    options = [_option(ApprovalScope.ONCE, "Yes", "allow_once")]
    if request.covers:
        covered = some_of(map(plain_line, request.covers), MOST_COVERED)
        options.append(_option(ApprovalScope.SESSION, f"Yes, in this session always: {covered}", "allow_always"))
    if request.edits:
        options.append(_option(ApprovalScope.EDITS, "Yes, to all edits of this session", "allow_always"))
    if request.covers:
        options.append(_option(ApprovalScope.ALWAYS, "Yes, in this folder always", "allow_always"))
    return [*options, _option(NO, "No", "reject_once")]


def _option(option_id: str, name: str, kind: schema.PermissionOptionKind) -> schema.PermissionOption:
    return schema.PermissionOption(option_id=str(option_id), name=shortened(plain_line(name), LABEL_LENGTH), kind=kind)


Category = Literal["mode", "model", "thought_level"]
MODE, MODEL, THINKING, APPROVALS = "mode", "model", "thinking", "approvals"
ASKED_ABOUT = {
    ApprovalMode.ASK: "Ask about what no rule allows",
    ApprovalMode.EDITS: "Edit files without asking",
    ApprovalMode.ALL: "Ask about nothing",
}


def modes_of(conversation: Conversation) -> schema.SessionModeState:
    """Return the modes, which are the agents that a person can talk to."""
    modes = [
        schema.SessionMode(id=one.name, name=one.display_name, description=one.description)
        for one in _profiles(conversation)
    ]
    return schema.SessionModeState(current_mode_id=conversation.setup.profile.name, available_modes=modes)


def options_of(conversation: Conversation) -> list[schema.SessionConfigOptionSelect]:
    """Return all settings with their values."""
    setup = conversation.setup
    agents = [(one.name, one.display_name, one.description) for one in _profiles(conversation)]
    models = [(one.key, one.key, f"{one.name} by {one.provider}") for one in setup.engine.config.models]
    if setup.model.key not in {key for key, _, _ in models}:
        models.append((setup.model.key, setup.model.key, ""))
    levels = [(level.value, level.value.capitalize(), "") for level in Thinking]
    approvals = [(mode.value, words, "") for mode, words in ASKED_ABOUT.items()]
    return [
        _select(MODE, "Mode", setup.profile.name, agents, "mode"),
        _select(MODEL, "Model", setup.model.key, models, "model"),
        _select(THINKING, "Thinking", setup.model.thinking.value, levels, "thought_level"),
        _select(APPROVALS, "Approvals", conversation.approvals.mode.value, approvals),
    ]


def change_of(conversation: Conversation, option: str, value: object) -> AgentChange:
    """Return the change that giving a setting a value makes.

    Raises:
        UsageError: there is no such setting, or it can't have this value.
    """
    known = {one.id: one for one in options_of(conversation)}
    if option not in known:
        raise UsageError(f"there is no setting {option[:80]!r}: it is one of {', '.join(known)}")
    values = [one.value for one in known[option].options if isinstance(one, schema.SessionConfigSelectOption)]
    if not isinstance(value, str) or value not in values:
        raise UsageError(f"{option} can't be {str(value)[:80]!r}: it is one of {', '.join(values)}")
    return convert({"agent" if option == MODE else option: value}, AgentChange)


def _profiles(conversation: Conversation) -> list[AgentProfile]:
    profiles = conversation.setup.engine.agents.profiles.values()
    return [profile for profile in profiles if profile.agent_type is not AgentType.SUBAGENT]


def _select(
    option: str, name: str, value: str, values: Iterable[tuple[str, str, str]], category: Category | None = None
) -> schema.SessionConfigOptionSelect:
    options = [
        schema.SessionConfigSelectOption(value=one, name=shown, description=about or None)
        for one, shown, about in values
    ]
    return schema.SessionConfigOptionSelect(
        type="select", id=option, name=name, current_value=value, options=options, category=category
    )


CODES = MappingProxyType({ModelKeyError: -32000, ContextTooLongError: -32003, ModelOverloadedError: -32004})
"""Error codes of the protocol; of all other errors it is ``FAILED``."""
FAILED = -32603
BUSY = "the last prompt of this session is not answered yet: wait for its end, or cancel it"


class EditorTurn(Struct):
    """One prompt of an editor, from its coming to its answer."""

    scope: CancelScope = field(default_factory=CancelScope)
    is_cancelled: bool = False
    result: PromptResult | None = None
    ended: Signal = field(default_factory=Signal)


class SessionCommands(ABC):
    """The slash commands of one session, given at the server's start."""

    @abstractmethod
    async def renew(self) -> list[schema.AvailableCommand]:
        """Return the commands there are now, with those of the project and the user; reads files."""

    @abstractmethod
    async def run(self, line: str, answer: Callable[[], Awaitable[None]]) -> None:
        """Carry a line out, to the end of all it begins; one that is no command, nor the answer to one, by ``answer``.

        Raises:
            UsageError: it can't be answered as it is.
        """

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
            UsageError: another one is, and this is no text to tell the agent at work.
                Or it can't be answered as it is; nothing was said.
            RequestError: the work failed.
        """
        if self._turn is not None:
            return await self._steered(self._turn, blocks)
        turn = self._turn = EditorTurn()
        try:
            with turn.scope:
                given = await to_thread.run_sync(prompt_of, blocks, self.opening.workdir)
                await self._commands.run(given.typed, partial(self.answer, given.text, given.images))
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
            raise UsageError(BUSY)
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
            if self._turn.is_cancelled:
                await self._commands.stop()
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
            UsageError: one is.
        """
        if self._turn is not None:
            raise UsageError(BUSY)

    def replay(self) -> None:
        """Send the history of the conversation as updates."""
        self.channel.put(*replayed(self.conversation.messages, self.opening.workdir))

    def publish(self, event: Event) -> None:
        """Tell the editor of settings and commands that have changed, here or elsewhere."""
        if isinstance(event, ToolServerEvent):
            self._tasks.start_soon(self.offer_commands)
        if isinstance(event, ConversationConfiguredEvent):
            self.channel.put(update_current_mode(event.agent))
            options = options_of(self.conversation)
            self.channel.put(
                schema.ConfigOptionUpdate(session_update="config_option_update", config_options=[*options])
            )

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
