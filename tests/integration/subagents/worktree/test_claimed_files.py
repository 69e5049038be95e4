"""What a step in a worktree changes outside its `writes` is not merged, however it came about."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from subagents.executor import StepResult
from tests.integration.subagents.worktree.rig import FILES, EditingExecutor, Rig, git, shell, worktree_task, writes
from vibe.core.messages import NeverStop, Outcome


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path).create({**FILES, ".gitignore": "*.log\n"})


async def run(rig: Rig, command: str, claim: list[str] | None) -> StepResult:
    inner = EditingExecutor({"s": shell(command)})
    return await rig.executor(inner).run(worktree_task("s", writes=claim), NeverStop())


@pytest.mark.parametrize(
    ("command", "claim", "strayed"),
    [
        ("echo x > a.txt; echo x > new", ["a.txt"], "'new'"),
        ("rm b.txt; echo x > a.txt", ["a.txt"], "'b.txt'"),
        ("git mv dir/c.txt dir/d.txt", ["dir/c.txt"], "'dir/d.txt'"),
        ("chmod +x b.txt", ["a.txt"], "'b.txt'"),
        ("ln -sf a.txt b.txt", ["a.txt"], "'b.txt'"),
        ("echo long > b.txt; git add -A; git commit -qm own", ["a.txt"], "'b.txt'"),
        ("echo x > a.txt", [], "'a.txt'"),
        ("mkdir -p dir/deep; echo x > dir/deep/n", ["dir/*"], "'dir/deep/n'"),
    ],
)
async def test_a_change_outside_writes_fails_the_step_and_is_named(
    rig: Rig, command: str, claim: list[str], strayed: str
) -> None:
    result = await run(rig, command, claim)
    assert (result.outcome, result.reason) == (Outcome.FAILED, "merge")
    assert f"it changed {strayed}, outside its `writes`" in result.detail
    assert "its work is kept on branch vibe/p/s" in result.detail
    assert rig.status() == []
    assert git(rig.root, "log", "--format=%s", "main").split() == ["start"]


@pytest.mark.parametrize(
    ("command", "claim"),
    [
        ("echo x > new; rm a.txt", None),
        ("echo x > a.txt; echo x > made.log", ["a.txt"]),
        ("git mv dir/c.txt dir/d.txt", ["dir/"]),
        ("echo long > b.txt; git checkout -q b.txt; echo y > a.txt", ["a.txt"]),
        ("echo x > a.txt", ["{root}/a.txt"]),
        (f"echo 'x = 1' > m.py; {sys.executable} -c 'import m'", ["m.py"]),
    ],
)
async def test_what_writes_covers_or_git_ignores_is_merged(rig: Rig, command: str, claim: list[str] | None) -> None:
    claimed = None if claim is None else [glob.format(root=rig.root) for glob in claim]
    assert (await run(rig, command, claimed)).outcome is Outcome.COMPLETED
    assert rig.status() == []
    assert rig.leftovers() == []


async def test_bytecode_that_git_does_not_ignore_is_no_work_of_a_step(rig: Rig) -> None:
    result = await run(rig, "echo 'x = 1' > m.py; mkdir __pycache__; touch __pycache__/m.pyc", None)
    assert result.files_changed == ("m.py",)


async def test_a_workspace_in_a_folder_of_the_repository_bounds_the_step_to_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path, workspace="dir").create(FILES)
    result = await run(rig, "echo x > c.txt; echo x > ../b.txt", ["**"])
    assert "it changed '../b.txt'" in result.detail
    named = await rig.executor(EditingExecutor({"t": shell("echo x > c.txt; echo x > ../b.txt")})).run(
        worktree_task("t", writes=["c.txt", "../b.txt"]), NeverStop()
    )
    assert named.outcome is Outcome.COMPLETED


@pytest.mark.parametrize("claim", [["a.txt"], None])
async def test_a_resolution_keeps_to_writes_and_what_git_merges_by_itself_is_not_held_against_it(
    rig: Rig, claim: list[str] | None
) -> None:
    def work(folder: Path) -> None:
        writes("a.txt", "ours\n")(folder)
        rig.write({"a.txt": "theirs\n", "b.txt": "theirs\n"})
        rig.commit("meanwhile")

    edits = {
        "s": work,
        "s:merge1": shell("echo both > a.txt; echo x > b.txt"),
        "s:merge1-2": shell("git checkout -q MERGE_HEAD b.txt"),
    }
    inner = EditingExecutor(edits)
    result = await rig.executor(inner).run(worktree_task("s", writes=claim), NeverStop())
    assert result.outcome is Outcome.COMPLETED
    assert rig.read("a.txt") == "both\n"
    if claim is None:
        assert rig.read("b.txt") == "x\n"
    else:
        assert rig.read("b.txt") == "theirs\n"
        assert "it changed 'b.txt', outside its `writes`" in (inner.tasks[-1].step.prompt or "")
