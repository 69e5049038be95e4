"""The work of a failed step, written out so that it can be looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from subagents.executor import StepResult
from tests.integration.subagents.worktree.rig import FILES, EditingExecutor, Rig, git, shell, worktree_task
from vibe.core.messages import NeverStop, Outcome


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path).create(FILES)


def fails(folder: Path) -> StepResult:
    """Do part of the work, and fail the checks."""
    shell("echo half > b.txt; mkdir n; echo new > n/f; rm a.txt; chmod +x dir/c.txt")(folder)
    return StepResult(outcome=Outcome.FAILED, reason="verify")


async def test_the_work_of_a_failed_step_can_be_read_for_a_while(rig: Rig) -> None:
    async with rig.executor(EditingExecutor({"s": fails})) as executor:
        await executor.run(worktree_task("s"), NeverStop())
        before = git(rig.root, "worktree", "list"), rig.status()

        async with executor.kept("s") as kept:
            assert kept is not None
            found = {str(path.relative_to(kept.folder)) for path in kept.folder.rglob("*") if path.is_file()}
            texts = (kept.folder / "b.txt").read_text(), (kept.folder / "n" / "f").read_text()
            during = git(rig.root, "worktree", "list"), rig.status()

    assert found == {"b.txt", "n/f", "dir/c.txt"}
    assert texts == ("half\n", "new\n")
    assert (kept.branch, kept.changed) == ("vibe/p/s", ("a.txt", "b.txt", "dir/c.txt", "n/f"))
    assert before == during
    assert not kept.top.exists()
    assert not rig.home.joinpath("worktrees").exists()


async def test_in_a_workspace_below_the_top_the_folder_stands_for_the_workspace(rig: Rig) -> None:
    rig.workspace = "dir"

    def half(folder: Path) -> StepResult:
        (folder / "c.txt").write_text("half\n")
        return StepResult(outcome=Outcome.FAILED)

    executor = rig.executor(EditingExecutor({"s": half}))
    await executor.run(worktree_task("s"), NeverStop())
    async with executor.kept("s") as kept:
        assert kept is not None
        assert (kept.folder / "c.txt").read_text() == "half\n"
        assert kept.changed == ("c.txt",)


async def test_of_steps_that_kept_nothing_there_is_nothing(rig: Rig) -> None:
    def nothing(_: Path) -> StepResult:
        return StepResult(outcome=Outcome.FAILED)

    executor = rig.executor(EditingExecutor({"failed": nothing, "merged": shell("echo x > b.txt")}))
    for step_id in ("failed", "merged"):
        await executor.run(worktree_task(step_id), NeverStop())

    for step_id in ("failed", "merged", "unknown"):
        async with executor.kept(step_id) as kept:
            assert kept is None
    assert rig.leftovers() == []
