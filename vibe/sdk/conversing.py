"""The conversation behind a program's session. It imports the whole engine, so it is loaded with the first run."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
from anyio import to_thread
from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import SchemaError

from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.opening import Opening, PromptLimits, PromptResult, Seat
from vibe.app.conversation.runtime import Runtime
from vibe.app.engine.host import Host
from vibe.core.agent_loop import ActResult
from vibe.core.messages import Outcome
from vibe.core.tools.files.images import images_in
from vibe.core.tools.hand_in import HandIn
from vibe.core.tools.schema import describe_problems, known
from vibe.sdk.answer import Answer, NotCompleted, answer_of
from vibe.sdk.function_tool import tool_class
from vibe.sdk.options import PromptOptions, SessionOptions, document, folder_named
from vibe.sdk.people import People
from vibe.sdk.run import RunWork
from vibe.system.errors import UsageError

OUTPUT = "output="
NOT_SAID = ActResult(outcome=Outcome.INTERRUPTED, reason="stopped", detail="stopped before it was said")
NEVER_SENT = PromptResult(acted=NOT_SAID, cost_usd=0.0)
"""The result of a prompt that was interrupted before the agent received it."""


class OutputType(msgspec.Struct, kw_only=True, eq=False):
    """The type that an answer's output must have. ``made`` is the last value that fitted, as the program gets it."""

    adapter: TypeAdapter[Any]
    made: Any = None

    def problem(self, value: Any) -> str | None:
        """Convert a value that the agent handed in and keep it in ``made``; return what is wrong with it, or None."""
        try:
            self.made = self.adapter.validate_json(msgspec.json.encode(value))
        except ValidationError as error:
            return "; ".join(describe_problems(error, "value"))
        return None


def output_duty(output: Any) -> tuple[HandIn | None, OutputType | None]:
    """Return the duty to hand in a value of a type or JSON Schema, and the type if it was one.

    Raises:
        UsageError: the output is neither.
    """
    if output is None:
        return None, None
    if isinstance(output, Mapping):
        schema = json.loads(document(OUTPUT, cast("Mapping[str, Any]", output)))
        return HandIn.of_prompt(schema, OUTPUT), None
    try:
        typed = OutputType(adapter=TypeAdapter(known(output)))
        schema = typed.adapter.json_schema()
    except (PydanticUserError, SchemaError, TypeError, NameError, RecursionError) as error:
        why = str(error).splitlines()[0]
        raise UsageError(f"{OUTPUT}{output!r}: give a type that pydantic knows, or a JSON Schema ({why})") from error
    return HandIn.of_prompt(schema, OUTPUT, typed.problem), typed


class AskedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that was checked before anything is opened or written for it.

    ``sent`` is what the conversation is sent.
    """

    sent: dict[str, Any]
    typed: OutputType | None
    check: bool


def check_prompt(text: str, output: Any, options: PromptOptions) -> AskedPrompt:
    """Check a prompt and read its images.

    Raises:
        UsageError: the output or an image is wrong.
    """
    hand_in, typed = output_duty(output)
    sent = {
        "prompt": text,
        "images": images_in(map(Path, options.get("images", ()))),
        "limits": PromptLimits(**{name: options.get(name) for name in PromptLimits.__struct_fields__}),
        "hand_in": hand_in,
        "expand": options.get("expand", False),
    }
    return AskedPrompt(sent=sent, typed=typed, check=options.get("check", True))


@asynccontextmanager
async def open_talk(
    host: Host, workdir: Path, options: SessionOptions, hearer: RunWork[Any] | None
) -> AsyncGenerator[OpenTalk]:
    """Hold the conversation of a session open. ``hearer`` receives its events from the beginning on.

    Raises:
        UsageError, EnvironmentFailure, ipc.errors.IpcError: as from ``Runtime.open_conversation``.
        Exception: what ``on_event`` raised.
    """
    people = People(options)
    people.hearer = hearer
    opening = await to_thread.run_sync(_opening, workdir, options, people)
    seat = Seat(listeners=[people], approver=people.approver, user_input=people.user_input)
    async with Runtime(host) as runtime:
        talk = OpenTalk(await runtime.open_conversation(opening, seat), people)
        people.raise_fault()
        yield talk
        await talk.conversation.aclose(*talk.ended_as)
        people.raise_fault()


def _opening(workdir: Path, options: SessionOptions, people: People) -> Opening:
    resume = options.get("resume")
    if options.get("fork") and resume is None:
        raise UsageError("fork=True: give resume=, the session to copy")
    return Opening(
        workdir=workdir,
        extra_roots=tuple(folder_named(folder, "add_dirs") for folder in options.get("add_dirs", ())),
        agent=options.get("agent"),
        model=options.get("model"),
        approvals=people.mode,
        priced=options.get("max_price") is not None,
        resume=resume,
        fork=options.get("fork", False),
        trust=options.get("trust", False),
        observe=options.get("read_only", False),
        tools=tuple(map(tool_class, options.get("tools", ()))),
        hooks=people.hooks(options.get("hooks", {})),
        wait_for_servers=True,
    )


class OpenTalk:
    """An open conversation of a program.

    ``ended_as`` is how its last prompt ended, which becomes the end of its session.
    """

    def __init__(self, conversation: Conversation, people: People) -> None:
        self.conversation, self.people = conversation, people
        self.ended_as = Outcome.COMPLETED, 0
        people.stop = conversation.interrupt

    async def answer(self, prompt: AskedPrompt, work: RunWork[Any]) -> Answer[Any]:
        """Have a prompt of a run answered.

        Raises:
            NotCompleted: it did not complete and its ``check`` option is on.
            Exception: what a callback raised.
        """
        setup, previous_hearer = self.conversation.setup, self.people.hearer
        if prompt.sent["limits"].max_price is not None:
            await to_thread.run_sync(setup.engine.models.resolve_priced, setup.model.key)
        self.people.hearer = work
        try:
            work.serve(self.conversation.interrupt, lambda text, _step: self.conversation.steer(text))
            result = NEVER_SENT if work.is_interrupted else await self.conversation.send(**prompt.sent)
            return await to_thread.run_sync(self.end, prompt, result)
        finally:
            self.people.hearer = previous_hearer

    def end(self, prompt: AskedPrompt, result: PromptResult = NEVER_SENT) -> Answer[Any]:
        """Return the answer to a prompt that has ended.

        Raises:
            NotCompleted, Exception: as from ``answer``.
        """
        conversation, acted = self.conversation, result.acted
        is_done = acted.outcome is Outcome.COMPLETED
        record = result.record(conversation.session_id, conversation.channel, conversation.setup.engine.warnings)
        self.ended_as = record.outcome, record.exit_code
        self.people.raise_fault()
        output = prompt.typed.made if prompt.typed and is_done else acted.output
        answer = answer_of(record, acted.turns, output, acted.files_changed)
        if prompt.check and not is_done:
            raise NotCompleted(answer)
        return answer
