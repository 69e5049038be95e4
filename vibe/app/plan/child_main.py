"""The process of a single step: ``python -P -m vibe.app.plan.child_main [CONTROL] LINK PARENT``, started by the run.

It imports and builds everything an attempt needs before it learns which attempt that is. Then it makes one attempt as
the run itself would, reports the result, and exits. It dies with the process that started it, however that ends. Agents
may need room in the plan's budget, a slot at a provider, or an answer from the user; for these it asks the run, over
the link.

Over CONTROL it gets further links, each for an attempt at a step that is a command.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

import anyio.to_thread
from anyio import from_thread
from msgspec import Raw, Struct, field, json

from ipc.codec import encode_event
from ipc.events import ApprovalRequestEvent, Event, ToolServerEvent
from subagents.agent.budget import Account, Limits
from subagents.agent.run_services import RunServices
from subagents.agent.spawner import SpawnError, SpawnPool
from subagents.agent.steering import Steering
from subagents.executor import StepResult, StepTask, ended_by, internal_failure
from subagents.process import protocol
from subagents.process.transport import PostingTransport, SocketTransport
from subagents.step.local_executor import LocalExecutor
from vibe.app.engine.build import Engine, build_engine
from vibe.app.engine.host import Host
from vibe.app.engine.tool_servers import tool_servers
from vibe.app.plan.step_context import StepDocument, step_context
from vibe.core.agents.manager import AgentManager
from vibe.core.budget import BudgetExhaustedError
from vibe.core.config.models import ModelConfig, SubagentsConfig
from vibe.core.messages import Usage
from vibe.core.session.errors import WorkspaceLockedError
from vibe.core.session.write_turn import Tell
from vibe.core.tools.gate import Approvals
from vibe.core.tools.ports import ApprovalAnswer
from vibe.core.tools.questions import DeclinedElsewhereError, Question, QuestionAnswer
from vibe.system.awake_loop import run_awake
from vibe.system.errors import VibeError, error_as
from vibe.system.process import die_with

logger = logging.getLogger(__name__)

ORPHAN_SECONDS = 5
"""The time that a process has to end after its run is gone, if the kernel does not end it."""
MISMATCH = 3


class _QuietServers(Struct, eq=False):
    """Passes on all events but those about tool servers: the run has announced its own of the same names."""

    _link: StepLink

    def publish(self, event: Event) -> None:
        """Pass the event on, unless it is about a tool server."""
        if not isinstance(event, ToolServerEvent):
            self._link.publish(event)


def main(arguments: Sequence[str]) -> int:
    """Make one attempt, or those that arrive over CONTROL."""
    *control, descriptor, parent = map(int, arguments)
    die_with(parent)
    with socket.socket(fileno=descriptor) as link:
        try:
            run_awake(_serve, StepLink(SocketTransport(link)), *control)
        except protocol.MismatchError as error:
            sys.stderr.write(f"{error}\n")
            return MISMATCH
    gc.freeze()  # the interpreter searches for garbage before it ends
    return 0


async def _serve(link: StepLink, control: int | None = None) -> None:
    await link.greet((protocol.AGENTS,))
    prepare = await link.receive()
    if not isinstance(prepare, protocol.Prepare):
        return
    document = json.decode(bytes(prepare.document), type=StepDocument, dec_hook=lambda kind, text: kind(text))
    engine = await anyio.to_thread.run_sync(_engine, link, document)
    make = partial(_make_attempt, document=document, engine=engine)
    if control is None:
        await make(link, orphan_seconds=ORPHAN_SECONDS)
        return
    with socket.socket(fileno=control) as links:
        await _serve_links(link, links, make)


async def _serve_links(link: StepLink, links: socket.socket, make: Callable[[StepLink], Awaitable[None]]) -> None:
    """Make the attempts whose links arrive, side by side, until the first link ends."""
    async with anyio.create_task_group() as group:
        group.start_soon(_attend_run, link, "", group.cancel_scope, ORPHAN_SECONDS)
        while True:
            await anyio.wait_readable(links)
            _, descriptors, *_ = socket.recv_fds(links, 1, 1)
            if not descriptors:
                return
            group.start_soon(_make_attempt_beside, socket.socket(fileno=descriptors[0]), make)


async def _make_attempt_beside(connection: socket.socket, make: Callable[[StepLink], Awaitable[None]]) -> None:
    """Make one of several attempts side by side. It ends with its link."""
    with connection, suppress(protocol.LinkError):
        link = StepLink(SocketTransport(connection))
        await link.greet((protocol.AGENTS,))
        await make(link)


async def _make_attempt(
    link: StepLink, document: StepDocument, engine: Engine | VibeError, orphan_seconds: int | None = None
) -> None:
    begin = await link.receive()
    if not isinstance(begin, protocol.Begin):
        return
    async with anyio.create_task_group() as group:
        group.start_soon(_attend_run, link, begin.task.step_id, group.cancel_scope, orphan_seconds)
        try:
            result = await _run_attempt(link, document, engine, begin)
        except Exception as error:
            logger.exception("step %s raised", begin.task.step_id)
            result = ended_by(error)
        _end(link, result)
        group.cancel_scope.cancel()


def _end(link: StepLink, result: StepResult) -> None:
    try:
        link.send(protocol.Ended(result))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        link.send(protocol.Ended(internal_failure(f"the step's result cannot be written as JSON: {error}")))


async def _attend_run(link: StepLink, step_id: str, scope: anyio.CancelScope, orphan_seconds: int | None) -> None:
    """Leave when the run says so, or is gone. In that case the process has so many seconds left (None: it stays)."""
    is_dismissed = False
    with suppress(protocol.LinkError):
        is_dismissed = await link.attend(step_id)
    if not is_dismissed and orphan_seconds is not None:
        signal.alarm(orphan_seconds)
    scope.cancel()


def _engine(link: StepLink, document: StepDocument) -> Engine | VibeError:
    """Return the engine, or the error, which the run gets once it asks for an attempt."""
    try:
        return build_engine(_host_of(document), document.request, partial(LinkedLimiter, link))
    except VibeError as error:
        return error


async def _run_attempt(
    link: StepLink, document: StepDocument, engine: Engine | VibeError, begin: protocol.Begin
) -> StepResult:
    if isinstance(engine, VibeError):
        raise engine
    place = document.place
    async with AsyncExitStack() as stack:
        if begin.task.has_agent:
            stack.push_async_callback(engine.models.aclose)
            servers = await stack.enter_async_context(
                tool_servers(engine, _host_of(document), place.workspace, attended=link.can(protocol.QUESTIONS))
            )
            engine = await servers.equip(_QuietServers(link))
        approvals = engine.approvals(document.approvals, LinkedApprover(link) if link.can(protocol.APPROVALS) else None)
        approvals.queue = LinkedTurn(link, approvals)
        services = RunServices(
            sink=link,
            account=linked_account(link, document.limits, begin.usage, begin.cost_usd),
            approvals=approvals,
            spawning=LinkedSpawnPool(link, engine.agents, engine.config.subagents),
            limiter_of=engine.models.limiter,
            user_input=partial(linked_input, link) if link.can(protocol.QUESTIONS) else None,
            steering=link.steering,
            turns=lambda tell: link.leased(protocol.TurnToWrite(), tell, WorkspaceLockedError),
        )
        context = step_context(engine, place, services)
        local = LocalExecutor(context, lambda step_id: _folder(document, step_id), LinkedClaims(link))
        with link.steering.attempt(begin.task.step_id):
            return await local.run(begin.task, link)


def _folder(document: StepDocument, step_id: str) -> Path:
    folder = document.steps / step_id
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _host_of(document: StepDocument) -> Host:
    return Host(home=document.home, environ=dict(os.environ))


class LeaseRefusedError(Exception):
    """Raised when the run does not grant what was asked for; ``refused`` says why."""

    def __init__(self, refused: protocol.Refused) -> None:
        super().__init__(refused.message)
        self.refused = refused


class _OpenLease(Struct, eq=False):
    """A request that has no answer yet."""

    tell: Tell | None
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: protocol.Granted | protocol.Refused | None = None


class StepLink(Struct, eq=False):
    """The link to the run: an event sink, a stop signal and a source of leases, one for each process of a step.

    A message is with the run before ``send`` returns, so nothing is lost if this process dies a moment later. If the
    run does not keep up, the process waits.
    """

    _transport: PostingTransport
    requested: bool = False
    steering: Steering = field(default_factory=Steering)
    """Messages to the step's agent."""
    _capabilities: tuple[str, ...] = ()
    _leases: int = 0
    _waiting: dict[int, _OpenLease] = field(default_factory=dict[int, _OpenLease])

    async def greet(self, capabilities: Sequence[str]) -> None:
        """Exchange greetings with the run: say what this process can do, and learn what the run can do.

        Raises:
            MismatchError: the run is of another version.
            LinkError: its messages make no sense.
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
        """Pass an event to the run."""
        self.send(protocol.Announced(Raw(encode_event(event))))

    async def lease(self, want: protocol.Want, tell: Tell | None = None) -> protocol.Granted:
        """Ask for something and wait for it; what is granted must be returned.

        ``tell`` learns what is being waited for.

        Raises:
            LeaseRefusedError: the run refuses.
        """
        self._leases += 1
        number, waiting = self._leases, _OpenLease(tell)
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
        """Hold a lease while the block runs, then return it. A refusal is raised as ``refused``."""
        with error_as(LeaseRefusedError, lambda error: error if refused is LeaseRefusedError else refused(str(error))):
            granted = await self.lease(want, tell)
        try:
            yield granted
        finally:
            self.send(protocol.Returned(granted.lease))

    async def receive(self) -> protocol.ToStep | None:
        """Return the next message; None once the run is gone.

        Raises:
            LinkError: the run's messages make no sense.
        """
        line = await self._transport.receive()
        return None if line is None else protocol.to_step(line)

    async def attend(self, step_id: str) -> bool:
        """Serve the run's messages about a step until the run wants this process to leave, and return True.

        Returns False if the run itself is gone.

        Raises:
            LinkError: the run's messages make no sense.
        """
        while (message := await self.receive()) is not None:
            match message:
                case protocol.Granted(lease=lease) | protocol.Refused(lease=lease):
                    waiting = self._waiting.get(lease)
                    if waiting is not None:
                        waiting.answer = message
                        waiting.answered.set()
                case protocol.Waits(lease=lease, message=text):
                    waiting = self._waiting.get(lease)
                    if waiting is not None and waiting.tell is not None:
                        waiting.tell(text)
                case protocol.StopAtTurnEnd():
                    self.requested = True
                case protocol.Say(number, text, by):
                    self.send(protocol.Heard(number, await self.steering.tell(step_id, text, by)))
                case protocol.CancelNow():
                    return True
                case _:
                    pass
        return False

    def send(self, message: protocol.FromStep) -> None:
        """Send a message to the run. The end of a lease may be sent twice.

        Raises:
            TypeError, ValueError, OverflowError, RecursionError: it holds a value that is not JSON.
        """
        self._transport.post(protocol.encode(message))


def linked_account(link: StepLink, limits: Limits, usage: Usage, cost_usd: float | None) -> Account:
    """Return an account that mirrors the plan's, and whose calls need room on that, too."""

    async def reserve(model: ModelConfig, prompt_tokens: int, wanted_tokens: int) -> LinkedReservation:
        room = protocol.LedgerRoom(
            model=model.name,
            provider=model.provider,
            input_price=model.highest_input_price,
            output_price=model.output_price,
            prompt_tokens=prompt_tokens,
            wanted_tokens=wanted_tokens,
        )
        try:
            granted = await link.lease(room)
        except LeaseRefusedError as error:
            refused = error.refused
            raise BudgetExhaustedError(refused.account, refused.limit, refused.spent) from error
        account.mirror(granted.usage, granted.cost_usd)
        return LinkedReservation(granted.tokens, link, granted.lease)

    account = Account("the plan", limits, reserve)
    account.mirror(usage, cost_usd)
    return account


class LinkedReservation(Struct, eq=False):
    """Room for one call on the plan's account; see ``vibe.core.budget.Reservation``."""

    max_completion_tokens: int
    _link: StepLink
    _lease: int | None

    def release(self) -> None:
        """Return everything. A second call does nothing."""
        self.settle(None, None)

    def settle(self, usage: Usage | None, cost_usd: float | None) -> None:
        """Book what the call used (None: nothing) and return the rest."""
        if self._lease is not None:
            self._link.send(protocol.Returned(self._lease, usage, cost_usd))
            self._lease = None


class LinkedTurn(Struct, eq=False):
    """The turn to ask a person, as a lock that all steps of the run share. Lasting approvals travel with it."""

    _link: StepLink
    _approvals: Approvals
    _lease: int = 0

    async def __aenter__(self) -> None:
        granted = await self._link.lease(protocol.TurnToAsk())
        self._lease = granted.lease
        self._approvals.remember(granted.yeses)

    async def __aexit__(self, *_: object) -> None:
        self._link.send(protocol.Returned(self._lease, yeses=tuple(sorted(self._approvals.remembered))))


class LinkedApprover(Struct, eq=False):
    """Asks the person whom the run can ask; see ``Approver``."""

    _link: StepLink

    async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        """Return the person's answer. Cancelling withdraws the question."""
        try:
            granted = await self._link.lease(protocol.PersonsAnswer(request=request))
        except LeaseRefusedError as error:
            return ApprovalAnswer(allow=False, reason=str(error))
        return granted.answer or ApprovalAnswer(allow=False)


async def linked_input(
    link: StepLink, questions: Sequence[Question], request_id: str = ""
) -> Sequence[QuestionAnswer] | None:
    """Put an agent's questions to the person whom the run can ask; see ``UserInput``. Cancelling withdraws them."""
    asked = tuple(question.model_dump(mode="json") for question in questions)
    try:
        granted = await link.lease(protocol.PersonsReplies(questions=asked, request_id=request_id))
    except LeaseRefusedError:
        return None
    if granted.declined:
        raise DeclinedElsewhereError(granted.declined)
    return None if granted.answers is None else [QuestionAnswer.model_validate(answer) for answer in granted.answers]


class LinkedLimiter(Struct, eq=False):
    """The run's limiter of one provider; see ``CallLimiter``."""

    _link: StepLink
    _provider: str

    def slot(self) -> AbstractAsyncContextManager[object]:
        """Wait for a slot and hold it while the block runs."""
        return self._link.leased(protocol.ProviderSlot(provider=self._provider))

    def pause(self, seconds: float) -> None:
        """Let no call of the run begin for a number of seconds."""
        self._link.send(protocol.Paused(self._provider, seconds))


class LinkedSpawnPool(SpawnPool):
    """Counts subagents over all processes of the run, and lets them work."""

    def __init__(self, link: StepLink, agents: AgentManager, limits: SubagentsConfig) -> None:
        super().__init__(agents, limits)
        self._link = link

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None, None]:
        """See ``SpawnPool.place``."""
        async with self._link.leased(protocol.SubagentPlace(), refused=SpawnError):
            yield


class LinkedClaims(Struct, eq=False):
    """The write claims of the run's steps, asked for when needed.

    See ``subagents.step.tamper_guard.ConcurrentClaims``.
    """

    _link: StepLink

    @contextmanager
    def beside(self, task: StepTask) -> Generator[Callable[[], Sequence[str]]]:  # noqa: ARG002  the port has it
        """Yield a function that asks the run for the claims, to be called in a thread."""
        yield lambda: from_thread.run(self._claims)

    async def _claims(self) -> Sequence[str]:
        async with self._link.leased(protocol.ClaimsBeside()) as granted:
            return granted.writes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
