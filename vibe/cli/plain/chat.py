"""PlainChat: a conversation line by line; ChatLines: its events as lines of plain text."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence

from anyio import CancelScope, create_task_group, to_thread

from ipc import events as e
from vibe.app.conversation.conversation import BusyError
from vibe.app.conversation.opening import NO_LIMITS, Opening, PromptLimits, PromptResult, Seat
from vibe.app.conversation.runtime import Runtime
from vibe.app.inspect.updates import look_for_update
from vibe.cli.plain.line_desk import LineDesk, LineInput
from vibe.cli.plain.plan_lines import PlanLines
from vibe.cli.terminal.person import TerminalPerson
from vibe.core.messages import Outcome
from vibe.core.tools.questions import Question, QuestionAnswer
from vibe.front.event_text import SHELL, describe, printed, problem_text
from vibe.front.slash.command import SIGNS, UserCommand, user_command
from vibe.front.slash.held_talk import HeldTalk
from vibe.front.slash.table import SlashTable
from vibe.front.slash.wording import SHOWN_ID
from vibe.front.trust_question import ask_for_trust
from vibe.system.errors import UsageError
from vibe.system.failing_lines import failing_line
from vibe.system.plain_text import counted, one_line, plain
from vibe.view.agent_view import in_verbs

RESULT_LENGTH = 200
INDENT = "  "
DESCRIBED = (e.CompactEndEvent, e.SubAgentStartedEvent, e.SubAgentFinishedEvent)
"""Events that are described in the same words as everywhere else."""


class ChatLines:
    """An ``EventSink`` that prints through ``write``: answers as they arrive, and each call and its end in a line."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._open = ""
        """The message whose text is being printed."""
        self._is_in_line = False

    def publish(self, event: e.Event) -> None:
        """Print an event that a person should know about."""
        if isinstance(event, e.AssistantDeltaEvent):
            self._stream(event)
        elif isinstance(event, e.AssistantEvent):
            if not event.subagent_id:
                self._end_line()
                self._open = ""
        elif isinstance(event, e.ToolStreamEvent):
            if event.tool == SHELL:
                self._write(plain(event.text))
        elif line := _line(event):
            self._end_line()
            indent = INDENT if event.subagent_id else ""
            self._write(f"{indent}{line}\n")

    def _stream(self, event: e.AssistantDeltaEvent) -> None:
        if event.subagent_id:
            return
        key = f"{event.message_id} {event.attempt}"
        if key != self._open and self._open.startswith(event.message_id):
            self._end_line()
            self._write("(connection lost: retrying)\n")
        self._open = key
        text = plain(event.text)
        if text:
            self._is_in_line = not text.endswith("\n")
        self._write(text)

    def _end_line(self) -> None:
        if self._is_in_line:
            self._write("\n")
            self._is_in_line = False


def _line(event: e.Event) -> str:
    """Return the event in a line, or ``""`` if it needs no mention."""
    if isinstance(event, e.WarningEvent | e.ErrorEvent):
        return one_line(problem_text(event), 1_000)
    if isinstance(event, e.ToolCallEvent):
        return "" if event.tool == SHELL else f"* {one_line(in_verbs(event.tool, event.summary or event.tool))}"
    if isinstance(event, e.ToolResultEvent):
        return _result(event)
    if isinstance(event, e.ToolServerEvent):
        return describe(event) if event.status == "failed" else ""
    return describe(event) if isinstance(event, DESCRIBED) else ""


def _result(event: e.ToolResultEvent) -> str:
    if event.tool == SHELL:
        return f"{INDENT}{event.status}" if event.status != "ok" else ""
    if event.status != "ok":
        return f"{INDENT}{event.status}: {one_line(event.content, RESULT_LENGTH)}"
    if isinstance(event.display, e.CommandDisplay) and event.display.exit_code:
        reason = failing_line(printed(event.content, event.display.exit_code))
        return f"{INDENT}exit {event.display.exit_code}" + f": {one_line(reason, RESULT_LENGTH)}" * bool(reason)
    return f"{INDENT}changed {one_line(', '.join(event.files_changed))}" if event.files_changed else ""


IDLE_PROMPT = ">"
BUSY_PROMPT = "(working) >"
CLIPBOARD = "\x1b]52;c;{}\x07"
"""The escape sequence that gives a terminal text for its clipboard, in base64."""
REASON_LENGTH = 1_000
KEYS = (
    "!COMMAND: run it in your shell and give the agent its output; !!COMMAND: run it without that",
    "A line typed while the agent works is sent to it. Ctrl-C interrupts it, Ctrl-D quits.",
)


class PlainChat(HeldTalk):
    """One person's conversations in this process, one after the other, until they leave; a ``Talk``.

    A slash command that isn't in the table is passed on to the conversation. ``edited`` lets the person change a text
    in their editor, as a file with a given name; it blocks.
    """

    def __init__(self, runtime: Runtime, opening: Opening, lines: LineInput, edited: Callable[[str, str], str]) -> None:
        self._desk = LineDesk(lines.out.write, lines.refresh)
        person = self._person = TerminalPerson(self._desk)
        printed = ChatLines(lines.out.write)
        seat = Seat(listeners=[printed], approver=person, user_input=person.answer, prompted=self.hear)
        super().__init__(runtime, opening, seat, PlanLines(lines, self._desk, edited).talk(), SlashTable())
        self.keys: Sequence[str] = KEYS
        self._lines = lines
        self._edited = edited
        self._limits = NO_LIMITS
        self._reading = CancelScope()
        self._is_leaving = False
        self._is_open = False
        """A conversation is open."""

    async def run(self, limits: PromptLimits) -> None:
        """Hold the conversation, starting with its opening prompt if there is one; ``limits`` apply to each prompt.

        Raises:
            UsageError, EnvironmentFailure, ipc.errors.IpcError: the conversation could not be opened or closed.
        """
        self._limits = limits
        if not self.opening.trust:
            await ask_for_trust(self.runtime.host, self.opening.workdir, self._answered, self.say)
        self.conversation = await self.runtime.open_conversation(self.opening, self.seat)
        self._is_open = True
        self.say(f"session {self.conversation.session_id[:SHOWN_ID]}; /help lists commands, Ctrl-D quits")
        await self.refresh()
        await self.stay(self._take_lines)
        self.say("saved · vibe --plain -c goes on")
        self._lines.out.flush()

    async def _answered(self, questions: Sequence[Question], request_id: str = "") -> Sequence[QuestionAnswer] | None:
        """Return the person's answers, taking lines before there is a conversation."""
        answers = None
        async with create_task_group() as group:
            group.start_soon(self._take_answers)
            answers = await self._person.answer(questions, request_id)
            group.cancel_scope.cancel()
        return answers

    async def _take_answers(self) -> None:
        """Take lines as answers; the end of input and Ctrl-C decline to answer."""
        while True:
            try:
                self._desk.give((await self._lines.line()).strip())
            except (EOFError, KeyboardInterrupt):
                self._desk.give(None)

    def leave(self) -> None:
        """End the conversation, wherever this is called from."""
        self._is_leaving = True
        self._reading.cancel()

    def say(self, text: str, status: str = "note") -> None:
        """Print text from vibe itself."""
        self._lines.out.write(f"{SIGNS[status]}{plain(text)}\n")

    async def reopen(self, opening: Opening) -> None:
        """Close the conversation and continue with another.

        Raises:
            UsageError, EnvironmentFailure, ipc.errors.IpcError: it could not be opened; this conversation continues.
        """
        await super().reopen(opening)
        following = self.conversation
        self.say(f"session {following.session_id[:SHOWN_ID]}: {counted(len(following.messages), 'message')}")
        await self.refresh()

    async def send(self, prompt: str) -> None:
        """Have the agent answer a prompt.

        Raises:
            BusyError: the agent is at work.
        """
        if self.conversation.is_busy:
            raise BusyError
        self.begin(self._send, prompt)

    def copy(self, text: str) -> None:
        """Have the terminal put text on its clipboard, which also works over ssh.

        Raises:
            UsageError: this terminal can't do that.
        """
        if self.runtime.host.environ.get("TERM", "dumb") == "dumb":
            raise UsageError("this terminal has no clipboard (TERM is dumb): select the text with the mouse")
        self._lines.out.write(CLIPBOARD.format(b64encode(text.encode()).decode()))

    async def edit(self, text: str, name: str) -> str:
        """Let the person change a text in their editor.

        Raises:
            EnvironmentFailure: there is no editor, or it failed.
        """
        return await to_thread.run_sync(self._edited, text, name)

    @property
    def prompt(self) -> str:
        """The text shown before the line being typed."""
        is_busy = self._is_open and self.conversation.is_busy
        return self._desk.prompt or (BUSY_PROMPT if is_busy else IDLE_PROMPT)

    async def _take_lines(self) -> None:
        """Answer the opening prompt, if there is one, and take lines until the person leaves."""
        self.begin(look_for_update, self.runtime.host, self.conversation.setup.engine.config.updates, self.say)
        if self.opening.prompt:
            self.begin(self._send, self.opening.prompt)
        with self._reading:
            while not self._is_leaving:
                await self._take()

    async def _take(self) -> None:
        """Take one line or key and act on it."""
        try:
            line = (await self._lines.line()).strip()
        except KeyboardInterrupt:
            if not self.conversation.interrupt() and not self.plans.interrupt():
                self.say("nothing is running; Ctrl-D quits")
            return
        except EOFError:
            if not self._desk.give(None):
                self.leave()
            return
        if self._desk.give(line) or not line:
            return
        called = self.commands.called(line)
        if called is not None:
            command, typed = called
            await self.guarded(command.handler, self, typed)
        elif (shell := user_command(line)) is not None:
            self.begin(self._shell, shell)
        else:
            self._tell(line)

    def hear(self, text: str) -> None:
        """Take a prompt that was given elsewhere."""
        self.say(f"(from elsewhere) {text}")
        self._tell(text)

    def _tell(self, text: str) -> None:
        """Tell the agent something, as a prompt or while it works."""
        if not self.conversation.is_busy:
            self.begin(self._send, text)
        elif self.conversation.steer(text):
            self.say("(will be read before the next step)")
        else:
            self.say("the agent is about to finish: send that again when it has")

    async def guarded(self, work: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Do some work, show an error in it, and then show the prompt that is due."""
        await super().guarded(work, *arguments)
        self._lines.refresh()

    async def _send(self, prompt: str) -> None:
        self._lines.refresh()
        self.say(_ending(await self.sent(prompt, limits=self._limits)))

    async def _shell(self, line: UserCommand) -> None:
        result = await self.conversation.shell(line.command, tell_model=line.tells_model)
        if result is None:
            self.say("interrupted")
        elif result.exit_code:
            self.say(f"exit {result.exit_code}")


def _ending(result: PromptResult) -> str:
    acted, tokens = result.acted, result.usage.total_tokens
    cost = "" if result.cost_usd is None else f", ${result.cost_usd:.4f}"
    used = f"({counted(tokens, 'token')}{cost}, {result.duration_s:.1f} s)"
    if acted.outcome is Outcome.COMPLETED:
        return used
    why = one_line(acted.detail or acted.reason or "no reason given", REASON_LENGTH)
    return f"{acted.outcome.value}: {why} {used}"
