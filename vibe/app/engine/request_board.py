"""RequestBoard: open approvals, answered by the first to do so: the person at the terminal, or the control address."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import anyio
import anyio.from_thread
import anyio.lowlevel
from anyio import CancelScope

from ipc.commands import Approve, Reply
from ipc.control import refusal
from vibe.core.tools.ports import ApprovalAnswer, ApprovalRequest, Approver

BY_CONTROL = "control"
BY_NOBODY = "nobody"
BY_TIMEOUT = "timeout"
SECONDS_WITHOUT_PERSON = 3_600.0
"""A request waits that long if there is no person at the terminal."""
MOST_REMEMBERED = 1_000
"""Answers that are remembered, to tell the second who answers what the first said."""
SHORTEST = 4
"""Characters of a request's id that may stand for it."""
SHOWN = 100


@dataclass(slots=True)
class _Open:
    """A request with its answer, once there is one; ``scope`` is cancelled then."""

    request: ApprovalRequest
    scope: CancelScope
    loop: anyio.lowlevel.EventLoopToken
    answer: ApprovalAnswer | None = None


class RequestBoard:
    """An Approver that asks everyone at once; the first answer holds, and the question is withdrawn from the others.

    ``person`` asks at the run's terminal. Without one a request waits for ``patience_s`` and is then denied.
    ``approve`` belongs to the run's loop; ``answer`` is called from another thread.
    """

    def __init__(self, person: Approver | None, *, patience_s: float = SECONDS_WITHOUT_PERSON) -> None:
        self._person = person
        self._patience_s = patience_s
        self._open: dict[str, _Open] = {}
        self._answered: dict[str, ApprovalAnswer] = {}
        self._lock = threading.Lock()

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Return the first answer. Cancelling withdraws the question from everyone."""
        entry = _Open(request, CancelScope(), anyio.lowlevel.current_token())
        with self._lock:
            self._open[request.request_id] = entry
        try:
            with entry.scope:
                self._settle(entry, await self._first_hand(request))
        finally:
            with self._lock:
                del self._open[request.request_id]
        return entry.answer or ApprovalAnswer(allow=False, by=BY_NOBODY)

    async def _first_hand(self, request: ApprovalRequest) -> ApprovalAnswer:
        if self._person is not None:
            return await self._person.approve(request)
        await anyio.sleep(self._patience_s)
        reason = f"there was no answer within {self._patience_s / 60:g} minutes"
        return ApprovalAnswer(allow=False, reason=reason, by=BY_TIMEOUT)

    def answer(self, command: Approve) -> Reply:
        """Take an answer that came over the control address, or say why not."""
        with self._lock:
            known = _meant(command.request_id, [*self._open, *self._answered])
            entry = self._open.get(known or "")
            waiting = ", ".join(f"{key[:8]} ({each.request.summary[:SHOWN]})" for key, each in self._open.items())
        if known is None:
            return refusal("refused", f"no request {command.request_id[:40]!r} is open; open: {waiting or 'none'}")
        answer = ApprovalAnswer(allow=command.allow, reason=command.reason, by=BY_CONTROL)
        if entry is not None and self._settle(entry, answer):
            try:
                anyio.from_thread.run_sync(entry.scope.cancel, token=entry.loop)
            except anyio.RunFinishedError:
                return refusal("ended", "the run is over: nothing was changed")
            return Reply(ok=True, message=_verb(answer), data={"request_id": known})
        first = self._answered.get(known, ApprovalAnswer(allow=False, by=BY_NOBODY))
        if (first.allow, first.by) == (answer.allow, answer.by):
            return Reply(ok=True, message=_verb(first), data={"request_id": known})
        return refusal("refused", f"it was {_verb(first)} before, by {first.by}")

    def _settle(self, entry: _Open, answer: ApprovalAnswer) -> bool:
        """Keep the answer if it is the first, and return whether it is."""
        with self._lock:
            if entry.answer is not None:
                return False
            entry.answer = self._answered[entry.request.request_id] = answer
            while len(self._answered) > MOST_REMEMBERED:
                del self._answered[next(iter(self._answered))]
            return True


def _meant(given: str, known: list[str]) -> str | None:
    """Return the id that begins so, if there is just one."""
    found = {key for key in known if key == given or (len(given) >= SHORTEST and key.startswith(given))}
    return found.pop() if len(found) == 1 else None


def _verb(answer: ApprovalAnswer) -> str:
    return "allowed" if answer.allow else "denied"
