"""A model with scripted answers: a fake of the model port."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import anyio

from vibe.core.config.models import ModelConfig
from vibe.core.llm.errors import ModelError
from vibe.core.llm.port import Completion, Delta, FinishReason, ModelObserver, ModelRequest
from vibe.core.messages import AssistantMessage, ToolCall, Usage

MODEL = ModelConfig(name="fake", provider="fake")


def answer(text: str, *, usage: Usage | None = None, finish: FinishReason = FinishReason.STOP) -> Completion:
    """Return a final answer, with ten tokens each way by default."""
    return Completion(
        message=AssistantMessage(text), finish_reason=finish, usage=usage or Usage(10, 10, 0, 1), cost_usd=0.001
    )


def calling(
    *calls: tuple[str, dict[str, Any] | str], text: str = "", finish: FinishReason = FinishReason.TOOL_CALLS
) -> Completion:
    """Return an answer that calls tools, given as (name, arguments) pairs. Text arguments are sent unchanged."""
    tool_calls = tuple(
        ToolCall(f"call{index}", name, arguments if isinstance(arguments, str) else json.dumps(arguments))
        for index, (name, arguments) in enumerate(calls)
    )
    return Completion(
        message=AssistantMessage(text, tool_calls), finish_reason=finish, usage=Usage(10, 10, 0, 1), cost_usd=0.001
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Endless:
    """An answer that stops halfway and never ends. ``meanwhile`` is called at that point."""

    text: str
    meanwhile: Callable[[], object]

    async def begin(self, observer: ModelObserver) -> NoReturn:
        """Stream the text and stop."""
        observer.delta(Delta(text=self.text))
        self.meanwhile()
        await anyio.sleep_forever()
        raise RuntimeError("cancelled at the latest here")


class FakeModel:
    """Gives its answers in order, raising those that are errors. ``requests`` records what it was asked."""

    def __init__(self, answers: Iterable[Completion | Endless | ModelError]) -> None:
        self.requests: list[ModelRequest] = []
        self._answers = iter(answers)

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Return the next answer."""
        self.requests.append(request)
        following = next(self._answers)
        if isinstance(following, ModelError):
            raise following
        if isinstance(following, Endless):
            await following.begin(observer)
        if following.message.content:
            observer.delta(Delta(text=following.message.content))
        return following

    async def aclose(self) -> None:
        """Do nothing."""
