"""Estimates how many tokens a text takes, for when the provider has not counted them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from vibe.core.llm.port import ModelRequest, ToolSchema
from vibe.core.messages import AssistantMessage, Message, ToolMessage, UserMessage

CHARS_PER_TOKEN: Final = 4
MESSAGE_OVERHEAD: Final = 4
"""Tokens a chat template adds to each message for its role and delimiters."""
IMAGE_TOKENS: Final = 1_500
"""About the tokens of a screenshot with most providers."""


def estimate_messages(messages: Iterable[Message]) -> int:
    """Estimate the tokens of messages in a prompt."""
    characters = count = 0
    for message in messages:
        count += 1
        characters += len(message.content)
        if isinstance(message, AssistantMessage):
            characters += sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
        elif isinstance(message, ToolMessage):
            characters += len(message.name)
        if isinstance(message, ToolMessage | UserMessage):
            characters += len(message.images) * IMAGE_TOKENS * CHARS_PER_TOKEN
    return -(-characters // CHARS_PER_TOKEN) + MESSAGE_OVERHEAD * count


def estimate_tools(tools: Iterable[ToolSchema]) -> int:
    """Estimate the tokens of tool schemas in a prompt."""
    characters = sum(len(tool.name + tool.description) + len(msgspec.json.encode(tool.parameters)) for tool in tools)
    return -(-characters // CHARS_PER_TOKEN)


def estimate_prompt(request: ModelRequest) -> int:
    """Estimate the tokens of a whole request: messages and tool schemas."""
    return estimate_messages(request.messages) + estimate_tools(request.tools)


def estimate_answer(message: AssistantMessage) -> int:
    """Estimate the tokens of an answer with its reasoning and its tool calls."""
    reasoning = -(-len(message.reasoning) // CHARS_PER_TOKEN)
    return reasoning + estimate_messages([message]) - MESSAGE_OVERHEAD
