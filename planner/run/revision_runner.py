"""RevisionRunner revises a running plan, one revision at a time: by a Reviser after a failure, or by the user."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial

import anyio.lowlevel
from anyio import to_thread
from msgspec import Struct, field

from ipc.commands import Revise
from ipc.events import PlanRevisedEvent
from planner.plan.diagnostics import Problem
from planner.plan.loader import LoadedPlan
from planner.plan.model import Plan
from planner.plan.operations import Operation, RevisionInvalidError, SetBudget, plain_operations, read_operations
from planner.plan.revision import (
    Proposal,
    ProviderRefused,
    Reviser,
    RevisionRequest,
    about_one_item,
    already_tried,
    revise,
)
from planner.state.changes import TOO_LATE, StepsWentOnError, fixed_steps
from planner.state.commands import Command, Revised, RevisionRefused
from planner.state.schedule import schedule_of
from planner.state.state import Left, State
from vibe.system.errors import UsageError, VibeError, error_as
from vibe.system.plain_text import counted

logger = logging.getLogger(__name__)

REPLAN = "replan"
"""The ``by`` of a revision that answers a step's failure."""
DEFAULT_MAX_REPLANS = 3
BUDGET_STANDS = Problem(
    "set_budget", "the budget can't be changed while the plan runs", "pause it with `vibe plan pause`, edit, resume"
)
_MOST_ANSWERS = 2
"""The most answers of a reviser to one failure; the problems of the first go back to it."""


class ReplanPolicy(Struct, frozen=True, kw_only=True):
    """Policy for steps with ``on_failure: replan``: the ``reviser``, and the most revisions it may make in a run.

    Without a reviser a failed step just fails. ``check`` takes a revised plan, whoever revised it, and the ids of the
    steps still left. It returns the plan as it will be run, or raises a VibeError if a step can't start where the plan
    runs. It is called in a worker thread.
    """

    reviser: Reviser | None = None
    max_replans: int = DEFAULT_MAX_REPLANS
    check: Callable[[LoadedPlan, Collection[str]], LoadedPlan] = lambda loaded, _: loaded


class RevisionRunner(Struct, eq=False):
    """Revises the plan of a run. It reads the plan's ``_state`` and passes commands to ``_take``."""

    _state: State
    _take: Callable[[Command], None]
    _policy: ReplanPolicy
    _turn: anyio.Lock = field(default_factory=anyio.Lock)
    _scopes: dict[anyio.CancelScope, str | None] = field(default_factory=dict[anyio.CancelScope, "str | None"])
    """The open requests, each with the id of the step whose failure led to it, or None if the user asked."""
    _stopped: bool = False

    def stop(self, step_id: str | None = None) -> None:
        """Stop all open revisions and refuse later ones; with ``step_id``, stop only those for that step."""
        self._stopped = self._stopped or step_id is None
        for scope, answered in self._scopes.items():
            if step_id in (None, answered):
                scope.cancel()

    async def answer_failure(self, step_id: str) -> None:
        """Have the plan revised because a step failed; without a better plan, the step fails.

        Raises:
            ProviderRefused: the provider refused the reviser's calls, because of the key, quota or credit.
        """
        refused = await self._alone(step_id, partial(self._ask, step_id))
        if refused is not None and refused != TOO_LATE:
            self._take(RevisionRefused(step_id, refused))

    async def carry_out(self, command: Revise) -> str | None:
        """Revise the plan as the user asks, and return why that was impossible, or None."""
        try:
            return await self._alone(None, partial(self._carry_out, read_operations(list(command.operations)), command))
        except UsageError as error:
            return str(error)

    async def _alone(self, step_id: str | None, act: Callable[[], Awaitable[str | None]]) -> str | None:
        """Return what ``act`` returns, called once no other revision is under way; TOO_LATE if it is stopped.

        ``step_id`` is the step whose failure led to it, None if the user asked.
        """
        if self._stopped:
            return TOO_LATE
        with anyio.CancelScope() as scope:
            self._scopes[scope] = step_id
            try:
                async with self._turn:
                    return await act()
            finally:
                del self._scopes[scope]
        return TOO_LATE

    async def _ask(self, step_id: str) -> str | None:
        """Return why there is no better plan, or None if it was found or the step no longer waits for it."""
        reviser, most, step = self._policy.reviser, self._policy.max_replans, self._state.steps.get(step_id)
        if step is None or step.left is not Left.REVISING or step.result is None:
            return None
        if reviser is None:
            return "no planner to revise the plan"
        if len(self._replans()) >= most:
            return f"replanned {counted(most, 'time')}, the limit (planner.max_replans)"
        result, problems = step.result, tuple[str, ...]()
        for _ in range(_MOST_ANSWERS):
            plan, fixed = schedule_of(self._state).plan, fixed_steps(self._state)
            request = RevisionRequest(
                plan=plan,
                failed_step_id=step_id,
                result=result,
                statuses={name: each.status.value for name, each in self._state.steps.items()},
                problems=problems,
                check=partial(self._checked_revision, plan, fixed, step_id),
            )
            proposal = await _proposal_of(reviser, request)
            if not proposal.operations:
                return ": ".join(filter(None, ("no better plan found", proposal.reason)))
            why = proposal.reason or result.detail or result.reason or "the step failed"
            command = Revise(operations=plain_operations(proposal.operations), reason=why, by=REPLAN)
            try:
                await self._carry_out(proposal.operations, command, step_id)
            except RevisionInvalidError as error:
                problems = tuple(str(problem) for problem in error.problems)
            else:
                return None
        return f"the new plan can't be applied: {'; '.join(problems[:3])}"

    def _replans(self) -> list[PlanRevisedEvent]:
        return [revision for revision in self._state.revisions if revision.by == REPLAN]

    async def _carry_out(self, operations: Sequence[Operation], asked: Revise, step_id: str | None = None) -> None:
        while True:
            before = schedule_of(self._state)
            revised = partial(self._checked_revision, before.plan, fixed_steps(self._state), step_id, operations)
            loaded = await to_thread.run_sync(revised)
            await anyio.lowlevel.checkpoint()  # the run may be over
            if schedule_of(self._state).loaded is not before.loaded:
                continue  # a list was read in the meantime
            with suppress(StepsWentOnError):  # then it is checked against the new state
                self._take(Revised(asked=asked, loaded=loaded, step_id=step_id))
                return

    def _checked_revision(
        self, plan: Plan, fixed: Collection[str], step_id: str | None, operations: Sequence[Operation]
    ) -> LoadedPlan:
        """Return the plan after a revision; ``step_id`` is the step whose failure led to it, or None if the user asked.

        Raises:
            RevisionInvalidError: the operations don't fit the plan, or may not be made here.
        """
        if any(isinstance(operation, SetBudget) for operation in operations):
            raise RevisionInvalidError([BUDGET_STANDS])
        if step_id is not None and (problems := about_one_item(plan, step_id, operations)):
            raise RevisionInvalidError(problems)
        loaded = revise(plan, operations, fixed=fixed)
        earlier = [revision.operations for revision in self._replans() if revision.step_id == step_id]
        if step_id is not None and (tried := already_tried(plan, loaded.plan, operations, earlier)):
            raise RevisionInvalidError(tried)
        left = {step.id for step in loaded.plan.steps} - set(fixed)
        with error_as(VibeError, lambda error: RevisionInvalidError([Problem("", str(error))])):
            return self._policy.check(loaded, left)


async def _proposal_of(reviser: Reviser, request: RevisionRequest) -> Proposal:
    try:
        return await reviser.revise(request) or Proposal(operations=())
    except ProviderRefused:
        raise
    except Exception:
        logger.exception("the reviser raised over step %s", request.failed_step_id)
        return Proposal(operations=())
