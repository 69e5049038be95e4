"""The worker's side, with the run at the other end of a link in memory."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import anyio
import pytest
from anyio import to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from subagents.process.protocol import LinkLostError
from subagents.remote import frames as f
from subagents.remote.executor import ClusterExecutor
from subagents.remote.place import WorkerPlace
from subagents.remote.places import PlaceRequest, WorkerInfo
from subagents.step.tamper_guard import RunClaims
from subagents.worktree.executor import WorktreeExecutor
from tests.fakes.cluster import RemoteRun
from tests.integration.subagents.worktree.rig import FILES, EditingExecutor, Rig, environment, worktree_task
from vibe.core.messages import NeverStop, Outcome
from vibe.system.errors import innermost


class Link:
    """One end of a link."""

    def __init__(self, out: MemoryObjectSendStream[f.Frame], into: MemoryObjectReceiveStream[f.Frame]) -> None:
        self.sizes: list[int] = []
        self._out, self._into = out, into

    def post(self, frame: f.Frame) -> None:
        self.sizes.append(len(f.encode_frame(frame)))
        self._out.send_nowait(frame)

    async def send(self, frame: f.Frame) -> None:
        self.sizes.append(len(f.encode_frame(frame)))
        await self._out.send(frame)

    async def receive(self) -> f.Frame:
        try:
            return await self._into.receive()
        except anyio.EndOfStream as error:
            raise LinkLostError("it was closed") from error

    def close(self) -> None:
        self._out.close()


class SweptLink(Link):
    """The worker's end. While it waits for an order, the worker looks for runs to forget."""

    def __init__(self, out: MemoryObjectSendStream[f.Frame], into: MemoryObjectReceiveStream[f.Frame]) -> None:
        super().__init__(out, into)
        self.place: WorkerPlace | None = None
        self.knew_run: list[bool] = []

    def post(self, frame: f.Frame) -> None:
        if isinstance(frame, f.WorkerHello):
            self.knew_run.append(frame.knows_run)
        super().post(frame)

    async def receive(self) -> f.Frame:
        frame = await super().receive()
        if isinstance(frame, f.Order) and self.place is not None:
            await self.place.sweep()
        return frame


class OnePlace:
    """A worker in this process."""

    def __init__(self, place: WorkerPlace) -> None:
        self._place = place
        self.largest = 0
        """The size of the largest frame from the run, in bytes."""
        self.knew_run: list[bool] = []

    async def workers(self) -> Sequence[WorkerInfo]:
        return ()

    async def forget(self, address: str) -> None:
        raise AssertionError(address)

    @asynccontextmanager
    async def place(self, wanted: PlaceRequest) -> AsyncGenerator[tuple[str, f.FrameLink]]:  # noqa: ARG002  the port
        to_worker, at_worker = anyio.create_memory_object_stream[f.Frame](1_000)
        to_run, at_run = anyio.create_memory_object_stream[f.Frame](1_000)
        ours, theirs = Link(to_worker, at_run), SweptLink(to_run, at_worker)
        theirs.place = self._place

        async def serve() -> None:
            await self._place.serve(theirs, uuid4().hex)
            to_run.close()

        with at_worker, at_run, to_worker, to_run:
            async with anyio.create_task_group() as group:
                group.start_soon(serve)
                yield "tcp://127.0.0.1:1", ours
                ours.close()
        self.knew_run += theirs.knew_run
        self.largest = max(ours.sizes)


@asynccontextmanager
async def placed(rig: Rig) -> AsyncGenerator[tuple[OnePlace, WorktreeExecutor]]:
    """Do steps of a run at one place."""
    place = WorkerPlace(rig.root.parent / "worker", environment())
    await to_thread.run_sync(place.prepare)
    run, places = RemoteRun(rig), OnePlace(place)
    inner = ClusterExecutor(EditingExecutor({}), places, run.services, RunClaims(), run.for_workers(), rig.repository)
    async with WorktreeExecutor(inner, rig.place(), rig.repository, run.services.sink) as executor:
        yield places, executor
    await place.close()


async def test_a_run_is_not_forgotten_between_its_hello_and_its_order(tmp_path: Path) -> None:
    async with placed(Rig(tmp_path).create(FILES)) as (places, executor):
        results = [await executor.run(worktree_task(name, command="true"), NeverStop()) for name in ("a", "b")]

    assert [(result.outcome, result.detail) for result in results] == [(Outcome.COMPLETED, "")] * 2
    assert places.knew_run == [False, True], "it is the same run for the second step"


async def test_files_of_a_step_travel_in_pieces_both_ways_and_no_path_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f, "PART_BYTES", 3_000)
    rig = Rig(tmp_path).create(FILES)
    place = WorkerPlace(tmp_path / "worker", environment())
    await to_thread.run_sync(place.prepare)
    run, places = RemoteRun(rig), OnePlace(place)
    inner = ClusterExecutor(EditingExecutor({}), places, run.services, RunClaims(), run.for_workers(), rig.repository)
    log = rig.step_folder("s") / "output.log"
    log.write_text(f"{rig.root}/a.txt\n" * 1_000)
    copied = f"cp {log} copy && for n in $(seq 1000); do echo {rig.root}/b.txt; done"

    async with WorktreeExecutor(inner, rig.place(), rig.repository, run.services.sink) as executor:
        result = await executor.run(worktree_task("s", command=copied), NeverStop())
    await place.close()

    assert (result.outcome, result.detail) == (Outcome.COMPLETED, "")
    there = set(rig.read("copy").splitlines()[:1_000])  # what the step itself logs may be there already
    assert len(there) == 1, "each is the path of the worker's copy"
    assert str(tmp_path / "worker") in there.pop()
    lines = log.read_text().splitlines()
    assert (lines.count(f"{rig.root}/a.txt"), lines.count(f"{rig.root}/b.txt")) == (1_000, 1_000)
    assert places.largest < 10_000, "the order is not one frame with all of it"


async def test_a_step_that_prints_more_than_is_kept_is_done_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subagents.remote.keeper.MOST_FILE_BYTES", 3_000)
    rig = Rig(tmp_path).create(FILES)
    async with placed(rig) as (_, executor):
        result = await executor.run(worktree_task("s", command="seq 2000 | tee made"), NeverStop())

    assert (result.outcome, result.detail) == (Outcome.COMPLETED, "")
    assert rig.read("made").endswith("\n2000\n")
    assert len((rig.step_folder("s") / "output.log").read_bytes()) == 3_000


async def test_a_worker_whose_disk_is_full_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a", None, "b")

    monkeypatch.setattr("subagents.remote.place._write_files", full)
    rig = Rig(tmp_path).create(FILES)
    place = WorkerPlace(tmp_path / "worker", environment())
    await to_thread.run_sync(place.prepare)
    run, places = RemoteRun(rig), OnePlace(place)
    inner = ClusterExecutor(EditingExecutor({}), places, run.services, RunClaims(), run.for_workers(), rig.repository)

    with pytest.raises(ExceptionGroup) as refused:
        async with WorktreeExecutor(inner, rig.place(), rig.repository, run.services.sink) as executor:
            await executor.run(worktree_task("s", command="true"), NeverStop())
    await place.close()

    assert str(innermost(refused.value)) == "worker tcp://127.0.0.1:1: No space left on device: free some disk space"


async def test_projects_and_templates_but_those_used_last_are_removed_once_no_run_is_there(tmp_path: Path) -> None:
    projects, templates = tmp_path / "projects", tmp_path / "templates"
    for number in range(12):
        (projects / f"{number}.git" / "objects" / "pack").mkdir(parents=True)
        (templates / str(number)).mkdir(parents=True)
        (templates / f"{number}.done").touch()
        for path in (projects / f"{number}.git", templates / f"{number}.done"):
            os.utime(path, (number, number))
    for number in range(501):
        (projects / "9.git" / "objects" / "pack" / f"{number}.pack").touch()
    os.utime(projects / "9.git", (9, 9))
    cut = projects / "11.git" / "objects" / "pack" / "tmp_pack_Xy12"  # git was killed, or the disk was full
    cut.touch()
    os.utime(projects / "11.git", (11, 11))
    (templates / "unmade").mkdir()
    place = WorkerPlace(tmp_path, environment())

    await to_thread.run_sync(place.prepare)

    assert not cut.exists()
    assert {path.name for path in projects.iterdir()} == {f"{number}.git" for number in (4, 5, 6, 7, 8, 10, 11)}
    assert {path.name for path in templates.iterdir()} == {f"{n}{end}" for n in range(4, 12) for end in ("", ".done")}
    (templates / "unmade").mkdir()
    await place.end_run("0" * 8)
    assert not (templates / "unmade").exists()
