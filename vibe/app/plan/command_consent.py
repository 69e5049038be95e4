"""Consent to the command lines of a plan that a model wrote: a person must have read them."""

from __future__ import annotations

from ipc.events import PlannedCommand
from planner.author.output_repair import MODEL_ORIGIN, ORIGIN
from planner.plan.model import Plan
from vibe.system.errors import VibeError
from vibe.system.plain_text import some_of

SHOWN = 3


class PlanNotAcceptedError(VibeError):
    """Raised for a plan by a model whose commands are not accepted. Nothing was run or written."""

    def __init__(self, where: str, lines: tuple[PlannedCommand, ...], writes: tuple[str, ...]) -> None:
        shown = some_of((f"{one.step_id}: {one.command!r}" for one in lines), SHOWN)
        super().__init__(
            f"{where}: a model wrote this plan, and its commands have not been accepted ({shown}): "
            "read them with --dry-run and pass --accept-commands, or run it at a terminal to be asked"
        )
        self.lines = lines
        self.writes = writes


def is_by_model(plan: Plan) -> bool:
    """Return whether the plan says that a model wrote it."""
    return plan.metadata.get(ORIGIN) == MODEL_ORIGIN


def model_commands(plan: Plan) -> tuple[PlannedCommand, ...]:
    """Return the command lines of a plan that a model wrote, in the plan's order. Other plans have none."""
    return command_lines(plan) if is_by_model(plan) else ()


def command_lines(plan: Plan) -> tuple[PlannedCommand, ...]:
    """Return every command line of a plan, in its order."""
    return tuple(
        PlannedCommand(step_id=step.id, command=line, purpose="command" if line == step.command else "verify")
        for step in plan.steps
        for line in (step.command, *step.verify)
        if line
    )


def check_accepted(plan: Plan, where: str, *, accepted: bool) -> None:
    """Check that a person, or one of their settings, accepted a model's commands.

    Raises:
        PlanNotAcceptedError: the commands are not accepted.
    """
    lines = () if accepted else model_commands(plan)
    if lines:
        writes = dict.fromkeys(glob for step in plan.steps for glob in step.writes or ())
        raise PlanNotAcceptedError(where, lines, tuple(writes))
