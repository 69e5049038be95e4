"""TurnRunner: one model call and the tool calls it asked for, announced, paid for and written to the transcript."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from pathlib import Path
from typing import TypeAlias

from anyio import get_cancelled_exc_class, to_thread
from msgspec import Struct, structs

from ipc.events import AssistantEvent, UsageEvent, WarningEvent
from ipc.sink import EventSink
from vibe.core.budget import Budget, reserve_budget
from vibe.core.config.models import ModelConfig
from vibe.core.config.patterns import our_tool_name
from vibe.core.llm.announcing import CallAnnouncer
from vibe.core.llm.history import PromptHistory
from vibe.core.llm.port import Completion, FinishReason, ModelBackend, ModelRequest, ToolSchema
from vibe.core.llm.tokens import estimate_messages, estimate_tools
from vibe.core.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, Usage, total_of
from vibe.core.middleware.port import Middleware, Reminders, TurnContext
from vibe.core.session.folder import Transcript
from vibe.core.tools.executor import NOT_STARTED, ToolBatch, ToolExecutor
from vibe.core.tools.hand_in import HandIn

DEFAULT_ANSWER_TOKENS = 8_192
"""Tokens reserved for an answer if the model's own output limit is not configured."""

AFFINITY = "x-affinity"
"""The header that carries the session's id, so that a provider can route all calls of a conversation to the server
that has its beginning cached."""

INTERRUPTED = "interrupted"
"""The finish reason of an answer that was interrupted by a person."""

CUT_CALL_RESULT = (
    "The answer was cut at the output limit, so this call was not run. Send it again with less content, "
    "or in several smaller calls."
)

SUMMARY_PROMPT = "compact"
"""The id of the prompt that tells the model how to summarise a conversation."""


Restart: TypeAlias = Callable[[Path | None], None]
Fork: TypeAlias = Callable[[Restart], Awaitable[None]]
"""Chooses where a summarised conversation continues.

It calls the given function in a worker thread, with the file to continue in, or None to stay in the current one. It
raises VibeError if that file can't be written; then nothing has changed."""


async def in_place(restart: Restart) -> None:
    """Continue the conversation in its own file, behind a checkpoint: the simplest ``Fork``."""
    await to_thread.run_sync(restart, None)


class AgentTraits(Struct, frozen=True, kw_only=True):
    """The traits of one agent, apart from the parts it works with.

    ``caller`` names it in logs and for scripted models. ``middleware`` runs after the loop's own. ``fork`` chooses
    where the conversation continues after it was summarised. ``hand_in`` is the tool the agent must end with, in
    addition to its others. With ``keeps_partial`` an answer that a cancellation interrupts stays in the conversation
    as far as it was given, and the model is told; otherwise the conversation is as if it had not been asked.
    """

    model: ModelConfig
    caller: str = "main"
    middleware: tuple[Middleware, ...] = ()
    fork: Fork = in_place
    hand_in: HandIn | None = None
    keeps_partial: bool = False


class AgentKit(AgentTraits, frozen=True, kw_only=True):
    """All the parts one agent works with.

    ``offered`` is called before each turn, since the set of tools may change between turns. ``notes`` returns
    texts to append to the system prompt. ``reminders`` are added to a conversation after it was summarised, and
    ``summarising`` reads the instructions for that summary from disk.
    """

    backend: ModelBackend
    tools: ToolExecutor
    offered: Callable[[], tuple[ToolSchema, ...]]
    notes: Callable[[], tuple[str, ...]] = tuple
    system_prompt: str
    transcript: Transcript
    sink: EventSink
    budget: Budget
    session_id: str = ""
    context_warnings: bool = True
    reminders: Reminders = tuple
    summarising: Callable[[], str]


class TurnResult(Struct, frozen=True, kw_only=True):
    """The result of one turn; ``batch`` is None if no tool was run."""

    message: AssistantMessage
    batch: ToolBatch | None


class TurnRunner:
    """Runs the turns of one agent. The kit's middleware is asked before tools run."""

    def __init__(self, kit: AgentKit) -> None:
        self._kit = kit
        self._transcript = kit.transcript
        self._sink = kit.sink
        self._history = PromptHistory(kit.system_prompt)
        self._counted: list[Message] | None = None
        self._known_prompt = 0  # tokens the provider counted for the first `_known_messages` of `_counted`
        self._known_messages = 0
        self._oddities: set[str] = set()

    async def run(self) -> TurnResult:
        """Call the model and run the tools it asks for; everything is in the transcript before this returns.

        Raises:
            ModelError: the model could not be reached or did not answer.
            BudgetExhaustedError: the budget has no room for the call.
        """
        message, batch = await self._call_model(), None
        if message.cut:
            for call in message.tool_calls:
                self._transcript.append(ToolMessage(CUT_CALL_RESULT, call.id, call.name, status="error"))
        elif message.tool_calls:
            try:
                await self._warn_before_tools(message.tool_calls)
                batch = await self._kit.tools.run_all(message.tool_calls, self._transcript.append)
            finally:
                self._transcript.close_dangling_calls(NOT_STARTED, "cancelled")
        return TurnResult(message=message, batch=batch)

    @property
    def offered(self) -> frozenset[str]:
        """The names of the tools that the model may call."""
        return frozenset(schema.name for schema in self._kit.offered())

    def estimate(self, *messages: Message) -> int:
        """Estimate the tokens of a request with the system prompt, these messages and the tools' schemas."""
        prompt = estimate_messages([SystemMessage(self._kit.system_prompt), *messages])
        return prompt + estimate_tools(self._kit.offered())

    def context(self) -> TurnContext:
        """Return the conversation as middleware sees it."""
        tokens = self._prompt_estimate()
        return TurnContext(transcript=self._transcript, budget=self._kit.budget, context_tokens=tokens)

    async def _warn_before_tools(self, calls: tuple[ToolCall, ...]) -> None:
        """Publish what the middleware has to say before these calls run."""
        context = self.context()
        for member in self._kit.middleware:
            for warning in await member.before_tools(context, calls):
                self._sink.publish(WarningEvent(code=warning.code, message=warning.message))

    async def _call_model(self) -> AssistantMessage:
        """Send the whole conversation to the model, and add its answer to the transcript."""
        kit = self._kit
        conversation = kit.transcript.messages
        sent = len(conversation)
        context_tokens = self._prompt_estimate()
        announcer = CallAnnouncer(kit.sink, kit.model, kit.tools.masked)
        request = ModelRequest(
            model=kit.model,
            messages=self._history.messages(conversation, kit.notes()),
            tools=kit.offered(),
            max_tokens=kit.model.max_output_tokens,
            caller=kit.caller,
            extra_headers={AFFINITY: kit.session_id} if kit.session_id else {},
        )
        keep = partial(self._keep_partial, announcer) if kit.keeps_partial else None
        completion = await complete_within_budget(kit, request, announcer, context_tokens, keep)
        message = structs.replace(
            completion.message,
            tool_calls=tuple(_by_our_name(call, self.offered) for call in completion.message.tool_calls),
            usage=completion.usage,
            cost_usd=completion.cost_usd,
            cut=completion.finish_reason is FinishReason.LENGTH,
        )
        self._counted, self._known_messages = conversation, sent
        self._known_prompt = completion.usage.prompt_tokens - announcer.broken_off.usage.prompt_tokens
        self._add_answer(message, announcer, completion.finish_reason.value)
        if completion.oddity and completion.oddity not in self._oddities:  # once is enough: every answer repeats it
            self._oddities.add(completion.oddity)
            self._sink.publish(WarningEvent(code="model.odd", message=completion.oddity))
        return message

    def _keep_partial(self, announcer: CallAnnouncer) -> None:
        """Keep an interrupted answer as far as it was given."""
        message = AssistantMessage(announcer.text, interrupted=True, **structs.asdict(announcer.broken_off))
        self._add_answer(message, announcer, INTERRUPTED)

    def _prompt_estimate(self) -> int:
        """Return the tokens the provider counted for the last request plus an estimate of what was added since."""
        messages = self._transcript.messages
        if self._known_prompt and messages is self._counted:
            return self._known_prompt + estimate_messages(messages[self._known_messages :])
        return self.estimate(*messages)

    def _add_answer(self, message: AssistantMessage, announcer: CallAnnouncer, finish_reason: str) -> None:
        """Add an answer to the conversation, and announce it and its usage."""
        self._transcript.append(message)
        event = AssistantEvent(
            message_id=announcer.message_id,
            text=message.content,
            tool_calls=len(message.tool_calls),
            finish_reason=finish_reason,
            message_index=len(self._transcript.messages) - 1,
            interrupted=message.interrupted,
        )
        self._sink.publish(event)
        announce_usage(self._kit, announcer, message.usage or Usage(), message.cost_usd)


def _by_our_name(call: ToolCall, offered: Collection[str]) -> ToolCall:
    """Return a call under the name of the tool it means: models know the tools of other agents."""
    name = our_tool_name(call.name)
    return call if call.name in offered or name not in offered else structs.replace(call, name=name)


async def complete_within_budget(
    kit: AgentKit,
    request: ModelRequest,
    announcer: CallAnnouncer,
    tokens: int,
    on_cancel: Callable[[], None] | None = None,
) -> Completion:
    """Call the model: reserve the budget, announce the call, and settle what it cost.

    ``tokens`` is the estimated size of the request. A limit on the answer is sent to the provider only if the budget
    leaves less room than the request's ``max_tokens``. What answers took that broke off counts, too. ``on_cancel``
    keeps the answer, with what it took, if a cancellation ends the call after its first words.

    Raises:
        ModelError: the model could not be reached or did not answer.
        BudgetExhaustedError: the budget has no room for the call.
    """
    wanted = request.max_tokens or DEFAULT_ANSWER_TOKENS
    reservation = await reserve_budget(kit.budget, kit.sink, kit.model, tokens, wanted)
    room = reservation.max_completion_tokens
    try:
        with announcer.announced(tokens):
            bounded = structs.replace(request, max_tokens=room if room < wanted else None)
            completion = await kit.backend.complete(bounded, announcer)
        total = total_of((completion, announcer.lost(completion)))
        reservation.settle(total.usage, total.cost_usd)
    except BaseException as error:
        lost = announcer.lost(kit.transcript)
        if lost.usage.calls:
            reservation.settle(lost.usage, lost.cost_usd)
            if on_cancel and isinstance(error, get_cancelled_exc_class()) and announcer.text.strip():
                on_cancel()
            else:
                kit.transcript.spend(lost.usage, lost.cost_usd)
                announce_usage(kit, announcer, lost.usage, lost.cost_usd)
        raise
    finally:
        reservation.release()
    return structs.replace(completion, usage=total.usage, cost_usd=total.cost_usd)


def announce_usage(kit: AgentKit, announcer: CallAnnouncer, usage: Usage, cost_usd: float | None) -> None:
    """Publish what a model call used and cost."""
    event = UsageEvent(
        model=kit.model.key,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        cost_usd=cost_usd,
        estimated=announcer.broken_off.usage.calls > 0,
    )
    kit.sink.publish(event)
