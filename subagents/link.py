"""The words between a run and the process of a step, and how they travel: JSON, one message a line, over a socket.

A step's process asks for what must be one for the whole run: room in the ledger, a provider's slot, the turn to ask a
person, a place for a subagent. Each is a lease: ``Asked`` opens it, ``Granted`` or ``Refused`` answers, ``Returned``
ends it. Whatever a process still holds when it is gone goes back by itself.
"""

from __future__ import annotations

import socket
from collections import deque
from typing import Any, TypeAlias, TypeVar

import msgspec
from anyio import wait_readable
from msgspec import Raw, Struct

from ipc.errors import INVALID_JSON
from subagents.executor import StepResult, StepTask
from vibe.core.messages import Usage
from vibe.core.tools.ports import ApprovalAnswer, ApprovalRequest

CHUNK_BYTES = 256 * 1024
LONGEST_LINE = 64 * 1024 * 1024
"""Bytes; a longer message is none of ours."""

M = TypeVar("M")


class LinkError(Exception):
    """What came over the link is no message."""


# --- what a process may lease ---------------------------------------------------------------------------------


class LedgerRoom(Struct, frozen=True, kw_only=True, tag="room"):
    """Room on the plan's account for one model call; prices in USD per million tokens."""

    model: str
    provider: str
    input_price: float | None
    output_price: float | None
    prompt_tokens: int
    wanted_tokens: int


class ProviderSlot(Struct, frozen=True, kw_only=True, tag="slot"):
    """A place among the calls to a provider."""

    provider: str


class TurnToAsk(Struct, frozen=True, kw_only=True, tag="turn"):
    """The right to put a question to a person: one question at a time in the whole run."""


class PersonsAnswer(Struct, frozen=True, kw_only=True, tag="approval"):
    """The person's answer to a question about a call; needs the turn to ask."""

    request: ApprovalRequest


class PersonsReplies(Struct, frozen=True, kw_only=True, tag="questions"):
    """The person's answers to an agent's questions, each as JSON; needs the turn to ask."""

    questions: tuple[dict[str, Any], ...]


class SubagentPlace(Struct, frozen=True, kw_only=True, tag="subagent"):
    """A place for one more subagent."""


class ClaimsBeside(Struct, frozen=True, kw_only=True, tag="beside"):
    """What steps have claimed to write that worked beside this one."""


Want: TypeAlias = LedgerRoom | ProviderSlot | TurnToAsk | PersonsAnswer | PersonsReplies | SubagentPlace | ClaimsBeside


# --- from the step's process ----------------------------------------------------------------------------------


class Announced(Struct, frozen=True, tag="event"):
    """An event, as ``ipc.codec`` writes it."""

    event: Raw


class Asked(Struct, frozen=True, tag="asked"):
    """A lease is wanted; the number is the asker's."""

    lease: int
    want: Want


class Returned(Struct, frozen=True, omit_defaults=True, tag="returned"):
    """A lease is over, granted or not. ``usage``: what the call took for which there was room (None: nothing).

    ``yeses`` are lasting yeses that were given in the turn to ask.
    """

    lease: int
    usage: Usage | None = None
    cost_usd: float | None = None
    yeses: tuple[str, ...] = ()


class Paused(Struct, frozen=True, tag="paused"):
    """A provider wants no calls for so many seconds."""

    provider: str
    seconds: float


class Ended(Struct, frozen=True, tag="ended"):
    """The attempt is over and all that it started is gone: the last message."""

    result: StepResult


FromStep: TypeAlias = Announced | Asked | Returned | Paused | Ended


# --- to the step's process ------------------------------------------------------------------------------------


class Prepare(Struct, frozen=True, tag="prepare"):
    """What steps of this run need to know; only the two ends understand it."""

    document: Raw


class Begin(Struct, frozen=True, tag="begin"):
    """The attempt to make, and what the plan has spent by now."""

    task: StepTask
    usage: Usage = Usage()
    cost_usd: float | None = None


class Granted(Struct, frozen=True, omit_defaults=True, tag="granted"):
    """A lease begins.

    ``tokens`` is the longest answer there is room for; ``usage`` and ``cost_usd`` are what the plan has spent by now.
    ``yeses`` are all lasting yeses of the run. ``answer`` and ``answers`` are the person's (None: would rather not).
    ``writes`` is what the neighbours claimed.
    """

    lease: int
    tokens: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = None
    yeses: tuple[str, ...] = ()
    answer: ApprovalAnswer | None = None
    answers: tuple[dict[str, Any], ...] | None = None
    writes: tuple[str, ...] = ()


class Refused(Struct, frozen=True, omit_defaults=True, tag="refused"):
    """There is no lease. ``message`` says why; for room in the ledger ``account``, ``limit`` and ``spent`` do."""

    lease: int
    message: str = ""
    account: str = ""
    limit: str = ""
    spent: str = ""


class Stop(Struct, frozen=True, tag="stop"):
    """Stop at the end of the turn."""


class Cancel(Struct, frozen=True, tag="cancel"):
    """Stop now: end what was started, and leave."""


ToStep: TypeAlias = Prepare | Begin | Granted | Refused | Stop | Cancel

_encoder = msgspec.json.Encoder()
_from_step = msgspec.json.Decoder(FromStep)
_to_step = msgspec.json.Decoder(ToStep)


def encode(message: FromStep | ToStep) -> bytes:
    """One line, with its end.

    Raises:
        TypeError, ValueError, OverflowError, RecursionError: it holds what is no JSON value.
    """
    return _encoder.encode(message) + b"\n"


def from_step(line: bytes) -> FromStep:
    """The message of a step's process in a line.

    Raises:
        LinkError: there is none.
    """
    return _decoded(_from_step, line)


def to_step(line: bytes) -> ToStep:
    """The message to a step's process in a line.

    Raises:
        LinkError: there is none.
    """
    return _decoded(_to_step, line)


class Lines:
    """Cuts what arrives into lines. One that is torn off by the end never comes out."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole by now.

        Raises:
            LinkError: one of them has no end.
        """
        *whole, rest = data.split(b"\n")
        lines: list[bytes] = []
        for line in whole:
            self._pending += line
            lines.append(bytes(self._pending))
            self._pending.clear()
        self._pending += rest
        if len(self._pending) > LONGEST_LINE:
            raise LinkError(f"a message of more than {LONGEST_LINE} bytes")
        return lines


class IncomingLines:
    """The lines that come over one end of the link, whether its socket blocks or not."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._lines = Lines()
        self._arrived: deque[bytes] = deque()

    async def next(self) -> bytes | None:
        """The next line; None once the other end is gone and there will be no other.

        Raises:
            LinkError: a line comes without an end.
        """
        while not self._arrived:
            await wait_readable(self._link)
            try:
                data = self._link.recv(CHUNK_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            except OSError:
                return None
            if not data:
                return None
            self._arrived += self._lines.feed(data)
        return self._arrived.popleft()


def _decoded(decoder: msgspec.json.Decoder[M], line: bytes) -> M:
    try:
        return decoder.decode(line)
    except INVALID_JSON as error:
        raise LinkError(f"no message: {error}") from error
