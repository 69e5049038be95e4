"""Carries out and answers the commands that reach a run of a plan over its control address."""

from __future__ import annotations

import anyio
from msgspec.structs import replace

from ipc.commands import Act, Cancel, Decide, Pause, Reply, Revise, Steer, StepAction
from ipc.control import refusal
from planner.plan.diagnostics import PlanInvalidError
from planner.plan.operations import operation_text, read_operations
from planner.run.control import TOO_LATE, PlanControl
from planner.state.commands import Asked
from subagents.agent.steering import Steering
from vibe.app.engine.command_router import CommandRouter
from vibe.app.engine.request_board import RequestBoard, serve_requests

VERDICT_SECONDS = 10.0
"""The time that a command may wait for its turn in the run. Those who ask wait a little longer."""

PAUSING = "pausing: agents stop at a safe point, commands when they are done"
NOT_ASKED = "no one answers in this run: what needs approval is denied; with --wait it waits for an answer"
ACT_MESSAGES = {
    StepAction.CANCEL: "step {!r} is cancelled",
    StepAction.RETRY: "step {!r} runs again",
    StepAction.SKIP: "step {!r} is skipped",
}
STOPPING = "pausing: running steps are stopped, and continue on resume"


def plan_router(
    control: PlanControl, board: RequestBoard | None = None, steering: Steering | None = None
) -> CommandRouter:
    """Return the router that carries out the commands for a plan's run, on the run's event loop.

    Without a ``board`` there are no requests. Without ``steering``, an agent is known only by its step.
    """
    agents = steering or Steering()

    async def carry_out(command: Asked) -> Reply:
        if isinstance(command, Steer):
            step_id = command.step_id or agents.step_of(command.agent_id)
            if step_id is None:
                named = f"the agent {command.agent_id!r} is not working on a step" if command.agent_id else ""
                return refusal("refused", f"{named or 'no agent is named'}: name the step with step_id")
            command = replace(command, step_id=step_id)
        try:
            done = done_reply(command)
        except PlanInvalidError as error:
            return refusal("refused", str(error))
        if isinstance(command, Pause | Cancel):
            control.submit(command)
            return done
        return await _wait_for_verdict(control, command, done)

    router = CommandRouter("this run executes a plan")
    for kind in (Pause, Cancel, Decide, Revise, Act, Steer):
        router.on(kind, carry_out)
    serve_requests(router, board, NOT_ASKED)
    return router


def done_reply(command: Asked) -> Reply:
    """Return the answer to a command that is carried out.

    Raises:
        PlanInvalidError: it is a revision whose operations make no sense.
    """
    match command:
        case Pause():
            return Reply(ok=True, message=PAUSING if command.grace_seconds is None else STOPPING)
        case Cancel():
            return Reply(ok=True, message="cancelling")
        case Decide():
            message = f"decided {command.decision_id!r}: {', '.join(command.selections)}"
            data = {"decision_id": command.decision_id, "selections": list(command.selections)}
            return Reply(ok=True, message=message, data=data)
        case Revise():
            operations = [operation_text(each) for each in read_operations(list(command.operations))]
            return Reply(ok=True, message="the plan was changed", data={"operations": operations})
        case Act():
            message = ACT_MESSAGES[command.action].format(command.step_id)
            return Reply(ok=True, message=message, data={"step_id": command.step_id})
        case Steer():
            return Reply(ok=True, message=f"the agent of step {command.step_id!r} reads it before its next turn")


async def _wait_for_verdict(control: PlanControl, command: Asked, done: Reply) -> Reply:
    """Wait for the run's verdict; return ``done`` if all went well, else a refusal."""
    verdicts: list[str | None] = []
    arrived = anyio.Event()

    def tell(problem: str | None) -> None:
        verdicts.append(problem)
        arrived.set()

    control.submit(command, tell)
    with anyio.move_on_after(VERDICT_SECONDS):
        await arrived.wait()
    if not verdicts:
        return refusal("late", f"the run has not replied for {VERDICT_SECONDS:g} s: check its status")
    (problem,) = verdicts
    if problem is None:
        return done
    return refusal("ended" if problem == TOO_LATE else "refused", problem)
