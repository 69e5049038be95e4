"""Carries out the tools' calls. Loaded with the runtime, later than ``tools``.

The function with the name of a tool takes its arguments. A VibeError or an IpcError that it raises is the answer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

from anyio import create_task_group, get_cancelled_exc_class, move_on_after, to_thread

from ipc.commands import Approve, Cancel, Decide
from planner.store.folder import find_plan
from vibe.app.conversation.opening import Opening, PromptLimits, Seat, named_folder
from vibe.app.conversation.runtime import Runtime
from vibe.app.engine.host import Host
from vibe.app.engine.result_record import RunRecord
from vibe.app.plan import commands
from vibe.app.plan.run import PlanRun
from vibe.core.messages import APPROVE_ADVICE, Outcome
from vibe.core.tools.hand_in import HandIn
from vibe.core.tools.permissions import ApprovalMode
from vibe.mcp_server import tools
from vibe.mcp_server.client import BY_CLIENT, SCOPES, CallProgress, ClientPrompter, answer_command
from vibe.mcp_server.plan_status import cut, no_run_result, saved_result, saved_status, served_status
from vibe.mcp_server.served_plan import PlanOrder, ServedPlan, ServedPlans, read_document, wait_for_plan
from vibe.shell.process.runner import OwnProcesses
from vibe.system.process import kill_marked
from vibe.system.racing import shielded, unless

PROMPT_CHARS = 1_000_000
"""Maximum length of a prompt, in characters. No model reads that much, so a longer prompt is a mistake."""
PATIENCE_SECONDS = 0.3
"""Seconds between SIGTERM and SIGKILL. It is short because the client has been told that all is over."""
KILL_SECONDS = 2.0
"""Seconds to spend on killing the processes that a call has left."""
STOP_SECONDS = 10.0
"""Seconds to wait for a plan that is being stopped."""
CALL_MARK = "_VIBE_CALL"
"""The variable given to everything a call starts, by which daemons of commands that have ended are found."""
TIMEOUT_REASON = "timeout"
CLIENT_ADVICE = "`vibe mcp serve --auto-approve`, or from a client that can ask its user (elicitation)"


@asynccontextmanager
async def served_plans(host: Host, *, auto_approve: bool) -> AsyncGenerator[ServedPlans]:
    """Provide a runtime for plans and conversations. Every running plan is paused at the end."""
    async with Runtime(host) as runtime, create_task_group() as group:
        plans = ServedPlans(runtime, group, auto_approve=auto_approve)
        try:
            yield plans
        finally:
            await plans.pause()
            group.cancel_scope.cancel()


async def call_vibe(plans: ServedPlans, args: tools.CallVibeArguments, caller: tools.Caller) -> tools.ToolAnswer:
    """Answer a prompt in a conversation that begins and ends with the call."""
    prompt = _checked_text("prompt", args.prompt)
    schema = args.output_schema
    hand_in = None if schema is None else await to_thread.run_sync(HandIn.of_prompt, schema, "output_schema")
    opening = Opening(
        prompt=prompt,
        workdir=await to_thread.run_sync(_existing_workdir, args.cwd),
        agent=(args.agent or "").strip() or None,
        approvals=ApprovalMode.ALL if plans.auto_approve else None,
        wait_for_servers=True,
        observe=args.mode == "observe",
    )
    progress, mark = CallProgress(), uuid4().hex
    seat = Seat(
        listeners=[progress],
        approver=ClientPrompter(caller) if caller.can_be_asked and not plans.auto_approve else None,
        commands=OwnProcesses(PATIENCE_SECONDS, (CALL_MARK, mark)),
    )
    limits = PromptLimits(time_limit=args.timeout_ms / 1000)
    conversation = await plans.runtime.open_conversation(opening, seat)
    outcome, exit_code = Outcome.INTERRUPTED, 0
    try:
        send = partial(conversation.send, prompt, limits=limits, hand_in=hand_in)
        (answer,) = await unless(partial(progress.tell, caller), send)
        warnings = conversation.setup.engine.warnings
        record = await to_thread.run_sync(answer.record, conversation.session_id, conversation.channel, warnings)
        outcome, exit_code = record.outcome, record.exit_code
    finally:
        await shielded(partial(conversation.aclose, outcome, exit_code))
        if outcome is not Outcome.COMPLETED:
            with move_on_after(KILL_SECONDS, shield=True):
                await kill_marked(CALL_MARK, mark)
    return _conversation_answer(record, args)


async def plan_run(plans: ServedPlans, args: tools.PlanRunArguments, caller: tools.Caller) -> tools.ToolAnswer:
    """Start or resume a plan, wait for it if asked to, and return its status."""
    order = await to_thread.run_sync(_order, args, caller.connection, plans.runtime.host.home)
    plan = await plans.begin(order)
    try:
        await wait_for_plan(plan, caller, args.wait_ms / 1000)
    except get_cancelled_exc_class():
        plan.stop()
        raise
    return await _status_of(plans, plan.plan_id)


async def plan_status(plans: ServedPlans, args: tools.PlanStatusArguments, caller: tools.Caller) -> tools.ToolAnswer:
    """Wait for a plan if asked to, and return its status."""
    plan = plans.get(args.plan_id)
    if plan is not None:
        await wait_for_plan(plan, caller, args.wait_ms / 1000)
    return await _status_of(plans, args.plan_id)


async def plan_decide(plans: ServedPlans, args: tools.PlanDecideArguments, _caller: tools.Caller) -> tools.ToolAnswer:
    """Answer a plan's request, or stop the plan, and return its status."""
    plan = plans.get(args.plan_id)
    if plan is None or plan.over.is_set():
        message = await _decide_at_rest(plans, args)
    elif args.stop is not None:
        message = await _stop(plan, for_good=args.stop == "cancel")
    else:
        message = await _answer(plan, args)
    status = await _status_of(plans, args.plan_id)
    return tools.ToolAnswer(text=f"{message}\n{status.text}", data={**status.data, "message": message})


async def plan_result(plans: ServedPlans, args: tools.PlanResultArguments, _caller: tools.Caller) -> tools.ToolAnswer:
    """Return the result of a plan, final or so far."""
    plan = plans.get(args.plan_id)
    if plan is None or isinstance(plan.ended, PlanRun) or (plan.session and plan.session.plan_id):
        folder = await to_thread.run_sync(find_plan, plans.runtime.host.home, args.plan_id)
        return await to_thread.run_sync(saved_result, folder, args.max_response_chars)
    if isinstance(plan.ended, RunRecord):
        return no_run_result(plan.plan_id, plan.ended)
    return served_status(plan)


def _checked_text(name: str, text: str) -> str:
    """Return a text for a model, stripped.

    Raises:
        CallRefusedError: the text is empty, too long, or contains a NUL character.
    """
    text = text.strip()
    if not text:
        raise tools.CallRefusedError(f"{name} is empty: say what is to be done")
    if "\0" in text:
        raise tools.CallRefusedError(f"{name} holds a NUL character: leave it out")
    if len(text) > PROMPT_CHARS:
        raise tools.CallRefusedError(
            f"{name} has {len(text):,} characters, more than the {PROMPT_CHARS:,} there may be: "
            "name files instead of repeating them"
        )
    return text


def _existing_workdir(given: str) -> Path:
    """Return the folder a call names. Reads the file system.

    Raises:
        UsageError: the path isn't absolute, doesn't exist, or can't be used.
    """
    if not given.strip():
        raise tools.CallRefusedError("cwd is empty: give the absolute path of the folder to work in")
    shown = repr(given if len(given) <= 200 else f"{given[:200]}...")
    return named_folder(given.strip(), f"cwd {shown}", "the folder to work in")


def _conversation_answer(record: RunRecord, args: tools.CallVibeArguments) -> tools.ToolAnswer:
    timed_out = record.reason == TIMEOUT_REASON and record.outcome is Outcome.LIMIT
    problem = ""
    if timed_out:
        problem = (
            f"vibe timed out after {args.timeout_ms:g} ms and was stopped with all it had started: give a "
            f"larger timeout_ms, or a smaller task; `vibe --resume {record.session_id}` goes on with it"
        )
    elif record.exit_code != 0:
        problem = f"vibe {record.outcome.value}: {record.why.replace(APPROVE_ADVICE, CLIENT_ADVICE)}"
    response = cut(record.answer or record.result, args.max_response_chars)
    document = record.as_document()
    kept = ("session_id", "usage", "cost_usd", "duration_s", "denied", "warnings")
    return tools.ToolAnswer(
        text="\n\n".join(part for part in (problem, response) if part) or "(the agent gave no answer in words)",
        data={
            "status": "timed_out" if timed_out else record.outcome.value,
            "response": response,
            **({"value": document["value"]} if "value" in document else {}),
            "metadata": {name: document[name] for name in kept if document.get(name)},
        },
        is_error=bool(problem),
    )


async def _status_of(plans: ServedPlans, plan_id: str) -> tools.ToolAnswer:
    """Return the status of a plan, whether this server runs it or another process does.

    Raises:
        UsageError: there is no such plan.
        BrokenPlanError: the plan's folder can't be read.
    """
    plan = plans.get(plan_id)
    if plan is not None and (not plan.over.is_set() or isinstance(plan.ended, RunRecord)):
        return served_status(plan)
    return await to_thread.run_sync(lambda: saved_status(find_plan(plans.runtime.host.home, plan_id)))


def _order(args: tools.PlanRunArguments, connection: str, home: Path) -> PlanOrder:
    """Check the arguments of a call and return the order for its plan. Reads files."""
    if args.goal is not None:
        _checked_text("goal", args.goal)
    if args.cwd is None:
        folder = find_plan(home, args.plan_id or "")
        resumed, workdir = folder.plan_id, Path(folder.settings().workspace)
    else:
        resumed, workdir = "", _existing_workdir(args.cwd)
    document = None if args.plan is None else read_document(args.plan, args.budget)
    return PlanOrder(args=args, workdir=workdir, document=document, resumed=resumed, connection=connection)


async def _answer(plan: ServedPlan, args: tools.PlanDecideArguments) -> str:
    """Answer a request of a plan that runs here, and return a sentence about the outcome."""
    request_id = args.request_id or ""
    request = next((each for each in plan.board.open if each.request_id == request_id), None)
    if request is None:  # the board's reply says what became of the request
        allow = args.answers[:1] in {(word,) for word in SCOPES}
        command = Approve(request_id=request_id, allow=allow, by=BY_CLIENT)
    else:
        command = answer_command(request, args.answers, args.reason)
    reply = await plan.answer(command)
    if not reply.ok:
        raise tools.CallRefusedError(f"plan {plan.plan_id}: {reply.message}")
    return reply.message


async def _stop(plan: ServedPlan, *, for_good: bool) -> str:
    """Pause or cancel a plan that runs here, and wait until it has stopped."""
    plan.stop(for_good=for_good)
    with move_on_after(STOP_SECONDS):
        await plan.over.wait()
        return "stopped"
    return "it is being stopped"


async def _decide_at_rest(plans: ServedPlans, args: tools.PlanDecideArguments) -> str:
    """Answer a decision of a plan that isn't running, or cancel it, and return a sentence about the outcome."""
    host = plans.runtime.host
    folder = await to_thread.run_sync(find_plan, host.home, args.plan_id)
    pid = await to_thread.run_sync(folder.holder)
    if pid is not None:
        raise tools.CallRefusedError(
            f"plan {folder.plan_id} is run by process {pid}, which asks its own people: wait with plan_status"
        )
    if args.stop == "pause":
        raise tools.CallRefusedError(f"plan {folder.plan_id} is not at work: there is nothing to pause")
    if args.stop is None and not args.answers:
        raise tools.CallRefusedError(f"answers are missing: name the options of {args.request_id!r} that are chosen")
    decision = Decide(decision_id=args.request_id or "", selections=tuple(args.answers))
    return (await commands.give(host, folder.plan_id, Cancel() if args.stop else decision)).message
