"""Commands that reach a run of a plan over its control address, carried out and answered."""

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
"""The time a command may wait for its turn in the run; askers wait a little longer."""

PAUSING = "pausing: agents stop at a safe point, about 5 s"
NOT_ASKED = "no one answers in this run: what needs approval is denied; with --wait it waits for an answer"
TOLD = "the agent of step {!r} reads it before its next turn"
ACTED = {
    StepAction.CANCEL: "step {!r} is cancelled",
    StepAction.RETRY: "step {!r} runs again",
    StepAction.SKIP: "step {!r} is skipped",
}
STOPPING = "pausing: running steps are stopped, and continue on resume"


def plan_router(
    control: PlanControl,
    board: RequestBoard | None = None,
    steering: Steering | None = None,
    *,
    patience_s: float = VERDICT_SECONDS,
) -> CommandRouter:
    """Return what carries out the commands for a plan's run, on its loop.

    ``board`` None: there are no requests; ``steering`` None: an agent is known by its step only.
    """
    commands = _PlanCommands(control, steering or Steering(), patience_s)
    table = (
        CommandRouter("this run executes a plan")
        .on(Pause, commands.pause)
        .on(Cancel, commands.cancel)
        .on(Decide, commands.decide)
        .on(Revise, commands.revise)
        .on(Act, commands.act)
        .on(Steer, commands.steer)
    )
    serve_requests(table, board, NOT_ASKED)
    return table


class _PlanCommands:
    """Passes commands to the PlanControl of a plan's run, and messages to its agents."""

    def __init__(self, control: PlanControl, steering: Steering, patience_s: float) -> None:
        self._control = control
        self._steering = steering
        self._patience_s = patience_s

    async def pause(self, command: Pause) -> Reply:
        self._control.submit(command)
        return Reply(ok=True, message=PAUSING if command.grace_seconds is None else STOPPING)

    async def cancel(self, command: Cancel) -> Reply:
        self._control.submit(command)
        return Reply(ok=True, message="cancelling")

    async def decide(self, command: Decide) -> Reply:
        return await self._verdict(decided(command), command)

    async def revise(self, command: Revise) -> Reply:
        try:
            operations = read_operations(list(command.operations))
        except PlanInvalidError as error:
            return refusal("refused", str(error))
        done = Reply(
            ok=True, message="the plan was changed", data={"operations": [operation_text(op) for op in operations]}
        )
        return await self._verdict(done, command)

    async def act(self, command: Act) -> Reply:
        done = Reply(ok=True, message=ACTED[command.action].format(command.step_id), data={"step_id": command.step_id})
        return await self._verdict(done, command)

    async def steer(self, command: Steer) -> Reply:
        step_id = command.step_id or self._steering.step_of(command.agent_id)
        if step_id is None:
            whom = (
                f"the agent {command.agent_id!r} is not working on a step" if command.agent_id else "no agent is named"
            )
            return refusal("refused", f"{whom}: name the step with step_id")
        return await self._verdict(Reply(ok=True, message=TOLD.format(step_id)), replace(command, step_id=step_id))

    async def _verdict(self, done: Reply, command: Asked) -> Reply:
        """Wait for the run's reply."""
        verdicts: list[str | None] = []
        told = anyio.Event()

        def tell(problem: str | None) -> None:
            verdicts.append(problem)
            told.set()

        self._control.submit(command, tell)
        with anyio.move_on_after(self._patience_s):
            await told.wait()
        if not verdicts:
            return _late(self._patience_s)
        (problem,) = verdicts
        if problem is None:
            return done
        return refusal("ended" if problem == TOO_LATE else "refused", problem)


def decided(command: Decide) -> Reply:
    """Return the answer to a decision that was taken."""
    data = {"decision_id": command.decision_id, "selections": list(command.selections)}
    return Reply(ok=True, message=f"decided {command.decision_id!r}: {', '.join(command.selections)}", data=data)


def _late(seconds: float) -> Reply:
    return refusal("late", f"the run has not replied for {seconds:g} s: check its status")
