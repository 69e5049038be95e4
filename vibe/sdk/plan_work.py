"""Runs a program's plans and the steps it does itself.

It imports the whole engine, so it is loaded with the first plan.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from anyio import CancelScope, current_time, move_on_after, to_thread
from msgspec import DecodeError, json, structs
from pydantic_core import from_json, to_json

from ipc.commands import Pause, Steer
from planner.plan.loader import LoadedPlan, load_plan, read_plan_file
from planner.plan.model import Plan, own_ids
from planner.store.folder import ApprovalSetting, PlanRunOptions, ProgramPart
from subagents.executor import StepExecutor, StepResult, StepTask, StopSignal
from vibe.app.engine.host import Host
from vibe.app.plan.author import PlanningRequest, planning
from vibe.app.plan.command_consent import PlanNotAcceptedError
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.run import PlanRun, PlanSession, open_plan
from vibe.app.plan.step_executor import APPROVAL_MODES
from vibe.core.messages import Outcome
from vibe.core.tools.hand_in import HandIn
from vibe.sdk.answer import NotCompleted, PlanResult, answer_of, common_fields
from vibe.sdk.function_tool import tool_class
from vibe.sdk.options import MakePlanOptions, PlanOptions, StepFunction
from vibe.sdk.people import PROGRAM, People, called, choice, selections
from vibe.sdk.run import RunWork
from vibe.system.errors import UsageError, described
from vibe.system.plain_text import shortened

MAX_ERROR_LENGTH = 2_000
"""The most characters kept of the message of an error that the program raised."""
logger = logging.getLogger(__name__)

APPROVALS = {mode: setting for setting, mode in APPROVAL_MODES.items()}


async def run_plan_work(
    plan: bytes | Path | str, options: PlanOptions, host: Host, work: RunWork[PlanResult]
) -> PlanResult:
    """Run a plan, or resume one by its id, until it ends or pauses.

    Raises:
        UsageError: the plan or an argument is wrong; nothing was written.
        EnvironmentFailure: a key is missing, or the disk, a lock or the bus refuses.
        NotCompleted: it did not complete and its ``check`` option is on.
    """
    people = People(options)
    loaded = plan if isinstance(plan, str) else await to_thread.run_sync(_load, plan)
    given = _options(plan, options, people)
    session = await _open(loaded, given, host, _audience(options, people))
    pause = partial(session.control.submit, Pause(grace_seconds=0, by=PROGRAM))
    people.stop, people.hearer = pause, work
    work.serve(pause, partial(_steer, session))
    ended = await session.run()
    if people.fault is not None:
        people.fault.add_note(f"plan {ended.record.plan_id} is {ended.status.value}: resume_plan goes on with it")
    people.raise_fault()
    result = _result(ended)
    if options.get("check", True) and ended.record.outcome is not Outcome.COMPLETED:
        raise NotCompleted(result)
    return result


def _audience(options: PlanOptions, people: People) -> Audience:
    decide = options.get("decide")
    return Audience(
        listeners=[people],
        approver=people.approver,
        user_input=people.user_input,
        decide=partial(people.try_call, choice, decide) if callable(decide) else None,
    )


async def _open(plan: LoadedPlan | str, options: PlanRunOptions, host: Host, audience: Audience) -> PlanSession:
    try:
        return await open_plan(plan, options, host, audience)
    except PlanNotAcceptedError as error:
        lines = "; ".join(f"{one.step_id}: {one.command}" for one in error.lines)
        raise UsageError(
            f"plan: a model wrote it, and its commands have not been accepted ({lines}): read them, and give "
            "accept_commands=True"
        ) from error


def _load(plan: bytes | Path) -> LoadedPlan:
    return read_plan_file(plan) if isinstance(plan, Path) else load_plan(plan, where="plan")


def _options(plan: bytes | Path | str, options: PlanOptions, people: People) -> PlanRunOptions:
    decide, executor, only = options.get("decide"), options.get("executor"), options.get("only", ())
    workdir = Path(options.get("workdir", ""))
    return PlanRunOptions(
        workdir=workdir,
        plan_folder=plan.parent if isinstance(plan, Path) else workdir,
        approvals=ApprovalSetting.ASK if people.mode is None else APPROVALS[people.mode],
        decisions=_decisions_taken(decide),
        executor=executor if isinstance(executor, str) else None,
        program=_program(options),
        tools=tuple(map(tool_class, options.get("tools", ()))),
        hooks=people.hooks(options.get("hooks", {})),
        asked=people.approver is not None,
        only=tuple(only),
        accepted=options.get("accept_commands", False),
        **_picked({**options}, "allow_dirty", "fail_fast", "inputs", "max_parallel", "model", "trust"),
    )


def _decisions_taken(decide: object) -> dict[str, tuple[str, ...]]:
    """Return the decisions that the program took in advance, as a mapping."""
    taken = cast("Mapping[str, object]", decide if isinstance(decide, Mapping) else {})
    return {name: selections(said, f"decide[{name!r}] is") for name, said in taken.items()}


def _picked(options: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the options among the given names that are set."""
    return {name: options[name] for name in names if name in options}


def _program(options: PlanOptions) -> ProgramPart | None:
    functions, executor = {**(options.get("functions") or {})}, options.get("executor")
    own = None if executor is None or isinstance(executor, str) else executor
    if not functions and own is None:
        return None

    def wrap(inner: StepExecutor, workspace: Path) -> StepExecutor:
        return ProgramExecutor(functions, own or inner, workspace)

    return ProgramPart(executor=wrap, functions=tuple(functions), does_all=own is not None)


def _steer(session: PlanSession, text: str, step_id: str) -> bool:
    at_work = session.steering.at_work
    target = step_id or (at_work[0] if len(at_work) == 1 else "")
    if target in at_work:
        session.control.submit(Steer(step_id=target, text=text))
    return target in at_work


async def write_plan_work(goal: str, options: MakePlanOptions, host: Host, work: RunWork[Plan]) -> Plan:
    """Have a plan written for a goal.

    Raises:
        UsageError, EnvironmentFailure: as from ``run_plan_work``.
        NotCompleted: no plan came of it.
    """
    request = PlanningRequest(
        subject=goal,
        workdir=Path(options.get("workdir", "")),
        wanted_by="make_plan",
        **_picked({**options}, "max_price", "max_tokens", "model", "trust"),
    )
    people, version, scope = People(options), None, CancelScope()
    people.stop, people.hearer = scope.cancel, work
    async with planning(request, host, [people], people.user_input) as run:
        draft = run.draft(goal)
        work.serve(scope.cancel, lambda text, _step: draft.steer(text))
        with scope:
            version = await draft.write()
        record = run.end(None if version is None and draft.acted is None else draft)
    people.raise_fault()
    if version is None:
        raise NotCompleted(answer_of(record, record.usage.calls))
    return version.loaded.plan.escaped()


def _result(ended: PlanRun) -> PlanResult:
    record = ended.record
    same = common_fields(record)
    same["detail"] = "" if record.outcome is Outcome.COMPLETED else same["detail"] or record.result
    return PlanResult(
        plan_id=record.plan_id or "",
        status=ended.status.value,
        steps={step.id: step for step in record.steps or ()},
        open_decisions=ended.open_decisions,
        **same,
    )


class ProgramExecutor:
    """Runs steps by the program's ``functions``, by step id, and leaves the other steps and all checks to ``inner``.

    See ``StepExecutor``. One difference: when a step is cut off, a function that is no coroutine is left behind in its
    thread.
    """

    def __init__(self, functions: Mapping[str, StepFunction], inner: StepExecutor, workspace: Path) -> None:
        self._functions, self._inner, self._workspace = functions, inner, workspace

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Carry out one attempt at a step."""
        # set-up commands and merges in a worktree are the inner executor's as well
        is_whole = not task.only_checks and not task.conversation
        own = own_ids(task.step) & self._functions.keys() if is_whole else ()
        if not own:
            return await self._run_inner(task, stop)
        started, limit = current_time(), task.step.timeout_seconds
        ended = StepResult(outcome=Outcome.LIMIT, reason="timeout", detail="the step ran out of time")
        with move_on_after(limit):
            ended = await self._call_function(self._functions[max(own)], task)
        took = current_time() - started
        if ended.outcome is Outcome.COMPLETED and task.step.verify:
            left = None if limit is None else max(limit - took, 0.001)
            checks = structs.replace(task.with_step(timeout_seconds=left), only_checks=True)
            checked = await self._run_inner(checks, stop)
            ended = ended if checked.outcome is Outcome.COMPLETED else checked
        return structs.replace(ended, duration_s=current_time() - started)

    async def _run_inner(self, task: StepTask, stop: StopSignal) -> StepResult:
        result = await called(self._inner.run, task, stop)
        if isinstance(result, StepResult):
            return _round_trip(result)
        raise TypeError(f"executor= returned {type(result).__name__}, not a StepResult")

    async def _call_function(self, function: StepFunction, task: StepTask) -> StepResult:
        try:
            returned = await called(function, structs.replace(task, workdir=task.workdir or str(self._workspace)))
        except Exception as error:
            logger.exception("the program's function for step %s raised", task.step_id)
            detail = shortened(described(error), MAX_ERROR_LENGTH)
            return StepResult(outcome=Outcome.FAILED, reason="function", detail=detail)
        return await to_thread.run_sync(_result_of, task, returned)


def _result_of(task: StepTask, returned: Any) -> StepResult:
    """Return the step result for what a function returned: a text, a value, or a result.

    A value that can't be accepted makes the step fail.
    """
    schema = task.step.output_schema
    is_text = isinstance(returned, str)
    summary = str(returned) if is_text else ""
    ended = returned if isinstance(returned, StepResult) else StepResult(outcome=Outcome.COMPLETED, summary=summary)
    try:
        value = from_json(to_json(ended.output if ended is returned else returned))
        ended = _round_trip(structs.replace(ended, output=None if is_text and schema is None else value))
        problem = HandIn(schema=schema or {}).offer(value) if ended.outcome is Outcome.COMPLETED else None
        if ended.outcome is Outcome.INTERRUPTED:
            problem = "outcome: a function that returns was not interrupted"
    except (TypeError, ValueError, DecodeError, RecursionError) as error:
        problem = f"value: is not JSON: {error}"
    if problem is not None:
        detail = shortened(f"what the program returned is not accepted: {problem}", MAX_ERROR_LENGTH)
        return StepResult(outcome=Outcome.FAILED, reason="output", detail=detail)
    return ended


def _round_trip(result: StepResult) -> StepResult:
    """Return a program's result with every part converted to a form that can be stored.

    Raises:
        TypeError, ValueError, msgspec.DecodeError: a part can't be converted.
    """
    return json.decode(json.encode(result), type=StepResult)
