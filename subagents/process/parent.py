"""The run's end of a link, which publishes a step's events and lends its process what exists once per run."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import assert_never

import anyio
from msgspec import Struct, field

from ipc.codec import decode_event
from ipc.errors import CodecError
from ipc.events import ApprovalRequestEvent
from subagents.agent.budget import CallReservation
from subagents.agent.run_services import RunServices
from subagents.agent.spawner import SpawnError
from subagents.process import protocol
from subagents.process.transport import Transport
from subagents.step_result import StepResult
from vibe.core.budget import BudgetExhaustedError
from vibe.core.config.models import ModelConfig
from vibe.core.llm.limiter import CallLimiter
from vibe.core.llm.pricing import configured_cost
from vibe.core.messages import Spending, Usage
from vibe.core.tools.ports import ApprovalAnswer
from vibe.core.tools.questions import DeclinedElsewhereError, Question
from vibe.system.errors import EnvironmentFailure, error_as


class _Lease(Struct, eq=False):
    """A lease that a step's process has asked for and not yet returned."""

    scope: anyio.CancelScope
    room: CallReservation | None = None
    worst: Spending | None = None


class _Message(Struct, eq=False):
    """A message to a step's agent; ``taken`` is valid once ``answered`` is set."""

    answered: anyio.Event = field(default_factory=anyio.Event)
    taken: bool = False


class StepServer:
    """Serves one step's process. ``result`` is the attempt's result, or None until the process has reported it.

    ``lost`` has the most that calls under way may have used when the process died: their usage is unknown, so all the
    room they had is booked. ``others`` returns what steps that ran at the same time claimed to write.
    """

    def __init__(self, services: RunServices, transport: Transport, others: Callable[[], Sequence[str]]) -> None:
        self.result: StepResult | None = None
        self.lost: list[Spending] = []
        self.met = anyio.Event()
        """Set once the process is being served, or never will be."""
        self._services = services
        self._transport = transport
        self._others = others
        self._leases: dict[int, _Lease] = {}
        self._messages: dict[int, _Message] = {}
        self._numbers = itertools.count(1)
        self._is_serving = False
        self._start: Callable[..., object]

    async def meet(self) -> bool:
        """Receive the process's hello, after which it may be told to begin. Return False if it is gone without one.

        Raises:
            MismatchError: the process is of another version, or can't make attempts.
            LinkError: its first message is invalid.
        """
        line = await self._transport.receive()
        if line is None:
            return False
        hello = protocol.from_step(line)
        if not isinstance(hello, protocol.Hello):
            raise protocol.MismatchError("the step's process sent no handshake: its version differs from this run")
        protocol.Hello.own(()).check(hello, needed=(protocol.AGENTS,))
        return True

    async def send(self, message: protocol.ToStep) -> None:
        """Send a message, which is lost if the process is gone."""
        await self._transport.send(protocol.encode(message))

    async def serve(self, *, leaving: bool = False) -> None:
        """Handle messages until there are no more, and then take back everything that is still lent.

        ``leaving`` says that the process was told to exit, so that its calls were cut off rather than lost.

        Raises:
            LinkError: a message is invalid.
        """
        flaw: protocol.LinkError | None = None
        async with anyio.create_task_group() as group:
            self._start = group.start_soon
            self._is_serving = not leaving
            self.met.set()
            try:
                while (line := await self._transport.receive()) is not None:
                    self._handle(protocol.from_step(line))
            except protocol.LinkError as error:
                flaw = error
            finally:
                self._is_serving = False
                for sent in self._messages.values():  # a process that is gone answers nothing more
                    sent.answered.set()
            if self.result is None and not leaving:
                self._write_off()
            group.cancel_scope.cancel()
        if flaw is not None:
            raise flaw

    async def tell(self, text: str, by: str = "") -> bool:
        """Send a message to the step's agent. Return False if the agent is not at work or doesn't take it."""
        await self.met.wait()
        if not self._is_serving:
            return False
        number, sent = next(self._numbers), _Message()
        self._messages[number] = sent
        await self.send(protocol.Say(number, text, by))
        await sent.answered.wait()
        return sent.taken

    def _handle(self, message: protocol.FromStep) -> None:
        match message:
            case protocol.Announced(event):
                self._announce(bytes(event))
            case protocol.Asked(number, want):
                self._leases[number] = _Lease(anyio.CancelScope())
                self._start(self._lend, number, want, self._leases[number])
            case protocol.Returned():
                self._take_back(message)
            case protocol.Paused(provider, seconds):
                self._limiter(provider).pause(seconds)
            case protocol.Heard(number, taken) if number in self._messages:
                sent = self._messages.pop(number)
                sent.taken = taken
                sent.answered.set()
            case protocol.Ended(result):
                self.result = result
            case protocol.Hello() | protocol.Heard():
                pass  # a process that is told to exit early may send its hello only now
            case _:
                assert_never(message)

    def _announce(self, body: bytes) -> None:
        with error_as(CodecError, lambda error: protocol.LinkError(str(error))):
            event = decode_event(body)
        if event is None:
            raise protocol.LinkError("unknown event type")
        self._services.sink.publish(event)

    def _take_back(self, returned: protocol.Returned) -> None:
        lease = self._leases.pop(returned.lease, None)
        if lease is None:
            return
        if lease.room is not None and returned.usage is not None:
            lease.room.settle(returned.usage, returned.cost_usd)
        self._services.approvals.remember(returned.yeses)
        lease.scope.cancel()

    def _write_off(self) -> None:
        """Book the calls that were under way with the most they may have used."""
        for lease in self._leases.values():
            if lease.room is not None and lease.worst is not None:
                lease.room.settle(lease.worst.usage, lease.worst.cost_usd)
                self.lost.append(lease.worst)

    # --- leases -----------------------------------------------------------------------------------------------

    async def _lend(self, number: int, want: protocol.Want, lease: _Lease) -> None:
        try:
            with lease.scope:
                async with self._service(number, want, lease) as granted:
                    await self.send(granted)
                    await anyio.sleep_forever()
        except BudgetExhaustedError as error:
            await self.send(
                protocol.Refused(number, str(error), account=error.account, limit=error.limit, spent=error.spent)
            )
        except (SpawnError, EnvironmentFailure) as error:
            await self.send(protocol.Refused(number, str(error)))
        finally:
            self._leases.pop(number, None)

    @asynccontextmanager
    async def _service(self, number: int, want: protocol.Want, lease: _Lease) -> AsyncGenerator[protocol.Granted]:
        services = self._services
        match want:
            case protocol.LedgerRoom():
                async with self._room(number, want, lease) as granted:
                    yield granted
            case protocol.ProviderSlot(provider=provider):
                async with self._limiter(provider).slot():
                    yield protocol.Granted(number)
            case protocol.TurnToAsk():
                async with services.approvals.queue:
                    yield protocol.Granted(number, yeses=tuple(sorted(services.approvals.remembered)))
            case protocol.PersonsAnswer(request=request):
                yield protocol.Granted(number, answer=await self._answer(request))
            case protocol.PersonsReplies():
                yield await self._replies(number, want)
            case protocol.SubagentPlace():
                async with services.spawning.place():
                    yield protocol.Granted(number)
            case protocol.ClaimsBeside():
                yield protocol.Granted(number, writes=tuple(self._others()))
            case protocol.TurnToWrite():
                turns = services.turns
                async with nullcontext() if turns is None else turns(partial(self._announce_wait, number)):
                    yield protocol.Granted(number)
            case _:
                assert_never(want)

    @asynccontextmanager
    async def _room(self, number: int, want: protocol.LedgerRoom, lease: _Lease) -> AsyncGenerator[protocol.Granted]:
        account = self._services.account
        model = ModelConfig(
            name=want.model, provider=want.provider, input_price=want.input_price, output_price=want.output_price
        )
        room = lease.room = await account.reserve(model, want.prompt_tokens, want.wanted_tokens)
        worst = Usage(want.prompt_tokens, room.max_completion_tokens, 0, 1)
        lease.worst = Spending(worst, configured_cost(model, worst))
        try:
            yield protocol.Granted(number, room.max_completion_tokens, usage=account.usage, cost_usd=account.cost_usd)
        finally:
            room.release()

    async def _answer(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        approver = self._services.approvals.approver
        if approver is None:
            raise EnvironmentFailure("no one can answer questions in this run")
        return await approver.approve(request)

    async def _replies(self, number: int, want: protocol.PersonsReplies) -> protocol.Granted:
        if self._services.user_input is None:
            raise EnvironmentFailure("no one can answer questions in this run")
        questions = [Question.model_validate(asked) for asked in want.questions]
        try:
            answers = await self._services.user_input(questions, want.request_id)
        except DeclinedElsewhereError as declined:
            return protocol.Granted(number, declined=declined.by)
        given = None if answers is None else tuple(answer.model_dump(mode="json") for answer in answers)
        return protocol.Granted(number, answers=given)

    def _announce_wait(self, number: int, message: str) -> None:
        self._start(self.send, protocol.Waits(number, message))

    def _limiter(self, provider: str) -> CallLimiter:
        try:
            return self._services.limiter_of(provider)
        except KeyError as error:
            raise EnvironmentFailure(f"unknown provider {provider!r}: the run's settings have changed") from error
