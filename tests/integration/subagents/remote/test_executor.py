from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from subagents.remote import frames as f
from subagents.remote.executor import ClusterExecutor
from subagents.remote.places import PlaceError, PlaceLostError, PlaceRequest, WorkerInfo, WorkerRefusedError
from subagents.step.tamper_guard import RunClaims
from subagents.step_result import StepResult
from tests.fakes.cluster import RemoteRun
from tests.integration.subagents.worktree.rig import FILES, EditingExecutor, Rig, worktree_task
from vibe.core.messages import NeverStop, Outcome

HERE, THERE = "tcp://here:1", "tcp://there:1"


class Places:
    """Two workers on which each place fails with the next error."""

    def __init__(self, *errors: PlaceError) -> None:
        self._errors = iter(errors)
        self.wanted: list[PlaceRequest] = []
        self.forgotten: list[str] = []

    async def workers(self) -> Sequence[WorkerInfo]:
        return [WorkerInfo(address=address, slots=1, host="h", report={}) for address in (HERE, THERE)]

    @asynccontextmanager
    async def place(self, wanted: PlaceRequest) -> AsyncGenerator[tuple[str, f.FrameLink]]:
        self.wanted.append(wanted)
        raise next(self._errors)
        yield  # pyright: ignore[reportUnreachable]

    async def forget(self, address: str) -> None:
        self.forgotten.append(address)


async def run(tmp_path: Path, places: Places, *, side_effects: bool = False) -> StepResult:
    rig = Rig(tmp_path).create(FILES)
    remote = RemoteRun(rig)
    executor = ClusterExecutor(
        EditingExecutor({}), places, remote.services, RunClaims(), remote.for_workers(), rig.repository
    )
    task = worktree_task("s", command="true", side_effects=side_effects, workdir=str(rig.root))
    return await executor.run(task, NeverStop())


@pytest.mark.parametrize(
    ("side_effects", "tries", "outcome"), [(False, 3, Outcome.FAILED), (True, 1, Outcome.INTERRUPTED)]
)
async def test_what_is_lost_is_made_again_twice_unless_it_reaches_beyond_its_worktree(
    tmp_path: Path, *, side_effects: bool, tries: int, outcome: Outcome
) -> None:
    places = Places(PlaceLostError(HERE, "no word"), *[PlaceLostError(THERE, "reset")] * 3)

    result = await run(tmp_path, places, side_effects=side_effects)

    assert (len(places.wanted), result.outcome, result.reason, result.lost) == (tries, outcome, "lost", tries)
    assert ("here" if side_effects else "there") in result.detail
    assert places.forgotten == [HERE, THERE, THERE][:tries], "nothing more is placed there"


async def test_a_worker_that_cannot_do_it_is_left_out_and_with_the_last_one_the_plan_pauses(tmp_path: Path) -> None:
    places = Places(WorkerRefusedError(HERE, "no git"), WorkerRefusedError(THERE, "another version"))

    result = await run(tmp_path, places)

    assert [wanted.workers for wanted in places.wanted] == [(), (THERE,)]
    assert (result.outcome, result.reason) == (Outcome.INTERRUPTED, "environment")
    assert "no git" in result.detail
