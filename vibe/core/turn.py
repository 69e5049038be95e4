"""Turn: one model call and the tools it asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from anyio import get_cancelled_exc_class, to_thread
from msgspec import Struct, structs
from msgspec.structs import replace

from ipc.events import AssistantEvent, UsageEvent, WarningEvent
from ipc.sink import EventSink
from vibe.core.budget import Budget, Reservation, room_for
from vibe.core.config.models import ModelConfig
from vibe.core.llm.announcing import CallAnnouncer
from vibe.core.llm.history import PromptHistory
from vibe.core.llm.port import Completion, FinishReason, ModelBackend, ModelRequest, ToolSchema
from vibe.core.llm.pricing import configured_cost
from vibe.core.llm.tokens import estimate_messages, estimate_tools
from vibe.core.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, Usage
from vibe.core.middleware.port import Middleware, Reminders, TurnContext
from vibe.core.session.folder import CANCELLED_RESULT, Transcript
from vibe.core.tools.executor import ToolBatch, ToolExecutor
from vibe.core.tools.hand_in import HandIn

DEFAULT_ANSWER_TOKENS = 8_192
"""How much room is set aside for an answer where the model's own limit is not configured."""

AFFINITY = "x-affinity"
"""The header by which a provider can have one conversation served in one place, where it knows its beginning
already."""

INTERRUPTED = "interrupted"
"""The finish reason of an answer that a person broke off."""

CUT_CALL_RESULT = (
    "The answer was cut at the output limit, so this call was not run. Send it again with less content, "
    "or in several smaller calls."
)

SUMMARY_PROMPT = "compact"
"""The id of the prompt that says how to summarise."""


Restart: TypeAlias = Callable[[Path | None], None]
Fork: TypeAlias = Callable[[Restart], Awaitable[None]]
"""Place where a summarised conversation goes on: calls what it is given, not on the event loop, with the file it goes
on in; None: where it is. It raises VibeError where that can't be written; then nothing has changed."""


async def in_place(restart: Restart) -> None:
    """The ``Fork`` of a conversation that goes on in its file, behind a checkpoint."""
    await to_thread.run_sync(restart, None)


class AgentTraits(Struct, frozen=True, kw_only=True):
    """Traits of an agent, whatever it works with. ``caller`` is the name scripts and logs know it by.

    ``middleware`` is asked after the loop's own. ``fork`` says where the conversation goes on after it was summarised.
    ``hand_in`` is what the agent must end with, beside its tools. ``keeps_partial``: an answer that a cancellation
    breaks off stays in the conversation as far as it was given, and the model is told; else it is as if it had never
    been asked for.
    """

    model: ModelConfig
    caller: str = "main"
    middleware: tuple[Middleware, ...] = ()
    fork: Fork = in_place
    hand_in: HandIn | None = None
    keeps_partial: bool = False


class AgentKit(AgentTraits, frozen=True, kw_only=True):
    """Parts one agent works with.

    ``offered`` is asked before each turn, since the tools may become others meanwhile. After the conversation was
    summarised, ``reminders`` are put into it; ``summarising`` reads what the model is told to do for that.
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
    """Result of one turn; ``batch`` is None if no tool was asked for."""

    message: AssistantMessage
    batch: ToolBatch | None


class TurnRunner:
    """Runs turns of one agent, each against the whole history; the kit's middleware is asked before tools are run."""

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
        """One model call and its tools; everything is in the transcript before this returns.

        Raises:
            ModelError: the model could not be had.
            BudgetExhaustedError: there is no room for the call.
        """
        message, batch = await self._call_model(), None
        if message.cut:
            for call in message.tool_calls:
                self._transcript.append(ToolMessage(CUT_CALL_RESULT, call.id, call.name, status="error"))
        elif message.tool_calls:
            try:
                await self._warn_before(message.tool_calls)
                batch = await self._kit.tools.run_all(message.tool_calls, self._transcript.append)
            finally:
                self._transcript.close_dangling_calls(CANCELLED_RESULT, "cancelled")
        return TurnResult(message=message, batch=batch)

    @property
    def offered(self) -> frozenset[str]:
        """The names of the tools that the model may call."""
        return frozenset(schema.name for schema in self._kit.offered())

    def estimate(self, *messages: Message) -> int:
        """Return about how many tokens a prompt has in which nothing but this was said yet."""
        prompt = estimate_messages([SystemMessage(self._kit.system_prompt), *messages])
        return prompt + estimate_tools(self._kit.offered())

    def context(self) -> TurnContext:
        """The conversation as middleware sees it."""
        tokens = self._prompt_estimate()
        return TurnContext(transcript=self._transcript, budget=self._kit.budget, context_tokens=tokens)

    async def _warn_before(self, calls: tuple[ToolCall, ...]) -> None:
        context = self.context()
        for member in self._kit.middleware:
            for warning in await member.before_tools(context, calls):
                self._sink.publish(WarningEvent(code=warning.code, message=warning.message))

    async def _call_model(self) -> AssistantMessage:
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
        keep = partial(self._keep, announcer, context_tokens) if kit.keeps_partial else None
        completion = await answer_to(kit, request, announcer, context_tokens, keep)
        message = structs.replace(
            completion.message,
            usage=completion.usage,
            cost_usd=completion.cost_usd,
            cut=completion.finish_reason is FinishReason.LENGTH,
        )
        self._counted, self._known_prompt, self._known_messages = conversation, completion.usage.prompt_tokens, sent
        self._take(message, completion.usage, announcer.message_id, completion.finish_reason.value)
        if completion.oddity and completion.oddity not in self._oddities:  # said once: it is so with every answer
            self._oddities.add(completion.oddity)
            self._sink.publish(WarningEvent(code="model.odd", message=completion.oddity))
        return message

    def _keep(self, announcer: CallAnnouncer, context_tokens: int, reservation: Reservation) -> None:
        """Keep an answer as far as it was given, and book what it will have cost, as far as that can be told."""
        text = announcer.text
        if not text.strip():
            return
        message = AssistantMessage(text, interrupted=True)
        usage = Usage(prompt_tokens=context_tokens, completion_tokens=estimate_messages([message]), calls=1)
        cost_usd = configured_cost(self._kit.model, usage)
        reservation.settle(usage, cost_usd)
        message = structs.replace(message, usage=usage, cost_usd=cost_usd)
        self._take(message, usage, announcer.message_id, INTERRUPTED)

    def _prompt_estimate(self) -> int:
        """Return what the provider counted last time plus a rough count of what came since."""
        messages = self._transcript.messages
        if self._known_prompt and messages is self._counted:
            return self._known_prompt + estimate_messages(messages[self._known_messages :])
        return self.estimate(*messages)

    def _take(self, message: AssistantMessage, usage: Usage, message_id: str, finish_reason: str) -> None:
        """Put an answer into the conversation and say so."""
        self._transcript.append(message)
        self._sink.publish(
            AssistantEvent(
                message_id=message_id,
                text=message.content,
                tool_calls=len(message.tool_calls),
                finish_reason=finish_reason,
                message_index=len(self._transcript.messages) - 1,
                interrupted=message.interrupted,
            )
        )
        announce_spent(self._kit, usage, message.cost_usd)


async def answer_to(
    kit: AgentKit,
    request: ModelRequest,
    announcer: CallAnnouncer,
    tokens: int,
    broken_off: Callable[[Reservation], None] | None = None,
) -> Completion:
    """Have the model asked, announced and paid for; ``broken_off`` is called where a cancellation ends that.

    The request has about so many ``tokens``, and wants ``max_tokens`` for its answer: the provider is told of a limit
    only where there is less room than that.

    Raises:
        ModelError: the model could not be had.
        BudgetExhaustedError: there is no room for the call.
    """
    wanted = request.max_tokens or DEFAULT_ANSWER_TOKENS
    reservation = await room_for(kit.budget, kit.sink, kit.model, tokens, wanted)
    room = reservation.max_completion_tokens
    try:
        with announcer.announced(tokens):
            bounded = replace(request, max_tokens=room if room < wanted else None)
            completion = await kit.backend.complete(bounded, announcer)
        reservation.settle(completion.usage, completion.cost_usd)
    except get_cancelled_exc_class():
        if broken_off is not None:
            broken_off(reservation)
        raise
    finally:
        reservation.release()
    return completion


def announce_spent(kit: AgentKit, usage: Usage, cost_usd: float | None) -> None:
    """Say what a model call took."""
    kit.sink.publish(
        UsageEvent(
            model=kit.model.key,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cached_tokens=usage.cached_tokens,
            cost_usd=cost_usd,
        )
    )
