"""Workers that send what they must not: their attempt fails, and nothing else is touched."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import Raw
from msgspec.structs import replace

from ipc.codec import encode_event
from ipc.events import PlanWaitingEvent, WarningEvent
from ipc.sink import MemorySink
from subagents.process.protocol import AGENTS, Announced, Ended, FromStep, Hello, LinkError, LinkLostError, encode
from subagents.process.transport import LONGEST_LINE
from subagents.remote import frames as f
from subagents.remote.executor import ClusterExecutor
from subagents.remote.places import PlaceRequest, WorkerInfo
from subagents.step.tamper_guard import RunClaims
from subagents.step_result import StepResult
from subagents.worktree.executor import WorktreeExecutor
from tests.fakes.cluster import RemoteRun
from tests.integration.subagents.worktree.rig import FILES, EditingExecutor, Rig, git, worktree_task
from vibe import __version__
from vibe.core.messages import NeverStop, Outcome


class HostileWorker:
    """A worker, and the only place, that sends the given frames once the attempt has begun."""

    def __init__(self, *frames: f.Frame, vibe: str = __version__) -> None:
        self.sent: list[f.Frame] = []
        hello = replace(Hello.own((AGENTS,)), vibe=vibe)
        there = f.WorkerHello(hello=hello, checkout="/w/one", steps="/w/steps", workspace="/w/tree", home="/w/home")
        self._frames = iter((there, f.ProcessReady(), said(hello), *frames))

    async def workers(self) -> Sequence[WorkerInfo]:
        return ()

    @asynccontextmanager
    async def place(self, wanted: PlaceRequest) -> AsyncGenerator[tuple[str, f.FrameLink]]:  # noqa: ARG002  the port
        yield "tcp://127.0.0.1:1", self

    async def forget(self, address: str) -> None:
        assert address == "tcp://127.0.0.1:1"  # the scheduler answers there, and so the address is kept

    def post(self, frame: f.Frame) -> None:
        self.sent.append(frame)

    async def send(self, frame: f.Frame) -> None:
        self.sent.append(frame)

    async def receive(self) -> f.Frame:
        frame = next(self._frames, None)
        if frame is None:
            raise LinkLostError("it was closed")
        return f.decode_frame(f.encode_frame(frame))

    def close(self) -> None:
        """Do nothing: the link stays open."""


def said(*messages: FromStep) -> f.LineBatch:
    return f.LineBatch(tuple(encode(message).rstrip() for message in messages))


def event(text: str, step_id: str) -> f.Frame:
    warning = WarningEvent(code="test", message=text, subagent_step_id=step_id)
    return said(Announced(Raw(encode_event(warning))))


DONE = said(Ended(StepResult(outcome=Outcome.COMPLETED)))
HOSTILE: dict[str, tuple[f.Frame, ...]] = {
    "a file above": (f.FilePart("../other/result.json", b"{}", is_new=True),),
    "a file anywhere": (f.FilePart("/vibe-hostile", b"x", is_new=True),),
    "a file behind a link": (f.FilePart("link/x", b"x", is_new=True),),
    "a file at a link": (f.FilePart("file-link", b"x"),),
    "the record of the worktree": (f.FilePart("worktree.json", b"{}", is_new=True),),
    "a ref": (f.WorkTree("refs/heads/main"),),
    "an unknown commit": (f.WorkTree("a" * 40),),
    "a broken pack": (f.PackPart(b"PACK" + os.urandom(99)), f.WorkTree("a" * 40)),
    "an event of another step": (event("forged", "other"),),
    "an event of the plan": (
        said(Announced(Raw(encode_event(PlanWaitingEvent(step_id="s", waits_for="x", subagent_step_id="s"))))),
    ),
    "a second hello": (f.ProcessReady(),),
    "nonsense": (f.LineBatch((b"{}",)),),
    "a line that is too long": (f.LineBatch((b"x" * (LONGEST_LINE + 1),)),),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_what_a_worker_may_not_send_fails_its_attempt_and_does_nothing_else(name: str, tmp_path: Path) -> None:
    rig = Rig(tmp_path).create(FILES)
    outside = tmp_path / "outside"
    outside.mkdir()
    (rig.step_folder("s") / "link").symlink_to(outside)
    (rig.step_folder("s") / "file-link").symlink_to(outside / "made")
    (rig.step_folder("other") / "result.json").write_text("its own")
    run = RemoteRun(rig)
    worker = HostileWorker(event("mine", "s"), *HOSTILE[name], DONE)
    inner = ClusterExecutor(EditingExecutor({}), worker, run.services, RunClaims(), run.for_workers(), rig.repository)
    refs = git(rig.root, "for-each-ref", "refs/heads/main")

    async with WorktreeExecutor(inner, rig.place(), rig.repository, run.services.sink) as executor:
        result = await executor.run(worktree_task("s", command="true"), NeverStop())

    assert (result.outcome, result.reason) == (Outcome.FAILED, "crashed")
    assert "because of what it sent" in result.detail
    assert git(rig.root, "for-each-ref", "refs/heads/main") == refs
    assert rig.status() == []
    assert list(outside.iterdir()) == []
    assert (rig.step_folder("other") / "result.json").read_text() == "its own"
    assert isinstance(run.services.sink, MemorySink)
    told = [one.message for one in run.services.sink.events if isinstance(one, WarningEvent)]
    assert told == ["mine"]


async def test_a_worker_of_another_version_is_told_apart_before_anything_is_sent(tmp_path: Path) -> None:
    rig = Rig(tmp_path).create(FILES)
    run, worker = RemoteRun(rig), HostileWorker(DONE, vibe="9.9.9")
    inner = ClusterExecutor(EditingExecutor({}), worker, run.services, RunClaims(), run.for_workers(), rig.repository)

    async with WorktreeExecutor(inner, rig.place(), rig.repository, run.services.sink) as executor:
        result = await executor.run(worktree_task("s", command="true"), NeverStop())

    assert (result.outcome, result.reason) == (Outcome.INTERRUPTED, "environment")
    assert "vibe 9.9.9" in result.detail
    assert [type(frame) for frame in worker.sent] == [f.RunHello]


async def test_what_a_worker_breaks_off_is_not_made_again_if_it_reaches_beyond_its_worktree(tmp_path: Path) -> None:
    rig = Rig(tmp_path).create(FILES)
    run, worker = RemoteRun(rig), HostileWorker(f.OrderRefused("environment", "its disk is full"))
    inner = ClusterExecutor(EditingExecutor({}), worker, run.services, RunClaims(), run.for_workers(), rig.repository)

    async with WorktreeExecutor(inner, rig.place(), rig.repository, run.services.sink) as executor:
        result = await executor.run(worktree_task("s", command="true", side_effects=True), NeverStop())

    assert (result.outcome, result.reason) == (Outcome.INTERRUPTED, "lost")
    assert "its disk is full" in result.detail


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x81", "text", None, {"op": "close"}, b"\x81\xa4type\xa4none"])
def test_what_is_no_frame_is_refused(data: object) -> None:
    with pytest.raises(LinkError):
        f.decode_frame(data)


def test_a_frame_is_read_back_as_it_was() -> None:
    for frame in (f.Beat(), said(Hello.own(())), f.FilePart("a/b", b"\0\xff", is_new=True), f.ProcessGone(-9, "x")):
        assert f.decode_frame(f.encode_frame(frame)) == frame
