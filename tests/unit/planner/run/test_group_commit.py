from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from planner.run.dispatcher import Settling


class Record:
    """Writes lots down, each only when it is let."""

    def __init__(self) -> None:
        self.lots: list[list[str]] = []
        self.at_work = 0
        self.go_on = anyio.Event()

    async def settle(self, attempts: Sequence[str]) -> None:
        assert not self.at_work, "side by side"
        self.at_work += 1
        self.lots.append(list(attempts))
        await self.go_on.wait()
        self.at_work -= 1


async def test_a_crowd_is_settled_best_first_in_lots_that_double() -> None:
    record = Record()
    settling = Settling(record.settle)
    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(settling.add, 9, "first to come")
            await anyio.wait_all_tasks_blocked()
            for rank in (3, 6, 0, 5, 1, 4, 2):
                tasks.start_soon(settling.add, rank, f"r{rank}")
            await anyio.wait_all_tasks_blocked()
            record.go_on.set()

    assert record.lots == [["first to come"], ["r0", "r1"], ["r2", "r3", "r4", "r5"], ["r6"]]


async def test_only_the_first_to_come_stays_until_all_is_settled() -> None:
    record = Record()
    settling = Settling(record.settle)
    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(settling.add, 0, "a")
            await anyio.wait_all_tasks_blocked()
            await settling.add(0, "b")  # returns while nothing is settled yet
            await settling.add(0, "c")
            assert record.lots == [["a"]]
            record.go_on.set()
        await settling.add(0, "d")

    assert record.lots == [["a"], ["b", "c"], ["d"]]


async def test_what_a_lot_lets_begin_begins_before_the_next_lot() -> None:
    order: list[str] = []
    async with anyio.create_task_group() as tasks:

        async def begin(name: str) -> None:
            order.append(f"{name}'s successor")

        async def settle(attempts: Sequence[str]) -> None:
            for name in attempts:
                order.append(name)
                tasks.start_soon(begin, name)
            await anyio.lowlevel.checkpoint()

        settling = Settling(settle)
        for rank, name in enumerate(("a", "b", "c")):
            tasks.start_soon(settling.add, rank, name)

    assert order.index("a's successor") < order.index("b")


async def test_after_a_failure_nothing_is_settled() -> None:
    lots: list[list[int]] = []

    async def refuse(attempts: Sequence[int]) -> None:
        lots.append(list(attempts))
        raise OSError("no room")

    settling = Settling(refuse)
    with pytest.raises(OSError, match="no room"):
        await settling.add(0, 1)
    await settling.add(0, 2)
    assert lots == [[1]]
