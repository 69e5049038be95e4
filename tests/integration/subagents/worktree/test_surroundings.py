"""Worktree steps in repositories with submodules, or that are damaged or disappear."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from subagents.executor import StepResult
from subagents.worktree.errors import WorktreeRefusedError
from tests.integration.subagents.worktree.rig import (
    EditingExecutor,
    Rig,
    git,
    run,
    shell,
    user_does,
    worktree_task,
    writes,
)
from vibe.core.messages import NeverStop, Outcome


async def test_work_in_a_submodule_is_not_lost_without_a_word(tmp_path: Path) -> None:
    rig = with_submodule(tmp_path)

    result = await run(rig, writes("a.txt", "new\n"), writes("lib/deep/work.txt", "work\n"))

    assert (result.outcome, result.reason) == (Outcome.FAILED, "merge")
    assert "the step changed 'deep/work.txt' in the submodule 'lib', which can't be merged" in result.detail
    left = rig.home / "worktrees" / "s"
    assert str(left) in result.detail
    assert (left / "lib/deep/work.txt").read_text() == "work\n"


@pytest.mark.parametrize(
    "does", ["echo 2 > f", "echo new > g", "git -c user.name=n -c user.email=n commit -q --allow-empty -m 2"]
)
async def test_what_a_step_changed_in_a_submodule_it_got_itself_is_not_lost_either(tmp_path: Path, does: str) -> None:
    rig = with_submodule(tmp_path)
    get = "git -c protocol.file.allow=always submodule update -q --init"

    kept = await run(rig, shell(get), writes("a.txt", "new\n"))
    assert (kept.outcome, kept.detail, rig.read("a.txt")) == (Outcome.COMPLETED, "", "new\n")
    refused = await run(rig, shell(f"{get}; cd lib; {does}"), step_id="t")

    assert (refused.outcome, "in the submodule 'lib', which can't be merged" in refused.detail) == (
        Outcome.FAILED,
        True,
    )


async def test_a_step_works_inside_a_submodule(tmp_path: Path) -> None:
    rig = with_submodule(tmp_path)
    rig.workspace = "lib"

    result = await run(rig, writes("f", "by the step\n"))

    assert (result.outcome, result.detail) == (Outcome.COMPLETED, "")
    assert rig.read("lib/f") == "by the step\n"
    assert git(rig.root / "lib", "log", "-1", "--format=%s").startswith("Merge step")
    assert git(rig.root / "lib", "status", "--porcelain") == ""


def with_submodule(base: Path) -> Rig:
    """Create a repository with a submodule ``lib``."""
    other = Rig(base / "other").create({"f": "1\n"})
    rig = Rig(base / "main").create({"a.txt": "a\n"})
    git(rig.root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.root), "lib")
    rig.commit("lib")
    return rig


async def test_a_workspace_that_goes_away_meanwhile_is_said_to_be_gone(tmp_path: Path) -> None:
    rig = Rig(tmp_path).create({"a.txt": "a\n"})

    result = await run(rig, writes("a.txt", "new\n"), user_does(rig, lambda _: shutil.rmtree(rig.root)))

    assert (result.outcome, result.reason) == (Outcome.FAILED, "workspace")
    said = f"the repository at {str(rig.root / '.git')!r} is missing: restore it, then use `vibe plan retry`"
    assert said in result.detail
    again = await run(rig, step_id="t")
    assert f"{str(rig.root)!r}: the folder does not exist" in again.detail


@pytest.mark.parametrize("what", ["HEAD", "refs/heads/main"])
def test_a_commit_that_cannot_be_read_is_not_called_none(tmp_path: Path, what: str) -> None:
    rig = Rig(tmp_path).create({"a.txt": "a\n"})
    if what == "HEAD":
        commit = git(rig.root, "rev-parse", "HEAD").strip()
        (rig.root / ".git" / "objects" / commit[:2] / commit[2:]).unlink()
    else:
        (rig.root / ".git" / what).write_text("")

    with pytest.raises(WorktreeRefusedError, match="its last commit can't be read"):
        rig.repository()


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.INTERRUPTED])
async def test_files_of_a_worktree_that_was_not_merged_are_not_called_changed(tmp_path: Path, outcome: Outcome) -> None:
    rig = Rig(tmp_path).create({"a.txt": "a\n"})

    def fails(folder: Path) -> StepResult:
        (folder / "a.txt").write_text("half\n")
        return StepResult(outcome=outcome, files_changed=("a.txt",))

    result = await rig.executor(EditingExecutor({"s": fails})).run(worktree_task("s"), NeverStop())

    assert (result.outcome, result.files_changed, rig.read("a.txt")) == (outcome, (), "a\n")


async def test_files_changed_before_a_pause_are_told_once_they_are_merged(tmp_path: Path) -> None:
    rig = Rig(tmp_path).create({"a.txt": "a\n", "b.txt": "b\n"})

    def stops(folder: Path) -> StepResult:
        (folder / "a.txt").write_text("one\n")
        (rig.step_folder("s") / "messages.jsonl").write_text("{}\n")  # with this the agent resumes its work
        return StepResult(outcome=Outcome.INTERRUPTED, files_changed=("a.txt",))

    def ends(folder: Path) -> StepResult:
        (folder / "b.txt").write_text("two\n")
        return StepResult(outcome=Outcome.COMPLETED, files_changed=("b.txt",))

    paused = await rig.executor(EditingExecutor({"s": stops})).run(worktree_task("s"), NeverStop())
    result = await rig.executor(EditingExecutor({"s": ends})).run(worktree_task("s"), NeverStop())

    assert (paused.outcome, paused.files_changed) == (Outcome.INTERRUPTED, ())
    assert (result.outcome, result.files_changed) == (Outcome.COMPLETED, ("a.txt", "b.txt"))
    assert (rig.read("a.txt"), rig.read("b.txt")) == ("one\n", "two\n")
