"""Fakes for what surrounds a model: an observer that records, a backend that answers from a list, and a clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio.lowlevel

from vibe.core.config.models import ModelConfig
from vibe.core.llm.port import (
    Completion,
    Delta,
    FinishReason,
    ModelObserver,
    ModelRequest,
    Notice,
    RetryNotice,
    WaitNotice,
)
from vibe.core.messages import AssistantMessage, Message, Usage, UserMessage


@dataclass
class MemoryObserver:
    """Records what it was shown."""

    deltas: list[Delta] = field(default_factory=list[Delta])
    notices: list[RetryNotice] = field(default_factory=list[RetryNotice])
    waits: list[WaitNotice] = field(default_factory=list[WaitNotice])

    def delta(self, delta: Delta, /) -> None:
        self.deltas.append(delta)

    def notice(self, notice: Notice, /) -> None:
        if isinstance(notice, RetryNotice):
            self.notices.append(notice)
        else:
            self.waits.append(notice)

    @property
    def text(self) -> str:
        """All text that was shown, of every attempt."""
        return "".join(delta.text for delta in self.deltas)

    @property
    def visible(self) -> str:
        """The text that a reader sees in the end: that of the last attempt only."""
        last = max((delta.attempt for delta in self.deltas), default=1)
        return "".join(delta.text for delta in self.deltas if delta.attempt == last)


@dataclass
class ListBackend:
    """Answers with the next outcome, raising those that are exceptions. ``shows`` is streamed before each outcome."""

    outcomes: list[Completion | Exception]
    shows: str = ""
    requests: list[ModelRequest] = field(default_factory=list[ModelRequest])
    closed: bool = False

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        await anyio.lowlevel.checkpoint()
        self.requests.append(request)
        if self.shows:
            observer.delta(Delta(text=self.shows))
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def aclose(self) -> None:
        self.closed = True


@dataclass
class FakeClock:
    """A clock that moves only when somebody sleeps on it."""

    now: float = 1000.0
    slept: list[float] = field(default_factory=list[float])

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await anyio.lowlevel.checkpoint()


def completion(text: str = "done", usage: Usage | None = None) -> Completion:
    """Return a finished answer."""
    return Completion(
        message=AssistantMessage(text),
        finish_reason=FinishReason.STOP,
        usage=usage or Usage(prompt_tokens=10, completion_tokens=5, calls=1),
    )


def request(
    *messages: Message, model: ModelConfig | None = None, caller: str = "main", prompts: Sequence[str] = ("hi",)
) -> ModelRequest:
    """Return a request with these messages, or without any with ``prompts`` as user messages."""
    said = messages or tuple(UserMessage(prompt) for prompt in prompts)
    return ModelRequest(model=model or ModelConfig(name="m", provider="p"), messages=said, caller=caller)
