"""Conversation data: what goes to a model and comes back, what it costs, and how work ends, as plain frozen records.

Messages are written to ``messages.jsonl`` one a line and read back from there, hence msgspec structs with the role as
tag.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from operator import add, sub
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Struct, structs

from ipc.events import UsageSum


class ToolCall(Struct, frozen=True):
    """A call as the model worded it; ``arguments`` is its JSON text, kept even when it is not valid JSON."""

    id: str
    name: str
    arguments: str


class SystemMessage(Struct, frozen=True, tag="system", tag_field="role"):
    """Instructions that open a conversation."""

    content: str


class Image(Struct, frozen=True):
    """A picture: its media type (``image/png``) and its bytes in base64."""

    media_type: str
    data: str


class UserMessage(Struct, frozen=True, omit_defaults=True, tag="user", tag_field="role"):
    """A prompt, or a notice from the host (budget, repair)."""

    content: str
    images: tuple[Image, ...] = ()


class Usage(UsageSum, frozen=True, gc=False):
    """Tokens and calls of one model call or of many, added up, with what only their price needs."""

    cache_written_tokens: int = 0
    """The part of the prompt that was put into the provider's cache, where that has a price of its own."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, structs.astuple(self), structs.astuple(other)))

    def __sub__(self, other: Usage) -> Usage:
        return Usage(*map(sub, structs.astuple(self), structs.astuple(other)))

    def told(self) -> UsageSum:
        """The part of it that events tell."""
        return msgspec.convert(self, UsageSum, from_attributes=True)


class Spent(Protocol):
    """Anything that took tokens and money; ``cost_usd`` None: unknown."""

    @property
    def usage(self) -> Usage:
        """Tokens and calls."""
        ...

    @property
    def cost_usd(self) -> float | None:
        """The price of the calls."""
        ...


class Spending(Struct, frozen=True, gc=False):
    """Tokens and calls, and what they cost in USD (None: unknown)."""

    usage: Usage = Usage()
    cost_usd: float | None = 0.0


def total_of(parts: Iterable[Spent]) -> Spending:
    """The sum; its price is None once a call's is unknown."""
    usage, cost, known = Usage(), 0.0, True
    for part in parts:
        usage += part.usage
        known = known and (part.cost_usd is not None or not part.usage.calls)
        cost += part.cost_usd or 0.0
    return Spending(usage, cost if known else None)


class Thought(Struct, frozen=True, omit_defaults=True):
    """A model's thought, for the provider that wants it back unchanged: its text and signature, or ``sealed`` data.

    ``record`` is the JSON of a provider that has a form of its own for it; ``extra`` that of fields which go back
    beside the call they came with (the last of ``after_calls``), or beside the text where that is 0.
    ``source`` is the provider and the model it came from; to no other does it ever go. It stood behind
    ``after_characters`` of the content and behind ``after_calls`` tool calls.
    """

    source: str
    text: str = ""
    signature: str = ""
    sealed: str = ""
    record: str = ""
    extra: str = ""
    after_characters: int = 0
    after_calls: int = 0


class AssistantMessage(Struct, frozen=True, omit_defaults=True, tag="assistant", tag_field="role"):
    """A model's answer and the tools it asked for.

    ``usage`` and ``cost_usd`` are what saying it took, so that a resumed conversation knows what it has spent; they
    never go back to a model. ``cost_usd`` None: unknown. It is not whole where the output limit ended it (``cut``) or a
    person did (``interrupted``). ``thoughts`` are those parts of the reasoning that a provider has to get back.
    """

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None
    cut: bool = False
    interrupted: bool = False
    thoughts: tuple[Thought, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if the model neither said nor asked for anything, though nothing kept it from that."""
        return not (self.tool_calls or self.content.strip() or self.cut)


class ToolMessage(Struct, frozen=True, omit_defaults=True, tag="tool", tag_field="role"):
    """The result of one call. ``status``: ``ok``, ``error``, ``denied``, ``cancelled`` or ``interrupted``."""

    content: str
    tool_call_id: str
    name: str
    status: str = "ok"
    images: tuple[Image, ...] = ()


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage


class Outcome(StrEnum):
    """The end of an agent, a step or a run."""

    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"
    """A decision or an approval was needed, and no user was there to give it."""
    LIMIT = "limit"
    """Turns, tokens, price, time or the provider's quota ended it."""
    INTERRUPTED = "interrupted"
    """A person or a signal stopped it; it can be continued."""


BUSY = "busy"


class Denial(Struct, frozen=True):
    """A tool call that was not allowed. ``by``: ``rule``, ``headless`` (no user there to ask) or ``user``.

    ``busy``: others wrote in the folder for too long.
    """

    tool: str
    summary: str
    reason: str
    by: str


class StopSignal(Protocol):
    """Tells running work to stop at the end of its current turn."""

    @property
    def requested(self) -> bool:
        """True if the work is to stop."""
        ...


class NeverStop:
    """The signal of work that is never paused."""

    requested = False
