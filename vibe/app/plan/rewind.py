"""Takes a plan, and the files that its steps changed, back to before one of its steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import anyio.to_thread
from msgspec import Struct, field

from ipc.commands import Act, StepAction
from ipc.events import WarningEvent
from ipc.sink import EventSink
from planner.plan.diagnostics import UnknownStepError
from planner.plan.loader import LoadedPlan
from planner.plan.model import Plan, Step
from planner.plan.write_claims import Claim, claim_of, claims_overlap, may_write, parse_glob
from planner.state.changes import with_dependants
from planner.store.store import PlanStore
from subagents.executor import StepExecutor, StepResult, StepTask, StopSignal
from vibe.app.engine.build import Engine
from vibe.app.engine.host import Host
from vibe.core.session.errors import SnapshotError
from vibe.core.session.restoring import Blame, Restoration, RestoredFiles, aside_folder
from vibe.core.session.snapshots import Point, Snapshots
from vibe.core.session.write_turn import WriteTurn
from vibe.system.errors import UsageError
from vibe.system.own_places import OwnPlaces

FILES_FOLDER = "files"
"""The name of the folder with the recorded files, inside the plan's folder."""


class PlanFilesLog(Struct, eq=False):
    """The recorded points of one plan, in its folder. All methods block: call them in a thread, one at a time."""

    snapshots: Snapshots
    _now: Callable[[], float] = time.time
    others_have_written: Callable[[], bool] = bool
    _busy: set[str] | None = None  # None until it is read what an earlier process left

    def take(self, begun: tuple[str, ...] = (), ended: tuple[str, ...] = (), rewound: tuple[str, ...] = ()) -> Point:
        """Record the files as they are now.

        Raises:
            SnapshotError: git is missing or refuses, or the disk does.
        """
        left = self._busy is None
        busy = left_busy(self.snapshots.points()) if self._busy is None else self._busy
        point = self.snapshots.record(
            Point(
                at=self._now(),
                begun=begun,
                ended=ended,
                busy=tuple(sorted(busy | set(ended))),
                cut=left and bool(busy),
                others=self.others_have_written(),
                rewound=rewound,
            )
        )
        self._busy = (set() if left else busy - set(ended)) | (set(begun) - set(ended))
        return point


def left_busy(points: list[Point]) -> set[str]:
    """Return the steps that were at work after the last point."""
    if not points:
        return set()
    last = points[-1]
    before = set[str]() if last.cut else set(last.busy)
    return (before - set(last.ended)) | (set(last.begun) - set(last.ended))


class RecordingExecutor(Struct, eq=False):
    """Has another executor do the steps, and records the files of the shared workspace around them.

    The branch of a step in a worktree is its record, so only its merge is noted. Steps that begin or end together share
    one snapshot. If files can't be recorded, there is one warning and the work continues.
    """

    _inner: StepExecutor
    _log: PlanFilesLog
    _sink: EventSink
    _lock: anyio.Lock = field(default_factory=anyio.Lock)
    _begun: list[str] = field(default_factory=list[str])
    _ended: list[str] = field(default_factory=list[str])
    _asked: int = 0
    _taken: int = 0
    _is_off: bool = False

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Do the step; see ``StepExecutor``."""
        try:
            if task.step.workspace == "shared":
                self._begun.append(task.step_id)
                await self._record_point()
            result = await self._inner.run(task, stop)
        finally:
            self._ended.append(task.step_id)  # what a cancelled step left is recorded with the next point
        await self._record_point()
        return result

    async def _record_point(self) -> None:
        self._asked += 1
        number = self._asked
        async with self._lock:
            if self._is_off or self._taken >= number:
                return
            asked, begun, ended = self._asked, tuple(self._begun), tuple(self._ended)
            self._begun.clear()
            self._ended.clear()
            try:
                await anyio.to_thread.run_sync(self._log.take, begun, ended)
            except SnapshotError as error:
                self._is_off = True
                self._sink.publish(WarningEvent(code="snapshot.off", message=f"{error}; the plan continues without"))
            unread = self._log.snapshots.unread()
            if unread:
                self._sink.publish(WarningEvent(code="snapshot.left_out", message=unread))
            self._taken = asked


class PlanRewind(Struct, frozen=True, kw_only=True):
    """The result of a rewind. ``steps`` will be done again; the commits of those in ``merged`` stay on the branch."""

    plan_id: str
    steps: tuple[str, ...]
    files: RestoredFiles
    merged: tuple[str, ...] = ()


def recording_executor(
    executor: StepExecutor, store: PlanStore, engine: Engine, plan: Plan, sink: EventSink, turn: WriteTurn
) -> StepExecutor:
    """Return the executor, wrapped to record files if agents may change any. Plans of commands alone need no record."""
    if not any(step.command is None and step.workspace == "shared" and may_write(step) for step in plan.steps):
        return executor
    snapshots = _snapshots(store, engine.environ, engine.own_places)
    return RecordingExecutor(executor, PlanFilesLog(snapshots, others_have_written=turn.others_have_written), sink)


def _snapshots(store: PlanStore, environ: Mapping[str, str], own: OwnPlaces) -> Snapshots:
    return Snapshots(Path(store.settings.workspace), store.folder.path / FILES_FOLDER, environ, own)


def rewind_plan(host: Host, reference: str, step_id: str, clock: Callable[[], float] = time.time) -> PlanRewind:
    """Have a step, and the steps that depend on it, done again on the files as the step found them. Blocks.

    Only files that these steps changed go back. What others have changed in them since is set aside first.

    Raises:
        UsageError: there is no such plan or step, the plan was cancelled, or the files were not recorded; nothing
            was
            changed.
        EnvironmentFailure: another process runs the plan, the folder can't be written, or git refuses.
    """
    with PlanStore.open(host.home, reference) as store:
        loaded, state = store.preview()
        if step_id not in loaded.dag.dependencies:
            raise UnknownStepError(step_id, loaded.dag.dependencies)
        store.settings.existing_workspace()
        steps, results = with_dependants(loaded, state, [step_id]), state.results()
        snapshots = _snapshots(store, host.environ, host.own_places)
        log = PlanFilesLog(snapshots, clock)
        start = first_point(snapshots.points(whole=True), steps)
        if start is None:
            snapshots.check_readable()
            raise UsageError(
                f"plan {store.plan_id}: the files before step {step_id!r} were not recorded (it has not run, no agent "
                "of the plan writes files, or git was missing); "
                f"`vibe plan retry {store.plan_id} {step_id}` reruns it on the files as they are"
            )
        log.take()
        changes = Changes(loaded, results, steps)
        aside = aside_folder(store.folder.path / FILES_FOLDER, clock())
        way = Restoration(snapshots, snapshots.points(), start, changes.blame, aside)
        store.reset(Act(step_id=step_id, action=StepAction.RETRY))
        files = way.carry_out()
        log.take(rewound=steps)
        by_id = {step.id: step for step in loaded.plan.steps}
        merged = tuple(s for s in steps if by_id[s].workspace == "worktree" and s in results)
        return PlanRewind(plan_id=store.plan_id, steps=steps, files=files, merged=merged)


def first_point(points: Sequence[Point], step_ids: Collection[str]) -> int | None:
    """Return the index of the point where the first of these steps began, since it was last taken back.

    None if none began.
    """
    first: dict[str, int] = {}
    for index, point in enumerate(points):
        for step_id in point.rewound:
            first.pop(step_id, None)
        for step_id in point.begun:
            if step_id in step_ids:
                first.setdefault(step_id, index)
    return min(first.values(), default=None)


class Changes:
    """Attributes changes between points to steps, and says which of those steps are to be taken back."""

    def __init__(self, loaded: LoadedPlan, results: Mapping[str, StepResult], taken_back: Collection[str] = ()) -> None:
        self._steps = {step.id: step for step in loaded.plan.steps}
        self.results = results
        self._taken_back = frozenset(taken_back)

    def blame(self, points: Sequence[Point]) -> Blame:
        """Return which files the steps to be taken back changed, and which others did.

        After a sudden end, both count.
        """
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

    def step_of(self, path: str, busy: Sequence[Step]) -> Step | None:
        """Return which of the steps at work changed a path: the one that reported or claimed it, or else the first."""
        return self._sole_candidate(path, busy) or (busy[0] if busy else None)

    def unsure(self, path: str, busy: Sequence[Step]) -> tuple[str, ...]:
        """Return the steps that were at work, if any of several may have changed a path."""
        return () if len(busy) < 2 or self._sole_candidate(path, busy) else tuple(step.id for step in busy)

    def _sole_candidate(self, path: str, busy: Sequence[Step]) -> Step | None:
        for holds in (self._reported, self._claimed):
            found = [step for step in busy if holds(step, path)]
            if len(found) == 1:
                return found[0]
        return None

    def _whose(self, path: str, ours: Sequence[Step], theirs: Sequence[Step]) -> tuple[bool, bool]:
        """Return whether steps to be taken back changed a path, and whether others did."""
        if not ours or not theirs:
            return bool(ours), not ours
        for holds in (self._reported, self._claimed):
            is_ours, is_theirs = any(holds(s, path) for s in ours), any(holds(s, path) for s in theirs)
            if is_ours != is_theirs:
                return is_ours, is_theirs
        return True, True

    def _reported(self, step: Step, path: str) -> bool:
        result = self.results.get(step.id)
        return result is not None and path in result.files_changed

    def _claimed(self, step: Step, path: str) -> bool:
        claim: Claim = claim_of(step)
        return claims_overlap((parse_glob(path),), claim)
