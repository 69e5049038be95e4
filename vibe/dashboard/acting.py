"""Passes answers, commands and comments on changes from a page to the run they are about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast
from weakref import WeakValueDictionary

import anyio
from msgspec import ValidationError, convert, json, structs
from starlette.responses import Response

from ipc.commands import RunCommand, decode_command
from ipc.errors import RequestInvalidError
from ipc.events import PlanDecisionEvent
from vibe.app.watch.commands import CommandOutcome, send, settled
from vibe.dashboard.answers import RefusedError, found, refusal
from vibe.dashboard.changes import Comments, comments_text
from vibe.dashboard.stream import PageDesk
from vibe.system.errors import error_as
from vibe.view.agent_view import RequestView
from vibe.view.plan_view import RUNNING

BY = "page"
"""The name in which pages act if no other is given."""
COMMANDS: Final = ("cancel", "interrupt", "pause", "prompt", "steer", "step_act")
"""The commands a page may send to a run, besides answers."""
MOST_REMEMBERED = 256
"""Number of answers remembered for commands that may be repeated."""
STATUS: Final[Mapping[str, int]] = {"refused": 409, "ended": 410, "late": 504}
"""HTTP status codes by the state of a command's outcome."""


class Actor:
    """Sends the commands of pages in the name of ``by``. Repeats with the same ``command_id`` are carried out once."""

    def __init__(self, desk: PageDesk, by: str) -> None:
        self._desk = desk
        self._by = by
        self._responses: dict[str, Response] = {}
        self._given_answers: dict[str, tuple[object, Response]] = {}
        """For each answered request, its event and the response to anyone who answers it again."""
        self._locks: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()

    async def answer(self, request_id: str, body: dict[str, Any]) -> Response:
        """Answer a request of any run. The first answer counts."""
        async with self._lock(f"request {request_id}"):
            return await self._once(body, lambda: self._answer(request_id, body))

    async def command(self, key: str, body: dict[str, Any]) -> Response:
        """Send a command to a run."""
        if body.get("type") not in COMMANDS:
            raise RefusedError(400, "invalid", f"the type must be one of {', '.join(COMMANDS)}")
        command = self._checked(body, token="")

        async def act() -> Response:
            return _response_to(await send(await self._desk.run(key), command))

        return await self._once(body, act)

    async def comment(self, key: str, step_id: str, body: dict[str, Any]) -> Response:
        """Send comments to a step's agent, now or with another attempt."""
        with error_as(ValidationError, lambda error: RefusedError(400, "invalid", str(error))):
            review = convert(body, Comments)

        async def act() -> Response:
            tables = await self._desk.opened(key)
            step = tables.step(step_id)
            text = comments_text(review.comments)
            order = {"type": "steer", "text": text}
            if review.retry and step.status != RUNNING:
                order = {"type": "step_act", "action": "retry", "message": text}
            command = self._checked(order, step_id=step_id, command_id=review.command_id)
            return _response_to(await send(tables.follower.run, command))

        return await self._once(body, act)

    async def _answer(self, request_id: str, body: dict[str, Any]) -> Response:
        await self._desk.listed()
        board = self._desk.board
        waiting = next((waiting for waiting in board.waiting if waiting.request.id == request_id), None)
        if waiting is None:
            return self._response_if_closed(request_id)
        run, request = waiting.run, waiting.request
        if self._given_answers.get(request_id, (None, None))[0] is request.event:  # answered, but not yet announced
            return self._given_answers[request_id][1]
        outcome = await send(run, self._checked(body, **_answer_fields(request)))
        if outcome.state == "done" and outcome.by not in {"", self._by}:
            outcome = structs.replace(outcome, state="answered")
        if outcome.state == "done":
            content = next((body[name] for name in ("allow", "answers", "selections") if name in body), None)
            answer = _answered(f"already answered by {self._by}", self._by, "declined" if content == [] else content)
            _remember(self._given_answers, request_id, (request.event, answer))
        return _response_to(outcome)

    def _response_if_closed(self, request_id: str) -> Response:
        """Return the response for a request that is not open, which says what became of it."""
        outcomes = (settled(view, request_id) for view in self._desk.views.values())
        if outcome := next(filter(None, outcomes), None):
            return _response_to(outcome)
        return refusal(404, "unknown", f"there is no request {request_id[:100]!r}")

    def _checked(self, body: Mapping[str, Any], **fixed: str) -> RunCommand:
        """Return the command in a body.

        Raises:
            RefusedError: the body isn't a valid command.
        """
        with error_as(RequestInvalidError, lambda error: RefusedError(400, "invalid", str(error))):
            # Its type is one of COMMANDS or an answer's.
            return cast("RunCommand", decode_command(json.encode({**body, **fixed, "by": self._by})))

    async def _once(self, body: Mapping[str, Any], act: Callable[[], Awaitable[Response]]) -> Response:
        """Carry a command out, unless it has been already. Then return the same response.

        A command that the run has not replied to in time is sent again. The run itself carries out each id once.
        """
        command_id = body.get("command_id")
        if not isinstance(command_id, str) or not command_id:
            return await act()
        async with self._lock(f"command {command_id}"):
            response = self._responses.get(command_id) or await act()
            if response.status_code != STATUS["late"]:
                _remember(self._responses, command_id, response)
            return response

    def _lock(self, key: str) -> anyio.Lock:
        return self._locks.setdefault(key, anyio.Lock())


def _remember(kept: dict[str, Any], key: str, value: object) -> None:
    """Remember a value, and forget the oldest one if there are too many."""
    kept[key] = value
    if len(kept) > MOST_REMEMBERED:
        del kept[next(iter(kept))]


def _answer_fields(request: RequestView) -> dict[str, str]:
    """Return the fields of a command that say which request it answers."""
    if isinstance(request.event, PlanDecisionEvent):
        return {"type": "decide", "decision_id": request.event.decision_id}
    return {"type": "approve" if request.kind == "approval" else "answer", "request_id": request.id}


def _response_to(outcome: CommandOutcome) -> Response:
    """Return the response for the outcome of a command."""
    if outcome.state == "done":
        return found({"message": outcome.message})
    if outcome.state == "answered":
        return _answered(outcome.message, outcome.by, outcome.answer)
    return refusal(STATUS[outcome.state], outcome.state, outcome.message)


def _answered(message: str, by: str, answer: Any) -> Response:
    return refusal(409, "answered", message, by=by, answer=answer)
