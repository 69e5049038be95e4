"""Sends a person's answer or wish to a run, and says what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from anyio import fail_after, to_thread
from msgspec import Struct

from ipc.commands import Reply, RunCommand
from ipc.control import send_command
from ipc.errors import IpcError, RequestInvalidError
from ipc.events import AnswerEvent, ApprovalDecisionEvent, PlanDecisionEvent
from ipc.registry import Entry

if TYPE_CHECKING:
    from vibe.app.watch.runs import KnownRun
    from vibe.view.view import View

REPLY_SECONDS = 15.0
"""The time that a run has to reply."""
State: TypeAlias = Literal["done", "answered", "refused", "ended", "late"]
UNCERTAIN: Final[Mapping[str | None, State]] = {"late": "late", "ended": "ended"}
"""The states for refusals that don't judge the command itself."""


class CommandOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a command. ``message`` is one sentence for people, and ``data`` whatever else the run replied.

    ``state`` is ``done``, ``answered`` (another answer came first; ``by`` and ``answer`` say which), ``refused``,
    ``ended`` (the run has) or ``late`` (there was no reply in time; the command may still be carried out).
    """

    state: State
    message: str
    by: str = ""
    answer: Any = None
    data: Mapping[str, Any] = {}


async def send(run: KnownRun, command: RunCommand, *, seconds: float = REPLY_SECONDS) -> CommandOutcome:
    """Send a command to the newest live source of a run, and return what came of it."""
    entry = await to_thread.run_sync(lambda: next((entry for entry in reversed(run.entries) if entry.alive), None))
    if entry is None:
        return CommandOutcome(state="ended", message=f"run {run.key} has ended: nothing was changed")
    return await send_to(entry, command, seconds=seconds)


async def send_to(entry: Entry, command: RunCommand, *, seconds: float = REPLY_SECONDS) -> CommandOutcome:
    """Send a command to a source, and return what came of it."""
    try:
        with fail_after(seconds):
            return _outcome(await send_command(entry, command))
    except TimeoutError:
        message = f"run {entry.source}: process {entry.pid} has not answered for {seconds:g} s: "
        message += f"check it with `vibe events tail {entry.source}`"
        return CommandOutcome(state="late", message=message)
    except RequestInvalidError as error:
        return CommandOutcome(state="refused", message=str(error))
    except IpcError as error:
        gone = not await to_thread.run_sync(lambda: entry.alive)
        return CommandOutcome(state="ended" if gone else "late", message=str(error))


def settled(view: View, request_id: str) -> CommandOutcome | None:
    """Return how a request was answered, as far as a view knows; None if it is open, or no longer known."""
    found = next((each for each in reversed(view.answered) if each.id == request_id), None)
    if found is None or request_id in view.requests:
        return None
    by = getattr(found.answered, "by", "")
    if not by:
        return CommandOutcome(state="ended", message="nobody waits for this answer any more")
    message = "closed: nobody answered in time" if by == "timeout" else f"already answered by {by}"
    return CommandOutcome(state="answered", message=message, by=by, answer=given(found.answered))


def given(event: object) -> Any:
    """Return the answer in an event as JSON types: ``allow``, selections or texts; None if it has none."""
    match event:
        case ApprovalDecisionEvent():
            return event.decision
        case PlanDecisionEvent():
            return list(event.selections)
        case AnswerEvent(cancelled=True):
            return "declined" if event.by not in {"", "nobody", "timeout"} else None
        case AnswerEvent():
            return [str(each.get("answer", "")) for each in event.answers]
        case _:
            return None


def _outcome(reply: Reply) -> CommandOutcome:
    by = str(reply.data.get("by", ""))
    refused: State = "answered" if by else "refused"  # it names someone only if the request was answered before
    state: State = "done" if reply.ok else UNCERTAIN.get(reply.reason, refused)
    return CommandOutcome(state=state, message=reply.message, by=by, answer=reply.data.get("answer"), data=reply.data)
