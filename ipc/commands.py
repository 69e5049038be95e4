"""Every command a front end may send to a run, and the reply: frozen msgspec structs, one JSON object each way.

A request is ``{"type": "pause", "token": "...", ...}`` in one message to the run's ``control`` address (NNG rep0). The
token is in the run's file in ``$VIBE_HOME/run``, which only its user can read. A run refuses a command with an unknown
field, because a command that is only half understood must not be carried out. Fields at their defaults are not sent, so
that an older run, which doesn't know such a field, still understands the command.
"""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias, get_args

from msgspec import Meta, Struct, json, to_builtins

from ipc.errors import CodecError, RequestInvalidError, decoded, is_deep
from ipc.events import ReviewComment

COMMAND_VERSION = 1
"""Version of the protocol. It grows when an older run could not understand a new form of a command. New commands, and
new fields that have a default, don't count."""

MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""The largest request that a run reads."""

MAX_DEPTH = 64
"""Levels to which lists and objects in a request may be nested: as many as in a plan."""


ApprovalScope: TypeAlias = Literal["once", "session", "edits", "always"]
"""The reach of an approval. "edits" are all edits of files that no rule closes, for the rest of the run."""
By: TypeAlias = Annotated[str, Meta(min_length=1, max_length=100)]
Text: TypeAlias = Annotated[str, Meta(pattern=r"\S")]
"""A text that is not blank."""


class BaseCommand(Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True, omit_defaults=True):
    """Base of every request, with the run's ``token`` and the version of this protocol.

    ``command_id`` is the sender's own id for this command and must be unique. If the command is sent again with the
    same id, it gets the same reply and is not carried out again.
    """

    token: str = ""
    version: int = COMMAND_VERSION
    command_id: Annotated[str, Meta(max_length=100)] = ""


class Ping(BaseCommand, frozen=True, kw_only=True, tag="ping"):
    """Check that the run is there. The reply has its ``source``, its ``pid`` and the ``requests`` it serves."""


class Pause(BaseCommand, frozen=True, kw_only=True, tag="pause"):
    """Start nothing more, and stop running steps at the end of their turn; they continue on resume.

    They stop after ``grace_seconds`` at the latest (0 means at once, null no limit). Here and below, ``by`` says who
    asks.
    """

    grace_seconds: Annotated[float, Meta(ge=0)] | None = None
    by: str = "user"


class Cancel(BaseCommand, frozen=True, kw_only=True, tag="cancel"):
    """Stop everything that runs at once, and cancel the rest."""

    by: str = "user"


class Decide(BaseCommand, frozen=True, kw_only=True, tag="decide"):
    """Make a decision; ``selections`` are ids of its options."""

    decision_id: str
    selections: Annotated[tuple[str, ...], Meta(min_length=1)]
    by: str = "user"


class Revise(BaseCommand, frozen=True, kw_only=True, tag="revise"):
    """Change the plan by operations, each an object as in ``plan.revised``. Either all of them are made or none."""

    operations: Annotated[tuple[dict[str, Any], ...], Meta(min_length=1)]
    reason: str = ""
    by: str = "user"


class StepAction(StrEnum):
    """An action on one step."""

    CANCEL = "cancel"
    RETRY = "retry"
    SKIP = "skip"


class Act(BaseCommand, frozen=True, kw_only=True, tag="step_act"):
    """Cancel one step of the plan, skip it, or run it again.

    With ``retry``, the agent of the new attempt is given ``message`` and ``comments`` on what the step changed.
    """

    step_id: Text
    action: StepAction
    message: str = ""
    comments: tuple[ReviewComment, ...] = ()
    by: By = "user"


class Requests(BaseCommand, frozen=True, kw_only=True, tag="requests"):
    """List the run's open requests; ``data["requests"]`` of the reply has each, with all that an answer needs.

    Each has ``request_id``, ``kind`` (``approval``, ``question`` or ``decision``), ``answer_with`` (the ``type`` of the
    command that answers it), ``summary``, and its origin: ``session_id``, ``plan_id``, ``agent_id`` and ``step_id``.
    The other fields are as in the event that announced it.
    """


class Approve(BaseCommand, frozen=True, kw_only=True, tag="approve"):
    """Answer an ``approval.requested``; ``reason`` is for the model, ``scope`` is how far the approval reaches.

    The first answer counts. The same answer again changes nothing; another one is refused, with the name of who
    answered first. ``request_id`` may be cut to its first characters, at least four.
    """

    request_id: str
    allow: bool
    reason: str = ""
    scope: ApprovalScope = "once"
    by: By = "control"


class AnswerQuestion(BaseCommand, frozen=True, kw_only=True, tag="answer"):
    """Answer a ``question.asked``: for each of its questions, in order, the labels picked or one text of your own.

    An empty list of answers declines. As with ``approve``, the first answer counts and ``request_id`` may be cut.
    """

    request_id: str
    answers: tuple[Annotated[tuple[Text, ...], Meta(min_length=1)], ...]
    by: By = "control"


class GivePrompt(BaseCommand, frozen=True, kw_only=True, tag="prompt"):
    """Give a conversation its next prompt; ``session_id`` names the conversation if the run has several.

    A run with ``--input json`` replies with the ``prompt_id`` and accepts more: ``images``, paths relative to its
    folder, and ``output_schema``, a JSON Schema or the path of one, which makes the answer a value of that schema.
    """

    text: Text
    session_id: str = ""
    images: Annotated[tuple[Text, ...], Meta(max_length=100)] = ()
    output_schema: dict[str, Any] | Text | None = None
    by: By = "user"


class Steer(BaseCommand, frozen=True, kw_only=True, tag="steer"):
    """Send a message to an agent, which reads it before its next turn.

    ``agent_id`` or ``step_id`` names the agent; without either it is the agent of the run's conversation. A message for
    a step that isn't running is kept. While a proposed plan waits for an answer, the message asks for a change of that
    plan, and so does a ``prompt``.
    """

    text: Text
    agent_id: str = ""
    step_id: str = ""
    by: By = "user"


class Interrupt(BaseCommand, frozen=True, kw_only=True, tag="interrupt"):
    """Stop a conversation's agent and keep what it has said; ``session_id`` is as for ``prompt``."""

    session_id: str = ""
    by: By = "user"


RunCommand: TypeAlias = (
    Pause | Cancel | Decide | Revise | Act | Requests | Approve | AnswerQuestion | GivePrompt | Steer | Interrupt
)
"""Commands that a run carries out or refuses."""

Command: TypeAlias = Ping | RunCommand
"""Every request there is."""


class Reply(Struct, frozen=True, kw_only=True):
    """Reply to a request. ``ok`` says that it was done, or is being done; ``message`` is one sentence for people.

    ``reason`` is a stable word that says why it was not done: ``token``, ``version``, ``unknown`` (no such request),
    ``invalid`` (malformed), ``refused`` (not possible now), ``late`` (no reply in time; it may still be done),
    ``ended`` (the run has ended) or ``defect``.
    """

    ok: bool
    message: str
    reason: str | None = None
    data: dict[str, Any] = {}
    version: int = COMMAND_VERSION


class Envelope(Struct, frozen=True):
    """Header of a request, which is checked before the rest is read."""

    type: str
    token: str = ""
    version: int = COMMAND_VERSION


KINDS: tuple[type[BaseCommand], ...] = get_args(Command)

_encoder = json.Encoder()
_envelope_decoder = json.Decoder(Envelope)
_command_decoder: json.Decoder[Command] = json.Decoder(Command)
_reply_decoder = json.Decoder(Reply)


def tag_of(command: BaseCommand | type[BaseCommand]) -> str:
    """Return the ``type`` of a command."""
    return str(command.__struct_config__.tag)


def encode_command(command: Command) -> bytes:
    """Return the bytes of a request, without the fields that are at their defaults.

    Raises:
        RequestInvalidError: it holds a value that JSON can't hold, or is larger than MAX_REQUEST_BYTES.
    """
    try:
        plain = {**to_builtins(command), "version": command.version}  # even where it is the default
        data = _encoder.encode(plain)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RequestInvalidError(str(error)) from error
    if len(data) > MAX_REQUEST_BYTES:
        raise RequestInvalidError(f"{len(data):,} bytes, at most {MAX_REQUEST_BYTES:,} allowed")
    return data


def decode_envelope(data: bytes) -> Envelope:
    """Return the header of a request of any type and version.

    Raises:
        RequestInvalidError: it is too large, or not a request at all.
    """
    if len(data) > MAX_REQUEST_BYTES:
        raise RequestInvalidError(f"{len(data):,} bytes, at most {MAX_REQUEST_BYTES:,} allowed")
    return decoded(_envelope_decoder, data, RequestInvalidError)


def decode_command(data: bytes) -> Command:
    """Return the command in a request whose envelope has been checked.

    Raises:
        RequestInvalidError: it is not a valid request of this version.
    """
    command = decoded(_command_decoder, data, RequestInvalidError)
    if isinstance(command, Revise) and is_deep(command.operations, MAX_DEPTH):
        raise RequestInvalidError(f"nested deeper than {MAX_DEPTH} levels")
    return command


def encode_reply(reply: Reply) -> bytes:
    """Return the bytes of a reply. If JSON can't hold its data, they are left out, so that the sender gets a reply."""
    try:
        return _encoder.encode(reply)
    except (TypeError, ValueError, OverflowError, RecursionError):
        message = reply.message.encode("utf-8", "replace").decode("utf-8")
        return _encoder.encode(Reply(ok=reply.ok, message=message, reason=reply.reason))


def decode_reply(data: bytes) -> Reply:
    """Return the reply in ``data``.

    Raises:
        CodecError: it holds none.
    """
    return decoded(_reply_decoder, data, partial(CodecError, "reply"))
