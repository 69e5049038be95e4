"""The executor that runs each attempt of an agent in its own process, which may crash or hang without harm to the run.

``EventCloser`` announces the end of everything that such a process announced and did not end itself.
"""

from __future__ import annotations

import logging
import math
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import anyio.to_thread
from msgspec import Struct, field, structs

from ipc import events as e
from ipc.sink import EventSink
from subagents.agent.run_services import RunServices
from subagents.agent.subagent import finished_event
from subagents.executor import StepExecutor, StepResult, StepTask, StopSignal, ended_by, until_requested
from subagents.process.child_process import ProcessPool, ProcessStartError
from subagents.process.parent import StepServer
from subagents.process.protocol import Begin, CancelNow, LinkError, StopAtTurnEnd
from subagents.process.transport import Carrier
from subagents.step.local_executor import attempt_spending
from subagents.step.tamper_guard import RunClaims
from vibe.core.messages import Outcome, Spending, Usage, total_of


class _Agent(Struct):
    """A subagent at work."""

    begun: e.SubAgentStartedEvent
    started: float
    spent: Spending = field(default_factory=Spending)


_PAIRS: tuple[tuple[type[e.Event], type[Any], tuple[str, ...], dict[str, Any], str], ...] = (
    (e.ApprovalRequestEvent, e.ApprovalDecisionEvent, ("request_id",), {"decision": "deny"}, "reason"),
    (e.QuestionEvent, e.AnswerEvent, ("request_id",), {"cancelled": True}, ""),
    (e.ToolCallEvent, e.ToolResultEvent, ("tool_call_id", "tool"), {"status": "cancelled"}, "content"),
    (e.ModelStartedEvent, e.ModelEndedEvent, ("message_id", "model"), {"status": "cancelled"}, ""),
    (e.BackgroundStartedEvent, e.BackgroundEndedEvent, ("handle", "command"), {"status": "stopped"}, ""),
)
"""Pairs of events that begin and end something, in the order in which open ones are ended.

Each has the two types, the fields they share (the first is the id), the values of the closing event for something that
was left open, and the closing event's field that says why (blank if it has none).
"""


class EventCloser:
    """Passes events on, and remembers which subagents, and what of their doings, have begun and not ended."""

    def __init__(self, sink: EventSink, clock: Callable[[], float] = time.monotonic) -> None:
        self.agent_id: str | None = None
        """The id of the step's own agent, or None until that has announced itself."""
        self._sink = sink
        self._clock = clock
        self._agents: dict[str, _Agent] = {}
        self._open: dict[type, dict[tuple[str | None, str], e.Event]] = {begins: {} for begins, *_ in _PAIRS}

    def publish(self, event: e.Event) -> None:
        """Note what the event begins or ends, and pass it on."""
        for begins, ends, (name, *_), *_ in _PAIRS:
            if type(event) is begins:
                self._open[begins][event.subagent_id, getattr(event, name)] = event
            elif type(event) is ends:
                self._open[begins].pop((event.subagent_id, getattr(event, name)), None)
        self._note_agent(event)
        self._sink.publish(event)

    def _note_agent(self, event: e.Event) -> None:
        match event:
            case e.RequestWithdrawnEvent():
                for asked in (e.ApprovalRequestEvent, e.QuestionEvent):
                    self._open[asked].pop((event.subagent_id, event.request_id), None)
            case e.SubAgentStartedEvent(subagent_id=str(agent_id)):
                self._agents[agent_id] = _Agent(event, self._clock())
                self.agent_id = agent_id if event.parent_id is None else self.agent_id
            case e.UsageEvent(subagent_id=str(agent_id)) if agent_id in self._agents:
                agent = self._agents[agent_id]
                call = Spending(Usage(event.prompt_tokens, event.completion_tokens, calls=1), event.cost_usd)
                agent.spent = total_of((agent.spent, call))
            case e.SubAgentFinishedEvent(subagent_id=str(agent_id)):
                self._agents.pop(agent_id, None)
            case _:
                pass

    def close_open(self, outcome: str, reason: str, detail: str) -> None:
        """Announce the end of everything that is open, innermost first; ``detail`` tells people why."""
        for begins, ends, names, values, why in _PAIRS:
            for begun in list(self._open[begins].values()):
                same = {name: getattr(begun, name) for name in names}
                self._end(begun, ends(**same, **values, **({why: detail} if why else {})))
        for agent in reversed(list(self._agents.values())):
            turns, duration_s = agent.spent.usage.calls, self._clock() - agent.started
            self._end(agent.begun, finished_event(outcome, reason, agent.spent, turns, duration_s))

    def _end(self, begun: e.Event, ended: e.Event) -> None:
        """Publish the end of what an event began, in the name of the same agent."""
        same = {"subagent_id": begun.subagent_id, "subagent_step_id": begun.subagent_step_id}
        self.publish(structs.replace(ended, **same))


logger = logging.getLogger(__name__)

LEAVE_SECONDS = 0.7
"""Seconds that a cancelled process has to exit: what is cancelled must be gone within a second."""
EXIT_SECONDS = 1.0
"""Seconds that a process has to exit once it has closed its link."""
LATE_SECONDS = 3.0
"""Seconds beyond the step's time limit after which its process is no longer trusted to keep to that."""


class ProcessExecutor(Struct, eq=False):
    """Does the steps of agents in processes of their own, and passes those that are commands to ``_commands``.

    A command is a process of its own anyway: its session ends with it, and its output is limited.
    """

    _pool: ProcessPool
    _services: RunServices
    _claims: RunClaims
    _commands: StepExecutor
    _step_folder: Callable[[str], Path]

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Do one attempt at a step; see ``StepExecutor``."""
        if not task.has_agent:
            return await self._commands.run(task, stop)
        started = time.monotonic()
        with self._claims.beside(task) as others:
            result = await self._run_agent(task, stop, others)
        return structs.replace(result, duration_s=time.monotonic() - started)

    async def _run_agent(self, task: StepTask, stop: StopSignal, others: Callable[[], Sequence[str]]) -> StepResult:
        try:
            process = await self._pool.take()
        except ProcessStartError as error:
            return ended_by(error)
        attempt = await Attempt(process, self._services, others).make(task, stop)
        result = attempt.server.result or await self._unfinished(task, attempt)
        result = structs.replace(result, pid=process.pid)
        if result.reason == "internal" and process.printed:
            logger.error("step %s in its process:\n%s", task.step_id, process.printed)
        return result

    async def _unfinished(self, task: StepTask, attempt: Attempt) -> StepResult:
        """Return the result of an attempt whose process reported none, with the usage of all its calls."""
        folder = await anyio.to_thread.run_sync(self._step_folder, task.step_id)
        spent = await anyio.to_thread.run_sync(attempt_spending, folder, task.attempt)
        return structs.replace(attempt.verdict(), **structs.asdict(total_of((spent, *attempt.server.lost))))


class Attempt:
    """One attempt, and the process or place in which it runs."""

    def __init__(self, process: Carrier, services: RunServices, others: Callable[[], Sequence[str]]) -> None:
        self._process = process
        self._services = services
        self._events = EventCloser(services.sink)
        self.server = StepServer(structs.replace(services, sink=self._events), process.link, others)
        self.heard: list[str] = []
        """The messages that its agent has been given."""
        self._verdict: StepResult | None = None
        self._has_left = False

    async def make(self, task: StepTask, stop: StopSignal) -> Self:
        """Run the attempt, pass on people's messages meanwhile, and leave nothing of it running."""
        try:
            with self._services.steering.heard_by(task.step_id, self._deliver, lambda: self._events.agent_id) as early:
                self.heard += early
                await self._work(structs.replace(task, told=(*task.told, *early)), stop)
        finally:
            await self._end()
        return self

    async def _deliver(self, text: str, by: str = "") -> bool:
        is_heard = await self.server.tell(text, by)
        self.heard += [text] * is_heard
        return is_heard

    async def _work(self, task: StepTask, stop: StopSignal) -> None:
        """Run the attempt until it has ended, its process is gone, or it is far too late."""
        limit = math.inf if task.step.timeout_seconds is None else task.step.timeout_seconds + LATE_SECONDS
        with anyio.move_on_after(limit * (1 + len(task.setup))) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(self._process.listen)
                group.start_soon(self._pass_stop_on, stop)
                await self._serve(task)
                group.cancel_scope.cancel()
        if scope.cancelled_caught:
            self._verdict = StepResult(outcome=Outcome.LIMIT, reason="timeout", detail="the step ran out of time")

    async def _end(self) -> None:
        """Make sure that no process is left, and that everything announced has an end."""
        has_result = self.server.result is not None
        await self._process.end(grace_seconds=EXIT_SECONDS if self._has_left else 0.0)
        if not has_result:
            verdict = self.verdict()
            self._events.close_open(verdict.outcome.value, verdict.reason or "", verdict.detail)

    def verdict(self) -> StepResult:
        """Return the result of an attempt that has ended without reporting one."""
        return self._verdict or StepResult(outcome=Outcome.FAILED, reason=LinkError.reason, detail=self._cause())

    async def _serve(self, task: StepTask) -> None:
        try:
            account = self._services.account
            if await self.server.meet():
                await self.server.send(Begin(task, account.usage, account.cost_usd))
                await self.server.serve()
            self._has_left = True
        except LinkError as error:
            self._verdict = _broken_off(error)
        except anyio.get_cancelled_exc_class():
            self._verdict = StepResult(outcome=Outcome.INTERRUPTED, reason="stopped", detail="stopped before the end")
            with anyio.move_on_after(LEAVE_SECONDS, shield=True), suppress(LinkError):
                await self.server.send(CancelNow())
                await self.server.serve(leaving=True)  # takes the last messages
                self._has_left = True
            raise
        finally:
            self.server.met.set()

    async def _pass_stop_on(self, stop: StopSignal) -> None:
        """Once a stop is requested, tell the process to stop at the end of its turn."""
        await self.server.met.wait()
        await until_requested(stop)
        await self.server.send(StopAtTurnEnd())

    def _cause(self) -> str:
        code = self._process.exit_code
        last_line = self._process.printed.rpartition("\n")[2]
        words = f": {last_line}" if last_line else ""
        if code is None:
            return "the step's process could not be stopped"
        if code >= 0:
            return f"the step's process ended with exit code {code} before the step did{words}"
        why = " (by another process, or out of memory)" if -code == signal.SIGKILL else ""
        return f"the step's process was killed by {_signal_name(-code)}{why}{words}"


def _broken_off(error: LinkError) -> StepResult:
    """Return the result of an attempt whose link was cut because of an error."""
    is_invalid = type(error) is LinkError
    words = "the step's process was stopped because of what it sent: " if is_invalid else ""
    return StepResult(outcome=Outcome.FAILED, reason=error.reason, detail=f"{words}{error}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
