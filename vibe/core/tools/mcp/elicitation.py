"""Elicitation: what a server asks during a call is put to the person as questions, and their answers are checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from anyio import CancelScope, current_time, to_thread

from vibe.core.plain_text import plain, plain_line, shortened
from vibe.core.tools.mcp.forms import (
    MESSAGE_LENGTH,
    DeclinedError,
    FormField,
    InvalidAnswerError,
    UnusableFormError,
    Value,
    fields_of,
)
from vibe.core.tools.ports import HEADER_LENGTH, Choice, Question, UserInput

if TYPE_CHECKING:
    from mcp.types import ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams, ElicitResult, ErrorData

ROUNDS = 3
"""So often a form is put to the person whose answers do not fit it."""
ACCEPT, OPENED, REFUSE = "Accept", "I have opened it", "Decline"
INVALID_PARAMS = -32602
SCHEMES = frozenset({"http", "https"})


class CallUnderWay:
    """A request to a server that has no answer yet: ``ask`` is who its questions go to (None: nobody).

    ``patience`` ends it once the server has taken ``seconds``, without the time for which a person was waited for.
    """

    def __init__(self, seconds: float, ask: UserInput | None = None) -> None:
        self.ask = ask
        self.patience = CancelScope(deadline=current_time() + seconds)
        self._questions: set[CancelScope] = set()
        self._seconds_left = 0.0

    def end(self) -> None:
        """Withdraw the questions that are still open."""
        for scope in self._questions:
            scope.cancel()

    async def elicit(self, server: str, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Return the answer to a question of the server; it is cancelled with the call."""
        from mcp.types import ElicitResult, ErrorData

        if self.ask is None:
            return ElicitResult(action="decline")
        with CancelScope() as scope:
            self._pause(scope)
            try:
                if params.mode == "url":
                    return await _opened(server, params, self.ask)
                return await _filled_in(server, params, self.ask)
            except DeclinedError as declined:
                return ElicitResult(action="cancel" if declined.later else "decline")
            except UnusableFormError as error:
                return ErrorData(code=INVALID_PARAMS, message=f"this form can't be put to a person: {error}")
            finally:
                self._go_on(scope)
        return ElicitResult(action="cancel")

    def _pause(self, scope: CancelScope) -> None:
        if not self._questions:
            self._seconds_left, self.patience.deadline = self.patience.deadline - current_time(), math.inf
        self._questions.add(scope)

    def _go_on(self, scope: CancelScope) -> None:
        self._questions.discard(scope)
        if not self._questions:
            self.patience.deadline = current_time() + self._seconds_left


async def _opened(server: str, params: ElicitRequestURLParams, ask: UserInput) -> ElicitResult:
    """Ask the person to open an address themselves."""
    from mcp.types import ElicitResult

    if urlsplit(params.url).scheme not in SCHEMES:
        return ElicitResult(action="decline")
    text = f"{_heading(server, params.message)}\nIt wants you to open this address yourself: {plain_line(params.url)}"
    return ElicitResult(action="accept" if await _agreed(server, text, OPENED, ask) else "decline")


async def _filled_in(server: str, params: ElicitRequestFormParams, ask: UserInput) -> ElicitResult:
    """Put the fields of a form to the person, and again those whose answers do not fit.

    Raises:
        UnusableFormError: it can't be put.
        DeclinedError: the person would rather not answer.
    """
    from mcp.types import ElicitResult

    fields = await to_thread.run_sync(fields_of, params.requested_schema)
    heading = _heading(server, params.message)
    if not fields:
        agreed = await _agreed(server, heading, ACCEPT, ask)
        return ElicitResult(action="accept" if agreed else "decline", content={} if agreed else None)
    given: dict[str, Value | None] = {}
    wrong = {field.name: "" for field in fields}
    for _ in range(ROUNDS):
        asked = [field for field in fields if field.name in wrong]
        wrong = await _put(server, heading, [(field, wrong[field.name]) for field in asked], given, ask)
        if not wrong:
            values = {field.name: given[field.name] for field in fields}
            return ElicitResult(
                action="accept", content={name: each for name, each in values.items() if each is not None}
            )
    raise DeclinedError(later=True)


async def _put(
    server: str,
    heading: str,
    fields: Sequence[tuple[FormField, str]],
    given: dict[str, Value | None],
    ask: UserInput,
) -> dict[str, str]:
    """Put fields to the person, each after what is wrong with the last answer; return what is wrong with the new."""
    questions = [
        field.question(server, "\n".join(filter(None, ("" if number else heading, problem))))
        for number, (field, problem) in enumerate(fields)
    ]
    answers = await ask(questions)
    if answers is None:
        raise DeclinedError
    wrong: dict[str, str] = {}
    for (field, _), answer in zip(fields, answers, strict=True):
        try:
            given[field.name] = await to_thread.run_sync(field.value, answer)
        except InvalidAnswerError as error:
            wrong[field.name] = f"Not taken: {error}"
    return wrong


async def _agreed(server: str, text: str, agreement: str, ask: UserInput) -> bool:
    options = [Choice(label=agreement), Choice(label=REFUSE)]
    answers = await ask([Question(question=text, header=shortened(server, HEADER_LENGTH), options=options)])
    return answers is not None and answers[0].answer == agreement


def _heading(server: str, message: str) -> str:
    return f"MCP server {plain_line(server)!r} asks: {plain(shortened(message, MESSAGE_LENGTH))}"
