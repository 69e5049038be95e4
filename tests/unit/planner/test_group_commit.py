from __future__ import annotations

import threading

import anyio
import pytest
from anyio import to_thread

from planner.group_commit import GroupCommit


async def test_work_is_done_once_for_all_who_asked_before_it_began_and_never_side_by_side() -> None:
    began, go_on = threading.Event(), threading.Event()
    done: list[int] = []
    lock = threading.Lock()

    def work() -> None:
        assert lock.acquire(blocking=False), "side by side"
        began.set()
        assert go_on.wait(10)
        done.append(len(done))
        lock.release()

    commit = GroupCommit(work)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(commit.join)
        with anyio.fail_after(10):
            await to_thread.run_sync(began.wait)
        for _ in range(5):  # too late for the one that runs
            tasks.start_soon(commit.join)
        await anyio.wait_all_tasks_blocked()
        go_on.set()
    assert len(done) == 2


async def test_a_failure_goes_to_one_caller_and_the_others_try_again() -> None:
    tries: list[int] = []

    def work() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("once")

    commit = GroupCommit(work)
    ended: list[str] = []

    async def ask() -> None:
        try:
            await commit.join()
        except OSError:
            ended.append("failed")
        else:
            ended.append("done")

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(ask)
    assert sorted(ended) == ["done", "done", "failed"]
    assert len(tries) == 2


async def test_a_caller_that_is_cancelled_does_not_leave_the_others_waiting() -> None:
    go_on = threading.Event()

    def work() -> None:
        assert go_on.wait(10)

    commit = GroupCommit(work)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as others, anyio.create_task_group() as cancelled:
            cancelled.start_soon(commit.join)
            await anyio.wait_all_tasks_blocked()
            others.start_soon(commit.join)
            cancelled.cancel_scope.cancel()
            go_on.set()
    with anyio.fail_after(10):
        await commit.join()


async def test_an_error_of_the_only_caller_is_its_own() -> None:
    def work() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        await GroupCommit(work).join()
