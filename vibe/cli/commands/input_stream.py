"""``--input json``: takes commands as lines on standard input, and answers them among the events of the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio
import msgspec

from ipc.commands import MAX_REQUEST_BYTES, Cancel, GivePrompt, Reply, encode_reply
from ipc.control import CommandDesk, refusal
from ipc.errors import INVALID_JSON
from vibe.app.conversation.control import wrong_conversation
from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.opening import PromptLimits
from vibe.app.engine.request_board import Absentee
from vibe.app.engine.result_record import EXIT_CODES, RunRecord
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.signals import SignalLog
from vibe.cli.streams import FULL, READER_SECONDS, has_failed, waiting
from vibe.core.messages import Image, Outcome
from vibe.core.tools.files.images import images_in
from vibe.core.tools.hand_in import HandIn
from vibe.front.output import write_document
from vibe.system.errors import UsageError, VibeError
from vibe.system.line_wire import CHUNK_BYTES, LineSplitter, read_ready
from vibe.system.racing import shielded, unless

if TYPE_CHECKING:
    from vibe.app.plan.run import PlanRun, PlanSession

MOST_QUEUED = 100
"""Prompts that may wait for their turn."""
LOOK_SECONDS = 1.0
"""Interval between checks that someone still reads standard output."""
CODES: Mapping[str | None, int] = MappingProxyType({"usage": ExitCode.USAGE, "environment": ExitCode.ENVIRONMENT})
"""The exit codes of prompts that could not be sent, by reason."""
STOPPED = (Outcome.INTERRUPTED, "stopped")
"""The outcome and reason of a prompt that was withdrawn."""
NOTHING_TAKEN = "no prompt was taken, and what came was refused: read the replies, and give it again"
NOBODY_LEFT = "no one answered before the end of standard input"


class _Named(msgspec.Struct):
    """The part of a line that its reply repeats, whatever else the line holds."""

    command_id: str | None = None


class InputLines:
    """The commands on standard input, carried out one after the other and each answered by a line.

    ``over`` is set once no more are taken, because the input has ended or nobody reads the output; setting it has the
    same effect. From then on, open and new questions to ``person`` go unanswered. Holding ``_replying`` delays replies.
    ``has_refused`` means that at least one command was not carried out.
    """

    def __init__(self, env: CliEnvironment) -> None:
        self.over = anyio.Event()
        self.has_refused = False
        self._replying = anyio.Lock()
        self.person = Absentee(self.over.wait, NOBODY_LEFT)
        self._write = partial(write_document, out=env.stdout)
        self._env = env

    async def serve(self, desk: CommandDesk) -> None:
        """Take commands until there are no more."""
        await unless(self._until_unwanted, partial(self._read, desk))
        self.over.set()

    async def run(self, session: PlanSession, before_start: Callable[[], object] | None) -> PlanRun:
        """Run a plan, taking commands from its start; see ``PlanSession.run``."""
        started = anyio.Event()

        def start() -> None:
            started.set()
            if before_start is not None:
                before_start()

        async def listen() -> None:
            await started.wait()
            if session.channel is not None:
                await self.serve(CommandDesk(session.channel.bus.entry, session.commands))
            await anyio.sleep_forever()

        [ended] = await unless(listen, partial(session.run, start))
        return ended

    async def _until_unwanted(self) -> None:
        while not (self.over.is_set() or has_failed(self._env.stdout)):
            with anyio.move_on_after(LOOK_SECONDS):
                await self.over.wait()

    async def _read(self, desk: CommandDesk) -> None:
        lines, is_open = LineSplitter(MAX_REQUEST_BYTES), True
        while is_open:
            while waiting(self._env.stdout) > FULL:  # noqa: ASYNC110  its reader is another process
                await anyio.sleep(READER_SECONDS)
            chunk = await self._chunk()
            is_open = bool(chunk)
            for line in lines.feed(chunk or b"\n"):  # the last line may lack a line feed
                async with self._replying:
                    await shielded(partial(self._answer, line, desk))

    async def _chunk(self) -> bytes:
        """Return the input that has arrived; empty at the end, or if it can't be read."""
        stdin = self._env.stdin
        try:
            descriptor = stdin.fileno()
        except (OSError, ValueError):  # a replacement without a descriptor
            return await anyio.to_thread.run_sync(stdin.buffer.read, CHUNK_BYTES)
        try:
            return await read_ready(descriptor)
        except OSError as error:
            self._env.tell(f"vibe: standard input can't be read ({error.strerror}): give a pipe or a file")
            return b""

    async def _answer(self, line: bytes, desk: CommandDesk) -> None:
        """Carry out the command in a line and write the reply; a blank line stands for one that was too long."""
        command = desk.command_in(line, is_owner=True) if line else refusal("invalid", TOO_LONG)
        reply = command if isinstance(command, Reply) else await desk.reply(command)
        fields = json.loads(encode_reply(reply))
        if reply.reason == "unknown":
            fields["reason"] = "invalid"
        self.has_refused |= not reply.ok
        names = ("ok", "reason", "message", "data")
        self._write({"type": "reply", "command_id": _id_in(line), **{name: fields[name] for name in names}})


TOO_LONG = f"a line has at most {MAX_REQUEST_BYTES:,} bytes"


def _id_in(line: bytes) -> str | None:
    try:
        return msgspec.json.decode(line, type=_Named).command_id
    except INVALID_JSON:
        return None


class PromptLines(InputLines):
    """The same for a conversation, whose prompts also arrive as lines and wait in a queue.

    ``schema`` is the schema of answers for prompts that name none; ``schema_in`` reads a schema from a file.
    """

    def __init__(
        self, env: CliEnvironment, schema: Mapping[str, Any] | None, schema_in: Callable[[str], HandIn | None]
    ) -> None:
        super().__init__(env)
        self._schema = schema
        self._schema_in = schema_in
        self._is_stopped = False
        self._into, self._queue = anyio.create_memory_object_stream[tuple[str, GivePrompt]](MOST_QUEUED)

    async def answer(self, conversation: Conversation, limits: PromptLimits, signals: SignalLog) -> RunRecord:
        """Answer all prompts, each with events and a result line, and return the record of the last.

        If no prompt was taken and another command was refused, nothing wanted was done, and the run has failed.
        """

        async def listen() -> None:
            await self.serve(CommandDesk(conversation.channel.bus.entry, conversation.commands))
            self._into.close()
            await anyio.sleep_forever()

        async def answer_all() -> RunRecord:
            record = None
            async for prompt_id, command in self._queue:
                async with self._replying:  # its reply must be written first
                    pass
                record = await self._answered(conversation, command, limits, prompt_id)
                record = record.after_signal(signals.exit_code)
                self._write({"type": "result", "prompt_id": prompt_id, **record.as_document()})
            if self._is_stopped and (record is None or record.exit_code == ExitCode.DONE):
                return _unsent(conversation, *STOPPED)
            if record is None and self.has_refused:
                self._env.tell(f"vibe: {NOTHING_TAKEN}")
                return _unsent(conversation, Outcome.FAILED, "usage", NOTHING_TAKEN)
            return record or _unsent(conversation, Outcome.COMPLETED)

        commands = conversation.commands.on(GivePrompt, partial(self._take, conversation))
        commands.on(Cancel, partial(self._cancel, conversation))
        with self._into, self._queue:
            [record] = await unless(listen, answer_all)
            return record

    def stop(self) -> None:
        """Take nothing more; prompts that wait are not started."""
        self._is_stopped = True
        self.over.set()

    async def _answered(
        self, conversation: Conversation, command: GivePrompt, limits: PromptLimits, prompt_id: str
    ) -> RunRecord:
        try:
            images, hand_in = await anyio.to_thread.run_sync(self._attachments, command)
            if self._is_stopped:
                return _unsent(conversation, *STOPPED)
            result = await conversation.send(
                command.text, images=images, limits=limits, hand_in=hand_in, prompt_id=prompt_id
            )
        except VibeError as error:
            reason = "usage" if isinstance(error, UsageError) else "environment"
            return _unsent(conversation, Outcome.FAILED, reason, str(error))
        warnings = conversation.setup.engine.warnings
        return await anyio.to_thread.run_sync(result.record, conversation.session_id, conversation.channel, warnings)

    async def _take(self, conversation: Conversation, command: GivePrompt) -> Reply:
        if command.session_id not in {"", conversation.session_id}:
            return wrong_conversation(command.session_id)
        prompt_id = uuid4().hex
        try:
            await anyio.to_thread.run_sync(self._attachments, command)
            self._into.send_nowait((prompt_id, command))
        except UsageError as error:
            return refusal("refused", str(error))
        except anyio.WouldBlock:
            return refusal("refused", f"{MOST_QUEUED} prompts are waiting: give it again after the next result")
        except anyio.ClosedResourceError:
            return refusal("refused", "standard input has ended: no more prompts are taken")
        return Reply(ok=True, message="queued", data={"prompt_id": prompt_id})

    async def _cancel(self, conversation: Conversation, _: Cancel) -> Reply:
        self.stop()
        conversation.interrupt()
        return Reply(ok=True, message="cancelling: the agent is stopped now")

    def _attachments(self, command: GivePrompt) -> tuple[tuple[Image, ...], HandIn | None]:
        """Return the images and the schema that go with a prompt; reads files.

        Raises:
            UsageError: a path or a schema is wrong.
        """
        images = images_in(self._env.path(name) for name in command.images)
        schema = self._schema if command.output_schema is None else command.output_schema
        if isinstance(schema, str):
            return images, self._schema_in(schema)
        return images, None if schema is None else HandIn.of_prompt(schema, "output_schema")


def _unsent(conversation: Conversation, outcome: Outcome, reason: str | None = None, detail: str = "") -> RunRecord:
    """Return the record of a prompt that was not sent."""
    exit_code = CODES.get(reason, EXIT_CODES[outcome])
    return RunRecord(
        outcome=outcome, exit_code=exit_code, session_id=conversation.session_id, reason=reason, detail=detail
    )
