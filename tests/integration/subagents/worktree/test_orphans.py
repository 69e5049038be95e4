"""Branches and worktrees of plans that nobody knows any more."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from anyio import to_thread

from subagents.executor import StepResult
from tests.integration.subagents.worktree.rig import FILES, EditingExecutor, Rig, git, worktree_task
from vibe.app.plan.clean import Orphans, find_orphans
from vibe.core.messages import NeverStop, Outcome

PLAN = "20260101-1a2b3c"


class Home(Rig):
    """A rig whose plan is in a folder of plans."""

    @property
    def home(self) -> Path:
        """The plan's folder."""
        return self.base / "plans" / PLAN


@pytest.fixture
def rig(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.create(FILES)
    return home


async def orphans(rig: Home, *known: str) -> list[Orphans]:
    """Return the orphans that are found."""
    repository = await to_thread.run_sync(rig.repository)
    return await to_thread.run_sync(find_orphans, repository, rig.base / "plans", known)


async def interrupted(rig: Home, outcome: Outcome = Outcome.INTERRUPTED) -> None:
    """Run a step that does half of its work."""

    def half(folder: Path) -> StepResult:
        (folder / "b.txt").write_text("half\n")
        return StepResult(outcome=outcome)

    await rig.executor(EditingExecutor({"s": half}), PLAN).run(worktree_task("s"), NeverStop())


async def test_a_worktree_whose_folder_is_gone_and_its_branch_are_empty_leftovers(rig: Home) -> None:
    await interrupted(rig)
    shutil.rmtree(rig.home)

    (found,) = await orphans(rig)

    assert found.plan_id == PLAN
    assert found.empty.worktrees == (rig.home / "worktrees" / "s",)
    assert (found.empty.branches, found.unmerged) == ((f"vibe/{PLAN}/s",), ())


async def test_work_that_was_not_merged_is_told_from_work_that_was(rig: Home) -> None:
    await interrupted(rig, Outcome.FAILED)
    shutil.rmtree(rig.home)

    (before,) = await orphans(rig)
    git(rig.root, "merge", "-q", f"vibe/{PLAN}/s")
    (after,) = await orphans(rig)

    assert (before.empty.branches, before.unmerged) == ((), (f"vibe/{PLAN}/s",))
    assert (after.empty.branches, after.unmerged) == ((f"vibe/{PLAN}/s",), ())


def known(_: Home) -> None:
    """Change nothing: the plan has its folder."""


def elsewhere(rig: Home) -> None:
    """Move the plan to another home."""
    rig.home.parent.rename(rig.base / "others")
    git(rig.root, "worktree", "repair", str(rig.base / "others" / PLAN / "worktrees" / "s"))


def locked(rig: Home) -> None:
    """Remove the plan, but lock its worktree, as for one on a disk that is not plugged in."""
    git(rig.root, "worktree", "lock", str(rig.home / "worktrees" / "s"))
    shutil.rmtree(rig.home)


@pytest.mark.parametrize("act", [known, elsewhere, locked])
async def test_what_somebody_may_still_want_is_not_found(rig: Home, act: Callable[[Home], None]) -> None:
    await interrupted(rig)
    act(rig)

    assert await orphans(rig, *([PLAN] if act is known else [])) == []


async def test_commits_of_the_users_on_a_branch_with_such_a_name_are_theirs(rig: Home) -> None:
    git(rig.root, "checkout", "-q", "-b", f"vibe/{PLAN}/mine")
    rig.write({"b.txt": "mine\n"})
    rig.commit("mine")
    git(rig.root, "checkout", "-q", "main")

    assert await orphans(rig) == []
