"""The part of a conversation that is kept word for word, and the part that is summarised."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vibe.core.llm.tokens import CHARS_PER_TOKEN, estimate_messages
from vibe.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from vibe.core.middleware.port import HOST_NOTICE
from vibe.core.plain_text import both_ends

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

    What the user said and nobody has answered yet is always among them.
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
    parts = [
        f"{HOST_NOTICE}{_STAND_IN}",
        f"<summary>\n{summary.strip()}\n</summary>",
    ]
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
