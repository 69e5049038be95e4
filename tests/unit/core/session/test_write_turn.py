from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.fakes.turns import turn_in
from vibe.core.session.errors import SessionFolderError, WorkspaceLockedError
from vibe.core.session.write_turn import TELL_SECONDS, WriteTurn
from vibe.system.files import FileLock, FolderLocks

HOLDER = """
import anyio, sys
from pathlib import Path
from tests.fakes.turns import turn_in

async def hold():
    async with turn_in(Path(sys.argv[1]), locks=Path(sys.argv[2]), name="holder").held(print):
        print("holds", flush=True)
        await anyio.sleep_forever()

anyio.run(hold)
"""


async def is_free(turn: WriteTurn) -> bool:
    """Return True if a run gets its turn at once."""
    with anyio.move_on_after(0.3):
        async with turn.held(print):
            return True
    return False


def linked(root: Path) -> Path:
    (root / "link").symlink_to(root / "work")
    return root / "link"


def in_repository(root: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(root / "work")], check=True)
    return root / "work" / "below"


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A run in ``folder`` beside one that writes in ``work``. ``waits`` says whether it must wait."""

    name: str
    folder: Callable[[Path], Path]
    waits: bool
    home: str = "locks"


NEIGHBOURS = [
    Neighbour(name="the same", folder=lambda root: root / "work", waits=True),
    Neighbour(name="by another name", folder=linked, waits=True),
    Neighbour(name="below it", folder=lambda root: root / "work" / "below", waits=True),
    Neighbour(name="above it", folder=lambda root: root, waits=True),
    Neighbour(name="in its repository", folder=in_repository, waits=True),
    Neighbour(name="with another home", folder=lambda root: root / "work", waits=True, home="other"),
    Neighbour(name="beside it", folder=lambda root: root / "beside", waits=False),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("work/below", "beside", "locks", "other"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize("neighbour", NEIGHBOURS, ids=lambda one: one.name)
async def test_who_writes_in_a_folder_keeps_others_waiting_that_may_write_there(
    neighbour: Neighbour, root: Path
) -> None:
    folder = await anyio.to_thread.run_sync(neighbour.folder, root)
    mine = turn_in(root / "work", locks=root / "locks", name="mine")
    theirs = turn_in(folder, locks=root / neighbour.home, name="theirs")

    async with mine.held(print):
        assert await is_free(theirs) is not neighbour.waits
    assert await is_free(theirs)
    async with theirs.held(print):
        assert await is_free(mine) is not neighbour.waits


async def test_a_second_folder_of_a_run_is_its_own_too(root: Path) -> None:
    both = turn_in(root / "beside", root / "work", locks=root / "locks", name="both")

    async with both.held(print):
        assert not await is_free(turn_in(root / "work", locks=root / "locks", name="other"))
        assert not await is_free(turn_in(root / "beside", locks=root / "locks", name="other"))


async def test_who_waits_is_told_for_whom_and_has_its_turn_when_that_has_ended(root: Path) -> None:
    mine, theirs = (turn_in(root / "work", locks=root / "locks", name=name) for name in ("mine", "theirs"))
    told, had = list[str](), anyio.Event()

    async def wait() -> None:
        async with theirs.held(told.append):
            had.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            async with mine.held(print):
                group.start_soon(wait)
                while not told:  # noqa: ASYNC110  after a second
                    await anyio.sleep(0.01)
                assert not had.is_set()
            await had.wait()

    pattern = rf"waiting for mine \(pid {os.getpid()}, since \d\d:\d\d:\d\d\), which writes in this folder"
    assert [bool(re.fullmatch(pattern, line)) for line in told] == [True]


async def test_whoever_waits_too_long_is_told_who_writes_and_leaves_no_ticket(root: Path) -> None:
    mine = turn_in(root / "work", locks=root / "locks", name="mine")
    theirs = turn_in(root / "work", locks=root / "locks", name="theirs", patience=0.1)

    async with mine.held(print):
        with pytest.raises(WorkspaceLockedError, match=rf"mine \(pid {os.getpid()}, since .*\) writes in .*try again"):
            async with theirs.held(print):
                pass
        assert sorted(path.suffix for path in (root / "locks").iterdir()) == [".writer"]
    assert [path.name for path in (root / "locks").iterdir()] == ["last"]


async def test_what_waits_can_be_interrupted(root: Path) -> None:
    mine, theirs = (turn_in(root / "work", locks=root / "locks", name=name) for name in ("mine", "theirs"))

    async with mine.held(print):
        with anyio.move_on_after(0.2) as scope:
            async with theirs.held(print):
                pass
        assert scope.cancelled_caught
    assert await is_free(mine)
    assert await is_free(theirs)


async def test_parallel_calls_of_one_run_share_its_turn_and_let_others_in_between(root: Path) -> None:
    mine, theirs = (turn_in(root / "work", locks=root / "locks", name=name) for name in ("mine", "theirs"))
    at_work, most, done = 0, 0, anyio.Event()

    async def overlap(pause: float) -> None:
        nonlocal at_work, most
        while not done.is_set():
            async with mine.held(print):
                at_work += 1
                most = max(most, at_work)
                await anyio.sleep(pause)
                at_work -= 1

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for pause in (0.05, 0.07, 0.11):
                group.start_soon(overlap, pause)
            while most < 2:  # noqa: ASYNC110  until they overlap
                await anyio.sleep(0.01)
            for _ in range(5):
                async with theirs.held(print):
                    assert at_work == 0
            done.set()


async def test_runs_of_one_process_wait_a_moment_for_each_other_then_hold_the_folder_together(root: Path) -> None:
    process = FolderLocks()
    one, two = (turn_in(root / "work", locks=root / "locks", name=name, process=process) for name in ("one", "two"))
    other = turn_in(root / "work", locks=root / "locks", name="other")

    with anyio.fail_after(60):
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(one.held(print))
            assert not await is_free(two)
            async with two.held(print):
                await stack.aclose()
                assert not await is_free(other)
    assert await is_free(other)


def holder(root: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(root / "work"), str(root / "locks")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[4],
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "holds\n"
    return process


async def test_a_killed_holder_holds_nothing(root: Path) -> None:
    process = await anyio.to_thread.run_sync(holder, root)
    try:
        mine = turn_in(root / "work", locks=root / "locks", patience=0.1)
        with pytest.raises(WorkspaceLockedError, match=rf"holder \(pid {process.pid}, since"):
            async with mine.held(print):
                pass
    finally:
        process.kill()
        await anyio.to_thread.run_sync(process.communicate)
    assert await is_free(mine)


async def test_what_a_call_starts_writes_in_the_turn_of_the_call_one_at_a_time(root: Path) -> None:
    locks = root / "locks"
    outer, other = (turn_in(root / "work", locks=locks, name=name) for name in ("outer", "other"))
    above = str(locks / "outer.writer")
    first, second = (turn_in(root / "work" / "below", locks=root / "other", name=n, above=above) for n in "ab")

    async with outer.held(print), anyio.create_task_group() as group:
        group.start_soon(is_free, other)  # a waiting run has a ticket, but behind the one at work
        await anyio.sleep(0.1)
        async with first.held(print):
            assert not await is_free(second)
        assert await is_free(second)
        assert not await is_free(turn_in(root, locks=locks, name="wider", above=above))
        group.cancel_scope.cancel()
    async with other.held(print):
        assert not await is_free(first)


async def test_a_notice_that_can_not_be_written_keeps_nobody_from_waiting(root: Path) -> None:
    (root / "file").write_text("no folder")
    mine, theirs = (turn_in(root / "work", locks=root / "file", name=name) for name in ("mine", "theirs"))

    async with mine.held(print):
        assert not await is_free(theirs)
    assert await is_free(theirs)


def no_folder_locks(*_: object, **__: object) -> None:
    raise OSError(9, "Bad file descriptor")


async def test_where_folders_can_not_be_locked_a_file_of_the_home_is(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileLock, "on_folder", no_folder_locks)
    mine, theirs = (turn_in(root / "work", locks=root / "locks", name=name) for name in ("mine", "theirs"))

    async with mine.held(print):
        assert not await is_free(theirs)
    assert await is_free(theirs)
    (root / "file").write_text("no folder")
    with pytest.raises(SessionFolderError, match="can't be written"):
        async with turn_in(root / "work", locks=root / "file").held(print):
            pass


async def test_whether_others_wrote_meanwhile_is_known(root: Path) -> None:
    mine, theirs = (turn_in(root / "work", locks=root / "locks", name=name) for name in ("mine", "theirs"))
    asked = partial(anyio.to_thread.run_sync, mine.others_have_written)

    await asked()
    async with mine.held(print):
        pass
    assert not await asked()
    async with theirs.held(print):
        pass
    assert await asked()
    assert not await asked()
    assert TELL_SECONDS >= 1


def test_a_session_folder_on_a_full_disk_is_not_called_unwritable(tmp_path: Path) -> None:
    said = str(SessionFolderError(tmp_path, OSError(errno.ENOSPC, "No space left on device")))
    assert said.endswith("(No space left on device): free some disk space, or set VIBE_HOME to another folder")
