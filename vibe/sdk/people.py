"""Adapts the callbacks of a program to the listeners, approver and hooks of its agents."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from anyio import CapacityLimiter, Lock, to_thread
from msgspec import ValidationError, convert, structs

from ipc.events import ApprovalRequestEvent, Event, PlanDecisionEvent
from ipc.sink import EventSink
from vibe.core.hooks.runner import Hook, HookBrokenError, HookEvent, event_named
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import ApprovalAnswer
from vibe.core.tools.questions import Question, QuestionAnswer
from vibe.sdk.options import Ask, Hooked, ProgramError, is_list
from vibe.sdk.run import call_outside
from vibe.system.errors import BrokeOffError, UsageError
from vibe.system.racing import foreign_code

MODES: Mapping[object, ApprovalMode] = {"edits": ApprovalMode.EDITS, True: ApprovalMode.ALL}
PROGRAM = "program"
NO_ANSWER = "the program failed to say"


async def called(call: Any, *args: Any, **named: Any) -> Any:
    """Call a function of the program. A plain one runs in a thread, where it may wait for a person.

    Cancelling the call leaves the thread behind.

    Raises:
        BrokeOffError: as from ``foreign_code``.
    """
    with foreign_code():
        if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None)):  # noqa: B004
            return await call(*args, **named)
        unlimited = CapacityLimiter(math.inf)  # calls that wait for a person must not hold up the others
        in_thread = foreign_code()(call)  # not every error can be passed on from a thread to an event loop
        result = await to_thread.run_sync(partial(in_thread, *args, **named), abandon_on_cancel=True, limiter=unlimited)
        return await result if inspect.isawaitable(result) else result


class People:
    """The callbacks of one session or plan.

    ``fault`` is the first error that one of them raised, which stops the work. ``hearer`` receives every event, as
    ``on_event`` does, and ``stop`` ends the work at once.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._approve, ask = options.get("approve"), options.get("ask")
        self._on_event: Callable[[Event], object] | None = options.get("on_event")
        self.approver = self if callable(self._approve) else None
        self.user_input = None if ask is None else partial(self._replies, ask)
        self.mode = ApprovalMode.ASK if self.approver else MODES.get(self._approve)
        """The approval mode. A program that answers for itself is asked, whatever the settings say."""
        self.fault: BaseException | None = None
        self.hearer: EventSink | None = None
        self._one_by_one = Lock()
        self.stop: Callable[[], object] = str

    def fail(self, error: BaseException) -> None:
        """Stop the work because of an error in the program's own code."""
        self.fault = self.fault or (isinstance(error, BrokeOffError) and error.__cause__) or error
        self.stop()

    def raise_fault(self) -> None:
        """Raise what a callback raised, if anything, once.

        Raises:
            ProgramError: with it; what waits for the run gets it as it is.
        """
        fault, self.fault = self.fault, None
        if fault is not None:
            raise ProgramError(fault)

    def publish(self, event: Event) -> None:
        """Pass an event to ``on_event``, unless a callback has failed, and to the hearer."""
        if self._on_event is not None and self.fault is None:
            try:
                with foreign_code():
                    call_outside(self._on_event, event)
            except Exception as error:  # noqa: BLE001  raised from the await
                self.fail(error)
        if self.hearer is not None:
            self.hearer.publish(event)

    async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        """Ask the program about a tool call; the answer is no if its callback fails."""
        async with self._one_by_one:
            answer = await self.try_call(self._approval, request)
        return answer or ApprovalAnswer(allow=False, reason=NO_ANSWER, by=PROGRAM)

    def hooks(self, given: Mapping[str, Hooked]) -> tuple[Hook, ...]:
        """Turn the functions of the program into hooks.

        Raises:
            UsageError: there is no event of a given name.
        """
        found: list[Hook] = []
        for word, calls in given.items():
            event = event_named(word)
            if event is None:
                raise UsageError(f"hooks={word!r}: give one of {', '.join(HookEvent)}")
            for call in [calls] if callable(calls) else calls:
                name = f"{getattr(call, '__name__', event.value)} of the program"
                found.append(Hook(name=name, event=event, command="", call=partial(self._hook_answer, event, call)))
        return tuple(found)

    async def _hook_answer(self, event: HookEvent, call: Callable[..., Any], payload: dict[str, Any]) -> dict[str, Any]:
        result = await self.try_call(call, payload)
        if self.fault is not None:
            return {"decision": "deny", "reason": NO_ANSWER}
        if isinstance(result, str):
            return {"decision": "deny", "reason": result} if event is HookEvent.BEFORE_TOOL else {"message": result}
        if result is None or isinstance(result, Mapping):
            return dict(cast("Mapping[str, Any]", result or {}))
        raise HookBrokenError(f"returned {result!r}: None, a text or the document of an answer belongs there")

    async def try_call(self, call: Callable[..., Any], *args: Any) -> Any:
        """Return what a callback returns. If it raises, stop the work and return None."""
        try:
            return await called(call, *args)
        except Exception as error:  # noqa: BLE001  raised from the await
            self.fail(error)
            return None

    async def _approval(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        said = await called(self._approve, request)
        given: Any = said if isinstance(said, ApprovalAnswer) else ApprovalAnswer(allow=False if said is None else said)
        try:  # a text such as "no" must not pass for a yes
            return structs.replace(convert(structs.asdict(given), ApprovalAnswer), by=PROGRAM)
        except ValidationError as error:
            raise UsageError(f"approve= returned {said!r}: return True, False or an Approval") from error

    async def _replies(
        self,
        ask: Ask,
        questions: Sequence[Question],
        request_id: str = "",  # noqa: ARG002  a parameter of the port, UserInput
    ) -> Sequence[QuestionAnswer] | None:
        async with self._one_by_one:
            return await self.try_call(_replied, ask, questions)


async def _replied(ask: Ask, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
    result = await called(ask, questions)
    if result is None:
        return None
    if not is_list(result) or len(result) != len(questions):
        raise UsageError(f"ask= has to return a list of answers, one to each question: {len(questions)} here")
    return [_answer(question, given) for question, given in zip(questions, result, strict=True)]


def _answer(question: Question, given: str | Sequence[str]) -> QuestionAnswer:
    chosen = selections(given, "ask= returned")
    labels = {option.label for option in question.options}
    is_other = not labels.issuperset(chosen)
    return QuestionAnswer(question=question.question, answer=", ".join(chosen), is_other=is_other, by=PROGRAM)


async def choice(decide: object, decision: PlanDecisionEvent) -> Sequence[str] | None:
    """Return the options that a program chooses for a decision; an empty sequence leaves it open.

    Raises:
        UsageError: they are no answer to the decision.
    """
    result = await called(decide, decision)
    chosen = () if result is None else selections(result, "decide= returned")
    if not set(chosen) <= set(decision.options) or (len(chosen) > 1 and not decision.multi_select):
        how = "some" if decision.multi_select else "one"
        raise UsageError(
            f"decide= returned {result!r} for decision {decision.decision_id!r}: choose {how} of "
            f"{', '.join(decision.options)}, or None"
        )
    return chosen


def selections(given: object, subject: str) -> tuple[str, ...]:
    """Return what a program chose, one text or several. ``subject`` begins the message about any other value.

    Raises:
        UsageError: it is neither.
    """
    chosen = cast("Sequence[object]", given if is_list(given) else (given,))
    if not all(isinstance(one, str) for one in chosen):
        raise UsageError(f"{subject} {given!r}: a text or a list of texts belongs there")
    return tuple(cast("Sequence[str]", chosen))
