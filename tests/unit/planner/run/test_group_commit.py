from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from planner.run.dispatcher import GroupCommit


class Record:
    """Writes batches down, each only once it is allowed to."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.at_work = 0
        self.go_on = anyio.Event()

    async def commit(self, attempts: Sequence[str]) -> None:
        assert not self.at_work, "side by side"
        self.at_work += 1
        self.batches.append(list(attempts))
        await self.go_on.wait()
        self.at_work -= 1


async def test_a_crowd_is_committed_best_first_in_batches_that_double() -> None:
    record = Record()
    group_commit = GroupCommit(record.commit)
    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(group_commit.add, 9, "first to come")
            await anyio.wait_all_tasks_blocked()
            for rank in (3, 6, 0, 5, 1, 4, 2):
                tasks.start_soon(group_commit.add, rank, f"r{rank}")
            await anyio.wait_all_tasks_blocked()
            record.go_on.set()

    assert record.batches == [["first to come"], ["r0", "r1"], ["r2", "r3", "r4", "r5"], ["r6"]]


async def test_only_the_first_to_come_stays_until_all_is_committed() -> None:
    record = Record()
    group_commit = GroupCommit(record.commit)
    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(group_commit.add, 0, "a")
            await anyio.wait_all_tasks_blocked()
            await group_commit.add(0, "b")  # returns while nothing is committed yet
            await group_commit.add(0, "c")
            assert record.batches == [["a"]]
            record.go_on.set()
        await group_commit.add(0, "d")

    assert record.batches == [["a"], ["b", "c"], ["d"]]


async def test_what_a_lot_lets_begin_begins_before_the_next_lot() -> None:
    order: list[str] = []
    async with anyio.create_task_group() as tasks:

        async def begin(name: str) -> None:
            order.append(f"{name}'s successor")

        async def commit(attempts: Sequence[str]) -> None:
            for name in attempts:
                order.append(name)
                tasks.start_soon(begin, name)
            await anyio.lowlevel.checkpoint()

        group_commit = GroupCommit(commit)
        for rank, name in enumerate(("a", "b", "c")):
            tasks.start_soon(group_commit.add, rank, name)

    assert order.index("a's successor") < order.index("b")


async def test_after_a_failure_nothing_is_committed() -> None:
    batches: list[list[int]] = []

    async def refuse(attempts: Sequence[int]) -> None:
        batches.append(list(attempts))
        raise OSError("no room")

    group_commit = GroupCommit(refuse)
    with pytest.raises(OSError, match="no room"):
        await group_commit.add(0, 1)
    await group_commit.add(0, 2)
    assert batches == [[1]]
