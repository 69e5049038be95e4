"""A history every API takes: roles in order, every call answered once, nothing empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from vibe.core.messages import AssistantMessage, Image, Message, SystemMessage, ToolMessage, UserMessage

NO_RESULT = "This call has no result: it was never run."

IMAGES_FOLLOW = "These are the images of the tool results above."
"""Providers take images from users only, so they come after the results of an answer's calls."""

EMPTY_ANSWER = "(empty answer)"


def normalised(messages: Iterable[Message]) -> list[Message]:
    """The same conversation in a form that no provider refuses.

    Calls without a result get one that says so, results without a call are dropped, a system message after the start
    becomes a user message, images move behind the results they came with, and an empty answer says that it is one. What
    a model said is kept as it said it; backends word arguments that are no JSON.
    """
    source = list(messages)
    result: list[Message] = []
    index = 0
    while index < len(source):
        message = source[index]
        index += 1
        if isinstance(message, AssistantMessage):
            answers: dict[str, ToolMessage] = {}
            while index < len(source) and isinstance(answer := source[index], ToolMessage):
                answers.setdefault(answer.tool_call_id, answer)
                index += 1
            result.extend(_answered(message, answers))
        elif isinstance(message, SystemMessage) and result:
            result.append(UserMessage(message.content))
        elif not isinstance(message, ToolMessage):
            result.append(message)
    return result


def _answered(message: AssistantMessage, answers: dict[str, ToolMessage]) -> Iterator[Message]:
    if not message.tool_calls and not message.content:
        yield msgspec.structs.replace(message, content=EMPTY_ANSWER)
        return
    yield message
    images: list[Image] = []
    for call in message.tool_calls:
        answer = answers.get(call.id) or ToolMessage(NO_RESULT, call.id, call.name, status="error")
        images += answer.images
        yield msgspec.structs.replace(answer, images=()) if answer.images else answer
    if images:
        yield UserMessage(IMAGES_FOLLOW, tuple(images))


class PromptHistory:
    """A system prompt and a conversation as ``normalised`` makes them; each turn costs what the turn added."""

    def __init__(self, system_prompt: str) -> None:
        self._prompt, self._notes = system_prompt, ()
        self._system = SystemMessage(system_prompt)
        self._source: list[Message] | None = None
        self._settled = 0  # messages of the source that are done with: all before its last answer
        self._result: list[Message] = []

    def messages(self, conversation: list[Message], notes: tuple[str, ...] = ()) -> list[Message]:
        """The whole prompt, with ``notes`` behind the system's. ``conversation`` only grows; another starts over."""
        if notes != self._notes:
            self._notes, self._source = notes, None
            self._system = SystemMessage("\n\n".join((self._prompt, *notes)))
        if conversation is not self._source:
            self._source, self._settled = conversation, 0
            self._result = [self._system]
        border = self._border(conversation)
        self._result += normalised([self._system, *conversation[self._settled : border]])[1:]
        self._settled = border
        return self._result + normalised([self._system, *conversation[border:]])[1:]

    def _border(self, conversation: list[Message]) -> int:
        """Return where the last answer stands: what comes before it can't change any more."""
        for index in range(len(conversation) - 1, self._settled - 1, -1):
            if isinstance(conversation[index], AssistantMessage):
                return index
        return self._settled
