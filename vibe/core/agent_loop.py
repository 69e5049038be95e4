"""AgentLoop: runs turn after turn until the model asks for no more tools, or a limit, a fault or a person ends it.

Read ``AgentLoop.act`` first, then ``_take_turns``: that is the whole loop. What may interfere with it (budgets, loop
detection, hooks, file history) is middleware, see ``vibe.core.middleware``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, assert_never

from anyio import CancelScope, get_cancelled_exc_class
from msgspec import Struct, field, structs

from ipc.events import ErrorEvent, UserMessageEvent, WarningEvent
from vibe.core.budget import BudgetExhaustedError
from vibe.core.compactor import Compactor, ContextLimit, compaction_threshold
from vibe.core.llm.errors import ContextTooLongError, ModelError
from vibe.core.llm.written_calls import written_call
from vibe.core.messages import (
    APPROVE_ADVICE,
    BUSY,
    AssistantMessage,
    Denial,
    Image,
    Message,
    NeverStop,
    Outcome,
    StopSignal,
    Usage,
    UserMessage,
)
from vibe.core.middleware.limits import SUMMARISE, LoopDetection, SpendingNotice
from vibe.core.middleware.port import HOST_NOTICE, Compact, Hook, Notice, Stop, Warn, last_notices
from vibe.core.tools.hand_in import HandIn
from vibe.core.turn import AgentKit, TurnResult, TurnRunner
from vibe.system.racing import bare_task_group

EMPTY_NOTICE = f"{HOST_NOTICE}your last answer was empty. Go on with the work, or end with your closing summary."
INTERRUPTED_NOTICE = f"{HOST_NOTICE}you were interrupted here. What you had begun may have been done in part."
HAND_IN_NOTICE = (
    f"{HOST_NOTICE}the work counts only once its result is handed in, and it is not. Call the tool {{tool!r}} now, "
    "with a value that fits its schema."
)
CALL_AS_TEXT_NOTICE = (
    f"{HOST_NOTICE}nothing was run: your last answer is a tool call written as text. Call the tool {{tool!r}} the way "
    "tools are called here, or answer in plain words."
)


class ActResult(Struct, frozen=True, kw_only=True):
    """The result of one prompt.

    ``reason`` is None if the work completed, else a stable word: ``turns``, ``budget``, ``length``, ``loop``,
    ``empty``, ``context``, ``provider``, ``model``, ``blocked``, ``stopped``, ``timeout``, ``environment`` or
    ``output``. ``detail`` explains it to people. ``text`` is the answer, or the part of it that exists if it was cut
    off. ``cost_usd`` is None if a price is unknown. ``output`` is the value that was handed in. ``exhausted`` names
    the account whose budget is used up, if that ended the work.
    """

    outcome: Outcome
    reason: str | None = None
    detail: str = ""
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    turns: int = 0
    denied: tuple[Denial, ...] = ()
    files_changed: tuple[str, ...] = ()
    error: ModelError | None = None
    output: Any = None
    exhausted: str = ""


class AgentLoop:
    """One agent and its conversation, of which the first ``turns_before`` turns don't count as its own."""

    def __init__(self, kit: AgentKit, *, turns_before: int = 0) -> None:
        self._kit = kit
        self._transcript, self._turns_before = kit.transcript, turns_before
        self._sink = kit.sink
        self._threshold = compaction_threshold(kit.model)
        ending = SUMMARISE if kit.hand_in is None else f"hand in your result with {kit.hand_in.name}"
        length = () if self._threshold is None else (ContextLimit(self._threshold, warns=kit.context_warnings),)
        self._middleware = (SpendingNotice(ending), *length, LoopDetection(), *kit.middleware)
        self._turns = TurnRunner(kit)
        self._compactor = Compactor(kit)
        self._denied: list[Denial] = []
        self._files_changed: dict[str, None] = {}
        self._has_shortened = False
        self._answer = AnswerSoFar()
        self._steering: list[tuple[str, str]] = []
        self._is_working = False

    async def act(self, prompt: str, stop: StopSignal | None = None, *, images: tuple[Image, ...] = ()) -> ActResult:
        """Answer a prompt, using tools as needed.

        Failures are returned as results; only a cancellation is raised. A prompt that does not fit into the model's
        context is refused and does not become part of the conversation.
        """
        self._begin_answer()
        if too_long := self._why_too_long(prompt, images):
            return self._result(Outcome.LIMIT, "context", too_long)
        self._add_prompt(prompt, images)
        return await self._run(stop or NeverStop())

    async def compact(self, focus: str = "") -> bool:
        """Replace all but the recent turns by a summary that keeps ``focus`` above all.

        Return False if that failed; a warning has said why.
        """
        length = self._turns.context().context_tokens
        return await Compactor(self._kit, focus.strip()).compact(length, self._threshold or length)

    @property
    def has_unread(self) -> bool:
        """True if the agent was told something and its model has not been called since."""
        last = next(reversed(self._transcript.messages), None)
        return bool(self._steering) or (isinstance(last, UserMessage) and not last.content.startswith(HOST_NOTICE))

    def steer(self, text: str, by: str = "", *, at_rest: bool = False) -> bool:
        """Say something to the working agent, which reads it before its next model call and before it ends.

        ``by`` names a sender outside this process. With ``at_rest`` the text is also taken while the agent is idle,
        and is read once it goes on. Return False if the text was not taken: the agent is idle or has just ended, or
        the text does not fit into the model's context.
        """
        if not (self._is_working or at_rest) or self._why_too_long(text):
            return False
        self._steering.append((text, by))
        return True

    async def resume(self, stop: StopSignal | None = None) -> ActResult:
        """Continue an interrupted conversation from its last complete turn."""
        transcript = self._transcript
        transcript.close_dangling_calls()
        if self.has_unread:
            self._begin_answer()
            return await self._run(stop or NeverStop())
        last, hand_in = transcript.messages[-1], self._kit.hand_in
        self._answer.restore(transcript.messages)
        restored = hand_in or HandIn(schema={})  # an earlier prompt may have wanted a value
        if restored.restore(transcript.messages):
            text = restored.summary if hand_in else json.dumps(restored.value, ensure_ascii=False)
            return self._result(Outcome.COMPLETED, text=text)
        if isinstance(last, AssistantMessage):
            if last.cut:
                transcript.append(continue_notice(last))
            elif last.content.strip() and hand_in is None:
                tool = self._tool_called_as_text()
                result = self._ask_for_a_call(tool) if tool else self._result(Outcome.COMPLETED, text=self._answer.text)
                if result is not None:
                    return result
        return await self._run(stop or NeverStop())

    def interrupted(self) -> ActResult:
        """Return the result of an ``act`` that was cancelled, with all it had done until then."""
        return self._result(Outcome.INTERRUPTED, "stopped", "stopped before the end")

    async def _run(self, stop: StopSignal) -> ActResult:
        """Work until the prompt is answered. The middleware's background tasks have ended, too, when this returns."""
        self._is_working = True
        try:
            return await self._run_with_middleware(stop)
        except get_cancelled_exc_class():
            if self._kit.keeps_partial:
                self._transcript.append(UserMessage(INTERRUPTED_NOTICE))
            raise
        finally:
            self._is_working = False
            self._deliver_steering()

    async def _run_with_middleware(self, stop: StopSignal) -> ActResult:
        """Take turns inside the task group of the middleware."""
        result = self.interrupted()
        async with bare_task_group() as tasks:
            for member in self._middleware:
                member.before_run(tasks)
            try:
                result = await self._take_turns(stop)
            finally:
                with CancelScope(shield=True):
                    await self._consult(lambda one, context: one.after_run(context))
        return result

    async def _take_turns(self, stop: StopSignal) -> ActResult:
        """Take turns until one of them ends the work: the loop itself."""
        empty_before = False
        while True:
            self._deliver_steering()
            if stop.requested:
                return self._result(Outcome.INTERRUPTED, "stopped", "stopped at the end of a turn")
            stopped = await self._consult(lambda one, context: one.before_turn(context))
            if stopped is not None:
                return stopped
            turn = await self._next_turn()
            if isinstance(turn, ActResult):
                return turn
            result = await self._result_after(turn, empty_before=empty_before)
            if result is not None:
                return result
            empty_before = turn.message.is_empty

    async def _consult(self, hook: Hook) -> ActResult | None:
        """Call one hook of each middleware and act on the verdicts; return the result if one of them is a ``Stop``."""
        context = self._turns.context()
        for member in self._middleware:
            for verdict in await hook(member, context):
                match verdict:
                    case Stop():
                        return self._result(verdict.outcome, verdict.reason, verdict.detail)
                    case Notice():
                        self._transcript.append(UserMessage(HOST_NOTICE + verdict.text))
                    case Warn():
                        self._sink.publish(WarningEvent(code=verdict.code, message=verdict.message))
                    case Compact():
                        await self._compactor.compact(self._turns.context().context_tokens, verdict.threshold)
                    case _:
                        assert_never(verdict)
        return None

    async def _next_turn(self) -> TurnResult | ActResult:
        """Run one turn and note its denials and changed files; return an ``ActResult`` if the turn failed."""
        try:
            turn = await self._run_or_shorten()
        except BudgetExhaustedError as error:
            return structs.replace(self._result(Outcome.LIMIT, error.reason, str(error)), exhausted=error.account)
        except ContextTooLongError as error:
            return self._failed("context", error)
        except ModelError as error:
            return self._failed("provider" if error.halts else "model", error)
        if turn.batch is not None:
            ran = turn.batch.ran  # a call denied because the folder was busy no longer counts once it has run
            self._denied = [one for one in self._denied if one.by != BUSY or one.summary not in ran]
            self._denied.extend(turn.batch.denied)
            self._files_changed.update(dict.fromkeys(turn.batch.files_changed))
        return turn

    async def _run_or_shorten(self) -> TurnResult:
        """Run one turn. If the conversation is too long for the model, shorten it and try the turn again, once."""
        try:
            turn = await self._turns.run()
        except ContextTooLongError:
            length = self._turns.context().context_tokens
            if self._has_shortened or not await self._compactor.compact(length, min(length, self._threshold or length)):
                raise
            self._has_shortened = True
            return await self._run_or_shorten()
        self._has_shortened = False
        return turn

    async def _result_after(self, turn: TurnResult, *, empty_before: bool) -> ActResult | None:
        """Return the result if this turn was the last, None if the agent goes on."""
        message, hand_in, answer = turn.message, self._kit.hand_in, self._answer
        answer.take(message)
        if hand_in is not None and hand_in.accepted:
            return await self._finish(hand_in.summary or message.content)
        if message.cut and (answer.too_often or not message.tool_calls):
            return self._continue_cut_off(message)
        if message.tool_calls:
            return await self._consult(lambda one, context: one.after_turn(context))
        if message.content.strip() and (tool := self._tool_called_as_text()):
            return self._ask_for_a_call(tool)
        if message.content.strip():
            return await self._finish(answer.text) if hand_in is None else self._remind_to_hand_in(hand_in, answer.text)
        if empty_before:
            return self._result(Outcome.FAILED, "empty", "the model answered with nothing, twice")
        self._transcript.append(UserMessage(EMPTY_NOTICE))
        return None

    def _why_too_long(self, text: str, images: tuple[Image, ...] = ()) -> str:
        """Return why a prompt alone overflows the model's context; empty if it fits, as far as an estimate can say."""
        tokens, model = self._turns.estimate(UserMessage(text, images)), self._kit.model
        if tokens <= model.context_size:
            return ""
        return (
            f"the prompt does not fit: with instructions and tools it has about {tokens:,} tokens ({len(text):,} "
            f"characters), and {model.key} takes {model.context_size:,}: shorten it, put the text in a file and have "
            "that read in parts, or choose a model that takes more (context_size)"
        )

    def _tool_called_as_text(self) -> str:
        """Return the name of the tool that the answer calls as text instead of making a call; empty if none."""
        return written_call(self._answer.text, self._turns.offered)

    def _ask_for_a_call(self, tool: str) -> ActResult | None:
        """Ask the model to make the call it wrote as text; return a failure if it was asked just before."""
        last_notice = next(last_notices(self._transcript), "")
        asked_before = last_notice.startswith(CALL_AS_TEXT_NOTICE.partition("{")[0])
        if asked_before and self._transcript.messages[-2:-1] == [UserMessage(last_notice)]:
            detail = (
                f"the model wrote its call of {tool!r} as text, twice, so nothing was run: its server makes no call "
                "of such text; check the server's chat template and tool parser, or choose another model"
            )
            return self._result(Outcome.FAILED, "model", detail)
        self._transcript.append(UserMessage(CALL_AS_TEXT_NOTICE.format(tool=tool)))
        self._answer.renew()
        return None

    def _add_prompt(self, text: str, images: tuple[Image, ...] = (), origin: str = "prompt", by: str = "") -> None:
        """Add a person's words to the conversation and announce them."""
        self._transcript.append(UserMessage(text, images))
        index = len(self._transcript.messages) - 1
        self._sink.publish(UserMessageEvent(text=text, message_index=index, images=len(images), origin=origin, by=by))

    def _deliver_steering(self) -> None:
        """Move the steering that arrived meanwhile into the conversation, also once the work has ended."""
        steering, self._steering = self._steering, []
        for text, by in steering:
            self._add_prompt(text, origin="steer", by=by)

    def _continue_cut_off(self, message: AssistantMessage) -> ActResult | None:
        """Ask the model to continue its cut-off answer; return the result if answers were cut off too often."""
        if self._answer.too_often:
            detail = (
                f"{MAX_CUTS} answers in a row were cut off at the model's output limit: ask for less at once, or raise "
                "max_output_tokens of the model"
            )
            return self._result(Outcome.LIMIT, "length", detail)
        self._transcript.append(continue_notice(message))
        return None

    async def _finish(self, text: str) -> ActResult | None:
        """Return the result with this closing text, or None if a middleware or new steering makes the agent go on."""
        prompts = len(self._transcript.prompts)
        await self._consult(lambda one, context: one.before_end(context, text))
        if not self._steering and prompts == len(self._transcript.prompts):
            self._is_working = False
            return self._result(Outcome.COMPLETED, text=text)
        self._begin_answer()
        return None

    def _begin_answer(self) -> None:
        """Begin a new answer, and expect a new value to be handed in."""
        if self._kit.hand_in is not None:
            self._kit.hand_in.renew()
        self._answer.renew()

    def _remind_to_hand_in(self, hand_in: HandIn, text: str) -> ActResult | None:
        """Remind an agent that ends without handing in its result; return a failure if it was reminded before."""
        reminder = HAND_IN_NOTICE.format(tool=hand_in.name)
        if reminder in last_notices(self._transcript):
            refused = f"; the last value was refused: {hand_in.last_problem}" if hand_in.last_problem else ""
            detail = f"the agent ended without handing in its result with {hand_in.name}{refused}"
            return self._result(Outcome.FAILED, "output", detail, text=text)
        self._transcript.append(UserMessage(reminder))
        self._answer.renew()
        return None

    def _failed(self, reason: str, error: ModelError) -> ActResult:
        """Announce an error of the model and return the result it leads to."""
        self._sink.publish(ErrorEvent(code=f"model.{reason}", message=str(error)))
        outcome = Outcome.LIMIT if error.is_spent else Outcome.FAILED
        return self._result(outcome, reason, str(error), error=error)

    def _result(
        self,
        outcome: Outcome,
        reason: str | None = None,
        detail: str = "",
        *,
        text: str = "",
        error: ModelError | None = None,
    ) -> ActResult:
        """Build the result. Completed work counts as blocked if a call was denied for want of a user or of a turn."""
        transcript = self._transcript
        blocked = next((denial for denial in self._denied if denial.by in {"headless", BUSY}), None)
        if outcome is Outcome.COMPLETED and blocked is not None:
            outcome, reason = Outcome.BLOCKED, "blocked"
            detail = f"{blocked.summary} needs approval ({blocked.reason}): rerun with {APPROVE_ADVICE}"
            if blocked.by == BUSY:
                detail = f"{blocked.summary} was not run: {blocked.reason}"
        return ActResult(
            outcome=outcome,
            reason=reason,
            detail=detail,
            text=text or self._answer.text,
            usage=transcript.usage,
            cost_usd=transcript.cost_usd,
            turns=transcript.turns - self._turns_before,
            denied=tuple(self._denied),
            files_changed=tuple(self._files_changed),
            error=error,
            output=self._kit.hand_in.value if self._kit.hand_in is not None else None,
        )


MAX_CUTS: Final = 5
"""The work ends after this many answers in a row that were cut off."""
CONTINUE: Final = (
    f"{HOST_NOTICE}your last answer was cut off at the output limit. Continue it exactly where it stopped: repeat "
    "nothing of it, and do not comment on the cut."
)
SPEAK: Final = (
    f"{HOST_NOTICE}your last turn reached the output limit before it said anything. Think less and go on with the work "
    "in smaller steps."
)

_MIN_OVERLAP: Final = 40
"""Characters that must match between the end of one part and the start of the next to count as text said twice.

A shorter match may be chance."""
_MIN_DISTINCT: Final = 10
"""Different characters that text must have to count as repeated: with fewer it is a ruler or part of a table."""
_LOOK_BACK: Final = 8_000
"""The most characters of a part that are searched for repeated text."""


class AnswerSoFar(Struct, eq=False):
    """The answer an agent is giving, joined from its parts if the output limit cuts it.

    ``text`` is the answer so far, without text that a later part repeats. ``cuts`` counts the turns in a row that
    were cut off.
    """

    cuts: int = 0
    text: str = ""

    @property
    def too_often(self) -> bool:
        """True if so many turns in a row were cut off that the work should end."""
        return self.cuts >= MAX_CUTS

    def renew(self) -> None:
        """Begin a new answer."""
        self.cuts, self.text = 0, ""

    def take(self, message: AssistantMessage) -> None:
        """Add what one turn said. Text beside tool calls is not part of the answer."""
        if message.tool_calls:
            self.text = ""
        elif message.content.strip():
            # The content is not stripped: a continued part begins with the white space that belongs between the two.
            self.text = _joined(self.text, message.content)
        if message.cut:
            self.cuts += 1
        elif not message.is_empty:
            self.cuts = 0

    def restore(self, messages: Sequence[Message]) -> None:
        """Restore the answer that a saved conversation ends with."""
        self.renew()
        start = len(messages)
        while start and _belongs_to_answer(messages[start - 1]):
            start -= 1
        for message in messages[start:]:
            if isinstance(message, AssistantMessage):
                self.take(message)


def continue_notice(message: AssistantMessage) -> UserMessage:
    """Return the host's message that makes the model continue after a cut-off turn without tool calls."""
    return UserMessage(CONTINUE if message.content.strip() else SPEAK)


def _belongs_to_answer(message: Message) -> bool:
    if isinstance(message, UserMessage):
        return message.content.startswith(HOST_NOTICE)
    return isinstance(message, AssistantMessage) and not message.tool_calls


def _joined(said: str, more: str) -> str:
    """Join two parts of an answer. ``more`` may repeat the end of ``said``, or all of it from the start."""
    opening = said[:_LOOK_BACK]
    if _is_distinctive(opening) and more.startswith(opening):
        return more
    if _is_distinctive(more) and said.startswith(more):
        return said
    longest = min(len(said), len(more), _LOOK_BACK)
    for size in range(longest, _MIN_OVERLAP - 1, -1):
        if said.endswith(more[:size]) and _is_distinctive(more[:size]):
            return said + more[size:]
    return said + more


def _is_distinctive(text: str) -> bool:
    return len(text) >= _MIN_OVERLAP and len(set(text)) >= _MIN_DISTINCT
