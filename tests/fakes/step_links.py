"""A run and the processes of its steps, in one event loop, linked in memory or over a real socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from ipc.commands import ApprovalScope
from ipc.events import ApprovalRequestEvent
from ipc.sink import MemorySink
from subagents.agent.budget import Account, Limits
from subagents.agent.run_services import RunServices
from subagents.agent.spawner import SpawnPool
from subagents.process.parent import StepServer
from tests.fakes.memory_link import End, memory_link
from vibe.app.plan.child_main import StepLink
from vibe.core.agents.manager import AgentManager, AgentSources
from vibe.core.config.models import SubagentsConfig
from vibe.core.llm.limiter import ProviderLimiter
from vibe.core.tools.gate import Approvals
from vibe.core.tools.ports import ApprovalAnswer
from vibe.core.tools.questions import Question, QuestionAnswer

NO_AGENTS = AgentManager(AgentSources(user_home=Path("/nobody")))


async def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    with anyio.fail_after(120):
        while not condition():  # noqa: ASYNC110  what happens in a process sets no event
            await anyio.sleep(0.002)


class Person:
    """A person who answers requests. ``asked`` lists them all, and ``most`` is the largest number open at once."""

    def __init__(self, scope: ApprovalScope = "once") -> None:
        self.scope: ApprovalScope = scope
        self.asked: list[ApprovalRequestEvent] = []
        self.withdrawn: list[str] = []
        self.most = 0
        self.may_answer = anyio.Event()
        self._open = 0

    async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        """Allow the request, once ``may_answer`` is set."""
        self.asked.append(request)
        self._open += 1
        self.most = max(self.most, self._open)
        try:
            await self.may_answer.wait()
        except BaseException:
            self.withdrawn.append(request.request_id)
            raise
        finally:
            self._open -= 1
        return ApprovalAnswer(allow=True, scope=self.scope, reason="fine")

    async def reply(self, questions: Sequence[Question], request_id: str = "") -> Sequence[QuestionAnswer] | None:
        """Choose the first option of each question."""
        del request_id
        return [QuestionAnswer(question=question.question, answer=question.options[0].label) for question in questions]


def shared_of_a_run(
    *, limits: Limits | None = None, person: Person | None = None, most_subagents: int = 20, slots: int = 4
) -> RunServices:
    """Return the services that a run has only once. Every provider has ``slots``."""
    limiters: dict[str, ProviderLimiter] = {}

    def limiter_of(provider: str) -> ProviderLimiter:
        if provider == "nobody":
            raise KeyError(provider)
        return limiters.setdefault(provider, ProviderLimiter(max_concurrency=slots, max_pause_seconds=60))

    return RunServices(
        account=Account("the plan", limits or Limits()),
        approvals=Approvals(approver=person),
        spawning=SpawnPool(NO_AGENTS, SubagentsConfig(max_spawned=most_subagents)),
        limiter_of=limiter_of,
        sink=MemorySink(),
    )


@dataclass
class LinkedStep:
    """A step's process seen from both ends.

    ``link`` is the step's end, ``server`` the run's, and ``theirs`` the transport of the step's end.
    """

    link: StepLink
    server: StepServer
    theirs: End

    def die(self) -> None:
        """Close the step's end, as if its process were killed."""
        self.theirs.close()


@asynccontextmanager
async def linked_step(
    shared: RunServices, *neighbours: str, ends: tuple[End, End] | None = None
) -> AsyncGenerator[LinkedStep]:
    """Serve a step. When the block ends, its process is dead and everything it held has been returned.

    ``neighbours`` are the paths that the steps beside it claim to write. ``ends`` are the run's and the step's
    transports (None: in memory).
    """
    ours, theirs = ends or memory_link()
    step = LinkedStep(link=StepLink(theirs), server=StepServer(shared, ours, lambda: neighbours), theirs=theirs)
    async with anyio.create_task_group() as served, anyio.create_task_group() as process:
        served.start_soon(step.server.serve)
        process.start_soon(step.link.attend, "s")
        yield step
        process.cancel_scope.cancel()
        theirs.close()
    ours.close()
