"""Revisions of a plan while it runs: asked of a Reviser when a step failed, or wished for by a person; one at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import anyio.lowlevel
from anyio import to_thread

from planner.control import TOO_LATE
from planner.edits import fixed_steps
from planner.instructions import PlanReplaced, RevisionRefused
from planner.loader import LoadedPlan
from planner.model import Plan, StepStatus
from planner.operations import Operation, RevisionInvalidError, SetBudget, plain_operations
from planner.problems import Problem
from planner.records import PlanRevised
from planner.revision import Proposal, ProviderRefused, Reviser, RevisionRequest, already_tried, revise
from subagents.executor import StepResult
from vibe.core.errors import VibeError

logger = logging.getLogger(__name__)

REPLAN = "replan"
"""Who revised, when a step's failure led to it."""
DEFAULT_MAX_REPLANS = 3
BUDGET_STANDS = Problem(
    path="set_budget",
    message="the budget can't be changed while the plan runs",
    fix="pause it with `vibe plan pause`, edit, resume",
)
_CHANCES = 2
"""How often a reviser may answer: what is wrong with the first answer goes back to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanPolicy:
    """Who is asked for a better plan (None: nobody), and how often in a plan's life its revisions may be taken.

    ``check`` raises a VibeError if a step of a revised plan, whoever revised it, could not start where the plan runs; it is
    called in a worker thread.
    """

    reviser: Reviser | None = None
    max_replans: int = DEFAULT_MAX_REPLANS
    check: Callable[[Plan], None] | None = None


class RevisablePlan(Protocol):
    """The run that a revision changes."""

    @property
    def plan(self) -> Plan:
        """The plan as it stands."""
        ...

    def statuses(self) -> Mapping[str, StepStatus]:
        """Where every step stands now."""
        ...

    def revised(self, record: PlanRevised, event: PlanReplaced) -> None:
        """A revision was found sound: write it down, announce it and go on with it."""
        ...

    def now(self) -> float:
        """Unix seconds."""
        ...


class Revising:
    """``earlier`` are the revisions of earlier runs."""

    def __init__(self, run: RevisablePlan, policy: ReplanPolicy, *, earlier: Sequence[PlanRevised]) -> None:
        self._run = run
        self._policy = policy
        self._carried = [
            (revision.step_id, tuple(revision.operations)) for revision in earlier if revision.by == REPLAN
        ]
        """Revisions that failures led to, and the steps that had failed."""
        self._turn = anyio.Lock()
        self._scopes: set[anyio.CancelScope] = set()
        self._stopped = False

    def stop(self) -> None:
        """The run is over, or given up: nobody waits for an answer any more."""
        self._stopped = True
        for scope in self._scopes:
            scope.cancel()

    async def answer_failure(self, step_id: str, result: StepResult) -> RevisionRefused | None:
        """Have the plan revised because a step failed; None: it was, or the run is over.

        Raises:
            ProviderRefused: the provider says the key, quota or credit is the matter.
        """
        reviser = self._policy.reviser
        if reviser is None:
            return RevisionRefused(step_id, "nothing here revises plans")
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                async with self._turn:
                    return await self._ask(reviser, step_id, result)
            finally:
                self._scopes.discard(scope)
        return None

    async def carry_out(self, operations: Sequence[Operation], *, by: str, reason: str) -> str | None:
        """Revise the plan as a person wishes; returns why it can't be, or None."""
        if self._stopped:
            return TOO_LATE
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                async with self._turn:
                    await self._carry_out(operations, by=by, reason=reason, step_id=None)
            except RevisionInvalidError as error:
                return str(error)
            finally:
                self._scopes.discard(scope)
            return None
        return TOO_LATE

    async def _ask(self, reviser: Reviser, step_id: str, result: StepResult) -> RevisionRefused | None:
        most = self._policy.max_replans
        if len(self._carried) >= most:
            times = "time" if most == 1 else "times"
            return RevisionRefused(
                step_id, f"replanned {most} {times} already, which is the limit (planner.max_replans)"
            )
        problems: tuple[str, ...] = ()
        for _ in range(_CHANCES):
            request = RevisionRequest(
                plan=self._run.plan,
                failed_step_id=step_id,
                result=result,
                statuses={name: status.value for name, status in self._run.statuses().items()},
                problems=problems,
                earlier=self._earlier(step_id),
            )
            proposal = await _asked(reviser, request)
            if proposal is None or not proposal.operations:
                return RevisionRefused(step_id, "no better plan was found")
            operations = proposal.operations
            try:
                await self._carry_out(operations, by=REPLAN, reason=proposal.reason or _reason(result), step_id=step_id)
            except RevisionInvalidError as error:
                problems = tuple(str(problem) for problem in error.problems)
            else:
                self._carried.append((step_id, plain_operations(operations)))
                return None
        return RevisionRefused(step_id, f"the better plan cannot be carried out: {'; '.join(problems[:3])}")

    def _earlier(self, step_id: str) -> tuple[tuple[dict[str, Any], ...], ...]:
        """The revisions that this step's failures led to before."""
        return tuple(operations for failed, operations in self._carried if failed == step_id)

    async def _carry_out(self, operations: Sequence[Operation], *, by: str, reason: str, step_id: str | None) -> None:
        while True:
            plan, fixed = self._run.plan, fixed_steps(self._run.statuses())
            loaded = await to_thread.run_sync(self._revised, plan, operations, fixed, step_id)
            await anyio.lowlevel.checkpoint()  # the run may be over
            record = PlanRevised(
                at=self._run.now(), operations=plain_operations(operations), reason=reason, by=by, step_id=step_id
            )
            # Steps went on meanwhile: one that has begun, or ended, since then is not to be touched any more.
            if (record.changed() | record.removed()).isdisjoint(fixed_steps(self._run.statuses())):
                break
        changed = record.changed() & {step.id for step in plan.steps}
        self._run.revised(record, PlanReplaced(loaded.plan, loaded.dag, changed, answers=step_id))

    def _revised(
        self, plan: Plan, operations: Sequence[Operation], fixed: Collection[str], step_id: str | None
    ) -> LoadedPlan:
        """The plan after a revision that the failure of that step led to (None: a person wished it)."""
        if any(isinstance(operation, SetBudget) for operation in operations):
            raise RevisionInvalidError([BUDGET_STANDS])
        loaded = revise(plan, operations, fixed=fixed)
        if step_id is not None:
            tried = already_tried(plan, loaded.plan, operations, self._earlier(step_id))
            if tried is not None:
                raise RevisionInvalidError([tried])
        if self._policy.check is not None:
            try:
                self._policy.check(loaded.plan)
            except VibeError as error:
                raise RevisionInvalidError([Problem(path="", message=str(error))]) from error
        return loaded


async def _asked(reviser: Reviser, request: RevisionRequest) -> Proposal | None:
    try:
        return await reviser.revise(request)
    except ProviderRefused:
        raise
    except Exception:
        logger.exception("the reviser raised over step %s", request.failed_step_id)
        return None


def _reason(result: StepResult) -> str:
    return result.detail or result.reason or "the step failed"
