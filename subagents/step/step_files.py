"""StepFiles: the files of the shared workspace as they were when steps began and ended, for a way back."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from ipc.errors import INVALID_JSON
from ipc.events import WarningEvent
from ipc.sink import EventSink
from subagents.executor import StepExecutor, StepResult, StepTask, StopSignal
from vibe.core.errors import remedy
from vibe.core.session.errors import SnapshotError
from vibe.core.session.snapshots import Snapshots

FILES_FOLDER = "files"
"""Inside the plan's folder."""
POINTS_FILE = "points.jsonl"

logger = logging.getLogger(__name__)
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Point]


class Point(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of ``points.jsonl``: the files at a moment when steps began or ended; ``at`` in unix seconds.

    ``busy`` are the steps that may have changed files since the point before. ``cut``: the process had ended meanwhile,
    so others may have, too. ``rewound``: the files had been put back to before these steps.
    """

    at: float
    tree: str
    begun: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    cut: bool = False
    rewound: tuple[str, ...] = ()


_decoder = msgspec.json.Decoder(Point)


class StepFilesLog:
    """The points of one plan, in its folder. Everything here blocks: call it in a thread, one call at a time."""

    def __init__(
        self, workspace: Path, plan_folder: Path, environ: Mapping[str, str], now: Callable[[], float] = time.time
    ) -> None:
        self.folder = plan_folder / FILES_FOLDER
        self.snapshots = Snapshots(workspace, self.folder, environ)
        self._path = self.folder / POINTS_FILE
        self._now = now
        self._busy: set[str] | None = None  # None: what an earlier process left has not been read yet

    def points(self) -> list[Point]:
        """All of them, the oldest first; a torn line is left out."""
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError:
            return []
        found: list[Point] = []
        for line in lines:
            try:
                found.append(_decoder.decode(line))
            except INVALID_JSON:
                continue
        return found

    def take(self, begun: tuple[str, ...] = (), ended: tuple[str, ...] = (), rewound: tuple[str, ...] = ()) -> Point:
        """Record the files as they are now.

        Raises:
            SnapshotError: git is missing or refuses, or the disk does.
        """
        tree = self.snapshots.current_tree()
        left = self._busy is None
        busy = left_busy(self.points()) if self._busy is None else self._busy
        point = Point(
            at=self._now(),
            tree=tree,
            begun=begun,
            ended=ended,
            busy=tuple(sorted(busy | set(ended))),
            cut=left and bool(busy),
            rewound=rewound,
        )
        self._write(point)
        self._busy = (set() if left else busy - set(ended)) | (set(begun) - set(ended))
        return point

    def _write(self, point: Point) -> None:
        try:
            with self._path.open("ab") as log:
                log.write(_encoder.encode(point) + b"\n")
        except OSError as error:
            raise SnapshotError(f"{self._path} can't be written ({error.strerror}): {remedy(error)}") from error


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
