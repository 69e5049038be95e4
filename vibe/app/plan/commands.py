"""Commands to a plan that has begun: given to its run, or carried out in its folder, under its lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from anyio import current_time, fail_after, move_on_after, sleep, to_thread
from msgspec import Struct, field, structs

from ipc.commands import Act, Cancel, Decide, Revise, RunCommand, Steer, StepAction, tag_of
from ipc.control import send_command
from ipc.registry import Entry, Registry
from planner.plan.model import OPEN_STATUSES, Plan, PlanStatus
from planner.plan.operations import Operation, plain_operations
from planner.plan.revision import revise as apply
from planner.state.commands import Tell
from planner.store.errors import PlanLockedError
from planner.store.folder import PlanFolder, find_plan
from planner.store.store import PlanStore
from vibe.app.engine.build import EngineRequest
from vibe.app.engine.host import Host
from vibe.app.plan.clean import give_up, note_merged, what_is_left
from vibe.app.plan.control_handler import done_reply
from vibe.app.plan.preflight import check_needs, rest_of
from vibe.app.plan.prepare import engine_of_resume
from vibe.system.errors import EnvironmentFailure, UsageError, VibeError
from vibe.system.plain_text import counted

ANSWER_SECONDS = 15.0
"""The time that a run has to answer a command."""

SETTLING_SECONDS = 5.0
"""The time for which a plan may be held by a process that can't be asked, because it is just starting or ending its
run."""

CANCEL_SECONDS = 10.0
"""The time to wait for a cancelled run to be gone. A run that takes longer is reported as still ending."""

_POLL_SECONDS = 0.05


class CommandReport(Struct, frozen=True, kw_only=True):
    """The result of a command: one sentence, and data for programs. ``running`` says that a process has the plan."""

    plan_id: str
    message: str
    running: bool
    data: dict[str, Any] = field(default_factory=dict[str, Any])


async def give(host: Host, reference: str, command: RunCommand) -> CommandReport:
    """Have a plan carry out a command, by its run or, as far as no run is needed, by this process in its folder.

    A running plan that is cancelled has ended when this returns, unless the answer says otherwise. Its worktrees are
    removed; what was not merged is kept on branches, which the message names. A resting plan does a step again, with
    the steps that depend on it, at its next resume (``data["steps"]``).

    Raises:
        UsageError: there is no such plan, step, decision, option or request, the plan would have to run and does
            not,
            or the command makes no sense in its present state.
        EnvironmentFailure, ipc.errors.IpcError: the run can't be reached, or the folder can't be written.
    """
    done = await _carry_out(host, reference, command, partial(_carry_out_in_folder, host, command))
    if isinstance(command, Cancel) and not done.running:
        with suppress(EnvironmentFailure, OSError):
            left = await to_thread.run_sync(lambda: what_is_left(host, find_plan(host.home, done.plan_id)))
            return structs.replace(done, message=f"{done.message}; {left}") if left else done
    return done


def _carry_out_in_folder(host: Host, command: RunCommand, store: PlanStore) -> CommandReport:
    data: dict[str, Any] = {}
    match command:
        case Cancel():
            store.take(command)
            with suppress(EnvironmentFailure, OSError):  # the message afterwards says what is left
                give_up(host, store.folder)
            message = "cancelled; it was not running"
        case Act(action=StepAction.RETRY):
            data = {"steps": list(store.reset(command))}
            message = f"trying again: {', '.join(data['steps'])}"
        case Steer() if command.step_id:
            store.take(Tell(command))
            message = f"{done_reply(command).message}, when the plan goes on"
        case Decide() | Act():
            store.take(command)
            reply = done_reply(command)
            message, data = reply.message, reply.data
        case _:
            plan_id, status = store.plan_id, store.state().status
            on = f"continue it with `vibe plan resume {plan_id}`" if status in OPEN_STATUSES else "it has ended"
            standing = "interrupted" if status is PlanStatus.ACTIVE else status.value
            raise UsageError(f"plan {plan_id} is not running ({standing}): nothing to {tag_of(command)}; {on}")
    return CommandReport(plan_id=store.plan_id, message=message, running=False, data=data)


async def revise(
    host: Host, reference: str, operations: Sequence[Operation], reason: str = "", *, trust: bool = False
) -> CommandReport:
    """Revise a plan. ``data["operations"]`` are those carried out; without any, only say whether it runs.

    With ``trust``, steps may use the ``.vibe`` folder of a resting plan's workspace.

    Raises:
        UsageError: there is no such plan, it has ended, the operations don't fit, or their steps could not start.
        EnvironmentFailure, ipc.errors.IpcError: the run can't be reached, the folder can't be written, or a key is
            missing.
    """
    plain = plain_operations(operations)
    data = {"operations": list(plain)}
    if not plain:
        folder = await to_thread.run_sync(find_plan, host.home, reference)
        running = await to_thread.run_sync(_running_entry, host, folder.plan_id) is not None
        return CommandReport(plan_id=folder.plan_id, message="nothing to change", running=running, data=data)
    message = f"{counted(len(plain), 'change')} made"

    def in_folder(store: PlanStore) -> CommandReport:
        current = store.effective().plan
        store.decided(Revise(operations=plain, reason=reason))  # raises if it is impossible, before slower checks
        _check_start(current, apply(current, operations).plan, store, host, trust=trust)
        store.take(Revise(operations=plain_operations(operations), reason=reason))
        return CommandReport(plan_id=store.plan_id, message=message, running=False, data=data)

    done = await _carry_out(host, reference, Revise(operations=plain, reason=reason), in_folder)
    return structs.replace(done, message=message, data=data)


async def _carry_out(
    host: Host, reference: str, command: RunCommand, in_folder: Callable[[PlanStore], CommandReport]
) -> CommandReport:
    """Ask the run that has the plan, or hold the plan and carry the command out here.

    A process that holds the plan and can't be asked is just starting or ending; it is waited for, for some seconds.
    """
    folder = await to_thread.run_sync(find_plan, host.home, reference)
    deadline = current_time() + SETTLING_SECONDS

    def held() -> CommandReport:
        with PlanStore.open(host.home, folder.plan_id) as store:
            with suppress(EnvironmentFailure, OSError):  # the next run finds it
                note_merged(host, store)
            return in_folder(store)

    while True:
        entry = await to_thread.run_sync(_running_entry, host, folder.plan_id)
        if entry is not None:
            done = await _ask(folder, entry, command)
            if done is not None:
                return done
        try:
            return await to_thread.run_sync(held)
        except PlanLockedError:
            if current_time() > deadline:
                raise
        await sleep(_POLL_SECONDS)


def _check_start(before: Plan, after: Plan, store: PlanStore, host: Host, *, trust: bool) -> None:
    """Check that what a change brings could start, as the next resume will check.

    Problems that were there before are not the change's fault and don't count.
    """
    settings = store.settings
    replay = Path(settings.script) if settings.script else None
    request = EngineRequest(workdir=Path(settings.workspace), trust=trust, replay=replay)

    def check(plan: Plan) -> None:
        rest = rest_of(plan, store.state())
        engine_of_resume(rest, settings, host, request)
        check_needs(rest.steps, settings.cluster)

    try:
        check(after)
    except VibeError as error:
        try:
            check(before)
        except VibeError as known:
            if str(known) == str(error):
                return
        raise


def _running_entry(host: Host, plan_id: str) -> Entry | None:
    running = Registry(host.home, host.runtime_dir).running()
    return next((entry for entry in reversed(running) if entry.info.plan_id == plan_id), None)


async def _ask(folder: PlanFolder, entry: Entry, command: RunCommand) -> CommandReport | None:
    """Return the run's answer; None if it ended before the command arrived, so that nothing was done."""
    try:
        with fail_after(ANSWER_SECONDS):
            reply = await send_command(entry, command)
    except TimeoutError:
        raise EnvironmentFailure(
            f"plan {folder.plan_id}: process {entry.pid} is running it but has not answered for {ANSWER_SECONDS:g} s; "
            f"check `vibe plan status {folder.plan_id}`"  # the run may still carry out the command
        ) from None
    if not reply.ok:
        if reply.reason == "ended":
            await _has_ended(entry, SETTLING_SECONDS)
            return None
        raise UsageError(f"plan {folder.plan_id}: {reply.message}")
    if isinstance(command, Cancel):
        return await _after_cancel(folder, entry)
    return CommandReport(plan_id=folder.plan_id, message=reply.message, running=True, data=reply.data)


async def _after_cancel(folder: PlanFolder, entry: Entry) -> CommandReport:
    if not await _has_ended(entry, CANCEL_SECONDS):
        message = f"cancelling; process {entry.pid} still cleans up"
        return CommandReport(plan_id=folder.plan_id, message=message, running=True)
    status = (await to_thread.run_sync(folder.state)).status
    return CommandReport(plan_id=folder.plan_id, message=status.value, running=False)


async def _has_ended(entry: Entry, seconds: float) -> bool:
    """Return whether the run ended within a number of seconds."""
    with move_on_after(seconds):
        while await to_thread.run_sync(lambda: entry.alive):  # noqa: ASYNC110  no event tells of another process
            await sleep(_POLL_SECONDS)
        return True
    return False
