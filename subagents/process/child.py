"""The step's end of the link: events go out through it, and what is one for the whole run is leased through it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager

import anyio
from anyio import from_thread
from msgspec import Raw

from ipc.codec import encode_event
from ipc.events import ApprovalRequestEvent, Event
from subagents.agent.budget import Account, Limits
from subagents.agent.spawner import SpawnError, SpawnPool
from subagents.agent.steering import Steering
from subagents.executor import StepTask
from subagents.process import protocol
from subagents.process.transport import Transport
from vibe.core.agents.manager import AgentManager
from vibe.core.budget import BudgetExhaustedError
from vibe.core.config.models import ModelConfig, SubagentsConfig
from vibe.core.messages import Usage
from vibe.core.session.errors import WorkspaceLockedError
from vibe.core.session.write_turn import Tell
from vibe.core.tools.approvals import Approvals
from vibe.core.tools.ports import ApprovalAnswer
from vibe.core.tools.questions import Answer, Question


class LeaseRefusedError(Exception):
    """The run does not grant what was asked for; ``refused`` says why."""

    def __init__(self, refused: protocol.Refused) -> None:
        super().__init__(refused.message)
        self.refused = refused


class _Waiting:
    """A request without an answer yet."""

    def __init__(self, tell: Tell | None) -> None:
        self.answered = anyio.Event()
        self.answer: protocol.Granted | protocol.Refused | None = None
        self.tell = tell


class StepLink:
    """An ``EventSink``, a ``StopSignal`` and a source of leases; one for each process of a step.

    What is sent is with the run before the call returns, so that nothing is lost if this process dies the moment after:
    where the run does not keep up, the process waits.
    """

    def __init__(self, transport: Transport) -> None:
        self.requested = False
        self.steering = Steering()
        """Messages to the step's agent."""
        self._transport = transport
        self._capabilities: tuple[str, ...] = ()
        self._leases = 0
        self._waiting: dict[int, _Waiting] = {}

    async def greet(self, capabilities: Sequence[str]) -> None:
        """Say hello with what this process can do, and hear who the run is.

        Raises:
            MismatchError: it is of another version.
            LinkError: its words make no sense.
        """
        own = protocol.Hello.own(capabilities)
        self.send(own)
        match await self.receive():
            case protocol.Hello() as hello:
                own.check(hello)
                self._capabilities = hello.capabilities
            case None:
                raise protocol.LinkError("the run has ended")
            case _:
                raise protocol.MismatchError("the run sent no handshake: its version differs from this process")

    def can(self, capability: str) -> bool:
        """Return whether the run said that it can do this."""
        return capability in self._capabilities

    def publish(self, event: Event) -> None:
        """Hand an event to the run."""
        self.send(protocol.Announced(Raw(encode_event(event))))

    async def lease(self, want: protocol.Want, tell: Tell | None = None) -> protocol.Granted:
        """Ask and wait; what is granted must be given back. ``tell`` gets what is waited for, if the run says that.

        Raises:
            LeaseRefusedError: the run says no.
        """
        self._leases += 1
        number, waiting = self._leases, _Waiting(tell)
        self._waiting[number] = waiting
        try:
            self.send(protocol.Asked(number, want))
            await waiting.answered.wait()
        except BaseException:
            self.send(protocol.Returned(number))
            raise
        finally:
            del self._waiting[number]
        if not isinstance(waiting.answer, protocol.Granted):
            raise LeaseRefusedError(waiting.answer or protocol.Refused(number))
        return waiting.answer

    @asynccontextmanager
    async def leased(
        self, want: protocol.Want, tell: Tell | None = None, refused: type[Exception] = LeaseRefusedError
    ) -> AsyncGenerator[protocol.Granted]:
        """As ``lease``, and give it back at the end of the block; a no is raised as ``refused``."""
        try:
            granted = await self.lease(want, tell)
        except LeaseRefusedError as error:
            raise (error if refused is LeaseRefusedError else refused(str(error))) from error
        try:
            yield granted
        finally:
            self.send(protocol.Returned(granted.lease))

    async def receive(self) -> protocol.ToStep | None:
        """The next message; None once the run is gone.

        Raises:
            LinkError: the run's words make no sense.
        """
        line = await self._transport.receive()
        return None if line is None else protocol.to_step(line)

    async def attend(self, step_id: str) -> bool:
        """Serve the run's messages about a step until it wants this process to leave: True.

        False if the run itself is gone.

        Raises:
            LinkError: the run's words make no sense.
        """
        while (message := await self.receive()) is not None:
            match message:
                case protocol.Granted(lease=lease) | protocol.Refused(lease=lease):
                    waiting = self._waiting.get(lease)
                    if waiting is not None:
                        waiting.answer = message
                        waiting.answered.set()
                case protocol.Waits(lease=lease, message=said):
                    waiting = self._waiting.get(lease)
                    if waiting is not None and waiting.tell is not None:
                        waiting.tell(said)
                case protocol.StopAtTurnEnd():
                    self.requested = True
                case protocol.Say(number, text):
                    self.send(protocol.Heard(number, await self.steering.tell(step_id, text)))
                case protocol.CancelNow():
                    return True
                case _:
                    pass
        return False

    def send(self, message: protocol.FromStep) -> None:
        """Say something to the run; that a lease is over may be said twice.

        Raises:
            TypeError, ValueError, OverflowError, RecursionError: it holds a value that is not JSON.
        """
        self._transport.post(protocol.encode(message))


class LinkedLedger:
    """The plan's account, as ``subagents.agent.budget.Upstream``; ``account`` is what mirrors it here."""

    def __init__(self, link: StepLink, limits: Limits, usage: Usage, cost_usd: float | None) -> None:
        self._link = link
        self.account = Account("the plan", limits, self)
        self.account.show(usage, cost_usd)

    async def reserve(self, model: ModelConfig, prompt_tokens: int, wanted_tokens: int) -> LinkedReservation:
        """Room on the plan's account; see ``vibe.core.budget.Budget``."""
        room = protocol.LedgerRoom(
            model=model.name,
            provider=model.provider,
            input_price=model.highest_input_price,
            output_price=model.output_price,
            prompt_tokens=prompt_tokens,
            wanted_tokens=wanted_tokens,
        )
        try:
            granted = await self._link.lease(room)
        except LeaseRefusedError as error:
            refused = error.refused
            raise BudgetExhaustedError(refused.account, refused.limit, refused.spent) from error
        self.account.show(granted.usage, granted.cost_usd)
        return LinkedReservation(self._link, granted)


class LinkedReservation:
    """Room for one call on the plan's account; see ``vibe.core.budget.Reservation``."""

    def __init__(self, link: StepLink, granted: protocol.Granted) -> None:
        self.max_completion_tokens = granted.tokens
        self._link = link
        self._lease: int | None = granted.lease

    def release(self) -> None:
        """Give everything back; a second time does nothing."""
        self.settle(None, None)

    def settle(self, usage: Usage | None, cost_usd: float | None) -> None:
        """Book what the call took (None: nothing) and give back the rest."""
        if self._lease is not None:
            self._link.send(protocol.Returned(self._lease, usage, cost_usd))
            self._lease = None


class LinkedTurn:
    """The turn to ask a person, as a lock, one for all steps of the run; lasting approvals come and go with it."""

    def __init__(self, link: StepLink, approvals: Approvals) -> None:
        self._link = link
        self._approvals = approvals
        self._lease = 0

    async def __aenter__(self) -> None:
        granted = await self._link.lease(protocol.TurnToAsk())
        self._lease = granted.lease
        self._approvals.remember(granted.yeses)

    async def __aexit__(self, *_: object) -> None:
        self._link.send(protocol.Returned(self._lease, yeses=self._approvals.yeses))


class LinkedApprover:
    """Asks the person the run can ask; see ``Approver``."""

    def __init__(self, link: StepLink) -> None:
        self._link = link

    async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        """The person's answer; cancelling withdraws the question."""
        try:
            granted = await self._link.lease(protocol.PersonsAnswer(request=request))
        except LeaseRefusedError as error:
            return ApprovalAnswer(allow=False, reason=str(error))
        return granted.answer or ApprovalAnswer(allow=False)


async def linked_input(link: StepLink, questions: Sequence[Question], request_id: str = "") -> Sequence[Answer] | None:
    """Put an agent's questions to the person the run can ask; see ``UserInput``. Cancelling withdraws them."""
    asked = tuple(question.model_dump(mode="json") for question in questions)
    try:
        granted = await link.lease(protocol.PersonsReplies(questions=asked, request_id=request_id))
    except LeaseRefusedError:
        return None
    return None if granted.answers is None else [Answer.model_validate(answer) for answer in granted.answers]


class LinkedLimiter:
    """The run's limiter of one provider; see ``CallLimiter``."""

    def __init__(self, link: StepLink, provider: str) -> None:
        self._link = link
        self._provider = provider

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[None, None]:
        """Wait for a place and hold it."""
        async with self._link.leased(protocol.ProviderSlot(provider=self._provider)):
            yield

    def pause(self, seconds: float) -> None:
        """Let no call of the run begin for so long."""
        self._link.send(protocol.Paused(self._provider, seconds))


def linked_turn(link: StepLink, tell: Tell) -> AbstractAsyncContextManager[object]:
    """Have one of the run's turns to write; see ``vibe.core.session.write_turn.Turns``."""
    return link.leased(protocol.TurnToWrite(), tell, WorkspaceLockedError)


class LinkedSpawnPool(SpawnPool):
    """Counts subagents, and lets them work, over all processes of the run."""

    def __init__(self, link: StepLink, agents: AgentManager, limits: SubagentsConfig) -> None:
        super().__init__(agents, limits)
        self._link = link

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None, None]:
        """See ``SpawnPool.place``."""
        async with self._link.leased(protocol.SubagentPlace(), refused=SpawnError):
            yield


class LinkedClaims:
    """The write claims of the run's steps, asked for when needed.

    See ``subagents.step.tamper_guard.ConcurrentClaims``.
    """

    def __init__(self, link: StepLink) -> None:
        self._link = link

    @contextmanager
    def beside(self, task: StepTask) -> Generator[Callable[[], Sequence[str]]]:  # noqa: ARG002
        """Yields what asks the run, in a thread."""
        yield lambda: from_thread.run(self._claims)

    async def _claims(self) -> Sequence[str]:
        async with self._link.leased(protocol.ClaimsBeside()) as granted:
            return granted.writes
