"""PromptHistory: turns a conversation into messages that every API accepts.

Roles are in order, every call has exactly one result, and no answer is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from vibe.core.messages import AssistantMessage, Image, Message, SystemMessage, ToolMessage, UserMessage

NO_RESULT = "This call has no result: it was never run."

IMAGES_FOLLOW = "These are the images of the tool results above."
"""The text of the user message that holds the images of tool results: providers take images from users only."""

EMPTY_ANSWER = "(empty answer)"


def normalised(messages: Iterable[Message]) -> list[Message]:
    """Return the conversation in a form that no provider refuses.

    Calls without a result get one that says so, and results without a call are dropped. A system message after the
    start becomes a user message. Images move behind the results they came with. An empty answer gets a text that says
    it is empty. Otherwise a model's words stay as they are; backends repair arguments that are not JSON.
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
    """Yield an answer of the model, one result for each of its calls, and the images of those results."""
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
    """Keeps the normalised messages of one agent. Each turn only processes what it added."""

    def __init__(self, system_prompt: str) -> None:
        self._prompt, self._notes = system_prompt, ()
        self._system = SystemMessage(system_prompt)
        self._source: list[Message] | None = None
        self._settled = 0  # messages of the source that can't change any more: all before its last answer
        self._result: list[Message] = []

    def messages(self, conversation: list[Message], notes: tuple[str, ...] = ()) -> list[Message]:
        """Return the whole prompt, with ``notes`` at the end of the system prompt.

        The same ``conversation`` list may only grow between calls; another list is processed from its start.
        """
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
        """Return the index of the last answer: the messages before it can't change any more."""
        for index in range(len(conversation) - 1, self._settled - 1, -1):
            if isinstance(conversation[index], AssistantMessage):
                return index
        return self._settled
