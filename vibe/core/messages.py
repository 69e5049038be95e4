"""Messages, usage, cost and outcomes: the data of a conversation, as frozen records.

Messages are stored one per line in ``messages.jsonl``. They are msgspec structs tagged with their role, so that they
can be read back from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from operator import add, sub
from typing import Protocol, TypeAlias

from msgspec import Struct, convert, structs

from ipc.events import UsageSum


class ToolCall(Struct, frozen=True):
    """A tool call as the model wrote it; ``arguments`` is the raw JSON text, kept even if it is not valid JSON."""

    id: str
    name: str
    arguments: str


class SystemMessage(Struct, frozen=True, tag="system", tag_field="role"):
    """The instructions that open a conversation."""

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
    """Tokens and calls of one model call, or the sum of many, with the counts that only pricing needs."""

    cache_written_tokens: int = 0
    """Prompt tokens written to the provider's cache, for providers that price them separately."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, structs.astuple(self), structs.astuple(other)))

    def __sub__(self, other: Usage) -> Usage:
        return Usage(*map(sub, structs.astuple(self), structs.astuple(other)))

    def for_events(self) -> UsageSum:
        """Return the part that events carry."""
        return convert(self, UsageSum, from_attributes=True)


class Spent(Protocol):
    """Anything that used tokens and cost money."""

    @property
    def usage(self) -> Usage:
        """Tokens and calls."""
        ...

    @property
    def cost_usd(self) -> float | None:
        """The cost of the calls, None if unknown."""
        ...


class Spending(Struct, frozen=True, gc=False):
    """Tokens and calls, and their cost in USD (None if unknown)."""

    usage: Usage = Usage()
    cost_usd: float | None = 0.0


def total_of(parts: Iterable[Spent]) -> Spending:
    """Add up what several parts spent; the cost is None if that of any call is unknown."""
    usage, cost, known = Usage(), 0.0, True
    for part in parts:
        usage += part.usage
        known = known and (part.cost_usd is not None or not part.usage.calls)
        cost += part.cost_usd or 0.0
    return Spending(usage, cost if known else None)


class Thought(Struct, frozen=True, omit_defaults=True):
    """A piece of a model's reasoning that its provider requires back unchanged.

    It has a ``text`` and a ``signature``, or is encrypted (``sealed``). ``record`` is the JSON of a provider with its
    own format. ``extra`` is the JSON of fields that go back beside the call they came with (the last of
    ``after_calls``), or beside the text if ``after_calls`` is 0. ``source`` is the provider and model it came from; it
    is sent to no other. ``after_characters`` and ``after_calls`` say how much of the content and how many tool calls
    came before it.
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
    """A model's answer and the tool calls it asked for.

    ``usage`` and ``cost_usd`` (None if unknown) are what the answer took, so that a resumed conversation knows what it
    has spent; they are never sent to a model. The answer is incomplete if the output limit ended it (``cut``) or a
    person did (``interrupted``). ``thoughts`` are the parts of the reasoning that a provider requires back.
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
        """True if the model neither said nor called anything, although it was not cut off."""
        return not (self.tool_calls or self.content.strip() or self.cut)


class ToolMessage(Struct, frozen=True, omit_defaults=True, tag="tool", tag_field="role"):
    """The result of one call. ``status`` is ``ok``, ``error``, ``denied``, ``cancelled`` or ``interrupted``."""

    content: str
    tool_call_id: str
    name: str
    status: str = "ok"
    images: tuple[Image, ...] = ()


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage


class Outcome(StrEnum):
    """The way an agent, a step or a run ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"
    """It needed a decision or an approval, and no user was there to give it."""
    LIMIT = "limit"
    """It reached a limit: turns, tokens, cost, time or the provider's quota."""
    INTERRUPTED = "interrupted"
    """A person or a signal stopped it; it can be resumed."""


APPROVE_ADVICE = "--auto-approve, or at a terminal"
"""The ways to have calls approved, in the words of the command line. Other front ends have their own words."""
BUSY = "busy"
"""The ``Denial.by`` of a call that waited too long for other runs to stop writing in the folder."""


class Denial(Struct, frozen=True):
    """A tool call that was not allowed.

    ``by`` is ``rule``, ``user``, ``headless`` (no user was there to ask) or ``busy`` (other runs wrote in the folder
    for too long).
    """

    tool: str
    summary: str
    reason: str
    by: str


class StopSignal(Protocol):
    """Asks running work to stop at the end of its current turn."""

    @property
    def requested(self) -> bool:
        """True if the work is to stop."""
        ...


class NeverStop:
    """The signal of work that is never asked to stop."""

    requested = False
