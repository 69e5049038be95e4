"""``vibe -p PROMPT``: answers one prompt; stdout carries the answer and nothing else."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, NamedTuple

from anyio import CancelScope, to_thread
from msgspec.structs import replace

from ipc.codec import encode_event
from ipc.events import Event, WarningEvent
from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.opening import Opening, PromptLimits, Seat
from vibe.app.conversation.runtime import Runtime
from vibe.app.engine.build import network_flags
from vibe.app.engine.event_publishing import WarningLog
from vibe.app.engine.host import Host
from vibe.app.engine.request_board import AN_HOUR
from vibe.app.engine.result_record import RunRecord
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import CommandLineError
from vibe.cli.piped import read_all, read_context, read_text
from vibe.cli.signals import handled_signals
from vibe.cli.streams import forgive
from vibe.cli.terminal.keyboard import is_in_background
from vibe.core.config.paths import VibePaths
from vibe.core.messages import Image, Outcome
from vibe.core.session.folder import SessionFolder
from vibe.core.tools.files.images import images_in
from vibe.core.tools.hand_in import HandIn
from vibe.core.tools.permissions import ApprovalMode
from vibe.front.output import TROUBLE, EventLines, json_line, line_of, write_document
from vibe.front.slash.wording import SHOWN_ID
from vibe.system.awake_loop import run_awake
from vibe.system.errors import EnvironmentFailure, UsageError, os_error_as
from vibe.system.files import replace_file
from vibe.system.plain_text import one_line, plain

if TYPE_CHECKING:
    from vibe.cli.commands.input_stream import PromptLines

RESULT, EVENTS, MESSAGES = "result.json", "events.jsonl", "messages.jsonl"


def _writing(folder: Path) -> AbstractContextManager[None]:
    """Raise an OSError in the block as an EnvironmentFailure about the output folder."""
    problem = f"--output-dir {folder}: can't be written"
    advice = "name one that can, with free space"
    return os_error_as(lambda error: EnvironmentFailure(f"{problem} ({error.strerror or error}): {advice}"))


class OutputFolder:
    """A sink for the run's events that makes the output folder; ``save`` completes it.

    The files of an earlier run are removed at the start, and each new file appears whole or not at all. So a
    ``result.json`` in the folder always belongs to this run.

    Raises:
        UsageError: the path is a file.
        EnvironmentFailure: the folder can't be created or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._draft = path / f".{EVENTS}.part"
        self._failure: OSError | None = None
        with _writing(path):
            if path.exists() and not path.is_dir():
                raise UsageError(f"--output-dir {path}: this is a file; name a folder (created if needed)")
            path.mkdir(parents=True, exist_ok=True)
            for name in (RESULT, EVENTS, MESSAGES):
                (path / name).unlink(missing_ok=True)
            self._events = self._draft.open("wb")

    @property
    def files(self) -> tuple[Path, ...]:
        """The files in the folder that belong to this run, while it lasts and afterwards."""
        return (self._draft, *(self._path / name for name in (RESULT, EVENTS, MESSAGES)))

    def publish(self, event: Event) -> None:
        """Keep an event; a disk error is reported by ``save``."""
        if self._failure is None:
            try:
                self._events.write(encode_event(event) + b"\n")
            except OSError as error:
                self._failure = error

    def save(self, record: RunRecord, transcript: Path) -> None:
        """Write the files, the record last.

        Raises:
            EnvironmentFailure: a file can't be written; then there is no ``result.json``.
        """
        with _writing(self._path):
            if self._failure is not None:
                raise self._failure
            self._events.close()
            self._draft.replace(self._path / EVENTS)
            if transcript.is_file():
                replace_file(self._path / MESSAGES, transcript.read_bytes(), sync=False, mode=None)
            text = json.dumps(record.as_document(), indent=2, ensure_ascii=False) + "\n"
            replace_file(self._path / RESULT, text.encode(), sync=False, mode=None)

    def abandon(self) -> None:
        """Close and remove the unfinished file; this does nothing after ``save``."""
        with suppress(OSError):
            self._events.close()
        with suppress(OSError):
            self._draft.unlink(missing_ok=True)


REASON_LENGTH = 1_000
"""Characters of the reason why a run did not complete."""


class PipedPrompt(NamedTuple):
    """A prompt, what standard input added and a note about that, and the value that is wanted as its answer."""

    text: str
    piped: bytes = b""
    note: str = ""
    images: tuple[Image, ...] = ()
    hand_in: HandIn | None = None


def run_prompt(args: Arguments, env: CliEnvironment) -> int:
    """Answer the prompt, or the prompts that arrive as lines, and return the exit code."""
    wanted = _hand_in(args.output_schema, env)
    lines = _lines(args, env, wanted) if args.input else None
    images = images_in(env.cwd / name for name in args.image)
    prompt = PipedPrompt("") if lines else _prompt(args, env)._replace(images=images, hand_in=wanted)
    opening, limits = opening_of(args, prompt.text), PromptLimits(**args.named_in(PromptLimits))
    streaming = args.output == "streaming"
    if streaming and prompt.note:
        env.tell(f"vibe: {prompt.note}")
    # Text output ends with a sentence on errors.
    words = json_line if streaming else partial(line_of, (WarningEvent,) if args.output == "text" else TROUBLE)
    listener = EventLines(env.stdout if streaming else env.stderr, words)
    announced = WarningLog()
    forgive(env.stdout)
    with ExitStack() as closing:
        folder = OutputFolder(env.path_to_write("--output-dir", args.output_dir)) if args.output_dir else None
        seat = Seat(approver=lines.person, user_input=lines.person.answer) if lines else _seat(args, env)
        seat = replace(seat, listeners=[*seat.listeners, listener, announced, *([] if folder is None else [folder])])
        if folder is not None:
            closing.callback(folder.abandon)
            env = replace(env, results=folder.files)
        record = run_awake(hold_conversation, env, opening, seat, limits, lines or prompt)
        if lines is None:
            closing.callback(_print, record, announced, args.output, env)  # even if the folder can't be written
        if folder is not None:
            folder.save(record, SessionFolder(VibePaths(env.home).sessions / record.session_id).transcript)
    return record.exit_code


def _lines(args: Arguments, env: CliEnvironment, wanted: HandIn | None) -> PromptLines:
    """Return the reader of prompts from standard input; answers follow the schema unless a prompt names another.

    Raises:
        CommandLineError: a prompt was given in another way too.
    """
    from vibe.cli.commands.input_stream import PromptLines  # noqa: PLC0415  few programs hold conversations

    if args.prompt or args.words or args.prompt_file is not None or args.image:
        raise CommandLineError("--input json takes its prompts from standard input: leave the prompt out")
    return PromptLines(env, None if wanted is None else wanted.schema, partial(_hand_in, env=env))


def opening_of(args: Arguments, prompt: str, *, talks: bool = False) -> Opening:
    """Return the opening that the command line asks for; ``talks`` means that more prompts will follow."""
    tools = {"enabled_tools": args.enabled_tools} if args.enabled_tools else {}
    opening = Opening(
        approvals=ApprovalMode.ALL if args.auto_approve else None,
        priced=args.max_price is not None,
        flags={**tools, **network_flags(on=args.network)},
        wait_for_servers=not talks,
        **args.named_in(Opening),
    )
    return replace(opening, prompt=prompt)


def talk_of(args: Arguments) -> tuple[Opening, PromptLimits]:
    """Return the opening for a person at the terminal, and the limits of each prompt.

    Raises:
        UsageError: an image or a schema was given.
    """
    if args.output_schema:
        raise UsageError("--output-schema goes with -p: a conversation answers in words")
    if args.image:
        raise UsageError("--image goes with -p: in a conversation, type @FILE or paste the path of the image")
    prompt = readable(" ".join(args.words).strip())
    return opening_of(args, prompt, talks=True), PromptLimits(**args.named_in(PromptLimits))


async def hold_conversation(
    host: Host, opening: Opening, seat: Seat, limits: PromptLimits, prompt: PipedPrompt | PromptLines
) -> RunRecord:
    """Hold a conversation of one prompt, or of prompts that arrive as lines; a signal interrupts it.

    Raises:
        UsageError, EnvironmentFailure, ipc.errors.IpcError: as for ``Runtime.open_conversation``.
    """
    conversation: Conversation | None = None
    opening_scope = CancelScope()

    def on_signal(_which: Signals, _count: int) -> None:
        if not isinstance(prompt, PipedPrompt):
            prompt.stop()
        if conversation is None:
            opening_scope.cancel()
        else:
            conversation.interrupt()

    async with handled_signals(host, on_signal) as signals:  # also while the runtime closes
        with opening_scope:
            async with Runtime(host) as runtime:
                conversation = await runtime.open_conversation(opening, seat)
                record = await (
                    _sent(conversation, prompt, limits)
                    if isinstance(prompt, PipedPrompt)
                    else prompt.answer(conversation, limits, signals)
                )
                record = record.after_signal(signals.exit_code)
                await conversation.aclose(record.outcome, record.exit_code)
                return record
    code = signals.exit_code or ExitCode.INTERRUPTED
    return RunRecord(outcome=Outcome.INTERRUPTED, reason="stopped", detail="stopped before it began", exit_code=code)


async def _sent(conversation: Conversation, prompt: PipedPrompt, limits: PromptLimits) -> RunRecord:
    if prompt.note:
        conversation.channel.sink.publish(WarningEvent(code="stdin", message=prompt.note))
    answer = await conversation.send(
        prompt.text, images=prompt.images, limits=limits, piped=prompt.piped, hand_in=prompt.hand_in
    )
    warnings = conversation.setup.engine.warnings
    return await to_thread.run_sync(answer.record, conversation.session_id, conversation.channel, warnings)


def _seat(args: Arguments, env: CliEnvironment) -> Seat:
    """Return the seat of the person at the terminal, if any.

    Questions go to standard error, because standard output carries the answer alone.
    """
    if env.detached is not None:
        return Seat(listeners=[env.detached], approver=AN_HOUR, user_input=AN_HOUR.answer)
    is_there = env.stdin.isatty() and env.stderr.isatty()
    if args.output != "text" or not is_there or is_in_background(env.stdin.fileno()):  # which can't read keys
        return Seat()
    from vibe.cli.terminal.person import asking

    queue, person = asking(replace(env, stdout=env.stderr))
    return Seat(listeners=[queue], approver=person, user_input=person.answer)


def _prompt(args: Arguments, env: CliEnvironment) -> PipedPrompt:
    """Return the prompt from the arguments or the file, with piped input beside it; without either, the piped input."""
    waits = "-" in (args.prompt, *args.words)
    given = " ".join(part for part in (args.prompt or "", *args.words) if part and part != "-").strip()
    if args.prompt_file is not None:
        if given or args.prompt == "-":
            raise CommandLineError("--prompt-file and a prompt on the command line can't be combined: give one of them")
        given = read_text("--prompt-file", args.prompt_file, env).strip()
        if not given:
            raise UsageError(
                f"--prompt-file {args.prompt_file}: it is empty: write a prompt, or give one with -p PROMPT"
            )
    if given:
        return PipedPrompt(readable(given), *read_context(env, waits=waits))
    prompt = read_all(env).decode("utf-8-sig", "replace").strip() if waits or not env.stdin.isatty() else ""
    if not prompt and args.resume is None:
        raise CommandLineError("no prompt: give one with `vibe -p PROMPT`, or pipe it in; see `vibe --help`")
    return PipedPrompt(prompt)


def _hand_in(file: str | None, env: CliEnvironment) -> HandIn | None:
    """Return the value that the answer must be, by the schema in a file; None if the answer is free text."""
    if file is None:
        return None
    named = f"--output-schema {file}"
    from planner.plan.strict_json import JsonRefused, parse  # noqa: PLC0415  few prompts have a schema

    try:
        schema = parse(read_text("--output-schema", file, env))
    except JsonRefused as refused:
        first = refused.problems[0]
        place = f"line {first.at.line} column {first.at.column}: " if first.at else ""
        raise UsageError(f"{named}: {place}{first}") from refused
    return HandIn.of_prompt(schema, named)


def readable(argument: str) -> str:
    """Return a command line argument with replacement marks for bytes that aren't UTF-8."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _print(record: RunRecord, announced: WarningLog, output: str, env: CliEnvironment) -> None:
    if output != "text":
        write_document(record.as_document(), env.stdout, indent=2 if output == "json" else None)
        return
    if record.answer:
        answer = plain(record.answer) if env.stdout.isatty() else record.answer
        env.stdout.write(answer.rstrip("\n") + "\n")
    env.warn(warning for warning in record.warnings if warning not in announced.after(()))
    if record.exit_code:
        how = "completed, but" if record.outcome is Outcome.COMPLETED else f"{record.outcome.value}:"
        env.stderr.write(f"vibe: {how} {one_line(record.why, REASON_LENGTH)}\n")
    if record.exit_code == ExitCode.ENVIRONMENT and record.session_id:
        env.stderr.write(f"continue with: vibe -p --resume {record.session_id[:SHOWN_ID]}\n")
