"""What a step finds in a worktree that another had before it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from anyio import to_thread

from subagents import worktree_spares
from subagents.worktree_apply import scratch_folder
from subagents.worktree_executor import WorktreeExecutor
from subagents.worktree_folder import WorktreeFolder
from subagents.worktree_index import read_index
from subagents.worktree_repository import take_base
from tests.e2e.test_plan_run import wait_for
from tests.integration.subagents.worktree_rig import FILES, Edit, EditingExecutor, Rig, git, shell, worktree_task
from vibe.core.outcome import Outcome
from vibe.core.stop import NeverStop

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere all worktrees are fresh")

MORE = {"dir/sub/d.txt": "d\n", "keep/e.txt": "e\n", ".gitignore": "*.log\nbuild/\n"}


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(worktree_spares, "UNSURE_NS", -(10**9))  # a small repository is written at one stroke
    return Rig(tmp_path).create({**FILES, **MORE})


@dataclass
class Seen:
    """Worktrees as steps found them: held open, so that a new one can't get an old one's number."""

    folders: list[int] = field(default_factory=list[int])
    looks: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def look(self, folder: Path) -> None:
        """Note which folder it is, and all that can be seen in it."""
        self.folders.append(os.open(folder, os.O_RDONLY))
        self.looks.append(sight(folder))

    def same(self, one: int, other: int) -> bool:
        """Whether two steps had the same folder."""
        return os.path.samestat(os.fstat(self.folders[one]), os.fstat(self.folders[other]))

    def close(self) -> None:
        """Let go of the folders."""
        for folder in self.folders:
            os.close(folder)


@pytest.fixture
def seen() -> Seen:
    return Seen()


def sight(folder: Path) -> dict[str, str]:
    """Every file and folder with its mode and content, and what git says of the worktree."""
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


def settled(folder: Path, rig: Rig) -> None:
    """Return when the clock that dates files has moved on since the checkout."""
    admin = Path((folder / ".git").read_text().removeprefix("gitdir: ").strip())
    mark, written = rig.base / "mark", int((admin / "vibe-written").read_text())
    mark.touch()
    while mark.stat().st_ctime_ns <= written:
        mark.touch()


async def run_steps(rig: Rig, *steps: Edit, between: Callable[[], object] = lambda: None) -> list[Outcome]:
    """Steps one after the other, in one run."""
    edits = {f"s{number}": step for number, step in enumerate(steps)}
    outcomes: list[Outcome] = []
    async with rig.executor(EditingExecutor(edits)) as executor:
        for number in range(len(steps)):
            outcomes.append(await run_step(executor, number))
            between()
    return outcomes


async def run_step(executor: WorktreeExecutor, number: int) -> Outcome:
    """One of them."""
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
async def test_a_step_finds_what_it_would_find_in_a_fresh_worktree(rig: Rig, seen: Seen, mess: str) -> None:
    def messy(folder: Path) -> None:
        settled(folder, rig)
        seen.look(folder)
        shell(mess)(folder)

    fresh: list[dict[str, str]] = []

    def second(folder: Path) -> None:
        seen.look(folder)
        other = rig.base / "fresh"
        git(rig.root, "worktree", "add", "-q", "--detach", str(other), "vibe/p/s1")
        fresh.append(sight(other))
        git(rig.root, "worktree", "remove", "--force", str(other))

    edits = {"s0": messy, "s1": second}
    async with rig.executor(EditingExecutor(edits)) as executor:
        first = await executor.run(worktree_task("s0"), NeverStop())
        head = git(rig.root, "rev-parse", "HEAD").strip()
        await run_step(executor, 1)

    found, expected = seen.looks[1], fresh[0]
    for look in (found, expected):
        look["admin"] = look["admin"].replace(" vibe-written", "")
    assert found == expected, first
    assert git(rig.root, "rev-parse", "HEAD").strip() == head
    assert git(rig.root, "worktree", "list").count("\n") == 1
    assert not list(rig.home.glob("worktrees/.removed-*"))
    seen.close()
    git(rig.root, "fsck", "--no-dangling")


async def test_steps_one_after_the_other_have_the_same_folder(rig: Rig, seen: Seen) -> None:
    def step(text: str) -> Edit:
        def edit(folder: Path) -> None:
            seen.look(folder)
            (folder / "a.txt").write_text(text)

        return edit

    await run_steps(rig, step("one\n"), step("two\n"), step("three\n"))

    assert seen.same(0, 1)
    assert seen.same(1, 2)
    assert seen.looks[2]["a.txt"].endswith(" two\n")
    assert (rig.read("a.txt"), rig.status(), rig.leftovers()) == ("three\n", [], [])
    seen.close()


ODD: dict[str, Callable[[Rig], object]] = {
    "settings changed": lambda rig: git(rig.root, "config", "core.autocrlf", "true"),
    "attributes of the repository": lambda rig: (rig.root / ".git" / "info" / "attributes").write_text("*.txt eol=crlf\n"),
    "attributes of the files": lambda rig: rig.write({".gitattributes": "*.txt eol=crlf\n"}),
    "a submodule": lambda rig: rig.write({".gitmodules": ""}),
}  # fmt: skip


@pytest.mark.parametrize("act", ODD.values(), ids=ODD)
async def test_what_is_out_of_the_ordinary_has_a_fresh_worktree_made(
    rig: Rig, seen: Seen, act: Callable[[Rig], object]
) -> None:
    def first(folder: Path) -> None:
        settled(folder, rig)
        seen.look(folder)

    await run_steps(rig, first, seen.look, between=lambda: act(rig))

    assert not seen.same(0, 1)
    assert seen.looks[1]["status --porcelain --ignored"] == ""
    assert not list(rig.home.glob("worktrees"))
    seen.close()


async def test_a_worktree_in_which_something_still_ran_is_not_used_again(rig: Rig, seen: Seen) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def first(folder: Path) -> None:
        seen.look(folder)
        started.append(subprocess.Popen(["sleep", "600"], cwd=folder, start_new_session=True))

    await run_steps(rig, first, seen.look)

    assert started[0].wait(timeout=5) == -9
    assert not seen.same(0, 1)
    seen.close()


async def test_the_plans_folder_stays_while_a_worktree_may_be_made_in_it(rig: Rig) -> None:
    rig.write({".gitmodules": ""})
    rig.commit("never used again")
    place = rig.home / "worktrees"

    async with rig.executor(EditingExecutor({"s0": shell("echo x > b.txt")})) as executor:
        await run_step(executor, 0)
        await to_thread.run_sync(wait_for, lambda: not list(place.glob("*")))  # it is being deleted beside us
        assert place.is_dir()

    assert not place.exists()


def test_what_nobody_changed_stays_and_all_else_goes(rig: Rig) -> None:
    repository = rig.repository()
    folder = WorktreeFolder(repository=repository, path=rig.home / "worktrees" / "s", branch="vibe/p/s")
    with scratch_folder(repository):
        folder.create(take_base(repository))
    checkout = worktree_spares.note_checkout(folder)
    assert checkout is not None
    settled(folder.path, rig)
    shell("echo X > b.txt; chmod 600 a.txt; mkdir n; mv dir/c.txt n; touch a.log")(folder.path)

    worktree_spares.strip(folder.path, checkout, read_index(checkout.index, repository.hash_name) or {})

    left = sorted(str(path.relative_to(folder.path)) for path in folder.path.rglob("*") if not path.is_dir())
    assert left == [".gitignore", "dir/sub/d.txt", "keep/e.txt"]
    folder.remove()
