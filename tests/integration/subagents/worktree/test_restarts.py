"""Steps in worktrees that were cut off and are repeated, and user's files that can't be read."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from ipc.events import WarningEvent
from subagents.executor import StepResult, StepTask, StopSignal
from tests.fakes.unprivileged import folder_of_nobody
from tests.integration.subagents.worktree.rig import Edit, EditingExecutor, Rig, set_up, shell, worktree_task, writes
from vibe.core.messages import NeverStop, Outcome

FILES = {"a.txt": "a\n", "b.txt": "b\n", "dir/c.txt": "c\n"}


class CutOff(EditingExecutor):
    """Adds to files, and is cut off the first time."""

    def __init__(self, conversation: Path | None = None) -> None:
        super().__init__({})
        self.conversation = conversation

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Work, or do half of it."""
        if (ended := await set_up(self, task, stop)) is not None:
            return ended
        self.tasks.append(task)
        for name in ("b.txt", "new.txt"):
            async with await anyio.open_file(Path(task.workdir or "") / name, "a") as file:
                await file.write("more\n")
        if self.conversation is not None:
            await anyio.Path(self.conversation).write_text("{}\n")
        is_first = len(self.tasks) == 1
        return StepResult(outcome=Outcome.INTERRUPTED if is_first else Outcome.COMPLETED)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path).create(FILES)


async def twice(rig: Rig, inner: CutOff, task: StepTask) -> None:
    """Run a task that is cut off, and let another process resume it."""
    first = await rig.executor(inner).run(task, NeverStop())
    again = await rig.executor(inner).run(task, NeverStop())
    assert (first.outcome, again.outcome) == (Outcome.INTERRUPTED, Outcome.COMPLETED), again


async def test_a_command_that_was_cut_off_is_repeated_on_what_it_found(rig: Rig) -> None:
    await twice(rig, CutOff(), worktree_task("s", mode="run", prompt=None, command="true"))

    assert (rig.read("b.txt"), rig.read("new.txt")) == ("b\nmore\n", "more\n")
    assert rig.leftovers() == []


async def test_a_command_is_repeated_on_the_changes_that_were_not_committed_when_it_began(rig: Rig) -> None:
    rig.write({"b.txt": "mine\n"})

    await twice(rig, CutOff(), worktree_task("s", mode="run", prompt=None, command="true"))

    assert (rig.read("b.txt"), rig.read("new.txt")) == ("mine\nmore\n", "more\n")


async def test_an_agent_goes_on_with_its_work_where_its_conversation_says_how_far_it_came(rig: Rig) -> None:
    await twice(rig, CutOff(rig.step_folder("s") / "messages.jsonl"), worktree_task("s"))

    assert rig.read("b.txt") == "b\nmore\nmore\n"


@pytest.mark.parametrize("attempt", [1, 2])
async def test_an_agent_without_a_conversation_of_this_attempt_begins_on_what_it_found(rig: Rig, attempt: int) -> None:
    if attempt > 1:
        (rig.step_folder("s") / "messages.jsonl").write_text("{}\n")

    await twice(rig, CutOff(), worktree_task("s", attempt=attempt))

    assert rig.read("b.txt") == "b\nmore\n"


async def test_the_setup_of_a_worktree_that_was_cut_off_is_repeated_in_a_fresh_one(rig: Rig) -> None:
    rig.setup = ("make", "more")
    inner = CutOff()

    await twice(rig, inner, worktree_task("s"))

    assert [task.step.command for task in inner.tasks] == ["make", "make", "more", None]
    assert rig.read("b.txt") == "b\nmore\nmore\nmore\n"


def new_file(root: Path) -> None:
    """Add a file that git does not know."""
    (root / "new.bin").write_text("x")
    (root / "new.bin").chmod(0)


def changed_file(root: Path) -> None:
    """Change a committed file."""
    (root / "a.txt").write_text("mine")
    (root / "a.txt").chmod(0)


def folder(root: Path) -> None:
    """Make a folder that nobody may enter, beside a change."""
    (root / "mine.txt").write_text("mine")
    (root / "dir").chmod(0)


@pytest.mark.parametrize(
    ("close", "named"), [(new_file, "'new.bin'"), (changed_file, "'a.txt'"), (folder, "'dir/c.txt'")]
)
async def test_what_cannot_be_read_is_left_out_and_named(close: Edit, named: str) -> None:
    with folder_of_nobody() as base:
        rig = Rig(base).create(FILES)
        close(rig.root)
        executor = rig.executor(EditingExecutor({"s": writes("b.txt", "done\n")}))

        result = await executor.run(worktree_task("s"), NeverStop())

        said = [event.message for event in rig.sink.events if isinstance(event, WarningEvent)]
        assert result.outcome is Outcome.COMPLETED, result
        assert rig.read("b.txt") == "done\n"
        assert [message for message in said if named in message], said


async def test_a_file_that_a_step_closed_is_not_silently_left_behind() -> None:
    with folder_of_nobody() as base:
        rig = Rig(base).create(FILES)
        executor = rig.executor(EditingExecutor({"s": shell("echo x > shut; chmod 0 shut")}))

        result = await executor.run(worktree_task("s"), NeverStop())

        assert (result.outcome, result.reason) == (Outcome.FAILED, "merge")
        assert "'shut', which can't be read and so can't be committed" in result.detail


@pytest.mark.parametrize("mode", [0, 0o555])
async def test_a_folder_in_which_this_user_cannot_write_leaves_every_file_as_it_was(mode: int) -> None:
    with folder_of_nobody() as base:
        rig = Rig(base).create(FILES)
        (rig.root / "dir").chmod(mode)
        work = shell("echo more > a.txt; rm b.txt; echo more > dir/c.txt; mkdir dir/new; echo x > dir/new/x")

        result = await rig.executor(EditingExecutor({"s": work})).run(worktree_task("s"), NeverStop())

        (rig.root / "dir").chmod(0o755)
        assert (result.outcome, result.reason) == (Outcome.INTERRUPTED, "environment")
        assert "'dir/c.txt', 'dir/new/x' can't be written: correct the permissions of the folder" in result.detail
        assert {name: rig.read(name) for name in FILES} == FILES
        assert rig.status() == []
        again = await rig.executor(EditingExecutor({})).run(worktree_task("s"), NeverStop())
        assert again.outcome is Outcome.COMPLETED, "only the merge was left to do"
        assert rig.read("dir/new/x") == "x\n"
