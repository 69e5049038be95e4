"""The port through which an agent calls a model, the same for every provider."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from msgspec import Struct, field

from vibe.core.config.models import ModelConfig
from vibe.core.messages import AssistantMessage, Message, Usage


class FinishReason(StrEnum):
    """The reason why the model stopped."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    """The output limit cut the answer off; its last tool call may be incomplete."""


class ToolSchema(Struct, frozen=True, kw_only=True):
    """A tool as offered to the model; ``parameters`` is a JSON Schema object.

    An agent with a tool that ``ends_work`` is done once it has called that tool, and not before.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    ends_work: bool = False


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One call. ``caller`` names the agent (a step id, or ``main``), by which scripted models find their turns.

    ``max_tokens`` limits the completion; None leaves the limit to the provider.
    """

    model: ModelConfig
    messages: Sequence[Message]
    tools: Sequence[ToolSchema] = ()
    max_tokens: int | None = None
    caller: str = "main"
    extra_headers: dict[str, str] = field(default_factory=dict[str, str])


class CallDelta(Struct, frozen=True, kw_only=True):
    """A piece of the ``index``-th tool call of an answer. ``id`` is empty until the provider sends one."""

    index: int
    name: str
    arguments: str
    id: str = ""


class Delta(Struct, frozen=True, kw_only=True):
    """A piece of an answer as it streams. A higher ``attempt`` replaces everything that lower ones showed."""

    text: str = ""
    reasoning: str = ""
    call: CallDelta | None = None
    attempt: int = 1


class Completion(Struct, frozen=True, kw_only=True):
    """A complete answer. ``cost_usd`` is None if the price is unknown.

    The usage is estimated if the provider sent none. ``oddity`` says what was wrong with the delivery of an answer
    that is itself fine.
    """

    message: AssistantMessage
    finish_reason: FinishReason
    usage: Usage
    cost_usd: float | None = None
    oddity: str = ""


class RetryNotice(Struct, frozen=True, kw_only=True):
    """A call failed and will be repeated after ``wait_seconds``; ``attempt`` is the one that failed.

    ``unreachable`` is true if the server could not be reached.
    """

    attempt: int
    wait_seconds: float
    reason: str
    unreachable: bool = False


class WaitNotice(Struct, frozen=True, kw_only=True):
    """A call waits for its turn at a provider; once ``waited_seconds`` is set, its turn has come after that time."""

    provider: str
    waited_seconds: float | None = None


Notice: TypeAlias = RetryNotice | WaitNotice


class ModelObserver(Protocol):
    """Watches a call while it runs. Its methods must not block."""

    def delta(self, delta: Delta, /) -> None:
        """Take one piece of the answer."""

    def notice(self, notice: Notice, /) -> None:
        """Take the notice of a retry, or of the start or the end of a wait."""


class ModelBackend(Protocol):
    """A way to reach models. One instance serves many agents side by side."""

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Stream one answer to ``observer`` and return it whole.

        Cancelling closes the connection.

        Raises:
            vibe.core.llm.errors.ModelError: the provider or the connection failed.
        """
        ...

    async def aclose(self) -> None:
        """Close connections."""


class WrappingBackend(Struct, eq=False):
    """The common part of backends that add something to another one."""

    inner: ModelBackend

    async def aclose(self) -> None:
        """Close the inner backend."""
        await self.inner.aclose()
