"""Compactor: has the model summarise a conversation, so that it can go on in less room.

A part of it is kept word for word, and the rest is summarised: there is a warning when the conversation fills half of
what the model takes, and a summary when it nears that.
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
from vibe.core.turn import AgentKit, announce_spent, answer_to
from vibe.system.errors import VibeError
from vibe.system.plain_text import both_ends

SUMMARY_TOKENS = 4_096
KEEP_SHARE = 0.2
"""The share of the threshold that recent turns may fill, which stay word for word."""
KEEP_TOKENS = 20_000
REQUEST_SHARE = 0.25
"""The share of the threshold that the user's last request may fill, word for word."""
RECORD_SHARE = 0.6
"""The share of the threshold that the text may fill from which the summary is made."""
CUT_SUMMARY = "\n[The summary was cut off here: look up what you miss.]"
CUT_WARNING = "the summary of the conversation was cut off at the model's output limit: its end is missing"
COMPACT = "compact"
"""The purpose of the call, see ``model.started``."""
ATTEMPTS = 3
"""A record that is too long for the model is halved so often."""


class Compactor(Struct, frozen=True):
    """Shortens the conversation of one agent. Its call is paid for from the same budget as the agent's own.

    ``focus`` is what the summary is to keep above all; empty: nothing.
    """

    kit: AgentKit
    focus: str = ""

    async def compact(self, context_tokens: int, threshold: int) -> bool:
        """Return whether it worked; if not, the conversation is as it was and a warning said why."""
        self.kit.sink.publish(CompactStartEvent(context_tokens=context_tokens, threshold=threshold))
        messages = len(self.kit.transcript.messages)
        try:
            saved = await self._replace(threshold)
        except VibeError as error:
            sentence = f"the conversation could not be summarised and is unchanged: {error}"
            self.kit.sink.publish(WarningEvent(code="compact.failed", message=sentence))
            return False
        after = max(0, context_tokens - saved)
        self.kit.sink.publish(
            CompactEndEvent(
                tokens_before=context_tokens,
                tokens_after=after,
                messages_before=messages,
                messages_after=len(self.kit.transcript.messages),
            )
        )
        return True

    async def _replace(self, threshold: int) -> int:
        """Put a summary in place of all but the recent turns; how many tokens that saved.

        Raises:
            VibeError: model, budget or disk did not let it.
        """
        messages = list(self.kit.transcript.messages)
        fair = min(int(threshold * KEEP_SHARE), KEEP_TOKENS)
        keep = min(fair, estimate_messages(messages) // 2)  # where the estimate is too low, half
        start = split_recent(messages, keep)
        if start == 0:
            raise VibeError("there is nothing to summarise")
        completion = await self._summary(messages[:start], int(threshold * RECORD_SHARE))
        request = self._kept(last_request(self.kit.transcript.prompts, messages), threshold)
        summary = completion.message.content
        if completion.finish_reason is FinishReason.LENGTH:
            summary += CUT_SUMMARY
            self.kit.sink.publish(WarningEvent(code="compact.cut", message=CUT_WARNING))
        first = stand_in(summary, request, self.kit.reminders())
        shortened = [first, *messages[start:]]
        await self.kit.fork(partial(self.kit.transcript.restart, shortened))
        return estimate_messages(messages) - estimate_messages(shortened)

    def _kept(self, request: str, threshold: int) -> str:
        """The user's words as they stay in the summary: whole, or with a word about what is missing and where it is."""
        most = max(int(threshold * REQUEST_SHARE) * CHARS_PER_TOKEN, REQUEST_LENGTH)
        if len(request) <= most:
            return request
        path = self.kit.transcript.path
        where = "it is kept nowhere else" if path is None else f"all of it is in {path}"
        message = f"the summary keeps {most:,} of the {len(request):,} characters of the last request; {where}"
        self.kit.sink.publish(WarningEvent(code="compact.cut", message=message))
        return f"{both_ends(request, most)}\n[{where}]"

    async def _summary(self, messages: Sequence[Message], max_tokens: int) -> Completion:
        instructions = await anyio.to_thread.run_sync(self.kit.summarising)
        if self.focus:
            instructions = f"{instructions}\n\nKeep above all: {self.focus}\n"
        for attempt in range(ATTEMPTS):
            record = record_of(messages, max_tokens >> attempt)
            try:
                completion = await self._ask(instructions, record)
            except ContextTooLongError:
                if attempt == ATTEMPTS - 1:
                    raise
                continue
            if completion.message.content.strip():
                return completion
            break
        raise VibeError("the model's summary was empty")

    async def _ask(self, instructions: str, record: str) -> Completion:
        prompt: list[Message] = [
            SystemMessage(instructions),
            UserMessage(f"<conversation>\n{record}\n</conversation>\n\nWrite the summary."),
        ]
        size = estimate_messages(prompt)
        request = ModelRequest(
            model=self.kit.model, messages=prompt, max_tokens=SUMMARY_TOKENS, caller=f"{self.kit.caller}:compact"
        )
        announcer = CallAnnouncer(self.kit.sink, self.kit.model, None, COMPACT)
        completion = await answer_to(self.kit, request, announcer, size)
        self.kit.transcript.spend(completion.usage, completion.cost_usd)
        announce_spent(self.kit, completion.usage, completion.cost_usd)
        return completion


TEXT_LENGTH = 4_000
"""Characters of one prompt or answer that go into the record a summary is made from."""
RESULT_LENGTH = 2_000
ARGUMENTS_LENGTH = 600
REQUEST_LENGTH = 8_000
"""Characters of the user's last request that stay word for word, or more where there is room."""

_STAND_IN = (
    "the conversation was summarised to save context. What stands here takes the place of all that came before the "
    "messages below. Go on with the work; do not comment on the summary."
)
_SUMMARY = re.compile(r"<summary>\n(.*)\n</summary>", re.DOTALL)
_REQUEST = re.compile(r"<request>\n(.*?)\n</request>", re.DOTALL)


def split_recent(messages: Sequence[Message], keep_tokens: int) -> int:
    """Return where the recent turns begin that fit into ``keep_tokens``; a call is never parted from its results.

    The user's unanswered messages are always among them.
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


def record_of(messages: Sequence[Message], max_tokens: int) -> str:
    """The conversation as text of about ``max_tokens`` at most: long parts are clipped, then its middle is left out."""
    room = max_tokens * CHARS_PER_TOKEN
    return both_ends("\n\n".join(map(_as_text, messages)), room)


def last_request(prompts: Sequence[UserMessage], messages: Sequence[Message]) -> str:
    """Return what the user asked last; where only a summary is left of it, what that has word for word; else empty."""
    for prompt in reversed(prompts):
        if not prompt.content.startswith(HOST_NOTICE):
            return prompt.content
    for message in messages:
        found = _REQUEST.search(message.content) if isinstance(message, UserMessage) else None
        if found:
            return found.group(1)
    return ""


def stand_in(summary: str, request: str, reminders: Sequence[str]) -> UserMessage:
    """The message that takes the place of what was summarised."""
    parts = [f"{HOST_NOTICE}{_STAND_IN}", f"<summary>\n{summary.strip()}\n</summary>"]
    if request:
        parts.append(f"The user's last request, word for word:\n<request>\n{request}\n</request>")
    if reminders:
        state = "\n\n".join(reminders)
        parts.append(f"As it stands now, not from the summary:\n<state>\n{state}\n</state>")
    return UserMessage("\n\n".join(parts))


def summary_in(message: Message) -> str:
    """Return the summary in a message that takes the place of others; empty: it takes none."""
    if not isinstance(message, UserMessage) or not message.content.startswith(f"{HOST_NOTICE}{_STAND_IN}"):
        return ""
    found = _SUMMARY.search(message.content)
    return found.group(1) if found else ""


def _as_text(message: Message) -> str:
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
DEFAULT_THRESHOLD = 200_000
CONTEXT_SHARE = 0.85
"""A prompt may fill so much of what a model takes; the rest is for its answer."""
RETRY_GROWTH = 1.1
"""After shortening did not help, it is tried again once the conversation has grown by so much."""


def compaction_threshold(model: ModelConfig) -> int | None:
    """Tokens of prompt at which a conversation with ``model`` is shortened; None: never by itself."""
    wanted = model.auto_compact_threshold
    if wanted == 0:
        return None
    return min(wanted or DEFAULT_THRESHOLD, int(model.context_size * CONTEXT_SHARE))


class ContextLimit(Middleware):
    """Has the conversation shortened at ``threshold`` tokens; ``warns`` at half of them, once until that was done."""

    def __init__(self, threshold: int, *, warns: bool = True) -> None:
        self._threshold = self._next = threshold
        self._warns = warns
        self._said = False

    async def before_turn(self, context: TurnContext) -> Sequence[Verdict]:
        """Tell the model and the people, and ask unless the last time brought nothing and little was said since."""
        tokens = context.context_tokens
        verdicts: list[Verdict] = []
        half_used = tokens >= self._threshold * WARNING_SHARE
        if self._warns and half_used and not self._said:
            used = f"{tokens} of {self._threshold} tokens of context are used"
            verdicts = [
                Warn(code="context.half", message=f"{used}; at the threshold the conversation is summarised"),
                Notice(f"{used}. Read only what you need; the conversation is summarised at the threshold."),
            ]
        self._said = half_used
        if tokens < self._threshold:
            self._next = self._threshold
        elif tokens >= self._next:
            self._next = int(tokens * RETRY_GROWTH)
            verdicts.append(Compact(threshold=self._threshold))
        return tuple(verdicts)
