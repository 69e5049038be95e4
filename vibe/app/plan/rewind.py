"""Takes a plan, and the files its steps changed, back to before one of its steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ipc.sink import EventSink
from planner.plan.diagnostics import UnknownStepError
from planner.plan.loader import LoadedPlan
from planner.plan.model import Plan, Step
from planner.plan.write_claims import Claim, claim_of, claims_overlap, may_write, parse_glob
from planner.state.changes import with_dependants
from planner.state.decide import look
from planner.store.store import PlanStore
from subagents.executor import StepExecutor, StepResult
from subagents.step.step_files import FILES_FOLDER, RecordingExecutor, StepFiles, StepFilesLog
from vibe.app.engine.build import Engine
from vibe.app.engine.host import Host
from vibe.core.session.restoring import Blame, Restoration, Restored, aside_folder
from vibe.core.session.snapshots import Point, Snapshots
from vibe.core.session.write_turn import WriteTurn
from vibe.system.errors import UsageError
from vibe.system.own_places import OwnPlaces


class NotRecordedError(UsageError):
    """The files before these steps were not recorded."""

    def __init__(self, plan_id: str, step_id: str) -> None:
        super().__init__(
            f"plan {plan_id}: the files before step {step_id!r} were not recorded (it has not run, no agent of the "
            f"plan writes files, or git was missing); `vibe plan retry {plan_id} {step_id}` reruns it on the files as "
            "they are"
        )


class PlanRewind(Struct, frozen=True, kw_only=True):
    """Result of a rewind: ``steps`` will be done again; ``merged`` are those whose commits stay on the branch."""

    plan_id: str
    steps: tuple[str, ...]
    files: Restored
    merged: tuple[str, ...] = ()


def recorded(
    executor: StepExecutor, store: PlanStore, engine: Engine, plan: Plan, sink: EventSink, turn: WriteTurn
) -> StepExecutor:
    """Return the executor, with files recorded around its steps if agents may change any: commands can be repeated."""
    if not any(step.command is None and step.workspace == "shared" and may_write(step) for step in plan.steps):
        return executor
    snapshots = _snapshots(store, engine.environ, engine.own_places)
    return RecordingExecutor(executor, StepFiles(StepFilesLog(snapshots, met_others=turn.met_others), sink))


def _snapshots(store: PlanStore, environ: Mapping[str, str], own: OwnPlaces) -> Snapshots:
    return Snapshots(Path(store.settings.workspace), store.folder.path / FILES_FOLDER, environ, own)


def rewind_plan(host: Host, reference: str, step_id: str, clock: Callable[[], float] = time.time) -> PlanRewind:
    """Have a step, and what depends on it, done again on the files it found. Blocks.

    Only files that these steps changed go back; what others changed in them since is set aside first.

    Raises:
        UsageError: no such plan or step, the plan was cancelled, or the files were not recorded; nothing was changed.
        EnvironmentFailure: another process runs the plan, the folder can't be written, or git refuses.
    """
    with PlanStore.open(host.home, reference) as store:
        loaded = store.effective()
        if step_id not in loaded.dag.dependencies:
            raise UnknownStepError(step_id, loaded.dag.dependencies)
        workspace = Path(store.settings.workspace)
        if not workspace.is_dir():
            raise UsageError(
                f"the workspace of plan {store.plan_id}, {str(workspace)!r}, does not exist: restore it first"
            )
        state = look(store.folder.state(), loaded, store.settings.decisions)
        steps, results = with_dependants(loaded, state, [step_id]), state.results()
        snapshots = _snapshots(store, host.environ, host.own_places)
        log = StepFilesLog(snapshots, clock)
        start = first_point(snapshots.points(), steps)
        if start is None:
            snapshots.check_readable()
            raise NotRecordedError(store.plan_id, step_id)
        log.take()
        changes = _Changes(loaded, results, steps)
        aside = aside_folder(store.folder.path / FILES_FOLDER, clock())
        way = Restoration(snapshots, snapshots.points(), start, changes.blame, aside)
        store.reset([step_id])
        files = way.carry_out()
        log.take(rewound=steps)
        by_id = {step.id: step for step in loaded.plan.steps}
        merged = tuple(s for s in steps if by_id[s].workspace == "worktree" and s in results)
        return PlanRewind(plan_id=store.plan_id, steps=steps, files=files, merged=merged)


def first_point(points: Sequence[Point], step_ids: Collection[str]) -> int | None:
    """Return where the first of these steps began since it was last taken back; None: none of them did."""
    first: dict[str, int] = {}
    for index, point in enumerate(points):
        for step_id in point.rewound:
            first.pop(step_id, None)
        for step_id in point.begun:
            if step_id in step_ids:
                first.setdefault(step_id, index)
    return min(first.values(), default=None)


class _Changes:
    """Tells which changes between points are those of the steps to be taken back."""

    def __init__(self, loaded: LoadedPlan, results: Mapping[str, StepResult], taken_back: Collection[str]) -> None:
        self._steps = {step.id: step for step in loaded.plan.steps}
        self._results = results
        self._taken_back = frozenset(taken_back)

    def blame(self, points: Sequence[Point]) -> Blame:
        """Theirs, and others'; after a sudden end that is unknown: both."""
        mine, others = set[str](), set[str]()
        for after in points[1:]:
            if after.rewound:
                continue
            busy = [self._steps[step_id] for step_id in after.busy if step_id in self._steps]
            ours = [step for step in busy if step.id in self._taken_back and step.workspace == "shared"]
            theirs = [step for step in busy if step not in ours]
            for path in after.changed:
                is_ours, is_theirs = self._whose(path, ours, theirs)
                if is_ours:
                    mine.add(path)
                if is_theirs or after.cut or after.others:
                    others.add(path)
        return Blame(mine=mine, others=others)

    def _whose(self, path: str, ours: Sequence[Step], theirs: Sequence[Step]) -> tuple[bool, bool]:
        """Return whether steps that are taken back changed it, and whether others did."""
        if not ours or not theirs:
            return bool(ours), not ours
        for holds in (self._reported, self._claimed):
            is_ours, is_theirs = any(holds(s, path) for s in ours), any(holds(s, path) for s in theirs)
            if is_ours != is_theirs:
                return is_ours, is_theirs
        return True, True

    def _reported(self, step: Step, path: str) -> bool:
        result = self._results.get(step.id)
        return result is not None and path in result.files_changed

    def _claimed(self, step: Step, path: str) -> bool:
        claim: Claim = claim_of(step)
        return claims_overlap((parse_glob(path),), claim)
