from __future__ import annotations

import os
from pathlib import Path

import pytest

from subagents.process.protocol import LinkError
from subagents.remote import trees
from subagents.worktree.errors import GitFailedError
from subagents.worktree.repository import Base, Repository, take_base
from subagents.worktree.worktree import Worktree
from tests.integration.subagents.worktree.rig import FILES, Rig, environment, git

MOST = 10_000_000


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path).create(FILES)


def worktree(rig: Rig) -> Worktree:
    repository = rig.repository()
    repository.scratch.mkdir(exist_ok=True)
    made = Worktree(repository=repository, path=rig.base / "tree", branch="vibe/p/s")
    made.create(take_base(repository))
    return made


def far_away(rig: Rig, commit: str, name: str = "worker") -> Repository:
    return trees.open_project(rig.base / name / "project.git", commit, environment())


def checked_out(repository: Repository, commit: str, name: str) -> Worktree:
    made = Worktree(repository=repository, path=repository.common_dir.parent / name, branch=f"vibe/{name}")
    made.create(Base(commit=commit, head=commit, ref=""))
    return made


def test_the_same_tree_is_the_same_commit_everywhere_and_git_takes_it_for_one(rig: Rig) -> None:
    here = worktree(rig)
    commit = trees.commit_at_head(here, {})
    there = far_away(rig, commit)
    trees.unpack(there.git, trees.pack(here.git, commit), most=MOST)
    checkout = checked_out(there, commit, "one")

    assert trees.commit_of(checkout) == commit
    assert git(rig.root, "rev-list", commit).split() == [commit]
    git(rig.root, "fsck", "--strict", "--no-dangling", commit)
    assert git(checkout.path, "log", "--format=%an").split() == ["vibe"]


def test_no_history_travels_and_back_comes_what_changed(rig: Rig) -> None:
    rig.write({"large.bin": os.urandom(300_000)})
    rig.commit("large")
    (rig.root / "large.bin").unlink()
    rig.write({"some.bin": os.urandom(50_000)})
    rig.commit("gone, in the history")
    here = worktree(rig)
    commit = trees.commit_at_head(here, {})
    sent = trees.pack(here.git, commit)
    there = far_away(rig, commit)
    trees.unpack(there.git, sent, most=MOST)
    checkout = checked_out(there, commit, "one")
    (checkout.path / "a.txt").write_text("changed\n")
    (checkout.path / "dir" / "c.txt").unlink()
    (checkout.path / "new").symlink_to("a.txt")
    work = trees.commit_of(checkout)
    back = trees.pack(there.git, work, [commit])
    trees.unpack(here.git, back, most=MOST, strict=True)
    trees.check_out(here, work)

    assert 50_000 < len(sent) < 55_000
    assert len(back) < 1_000
    assert (here.path / "a.txt").read_text() == "changed\n"
    assert not (here.path / "dir").exists()
    assert (here.path / "new").readlink() == Path("a.txt")
    assert git(checkout.path, "diff", "--stat") != "", "who works there sees what is changed"


def test_a_damaged_pack_and_one_that_is_too_large_are_refused(rig: Rig) -> None:
    here = worktree(rig)
    commit = trees.commit_at_head(here, {})
    sent = trees.pack(here.git, commit)
    there = far_away(rig, commit)

    for data, most in ((sent[:-30], MOST), (b"PACK" + os.urandom(400), MOST), (sent, 100)):
        with pytest.raises(GitFailedError):
            trees.unpack(there.git, data, most=most, strict=True)
    assert not trees.has_tree(there, commit)


@pytest.mark.parametrize("name", ["HEAD", "refs/heads/main", "--all", "a" * 39, "A" * 40, "a" * 40 + "\n", ""])
def test_what_is_no_commit_is_refused(name: str) -> None:
    with pytest.raises(LinkError):
        trees.checked_commit(name)


def test_the_tree_of_a_commit_that_is_packed_is_asked_for_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    git(rig.root, "gc", "-q")
    here, asked = worktree(rig), dict[str, str]()
    commit = trees.commit_at_head(here, asked)
    assert asked == {git(rig.root, "rev-parse", "HEAD").strip(): git(rig.root, "rev-parse", "HEAD^{tree}").strip()}
    monkeypatch.setattr(type(here), "git", None)
    assert trees.commit_at_head(here, asked) == commit
