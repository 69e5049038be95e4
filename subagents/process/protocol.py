"""The messages between a run and the process of a step: JSON, one message per line, whatever carries the lines.

Each end sends ``Hello`` first, and stops if the other is of another version. Then the run sends ``Prepare`` and, once
it has the process's hello, ``Begin``.

A step's process asks the run for everything that exists once for the whole run: room in the ledger, a slot among a
provider's calls, the turns to ask a person and to write, a place for a subagent. Each is a lease: ``Asked`` opens it,
``Granted`` or ``Refused`` answers, ``Returned`` ends it. When a process ends, its leases end, too.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

from msgspec import Raw, Struct, json

from ipc.errors import decoded
from ipc.events import ApprovalRequestEvent
from subagents.executor import StepResult, StepTask
from subagents.step_model import Step
from subagents.step_result import ENVIRONMENT_REASON, LOST_REASON
from vibe import __version__
from vibe.core.messages import Usage
from vibe.core.tools.ports import ApprovalAnswer

PROTOCOL_VERSION = 5
"""Version of the protocol. It grows with every change that an end of the old version could not understand."""

AGENTS = "agents"
"""The capability of a process that makes attempts by agents."""
APPROVALS = "approvals"
"""The capability of a run in which a person can approve calls."""
QUESTIONS = "questions"
"""The capability of a run in which a person can answer agents' questions."""


class LinkError(Exception):
    """A line received over the link is not a valid message. ``reason`` is that of the attempt's result."""

    reason = "crashed"


class MismatchError(LinkError):
    """The two ends cannot work together."""

    reason = ENVIRONMENT_REASON


class LinkLostError(LinkError):
    """The link, or the machine at its other end, is lost."""

    reason = LOST_REASON


# --- both ways ------------------------------------------------------------------------------------------------


class Hello(Struct, frozen=True, kw_only=True, tag="hello"):
    """The first message of an end: its identity, and what it can do for the other end."""

    version: int
    """The sender's ``PROTOCOL_VERSION``."""
    vibe: str = ""
    python: str = ""
    platform: str = ""
    capabilities: tuple[str, ...] = ()

    @classmethod
    def own(cls, capabilities: Iterable[str]) -> Hello:
        """Return the hello of this process."""
        return cls(
            version=PROTOCOL_VERSION,
            vibe=__version__,
            python=platform.python_version(),
            platform=sys.platform,
            capabilities=tuple(capabilities),
        )

    def check(self, other: Hello, needed: Collection[str] = ()) -> None:
        """Check that this process, whose hello this is, can work with the other end.

        Raises:
            MismatchError: the other end is of another version, or lacks a capability that is ``needed``.
        """
        if (other.version, other.vibe) != (self.version, self.vibe):
            raise MismatchError(
                f"the two ends of a step are of different versions, vibe {self.vibe} (protocol {self.version}) here "
                f"and vibe {other.vibe or 'unknown'} (protocol {other.version}) there: install one version for both, "
                "or restart the run if vibe was updated meanwhile"
            )
        missing = [name for name in needed if name not in other.capabilities]
        if missing:
            raise MismatchError(
                f"the other end of a step (vibe {other.vibe}, Python {other.python} on {other.platform}) cannot do "
                f"{', '.join(missing)}: use one that can"
            )


# --- what a process may lease ---------------------------------------------------------------------------------


class LedgerRoom(Struct, frozen=True, kw_only=True, tag="room"):
    """Room on the plan's account for one model call; prices are in USD per million tokens."""

    model: str
    provider: str
    input_price: float | None
    output_price: float | None
    prompt_tokens: int
    wanted_tokens: int


class ProviderSlot(Struct, frozen=True, kw_only=True, tag="slot"):
    """A slot among the calls to a provider."""

    provider: str


class TurnToAsk(Struct, frozen=True, kw_only=True, tag="turn"):
    """The right to ask a person to approve a call; a run asks about one at a time."""


class PersonsAnswer(Struct, frozen=True, kw_only=True, tag="approval"):
    """A person's answer to an approval request; needs the turn to ask."""

    request: ApprovalRequestEvent


class PersonsReplies(Struct, frozen=True, kw_only=True, tag="questions"):
    """A person's answers to an agent's questions, each as JSON."""

    questions: tuple[dict[str, Any], ...]
    request_id: str = ""


class SubagentPlace(Struct, frozen=True, kw_only=True, tag="subagent"):
    """A place for one more subagent."""


class ClaimsBeside(Struct, frozen=True, kw_only=True, tag="beside"):
    """The write claims of the steps that ran at the same time as this one."""


class TurnToWrite(Struct, frozen=True, kw_only=True, tag="write"):
    """The run's turn to write in the shared workspace. ``Waits`` says whom it has to wait for, if anybody."""


Want: TypeAlias = (
    LedgerRoom | ProviderSlot | TurnToAsk | PersonsAnswer | PersonsReplies | SubagentPlace | ClaimsBeside | TurnToWrite
)


# --- from the step's process ----------------------------------------------------------------------------------


class Announced(Struct, frozen=True, tag="event"):
    """An event, as ``ipc.codec`` encodes it."""

    event: Raw


class Asked(Struct, frozen=True, tag="asked"):
    """A lease is wanted; the step's process numbers its leases."""

    lease: int
    want: Want


class Returned(Struct, frozen=True, omit_defaults=True, tag="returned"):
    """A lease is over, whether or not it was granted.

    ``usage`` and ``cost_usd`` are what the model call used (None if it was not made). ``yeses`` are lasting approvals
    that were given in the turn to ask.
    """

    lease: int
    usage: Usage | None = None
    cost_usd: float | None = None
    yeses: tuple[str, ...] = ()


class Paused(Struct, frozen=True, tag="paused"):
    """A provider accepts no calls for so many seconds."""

    provider: str
    seconds: float


class Heard(Struct, frozen=True, tag="heard"):
    """Reply to ``Say``; ``taken`` says that the agent gets the message before its next model call."""

    number: int
    taken: bool


class Ended(Struct, frozen=True, tag="ended"):
    """The last message: the attempt is over, and everything it started is gone."""

    result: StepResult


FromStep: TypeAlias = Hello | Announced | Asked | Returned | Paused | Heard | Ended


# --- to the step's process ------------------------------------------------------------------------------------


class Prepare(Struct, frozen=True, tag="prepare"):
    """The document that the steps of this run need, which only the two ends understand."""

    document: Raw


class Begin(Struct, frozen=True, tag="begin"):
    """The attempt to make, and what the plan has spent so far."""

    task: StepTask
    usage: Usage = Usage()
    cost_usd: float | None = None


class Granted(Struct, frozen=True, omit_defaults=True, tag="granted"):
    """A lease begins.

    ``tokens`` is the longest answer that has room; ``usage`` and ``cost_usd`` are what the plan has spent so far.
    ``yeses`` are all lasting approvals of the run. ``answer`` and ``answers`` are a person's (None if there is none);
    ``declined`` names who declined. ``writes`` are the claims of steps that ran at the same time.
    """

    lease: int
    tokens: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = None
    yeses: tuple[str, ...] = ()
    answer: ApprovalAnswer | None = None
    answers: tuple[dict[str, Any], ...] | None = None
    declined: str = ""
    writes: tuple[str, ...] = ()


class Refused(Struct, frozen=True, omit_defaults=True, tag="refused"):
    """A lease was refused. If the ledger has no room, ``account``, ``limit`` and ``spent`` say so, else ``message``."""

    lease: int
    message: str = ""
    account: str = ""
    limit: str = ""
    spent: str = ""


class Waits(Struct, frozen=True, tag="waits"):
    """A lease has to wait; ``message`` says for whom."""

    lease: int
    message: str


class StopAtTurnEnd(Struct, frozen=True, tag="stop"):
    """Stop at the end of the current turn."""


class Say(Struct, frozen=True, tag="say"):
    """Send the agent a message; ``Heard`` replies with the same number."""

    number: int
    text: str
    by: str = ""


class CancelNow(Struct, frozen=True, tag="cancel"):
    """Stop at once: end everything that was started, and exit."""


ToStep: TypeAlias = Hello | Prepare | Begin | Granted | Refused | Waits | StopAtTurnEnd | Say | CancelNow


def _plain(value: object) -> Any:
    if isinstance(value, Step):
        return value.model_dump(mode="json", exclude_unset=True)
    raise NotImplementedError(f"{type(value).__name__} can't be part of a message")


def _restored(kind: type, value: object) -> Any:
    return kind.model_validate(value) if issubclass(kind, Step) else value


_encoder = json.Encoder(enc_hook=_plain)
_from_step = json.Decoder(FromStep)
_to_step = json.Decoder(ToStep, dec_hook=_restored)


def encode(message: FromStep | ToStep) -> bytes:
    """Return a message as one line, with its newline.

    Raises:
        TypeError, ValueError, OverflowError, RecursionError: the message holds a value that JSON can't hold.
    """
    return _encoder.encode(message) + b"\n"


def from_step(line: bytes) -> FromStep:
    """Return the message from a step's process that a line holds.

    Raises:
        LinkError: the line is invalid.
    """
    return decoded(_from_step, line, _invalid)


def to_step(line: bytes) -> ToStep:
    """Return the message to a step's process that a line holds.

    Raises:
        LinkError: the line is invalid.
    """
    return decoded(_to_step, line, _invalid)


def _invalid(problem: str) -> LinkError:
    return LinkError(f"not a message: {problem}")
