"""Runs plans for clients in the background of the calls that start them, and has them written first if needed."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from uuid import uuid4

from anyio import CancelScope, Event, move_on_after, to_thread
from anyio.abc import TaskGroup, TaskStatus
from msgspec import Struct, structs

from ipc.commands import AnswerQuestion, Approve, Cancel, Decide, Pause, Reply
from ipc.errors import IpcError
from ipc.events import ApprovalRequestEvent, Event as Happening
from ipc.sink import EventSink
from planner.author.output_repair import MODEL_ORIGIN, ORIGIN
from planner.plan.loader import LoadedPlan, load_plan, yaml_form
from planner.store.folder import ApprovalSetting, PlanRunOptions, new_plan_id, plans_folder
from vibe.app.conversation.runtime import Runtime
from vibe.app.engine.request_board import Request, RequestBoard
from vibe.app.engine.result_record import RunRecord
from vibe.app.plan.author import PlanningRequest, planning
from vibe.app.plan.command_consent import PlanNotAcceptedError
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.run import PlanRun, PlanSession, open_plan
from vibe.core.messages import Outcome
from vibe.mcp_server.client import CallProgress, ClientPrompter
from vibe.mcp_server.tools import Caller, CallRefusedError, PlanRunArguments
from vibe.system.errors import VibeError
from vibe.system.racing import unless
from vibe.view.view import View, apply

logger = logging.getLogger(__name__)

WANTED_BY = "plan_run"
ACCEPTANCE = "accept_plan"
"""The tool named in the request to approve a plan's commands."""
SHOWN_COMMANDS = 40
LONGEST_LINE = 400
LEAST_PRICE = 1e-9
"""The smallest price limit a budget can have, in USD."""


class PlanOrder(Struct, frozen=True, kw_only=True):
    """A plan that a client orders: to be written for its goal, given as ``document``, or ``resumed`` by its id.

    ``args`` are those of the call, and ``connection`` is that of the client.
    """

    args: PlanRunArguments
    workdir: Path
    document: LoadedPlan | None = None
    resumed: str = ""
    connection: str = ""


class ServedPlan:
    """A plan of this server, running or ended. It is an EventSink of its own run.

    ``board`` holds its open requests, ``view`` shows what it does, and ``listeners`` get its events too. ``session`` is
    its run, once that can begin. ``ended`` is set at its end, to a mere record if it never came to run.
    """

    def __init__(self, plan_id: str, order: PlanOrder, runtime: Runtime, *, auto_approve: bool) -> None:
        self.plan_id = plan_id
        self.order = order
        self.board = RequestBoard()
        self.view = View()
        self.over = Event()
        self.ended: PlanRun | RunRecord | None = None
        self.news = Event()
        """Set, and replaced, when something happens."""
        self._runtime = runtime
        self._auto_approve = auto_approve
        self.listeners: list[EventSink] = []
        self._before_run = CancelScope()
        self.session: PlanSession | None = None
        self._starting: TaskStatus[None] | None = None

    def publish(self, event: Happening) -> None:
        """Fold an event into the view, and pass it on to the listeners."""
        apply(self.view, event)
        for listener in self.listeners:
            listener.publish(event)
        self._notify()

    async def work(self, *, task_status: TaskStatus[None]) -> None:
        """Write the plan if needed, and run it.

        An error before anything began is raised. Any later error ends the plan.

        Raises:
            UsageError: the plan, the model or the configuration is wrong.
            EnvironmentFailure, ipc.errors.IpcError: a key is missing, or the disk or the bus fails.
        """
        self._starting = task_status
        try:
            with self._before_run:
                await self._prepare()
            if self._before_run.cancelled_caught:
                self.ended = RunRecord(outcome=Outcome.INTERRUPTED, detail="stopped before it began")
            if self.session is not None:
                self._mark_started()
                self.ended = await self.session.run()
        except Exception as error:
            if self._starting:
                raise
            if not isinstance(error, VibeError | IpcError):
                logger.exception("plan %s failed", self.plan_id)
            self.ended = RunRecord(outcome=Outcome.FAILED, detail=str(error) or type(error).__name__)
        finally:
            self.view = View()  # the plan's folder records what it did
            self.over.set()
            self._notify()

    def stop(self, *, for_good: bool = False) -> None:
        """Stop the plan at once. It can be resumed unless ``for_good``. One that doesn't run yet is given up."""
        if self.session is None:
            self._before_run.cancel()
        else:
            self.session.control.submit(Cancel(by="client") if for_good else Pause(grace_seconds=0, by="client"))

    async def answer(self, command: Approve | AnswerQuestion | Decide) -> Reply:
        """Answer one of the plan's requests. The reply says what became of the answer."""
        if not isinstance(command, Decide):
            reply = await self.board.answer(command)
        elif self.session is not None:
            reply = await self.session.commands(command)
        else:
            reply = Reply(ok=False, message="its steps are not run yet", reason="refused")
        self._notify()
        return reply

    def _notify(self) -> None:
        news, self.news = self.news, Event()
        news.set()

    def _mark_started(self) -> None:
        """Let the call that started the plan go on. From now on, errors end the plan rather than that call."""
        if self._starting is not None:
            self._starting.started()
            self._starting = None

    async def _prepare(self) -> None:
        """Open the plan's session, or set ``ended`` to say why there is none."""
        plan = self.order.resumed or self.order.document or await self._write_plan()
        if plan is None:
            return
        options = PlanRunOptions(
            workdir=self.order.workdir,
            plan_folder=self.order.workdir,
            approvals=ApprovalSetting.AUTO if self._auto_approve else ApprovalSetting.ASK,
            max_parallel=self.order.args.max_parallel,
            model=self.order.args.model,
            accepted=self._auto_approve,
            plan_id="" if self.order.resumed else self.plan_id,
        )
        host = self._runtime.host
        audience = Audience(listeners=[self], approver=self.board, user_input=self.board.ask, waits=True)
        try:
            self.session = await open_plan(plan, options, host, audience)
        except PlanNotAcceptedError as error:
            self._mark_started()
            if await self._is_accepted(error):
                self.session = await open_plan(plan, structs.replace(options, accepted=True), host, audience)

    async def _write_plan(self) -> LoadedPlan | None:
        """Have the plan written. Return None if the planner wrote none, after setting ``ended``."""
        args = self.order.args
        goal = (args.goal or "").strip()
        request = PlanningRequest(
            subject=goal,
            workdir=self.order.workdir,
            model=args.model,
            max_tokens=args.max_tokens,
            max_price=args.max_price,
            wanted_by=WANTED_BY,
        )
        listeners = [self.board, self]
        async with planning(request, self._runtime.host, listeners, self.board.ask) as run:
            self._mark_started()
            draft = run.draft(goal)
            await draft.write()
            record = run.end(draft)
        if not draft.versions:
            self.ended = RunRecord(outcome=record.outcome, detail=f"no plan: {record.why}")
            return None
        return await to_thread.run_sync(
            limited, draft.loaded, remaining_budget(args.budget, record.usage.total_tokens, record.cost_usd or 0.0)
        )

    async def _is_accepted(self, refused: PlanNotAcceptedError) -> bool:
        """Ask whether the plan's commands may be run. If not, set ``ended``."""
        lines = [f"{line.step_id}: {line.command[:LONGEST_LINE]}" for line in refused.lines[:SHOWN_COMMANDS]]
        more = len(refused.lines) - len(lines)
        commands = "\n".join([*lines, *([f"and {more} more"] if more else [])])
        request = ApprovalRequestEvent(
            request_id=uuid4().hex,
            tool_call_id="",
            tool=ACCEPTANCE,
            arguments={
                "commands": [{"step_id": line.step_id, "command": line.command} for line in refused.lines],
                "writes": list(refused.writes),
            },
            summary=f"run a plan that a model wrote, with these commands:\n{commands}",
            rule="",
            reason="",
        )
        answer = await self.board.approve(request)
        if not answer.allow:
            why = f" ({answer.reason})" if answer.reason else ""
            detail = f"nobody accepted the commands of the plan{why}: nothing was run"
            self.ended = RunRecord(outcome=Outcome.BLOCKED, detail=detail)
        return answer.allow


def read_document(document: Mapping[str, object] | str, budget: Mapping[str, float]) -> LoadedPlan:
    """Load a client's plan with a budget. Its commands and writes are treated as those of a plan by a model.

    Raises:
        PlanInvalidError: the document is not a valid plan. The error names every problem.
    """
    text, form = (document, yaml_form()) if isinstance(document, str) else (json.dumps(document), None)  # JSON is YAML
    return limited(load_plan(text, where="the plan", form=form), budget, {ORIGIN: MODEL_ORIGIN})


def limited(loaded: LoadedPlan, budget: Mapping[str, float], metadata: Mapping[str, str] | None = None) -> LoadedPlan:
    """Return a plan whose budget and metadata are overridden by the given ones."""
    document = json.loads(loaded.source_bytes)
    for name, given in (("budget", budget), ("metadata", metadata)):
        if given:
            document[name] = {**(document.get(name) or {}), **given}
    return load_plan(json.dumps(document, indent=2, ensure_ascii=False) + "\n", where=loaded.where)


def remaining_budget(budget: Mapping[str, float], tokens: int, price: float) -> dict[str, float]:
    """Return the budget minus the tokens and the price (in USD) of planning, but no less than the smallest limits."""
    spent, least = {"max_tokens": tokens, "max_price": price}, {"max_tokens": 1, "max_price": LEAST_PRICE}
    return {name: max(least.get(name, 0), limit - spent.get(name, 0)) for name, limit in budget.items()}


MOST_AT_WORK = 64
"""Maximum number of plans that run at the same time."""
MOST_KEPT = 1_000
"""Number of plans remembered. The folder of an older one says how it ended."""
SHORTEST = 4
"""Minimum length of the beginning of a plan's id that identifies it."""
LAST_SECONDS = 5.0
"""Seconds that plans have to pause when the server ends."""
LOOK_SECONDS = 0.2
"""Seconds between looks at a plan's requests if nothing else happens."""


class ServedPlans:
    """The plans of a server, which run in ``group``."""

    def __init__(self, runtime: Runtime, group: TaskGroup, *, auto_approve: bool) -> None:
        self.runtime = runtime
        self.auto_approve = auto_approve
        self._plans: dict[str, ServedPlan] = {}
        self._group = group

    async def pause(self) -> None:
        """Pause all running plans."""
        with move_on_after(LAST_SECONDS, shield=True):
            for plan in self._at_work:
                plan.stop()
            for plan in self._at_work:
                await plan.over.wait()

    def get(self, plan_id: str) -> ServedPlan | None:
        """Return a plan that this server runs or ran, by its id or an unambiguous beginning of it."""
        found = [plan for known, plan in self._plans.items() if len(plan_id) >= SHORTEST and known.startswith(plan_id)]
        return self._plans.get(plan_id) or (found[0] if len(found) == 1 else None)

    async def begin(self, order: PlanOrder) -> ServedPlan:
        """Start or resume a plan.

        Raises:
            UsageError: the plan, the model or the configuration is wrong.
            EnvironmentFailure, ipc.errors.IpcError: a key is missing, or the disk or the bus fails.
        """
        at_work = self._at_work
        if any(plan.plan_id == order.resumed for plan in at_work):
            raise CallRefusedError(f"plan {order.resumed} is at work: plan_status says how it stands")
        if len(at_work) >= MOST_AT_WORK:
            raise CallRefusedError(f"{len(at_work)} plans are at work, more than that is too much: wait for one to end")
        plan_id = order.resumed or self._new_id()
        plan = ServedPlan(plan_id, order, self.runtime, auto_approve=self.auto_approve)
        previous = self._plans.pop(plan_id, None)
        self._plans[plan_id] = plan
        try:
            await self._group.start(plan.work)
        except BaseException:
            del self._plans[plan_id]
            if previous is not None:
                self._plans[plan_id] = previous
            raise
        self._forget()
        return plan

    def disconnected(self, connection: str) -> None:
        """Pause the plans that were started over a connection that has ended."""
        for plan in self._at_work:
            if plan.order.connection == connection:
                plan.stop()

    @property
    def _at_work(self) -> list[ServedPlan]:
        return [plan for plan in self._plans.values() if not plan.over.is_set()]

    def _new_id(self) -> str:
        folder, ids = plans_folder(self.runtime.host.home), iter(lambda: new_plan_id(time.time()), "")
        return next(plan_id for plan_id in ids if plan_id not in self._plans and not (folder / plan_id).exists())

    def _forget(self) -> None:
        over = [plan_id for plan_id, plan in self._plans.items() if plan.over.is_set()]
        for plan_id in over[: max(0, len(self._plans) - MOST_KEPT)]:
            del self._plans[plan_id]


async def wait_for_plan(plan: ServedPlan, caller: Caller, seconds: float) -> None:
    """Wait until a plan has ended or waits for an answer from elsewhere, but no longer than ``seconds``.

    Meanwhile progress is reported to the client, and its person is asked what the plan waits for.
    """
    if seconds > 0:
        progress = CallProgress()
        prompter = ClientPrompter(caller) if caller.can_be_asked else None
        plan.listeners.append(progress)
        try:
            await unless(partial(progress.tell, caller), partial(_wait_and_ask, plan, prompter, seconds))
        finally:
            plan.listeners.remove(progress)


async def _wait_and_ask(plan: ServedPlan, prompter: ClientPrompter | None, seconds: float) -> None:
    unanswered: set[str] = set()
    with move_on_after(seconds):
        while not plan.over.is_set():
            waiting = [request for request in plan.board.open if request.request_id not in unanswered]
            if not plan.board.open:
                await _wait_for_news(plan)
            elif not waiting or prompter is None:
                return
            elif not await _ask_person(plan, prompter, waiting[0]):
                unanswered.add(waiting[0].request_id)


async def _wait_for_news(plan: ServedPlan) -> None:
    """Wait for an event, or a short time, because a request is only open a moment after it was announced."""
    news = plan.news
    with move_on_after(LOOK_SECONDS):
        await news.wait()


async def _ask_person(plan: ServedPlan, prompter: ClientPrompter, request: Request) -> bool:
    """Ask the client's person to answer a request. Return False if there is no answer.

    The question is withdrawn if the request is answered elsewhere, and the result is True then.
    """
    answers = await unless(partial(_until_closed, plan, request.request_id), partial(prompter.answer, request))
    if not answers:
        return True
    (command,) = answers
    return command is not None and (await plan.answer(command)).ok


async def _until_closed(plan: ServedPlan, request_id: str) -> None:
    """Wait until a request is no longer open."""
    while any(request.request_id == request_id for request in plan.board.open):
        await _wait_for_news(plan)
