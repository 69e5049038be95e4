"""The calls about plans, once a client made one: loaded with the runtime, which the tools themselves are not."""

from __future__ import annotations

from pathlib import Path

from anyio import get_cancelled_exc_class, move_on_after, to_thread

from ipc.commands import Approve
from planner.store.folder import find_plan
from vibe.app.plan import commands
from vibe.app.plan.run import PlanRun
from vibe.mcp_server.client_prompter import BY_CLIENT, SCOPES, answer_command
from vibe.mcp_server.plan_arguments import PlanDecideArguments, PlanRunArguments, PlanStatusArguments
from vibe.mcp_server.plan_document import read_document
from vibe.mcp_server.plan_status import StatusAnswer, no_run_result, saved_result, saved_status, served_status
from vibe.mcp_server.served_plan import NoRun, PlanOrder, ServedPlan
from vibe.mcp_server.served_plans import ServedPlans, attend
from vibe.mcp_server.tool import Caller, CallRefusedError, ToolAnswer

STOP_SECONDS = 10.0


async def run_plan(plans: ServedPlans, args: PlanRunArguments, workdir: Path | None, caller: Caller) -> ToolAnswer:
    """Begin a plan in ``workdir`` (None: its own), wait for it if asked to, and say how it stands.

    Raises:
        UsageError: the plan, the model or the configuration is wrong.
        EnvironmentFailure, ipc.errors.IpcError: key, disk or bus.
    """
    order = await to_thread.run_sync(_order, args, workdir, caller.connection, plans.runtime.host.home)
    plan = await plans.begin(order)
    try:
        await attend(plan, caller, args.wait_ms / 1000)
    except get_cancelled_exc_class():
        plan.pause()
        raise
    return (await status_of(plans, plan.plan_id)).answer()


async def plan_status(plans: ServedPlans, args: PlanStatusArguments, caller: Caller) -> ToolAnswer:
    """Wait for a plan if asked to, and say how it stands.

    Raises:
        UsageError: there is no such plan.
        BrokenPlanError: it can't be read.
    """
    plan = plans.get(args.plan_id)
    if plan is not None:
        await attend(plan, caller, args.wait_ms / 1000)
    return (await status_of(plans, args.plan_id)).answer()


async def decide_for_plan(plans: ServedPlans, args: PlanDecideArguments) -> ToolAnswer:
    """Answer what a plan waits for, or stop it, and say how it stands.

    Raises:
        UsageError: there is no such plan, request or answer.
        EnvironmentFailure: its folder can't be read or written.
    """
    plan = plans.get(args.plan_id)
    if plan is None or plan.over.is_set():
        said = await _decide_at_rest(plans, args)
    elif args.stop is not None:
        said = await _stop(plan, args.stop)
    else:
        said = await _answer(plan, args)
    stands = (await status_of(plans, args.plan_id)).answer()
    return ToolAnswer(text=f"{said}\n{stands.text}", data={**stands.data, "message": said})


async def status_of(plans: ServedPlans, plan_id: str) -> StatusAnswer:
    """Return how a plan stands, of this server or of any other process.

    Raises:
        UsageError: there is no such plan.
        BrokenPlanError: it can't be read.
    """
    plan = plans.get(plan_id)
    if plan is not None and (not plan.over.is_set() or isinstance(plan.ended, NoRun)):
        return served_status(plan)
    return await to_thread.run_sync(lambda: saved_status(find_plan(plans.runtime.host.home, plan_id)))


async def result_of(plans: ServedPlans, plan_id: str, most_characters: int) -> ToolAnswer:
    """Return what a plan has come to, at its end or so far, in at most so many characters; 0: all.

    Raises:
        UsageError: there is no such plan.
        BrokenPlanError: it can't be read.
    """
    plan = plans.get(plan_id)
    if plan is None or isinstance(plan.ended, PlanRun) or plan.is_begun:
        folder = await to_thread.run_sync(find_plan, plans.runtime.host.home, plan_id)
        return await to_thread.run_sync(saved_result, folder, most_characters)
    if isinstance(plan.ended, NoRun):
        return no_run_result(plan.plan_id, plan.ended)
    return served_status(plan).answer()


def _order(args: PlanRunArguments, workdir: Path | None, connection: str, home: Path) -> PlanOrder:
    """Return what is wanted, checked; reads files."""
    resumed = ""
    if workdir is None:
        folder = find_plan(home, args.plan_id or "")
        resumed, workdir = folder.plan_id, Path(folder.settings().workspace)
    return PlanOrder(
        workdir=workdir,
        goal=(args.goal or "").strip(),
        document=None if args.plan is None else read_document(args.plan, args.budget),
        resumed=resumed,
        model=args.model,
        max_parallel=args.max_parallel,
        budget=args.budget,
        connection=connection,
    )


async def _answer(plan: ServedPlan, args: PlanDecideArguments) -> str:
    """Answer a request of a plan at work here; return what became of it."""
    request_id = args.request_id or ""
    request = next((each for each in plan.board.open if each.request_id == request_id), None)
    if request is None:  # the board says what became of it
        allow = args.answers[:1] in {(word,) for word in SCOPES}
        command = Approve(request_id=request_id, allow=allow, by=BY_CLIENT)
    else:
        command = answer_command(request, args.answers, args.reason)
    reply = await plan.answer(command)
    if not reply.ok:
        raise CallRefusedError(f"plan {plan.plan_id}: {reply.message}")
    return reply.message


async def _stop(plan: ServedPlan, how: str) -> str:
    """Pause a plan at work here, or give it up, and wait until it is at rest."""
    if how == "pause":
        plan.pause()
    else:
        plan.cancel()
    with move_on_after(STOP_SECONDS):
        await plan.over.wait()
        return "stopped"
    return "it is being stopped"


async def _decide_at_rest(plans: ServedPlans, args: PlanDecideArguments) -> str:
    """Decide for a plan that nobody runs; return what became of it."""
    host = plans.runtime.host
    folder = await to_thread.run_sync(find_plan, host.home, args.plan_id)
    pid = await to_thread.run_sync(folder.holder)
    if pid is not None:
        raise CallRefusedError(
            f"plan {folder.plan_id} is run by process {pid}, which asks its own people: wait with plan_status"
        )
    if args.stop == "pause":
        raise CallRefusedError(f"plan {folder.plan_id} is not at work: there is nothing to pause")
    if args.stop == "cancel":
        return (await commands.cancel(host, folder.plan_id)).message
    if not args.answers:
        raise CallRefusedError(f"answers are missing: name the options of {args.request_id!r} that are chosen")
    return (await commands.decide(host, folder.plan_id, args.request_id or "", args.answers)).message
