"""StepFiles: the files of the shared workspace as they were when steps began and ended, for a way back."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
import anyio.to_thread

from ipc.events import WarningEvent
from ipc.sink import EventSink
from subagents.executor import StepExecutor, StepResult, StepTask, StopSignal
from vibe.core.session.errors import SnapshotError
from vibe.core.session.snapshots import Point, Snapshots

FILES_FOLDER = "files"
"""Inside the plan's folder."""


class StepFilesLog:
    """The points of one plan, in its folder. Everything here blocks: call it in a thread, one call at a time."""

    def __init__(
        self,
        snapshots: Snapshots,
        now: Callable[[], float] = time.time,
        met_others: Callable[[], bool] = bool,
    ) -> None:
        self.snapshots = snapshots
        self._now = now
        self._met_others = met_others
        self._busy: set[str] | None = None  # None: what an earlier process left has not been read yet

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
                others=self._met_others(),
                rewound=rewound,
            )
        )
        self._busy = (set() if left else busy - set(ended)) | (set(begun) - set(ended))
        return point


def left_busy(points: list[Point]) -> set[str]:
    """The steps that were at work after the last point."""
    if not points:
        return set()
    last = points[-1]
    before = set[str]() if last.cut else set(last.busy)
    return (before - set(last.ended)) | (set(last.begun) - set(last.ended))


class StepFiles:
    """Has the files recorded when steps begin and end. Steps that come together share one snapshot.

    Where files can't be recorded, that is said once and the work goes on.
    """

    def __init__(self, log: StepFilesLog, sink: EventSink) -> None:
        self._log = log
        self._sink = sink
        self._lock = anyio.Lock()
        self._begun: list[str] = []
        self._ended: list[str] = []
        self._asked = self._taken = 0
        self._off = False

    async def begin(self, step_id: str) -> None:
        """Record what a step finds; returns when that is done."""
        self._begun.append(step_id)
        try:
            await self._point()
        except BaseException:
            self.left(step_id)
            raise

    async def end(self, step_id: str) -> None:
        """Record what a step left; returns when that is done."""
        self._ended.append(step_id)
        await self._point()

    def left(self, step_id: str) -> None:
        """A step was cancelled: what it left is recorded with the next point."""
        self._ended.append(step_id)

    async def _point(self) -> None:
        self._asked += 1
        mine = self._asked
        async with self._lock:
            if self._off or self._taken >= mine:
                return
            asked, begun, ended = self._asked, tuple(self._begun), tuple(self._ended)
            self._begun.clear()
            self._ended.clear()
            try:
                await anyio.to_thread.run_sync(self._log.take, begun, ended)
            except SnapshotError as error:
                self._off = True
                self._sink.publish(WarningEvent(code="snapshot.off", message=f"{error}; the plan continues without"))
            unread = self._log.snapshots.unread()
            if unread:
                self._sink.publish(WarningEvent(code="snapshot.left_out", message=unread))
            self._taken = asked


class RecordingExecutor:
    """Has another executor do the steps, and the files of those in the shared workspace recorded around them.

    A step in a worktree has its branch as its record; only its merge is noted.
    """

    def __init__(self, inner: StepExecutor, files: StepFiles) -> None:
        self._inner = inner
        self._files = files

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Do the step; see ``StepExecutor``."""
        if task.step.workspace == "shared":
            await self._files.begin(task.step_id)
        try:
            result = await self._inner.run(task, stop)
        except BaseException:
            self._files.left(task.step_id)
            raise
        await self._files.end(task.step_id)
        return result
