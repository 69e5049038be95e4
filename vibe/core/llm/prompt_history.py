"""PromptHistory: a growing conversation in the form every API takes, without going over the old part again."""

from __future__ import annotations

from vibe.core.llm.history import normalised
from vibe.core.messages import AssistantMessage, Message, SystemMessage


class PromptHistory:
    """What ``normalised`` makes of a system prompt and a conversation; each turn costs what the turn added."""

    def __init__(self, system_prompt: str) -> None:
        self._system = SystemMessage(system_prompt)
        self._source: list[Message] | None = None
        self._settled = 0  # messages of the source that are done with: all before its last answer
        self._result: list[Message] = []

    def messages(self, conversation: list[Message]) -> list[Message]:
        """The whole prompt. ``conversation`` only grows; another list starts anew."""
        if conversation is not self._source:
            self._source, self._settled = conversation, 0
            self._result = [self._system]
        border = self._border(conversation)
        self._result += normalised([self._system, *conversation[self._settled : border]])[1:]
        self._settled = border
        return self._result + normalised([self._system, *conversation[border:]])[1:]

    def _border(self, conversation: list[Message]) -> int:
        """Where the last answer stands: what comes before it can't change any more."""
        for index in range(len(conversation) - 1, self._settled - 1, -1):
            if isinstance(conversation[index], AssistantMessage):
                return index
        return self._settled
