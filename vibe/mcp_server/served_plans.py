"""ServedPlans: the plans that this server runs, beside the calls that began them and ask after them."""

from __future__ import annotations

import time
from functools import partial
from types import TracebackType
from typing import Self

from anyio import create_task_group, move_on_after

from planner.store.folder import new_plan_id, plans_folder
from vibe.app.conversation.runtime import Runtime
from vibe.app.engine.request_board import OpenRequest
from vibe.mcp_server.client import CallProgress, ClientPrompter
from vibe.mcp_server.served_plan import PlanOrder, ServedPlan
from vibe.mcp_server.tools import Caller, CallRefusedError
from vibe.system.racing import unless

MOST_AT_WORK = 64
MOST_KEPT = 1_000
"""So many are remembered; how an older one ended is in its folder."""
SHORTEST = 4
"""The fewest characters of a plan's id that name it."""
LAST_SECONDS = 5.0
"""The time that plans have to pause at the end of the server."""
LOOK_SECONDS = 0.2


class ServedPlans:
    """An async context manager: at its end every plan at work is paused."""

    def __init__(self, runtime: Runtime, *, auto_approve: bool) -> None:
        self.runtime = runtime
        self.auto_approve = auto_approve
        self._plans: dict[str, ServedPlan] = {}
        self._group = create_task_group()

    async def __aenter__(self) -> Self:
        """Get ready."""
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with move_on_after(LAST_SECONDS, shield=True):
                for plan in self._at_work:
                    plan.stop()
                for plan in self._at_work:
                    await plan.over.wait()
        finally:
            self._group.cancel_scope.cancel()
            await self._group.__aexit__(None, None, None)

    def get(self, plan_id: str) -> ServedPlan | None:
        """Return a plan that this server runs or ran, by its id or the beginning of it that is no other's."""
        found = [plan for known, plan in self._plans.items() if len(plan_id) >= SHORTEST and known.startswith(plan_id)]
        return self._plans.get(plan_id) or (found[0] if len(found) == 1 else None)

    async def begin(self, order: PlanOrder) -> ServedPlan:
        """Begin a plan, or go on with one.

        Raises:
            UsageError: the plan, the model or the configuration is wrong.
            EnvironmentFailure, ipc.errors.IpcError: key, disk or bus.
        """
        at_work = self._at_work
        if any(plan.plan_id == order.resumed for plan in at_work):
            raise CallRefusedError(f"plan {order.resumed} is at work: plan_status says how it stands")
        if len(at_work) >= MOST_AT_WORK:
            raise CallRefusedError(f"{len(at_work)} plans are at work, more than that is too much: wait for one to end")
        plan_id = order.resumed or self._new_id()
        plan = ServedPlan(plan_id, order, self.runtime, auto_approve=self.auto_approve)
        before = self._plans.pop(plan_id, None)
        self._plans[plan_id] = plan
        try:
            await self._group.start(plan.work)
        except BaseException:
            del self._plans[plan_id]
            if before is not None:
                self._plans[plan_id] = before
            raise
        self._forget()
        return plan

    def disconnected(self, connection: str) -> None:
        """Pause what was begun over a connection that has ended."""
        for plan in self._at_work:
            if plan.order.connection == connection:
                plan.stop()

    @property
    def _at_work(self) -> list[ServedPlan]:
        return [plan for plan in self._plans.values() if not plan.over.is_set()]

    def _new_id(self) -> str:
        folder = plans_folder(self.runtime.host.home)
        while True:
            plan_id = new_plan_id(time.time())
            if plan_id not in self._plans and not (folder / plan_id).exists():
                return plan_id

    def _forget(self) -> None:
        over = [plan_id for plan_id, plan in self._plans.items() if plan.over.is_set()]
        for plan_id in over[: max(0, len(self._plans) - MOST_KEPT)]:
            del self._plans[plan_id]


async def attend(plan: ServedPlan, caller: Caller, seconds: float) -> None:
    """Wait until a plan has an end, or waits for an answer from elsewhere, but no longer than ``seconds``.

    The client is told meanwhile how it goes, and its person is asked what the plan waits for.
    """
    if seconds > 0:
        progress = CallProgress()
        prompter = ClientPrompter(caller) if caller.can_be_asked else None
        with plan.heard_by(progress):
            await unless(partial(progress.tell, caller), partial(_rest, plan, prompter, seconds))


async def _rest(plan: ServedPlan, prompter: ClientPrompter | None, seconds: float) -> None:
    unanswered: set[str] = set()
    with move_on_after(seconds):
        while not plan.over.is_set():
            waiting = [request for request in plan.board.open if request.request_id not in unanswered]
            if not plan.board.open:
                await _moment(plan)
            elif not waiting or prompter is None:
                return
            elif not await _put(plan, prompter, waiting[0]):
                unanswered.add(waiting[0].request_id)


async def _moment(plan: ServedPlan) -> None:
    """Wait for something to happen, or a little while: a request is open a moment after it was announced."""
    news = plan.news
    with move_on_after(LOOK_SECONDS):
        await news.wait()


async def _put(plan: ServedPlan, prompter: ClientPrompter, request: OpenRequest) -> bool:
    """Ask the client's person for an answer; False: there is none. What another answered is withdrawn."""
    said = await unless(partial(_settled, plan, request.request_id), partial(prompter.answer, request))
    if not said:
        return True
    (command,) = said
    return command is not None and (await plan.answer(command)).ok


async def _settled(plan: ServedPlan, request_id: str) -> None:
    """Wait until a request is no longer open."""
    while any(request.request_id == request_id for request in plan.board.open):
        await _moment(plan)
