"""The model port: what an agent asks of a model, with any provider."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from msgspec import Struct, field

from vibe.core.config.models import ModelConfig
from vibe.core.messages import AssistantMessage, Message, Usage


class FinishReason(StrEnum):
    """Reason why the model stopped."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    """The output limit cut it: a tool call may be torn."""


class ToolSchema(Struct, frozen=True, kw_only=True):
    """A tool as offered to the model; ``parameters`` is a JSON Schema object.

    ``ends_work``: the agent that has it is done once it was called, and not before.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    ends_work: bool = False


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One call. ``caller`` names the agent (a step id, or ``main``): replays find their turns by it.

    ``max_tokens`` bounds the completion; None leaves it to the provider.
    """

    model: ModelConfig
    messages: Sequence[Message]
    tools: Sequence[ToolSchema] = ()
    max_tokens: int | None = None
    caller: str = "main"
    extra_headers: dict[str, str] = field(default_factory=dict[str, str])


class CallDelta(Struct, frozen=True, kw_only=True):
    """A piece of a tool call: the ``index``-th of its answer. ``id`` is blank if the provider gave none yet."""

    index: int
    name: str
    arguments: str
    id: str = ""


class Delta(Struct, frozen=True, kw_only=True):
    """A piece of an answer as it streams. A higher ``attempt`` replaces all that lower ones showed."""

    text: str = ""
    reasoning: str = ""
    call: CallDelta | None = None
    attempt: int = 1


class Completion(Struct, frozen=True, kw_only=True):
    """A whole answer. ``cost_usd`` is None where the price is unknown. ``estimated``: the provider sent no usage.

    ``oddity`` is what was wrong with how it came, though not with the answer.
    """

    message: AssistantMessage
    finish_reason: FinishReason
    usage: Usage
    cost_usd: float | None = None
    estimated: bool = False
    oddity: str = ""


class RetryNotice(Struct, frozen=True, kw_only=True):
    """A call failed and will be repeated after ``wait_seconds``; ``attempt`` is the one that failed.

    ``unreachable``: its server was not reached.
    """

    attempt: int
    wait_seconds: float
    reason: str
    unreachable: bool = False


class WaitNotice(Struct, frozen=True, kw_only=True):
    """A call waits for its turn at a provider; with ``waited_seconds`` it has its turn now, after so long."""

    provider: str
    waited_seconds: float | None = None


Notice: TypeAlias = RetryNotice | WaitNotice


class ModelObserver(Protocol):
    """Watches a call while it runs. Must not block."""

    def delta(self, delta: Delta, /) -> None:
        """Take one piece of the answer."""
        ...

    def notice(self, notice: Notice, /) -> None:
        """Hear that the call is about to be repeated, waits for its turn, or does so no longer."""
        ...


class ModelBackend(Protocol):
    """A way to reach models. One instance serves many agents side by side."""

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Stream one answer to ``observer`` and return it whole.

        Cancelling closes the connection.

        Raises:
            vibe.core.llm.errors.ModelError: whatever the provider or the wire did wrong, mapped.
        """
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...
