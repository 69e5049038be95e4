"""Acts on plans: on the one that runs here at once, on others through the process that runs them or in their folder."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from anyio import to_thread

from ipc.commands import StepAction
from planner.plan.loader import load_plan
from planner.plan.patch import operations_between
from planner.plan.status import StepStatus
from planner.store.current_plan import current_state
from vibe.app.plan import commands as plan_commands
from vibe.cli.slash.command import Talk
from vibe.cli.slash.plan import propose
from vibe.cli.slash.plan.looks import plan_meant
from vibe.core.errors import UsageError

DOES = {StepAction.CANCEL: "being cancelled", StepAction.SKIP: "skipped", StepAction.RETRY: "trying again"}


async def pause(talk: Talk, _rest: str) -> None:
    """Pause the plan that runs."""
    talk.plans.running.control.request_pause()
    talk.say("pausing: running steps finish their turn first")


async def resume(talk: Talk, reference: str) -> None:
    """Go on with a plan that was paused or broken off."""
    talk.plans.check_free()
    folder = await plan_meant(talk, reference)
    propose.resume(talk, folder.plan_id)


async def cancel(talk: Talk, step_id: str) -> None:
    """Give the plan up, or one of its steps."""
    if step_id:
        await act(talk, step_id, StepAction.CANCEL)
    elif talk.plans.session is not None:
        talk.plans.session.control.request_cancel()
        talk.say("cancelling: running steps are stopped")
    elif not talk.plans.interrupt():
        talk.plans.check_free()  # else what is meant is the plan that is proposed
        folder = await plan_meant(talk)
        done = await plan_commands.cancel(talk.runtime.host, folder.plan_id)
        talk.say(f"plan {folder.plan_id}: {done.message}")


async def skip(talk: Talk, step_id: str) -> None:
    """Leave a step out."""
    await act(talk, step_id, StepAction.SKIP)


async def retry(talk: Talk, step_id: str) -> None:
    """Have a step done again, by default the one that failed; a plan that has ended goes on with it.

    Raises:
        UsageError: several failed, or none did.
    """
    folder = await plan_meant(talk)
    if not step_id:
        _, state = await to_thread.run_sync(current_state, folder)
        failed = [name for name, step in state.steps.items() if step.status is StepStatus.FAILED]
        if len(failed) != 1:
            raise UsageError(f"/retry STEP: {'failed: ' + ', '.join(failed) if failed else 'no step has failed'}")
        step_id = failed[0]
    await act(talk, step_id, StepAction.RETRY)
    if talk.plans.session is None:
        propose.resume(talk, folder.plan_id)


async def act(talk: Talk, step_id: str, action: StepAction) -> None:
    """Cancel a step, skip it, or have it done again."""
    session = talk.plans.session
    if session is not None:
        session.control.act_on_step(step_id, action, on_verdict=_told(talk, f"{step_id}: {DOES[action]}"))
        return
    folder = await plan_meant(talk)
    done = await plan_commands.act_on_step(talk.runtime.host, folder.plan_id, step_id, action)
    goes_on = "" if action is StepAction.RETRY else "; /plan resume continues it"
    talk.say(f"plan {folder.plan_id}: {done.message}{goes_on}")


async def decide(talk: Talk, rest: str) -> None:
    """Take a decision of the plan."""
    decision, *selections = rest.replace(",", " ").split()
    session = talk.plans.session
    if session is not None:
        said = f"decision {decision!r} taken: {', '.join(selections)}"
        session.control.decide(decision, selections, on_verdict=_told(talk, said))
        return
    folder = await plan_meant(talk)
    done = await plan_commands.decide(talk.runtime.host, folder.plan_id, decision, selections)
    talk.say(f"plan {folder.plan_id}: {done.message}; /plan resume continues it")


async def edit(talk: Talk, reference: str) -> None:
    """Have the person change a plan in their editor."""
    host, session = talk.runtime.host, talk.plans.session
    folder = await plan_meant(talk, reference)
    current = await to_thread.run_sync(plan_commands.plan_as_it_stands, host, folder.plan_id)
    text = json.dumps(json.loads(current.source_bytes), indent=2, ensure_ascii=False) + "\n"
    changed = await talk.edit(text, "plan.json")
    try:
        wanted = await to_thread.run_sync(partial(load_plan, changed, where="the plan"))
        operations = operations_between(current.plan, wanted.plan)
    except UsageError as error:
        kept = await to_thread.run_sync(_keep, changed, host.environ.get("TMPDIR"))
        raise UsageError(f"{error}\nnothing was changed; what you wrote is in {kept}") from error
    said = f"plan {folder.plan_id}: {len(operations)} change{'' if len(operations) == 1 else 's'} made"
    if not operations:
        talk.say(f"plan {folder.plan_id}: nothing to change")
    elif session is not None and session.plan_id == folder.plan_id:
        session.control.revise(operations, on_verdict=_told(talk, said))
    else:
        await plan_commands.revise(host, folder.plan_id, operations, trust=talk.opening.trust)
        talk.say(said)


def _told(talk: Talk, done: str) -> Callable[[str | None], None]:
    """Return what says how a command to the plan that runs was answered."""

    def tell(problem: str | None) -> None:
        talk.say(f"vibe: {problem}" if problem else done)

    return tell


def _keep(text: str, folder: str | None) -> Path:
    descriptor, name = tempfile.mkstemp(prefix="vibe-plan-", suffix=".json", dir=folder)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(name)
