"""Compactor: has the model summarise a long conversation, so that it fits into the model's context again.

The recent turns stay word for word and the rest is summarised. A warning comes at half of the threshold, the summary at
the threshold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

import anyio.to_thread
from msgspec import Struct

from ipc.events import CompactEndEvent, CompactStartEvent, WarningEvent
from vibe.core.config.models import ModelConfig
from vibe.core.llm.announcing import CallAnnouncer
from vibe.core.llm.errors import ContextTooLongError
from vibe.core.llm.port import Completion, FinishReason, ModelRequest
from vibe.core.llm.tokens import CHARS_PER_TOKEN, estimate_messages
from vibe.core.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from vibe.core.middleware.port import HOST_NOTICE, Compact, Middleware, Notice, TurnContext, Verdict, Warn
from vibe.core.turn import AgentKit, announce_usage, complete_within_budget
from vibe.system.errors import VibeError
from vibe.system.plain_text import both_ends

SUMMARY_TOKENS = 4_096
"""The most tokens a summary may have."""
KEEP_SHARE = 0.2
"""The share of the threshold that the recent turns, kept word for word, may fill."""
KEEP_TOKENS = 20_000
"""The most tokens of recent turns that are kept word for word, however high the threshold is."""
REQUEST_SHARE = 0.25
"""The share of the threshold that the user's last request, kept word for word, may fill."""
RECORD_SHARE = 0.6
"""The share of the threshold that the text to be summarised may fill."""
CUT_SUMMARY = "\n[The summary was cut off here: look up what you miss.]"
CUT_WARNING = "the summary of the conversation was cut off at the model's output limit: its end is missing"
COMPACT = "compact"
"""The purpose of the summary's model call, as the event ``model.started`` names it."""
ATTEMPTS = 3
"""Tries to get a summary; each halves the text if the model finds it too long."""


class Compactor(Struct, frozen=True):
    """Shortens the conversation of one agent, paid for from the agent's own budget.

    ``focus`` is what the summary should keep above all, or empty.
    """

    kit: AgentKit
    focus: str = ""

    async def compact(self, context_tokens: int, threshold: int) -> bool:
        """Shorten the conversation. Return False if that failed: it is unchanged, and a warning has said why."""
        self.kit.sink.publish(CompactStartEvent(context_tokens=context_tokens, threshold=threshold))
        messages = len(self.kit.transcript.messages)
        try:
            saved = await self._summarise(threshold)
        except VibeError as error:
            sentence = f"the conversation could not be summarised and is unchanged: {error}"
            self.kit.sink.publish(WarningEvent(code="compact.failed", message=sentence))
            return False
        after = max(0, context_tokens - saved)
        event = CompactEndEvent(
            tokens_before=context_tokens,
            tokens_after=after,
            messages_before=messages,
            messages_after=len(self.kit.transcript.messages),
        )
        self.kit.sink.publish(event)
        return True

    async def _summarise(self, threshold: int) -> int:
        """Replace all but the recent turns by a summary, and return how many tokens that saved.

        Raises:
            VibeError: the model, the budget or the disk prevented it.
        """
        messages = list(self.kit.transcript.messages)
        allowed = min(int(threshold * KEEP_SHARE), KEEP_TOKENS)
        # Summarise at least half, even if the estimate is too low.
        keep = min(allowed, estimate_messages(messages) // 2)
        start = split_recent(messages, keep)
        if start == 0:
            raise VibeError("there is nothing to summarise")
        completion = await self._summary(messages[:start], int(threshold * RECORD_SHARE))
        request = self._clipped_request(last_request(self.kit.transcript.prompts, messages), threshold)
        summary = completion.message.content
        if completion.finish_reason is FinishReason.LENGTH:
            summary += CUT_SUMMARY
            self.kit.sink.publish(WarningEvent(code="compact.cut", message=CUT_WARNING))
        first = summary_message(summary, request, self.kit.reminders())
        shortened = [first, *messages[start:]]
        await self.kit.fork(partial(self.kit.transcript.restart, shortened))
        return estimate_messages(messages) - estimate_messages(shortened)

    def _clipped_request(self, request: str, threshold: int) -> str:
        """Return the user's request for the summary: whole, or clipped with a note on where all of it is."""
        most = max(int(threshold * REQUEST_SHARE) * CHARS_PER_TOKEN, REQUEST_LENGTH)
        if len(request) <= most:
            return request
        path = self.kit.transcript.path
        where = "it is kept nowhere else" if path is None else f"all of it is in {path}"
        message = f"the summary keeps {most:,} of the {len(request):,} characters of the last request; {where}"
        self.kit.sink.publish(WarningEvent(code="compact.cut", message=message))
        return f"{both_ends(request, most)}\n[{where}]"

    async def _summary(self, messages: Sequence[Message], max_tokens: int) -> Completion:
        """Have the messages summarised, clipping them to ``max_tokens`` and further if the model finds that too long.

        Raises:
            VibeError: the model, or the budget, had no summary to give.
        """
        instructions = await anyio.to_thread.run_sync(self.kit.summarising)
        if self.focus:
            instructions = f"{instructions}\n\nKeep above all: {self.focus}\n"
        for attempt in range(ATTEMPTS):
            text = conversation_text(messages, max_tokens >> attempt)
            try:
                completion = await self._ask(instructions, text)
            except ContextTooLongError:
                if attempt == ATTEMPTS - 1:
                    raise
                continue
            if completion.message.content.strip():
                return completion
            break
        raise VibeError("the model's summary was empty")

    async def _ask(self, instructions: str, text: str) -> Completion:
        """Ask the model for a summary, and count its usage in the conversation."""
        prompt: list[Message] = [
            SystemMessage(instructions),
            UserMessage(f"<conversation>\n{text}\n</conversation>\n\nWrite the summary."),
        ]
        size = estimate_messages(prompt)
        request = ModelRequest(
            model=self.kit.model, messages=prompt, max_tokens=SUMMARY_TOKENS, caller=f"{self.kit.caller}:compact"
        )
        announcer = CallAnnouncer(self.kit.sink, self.kit.model, None, COMPACT)
        completion = await complete_within_budget(self.kit, request, announcer, size)
        self.kit.transcript.spend(completion.usage, completion.cost_usd)
        announce_usage(self.kit, announcer, completion.usage, completion.cost_usd)
        return completion


TEXT_LENGTH = 4_000
"""Characters of one answer that go into the text to be summarised; a prompt may have twice as many."""
RESULT_LENGTH = 2_000
"""Characters of one tool result that go into the text to be summarised."""
ARGUMENTS_LENGTH = 600
"""Characters of one call's arguments that go into the text to be summarised."""
REQUEST_LENGTH = 8_000
"""Characters of the user's last request that always stay word for word; a high threshold allows more."""

_SUMMARY_HEAD = (
    "the conversation was summarised to save context. What stands here takes the place of all that came before the "
    "messages below. Go on with the work; do not comment on the summary."
)
_SUMMARY = re.compile(r"<summary>\n(.*)\n</summary>", re.DOTALL)
_REQUEST = re.compile(r"<request>\n(.*?)\n</request>", re.DOTALL)


def split_recent(messages: Sequence[Message], keep_tokens: int) -> int:
    """Return the index at which the recent turns begin that fit into ``keep_tokens``.

    A call is never separated from its results, and the user's unanswered messages always belong to the recent turns.
    """
    start = len(messages)
    tokens = 0
    for index in range(len(messages) - 1, -1, -1):
        tokens += estimate_messages([messages[index]])
        if tokens > keep_tokens:
            break
        if not isinstance(messages[index], ToolMessage):
            start = index
    answered = (index for index, message in enumerate(messages, 1) if not isinstance(message, UserMessage))
    return min(start, max(answered, default=0))


def conversation_text(messages: Sequence[Message], max_tokens: int) -> str:
    """Return the conversation as text of at most about ``max_tokens``: long parts are clipped, then the middle is."""
    return both_ends("\n\n".join(map(_as_text, messages)), max_tokens * CHARS_PER_TOKEN)


def last_request(prompts: Sequence[UserMessage], messages: Sequence[Message]) -> str:
    """Return what the user asked last, taken from an earlier summary if only that is left; empty if there is none."""
    for prompt in reversed(prompts):
        if not prompt.content.startswith(HOST_NOTICE):
            return prompt.content
    for message in messages:
        found = _REQUEST.search(message.content) if isinstance(message, UserMessage) else None
        if found:
            return found.group(1)
    return ""


def summary_message(summary: str, request: str, reminders: Sequence[str]) -> UserMessage:
    """Return the message that replaces the summarised part of a conversation."""
    parts = [f"{HOST_NOTICE}{_SUMMARY_HEAD}", f"<summary>\n{summary.strip()}\n</summary>"]
    if request:
        parts.append(f"The user's last request, word for word:\n<request>\n{request}\n</request>")
    if reminders:
        state = "\n\n".join(reminders)
        parts.append(f"As it stands now, not from the summary:\n<state>\n{state}\n</state>")
    return UserMessage("\n\n".join(parts))


def summary_in(message: Message) -> str:
    """Return the summary in a message made by ``summary_message``; empty for any other message."""
    if not isinstance(message, UserMessage) or not message.content.startswith(f"{HOST_NOTICE}{_SUMMARY_HEAD}"):
        return ""
    found = _SUMMARY.search(message.content)
    return found.group(1) if found else ""


def _as_text(message: Message) -> str:
    """Return one message as text, with its long parts clipped."""
    if isinstance(message, ToolMessage):
        return f"[result of {message.name}: {message.status}]\n{both_ends(message.content, RESULT_LENGTH)}"
    if isinstance(message, AssistantMessage):
        calls = [
            f"[calls {call.name} with {both_ends(call.arguments, ARGUMENTS_LENGTH)}]" for call in message.tool_calls
        ]
        return "\n".join(["[agent]", *filter(None, [both_ends(message.content, TEXT_LENGTH)]), *calls])
    who = "[host]" if message.content.startswith(HOST_NOTICE) else "[user]"
    return f"{who}\n{both_ends(message.content, TEXT_LENGTH * 2)}"


WARNING_SHARE = 0.5
"""The share of the threshold at which model and user are warned."""
DEFAULT_THRESHOLD = 200_000
"""Tokens at which a conversation is shortened if the configuration names no threshold."""
CONTEXT_SHARE = 0.85
"""The share of a model's context that a prompt may fill; the rest is left for the answer."""
RETRY_GROWTH = 1.1
"""The growth after which shortening is tried again if it did not bring the conversation below the threshold."""


def compaction_threshold(model: ModelConfig) -> int | None:
    """Return the prompt tokens at which a conversation with ``model`` is shortened; None if never automatically."""
    wanted = model.auto_compact_threshold
    if wanted == 0:
        return None
    return min(wanted or DEFAULT_THRESHOLD, int(model.context_size * CONTEXT_SHARE))


class ContextLimit(Middleware):
    """Asks to shorten the conversation at ``threshold`` tokens, and ``warns`` at half of it.

    The warning comes once, and again only after the conversation fell below that half.
    """

    def __init__(self, threshold: int, *, warns: bool = True) -> None:
        self._threshold = self._next = threshold
        self._warns = warns
        self._has_warned = False

    async def before_turn(self, context: TurnContext) -> Sequence[Verdict]:
        """Warn at half of the threshold, and ask to shorten unless that just failed and the growth since is small."""
        tokens = context.context_tokens
        verdicts: list[Verdict] = []
        half_used = tokens >= self._threshold * WARNING_SHARE
        if self._warns and half_used and not self._has_warned:
            used = f"{tokens} of {self._threshold} tokens of context are used"
            verdicts = [
                Warn(code="context.half", message=f"{used}; at the threshold the conversation is summarised"),
                Notice(f"{used}. Read only what you need; the conversation is summarised at the threshold."),
            ]
        self._has_warned = half_used
        if tokens < self._threshold:
            self._next = self._threshold
        elif tokens >= self._next:
            self._next = int(tokens * RETRY_GROWTH)
            verdicts.append(Compact(threshold=self._threshold))
        return tuple(verdicts)
