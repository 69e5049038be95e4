"""A worktree that another step used before looks new to the next step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from anyio import to_thread

from subagents.worktree.executor import WorktreeExecutor
from tests.fakes.waiting import until
from tests.integration.subagents.worktree.rig import FILES, EditingExecutor, Rig, git, shell, worktree_task
from vibe.core.messages import NeverStop, Outcome

MORE = {"dir/sub/d.txt": "d\n", "keep/e.txt": "e\n", ".gitignore": "*.log\nbuild/\n"}


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path).create({**FILES, **MORE})


def sight(folder: Path) -> dict[str, str]:
    """Return every file and folder with its mode and content, and what git reports about the worktree."""
    found = {
        str(path.relative_to(folder)): f"{path.lstat().st_mode:o} {path.lstat().st_nlink if path.is_file() else ''} "
        + (str(path.readlink()) if path.is_symlink() else path.read_text() if path.is_file() else "")
        for path in sorted(folder.rglob("*"))
        if path.name != ".git"
    }
    admin = Path((folder / ".git").read_text().removeprefix("gitdir: ").strip())
    asked = ("status --porcelain --ignored", "ls-files -v -t", "config --list", "diff HEAD", "ls-files -s")
    said = {words: git(folder, *words.split()) for words in asked}
    inside = {"admin": " ".join(sorted(path.name for path in admin.iterdir() if path.name != "ORIG_HEAD"))}
    return {**found, **said, **inside, "mode": f"{folder.stat().st_mode:o}"}


async def run_step(executor: WorktreeExecutor, number: int) -> Outcome:
    """Run one step and check that it completes."""
    result = await executor.run(worktree_task(f"s{number}"), NeverStop())
    assert result.outcome is Outcome.COMPLETED, result
    return result.outcome


MESSES = {
    "nothing": "true",
    "a change": "echo x > b.txt",
    "a change of the same length that keeps its date": "touch -r b.txt ../../d; echo X > b.txt; touch -r ../../d b.txt",
    "new files and folders": "mkdir -p n/m keep/x; echo x > n/m/f; echo y > keep/x/y; mkdir empty keep/empty",
    "ignored files": "echo x > a.log; mkdir -p build/deep; echo x > build/deep/o; echo x > dir/sub/b.log",
    "modes": "chmod 600 a.txt; chmod 755 b.txt; chmod 700 dir dir/sub; chmod 1777 .; mkdir z; chmod 0 z; chmod 500 keep",
    "deletions": "rm -r dir b.txt",
    "a rename": "git mv dir other; mv a.txt A.txt",
    "a swap": "mv a.txt t; mv b.txt a.txt; mv t b.txt",
    "a folder for a file": "rm a.txt; mkdir a.txt; echo x > a.txt/f; ln -s . a.txt/l",
    "a file for a folder": "rm -r dir; echo x > dir",
    "a link for a folder": "mv dir away; ln -s away dir; ln -s /etc/passwd keep/l; ln -sf b.txt a.txt",
    "a link out of the worktree": "mkdir ../../out; echo safe > ../../out/safe; rm -r keep; ln -s ../../../out keep",
    "another name for a file": "ln b.txt ../../linked; ln a.txt dir/a",
    "index flags": "git update-index --assume-unchanged b.txt; git update-index --skip-worktree a.txt; echo x >> a.txt; echo x >> b.txt",
    "staged": "echo x > b.txt; echo y > new; git add -A; echo z > b.txt; git rm -q --cached dir/c.txt; echo n > i; git add -N i",
    "commits, branches, refs": (
        "git checkout -q --detach; echo x > b.txt; git commit -qam x; git update-ref refs/worktree/mine HEAD; git bisect start"
    ),
    "a merge under way": (
        "git -c user.name=x -c user.email=x commit -q --allow-empty -m x; git branch -q o HEAD~; git checkout -q o; echo x > b.txt; "
        "git commit -qam o; git checkout -q --detach HEAD~; git merge -q --no-ff --no-commit o"
    ),
    "settings of its own": "git config extensions.worktreeConfig true; git config --worktree core.fileMode false",
    "a sparse checkout": "git sparse-checkout set keep; git sparse-checkout list",
    "a nested repository that is ignored": "mkdir build; git init -q build/inner; touch build/inner/x",
    "no pointer": "rm .git",
    "its own repository": "rm .git; git init -q . && git -c user.name=x -c user.email=x commit -q --allow-empty -m x",
    "another kind of index": "git update-index --index-version 4 --untracked-cache --split-index; echo x > b.txt",
}  # fmt: skip


@pytest.mark.parametrize("mess", MESSES.values(), ids=MESSES)
async def test_a_step_finds_what_it_would_find_in_a_fresh_worktree(rig: Rig, mess: str) -> None:
    found: list[dict[str, str]] = []
    fresh: list[dict[str, str]] = []

    def second(folder: Path) -> None:
        found.append(sight(folder))
        other = rig.base / "fresh"
        git(rig.root, "worktree", "add", "-q", "--detach", str(other), "vibe/p/s1")
        fresh.append(sight(other))
        git(rig.root, "worktree", "remove", "--force", str(other))

    edits = {"s0": shell(mess), "s1": second}
    async with rig.executor(EditingExecutor(edits)) as executor:
        first = await executor.run(worktree_task("s0"), NeverStop())
        head = git(rig.root, "rev-parse", "HEAD").strip()
        await run_step(executor, 1)

    for look in (*found, *fresh):
        look["admin"] = look["admin"].replace(" vibe-written", "")
    assert found == fresh, first
    assert git(rig.root, "rev-parse", "HEAD").strip() == head
    assert git(rig.root, "worktree", "list").count("\n") == 1
    assert not list(rig.home.glob("worktrees/.removed-*"))
    git(rig.root, "fsck", "--no-dangling")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere it can't be told who works in a folder")
async def test_what_still_runs_in_a_worktree_ends_with_it(rig: Rig) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def first(folder: Path) -> None:
        started.append(subprocess.Popen(["sleep", "600"], cwd=folder, start_new_session=True))

    async with rig.executor(EditingExecutor({"s0": first})) as executor:
        await run_step(executor, 0)

    assert started[0].wait(timeout=5) == -9


async def test_the_plans_folder_stays_while_a_worktree_may_be_made_in_it(rig: Rig) -> None:
    place = rig.home / "worktrees"

    async with rig.executor(EditingExecutor({"s0": shell("echo x > b.txt")})) as executor:
        await run_step(executor, 0)
        await to_thread.run_sync(until, lambda: not list(place.glob("*")))  # it is being deleted in the background
        assert place.is_dir()

    assert not place.exists()


async def test_a_sparse_checkout_of_the_users_leaves_nothing_out_of_a_worktree(rig: Rig) -> None:
    git(rig.root, "sparse-checkout", "set", "keep")
    assert not (rig.root / "dir").exists()
    found: list[dict[str, str]] = []

    def edit(folder: Path) -> None:
        found.append(sight(folder))
        (folder / "keep" / "e.txt").write_text("changed\n")

    async with rig.executor(EditingExecutor({"s0": edit})) as executor:
        await run_step(executor, 0)

    assert found[0]["dir/sub/d.txt"].endswith(" d\n")
    assert (rig.read("keep/e.txt"), rig.status()) == ("changed\n", [])


@pytest.mark.parametrize("index", [(), ("--sparse-index",)], ids=["full index", "sparse index"])
async def test_work_outside_of_a_sparse_checkout_is_merged(rig: Rig, index: tuple[str, ...]) -> None:
    git(rig.root, "sparse-checkout", "set", *index, "keep")
    work = "echo more >> dir/sub/d.txt; echo new > dir/sub/new.txt; rm dir/c.txt"

    async with rig.executor(EditingExecutor({"s0": shell(work)})) as executor:
        outcome = await run_step(executor, 0)

    assert outcome is Outcome.COMPLETED
    assert git(rig.root, "show", "HEAD:dir/sub/d.txt").endswith("more\n")
    assert "dir/c.txt" not in git(rig.root, "ls-files")
    assert (rig.read("dir/sub/new.txt"), rig.status()) == ("new\n", [])
    git(rig.root, "sparse-checkout", "disable")
    assert (rig.read("dir/sub/d.txt").endswith("more\n"), rig.status()) == (True, [])


async def test_what_git_knows_of_a_worktree_leads_to_the_repository_itself(rig: Rig) -> None:
    links: list[str] = []

    def edit(folder: Path) -> None:
        links.append((folder / ".git").read_text())

    async with rig.executor(EditingExecutor({"s0": edit})) as executor:
        await run_step(executor, 0)

    assert links[0].startswith(f"gitdir: {rig.root}/.git/worktrees/s0")
