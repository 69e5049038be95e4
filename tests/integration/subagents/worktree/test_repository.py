from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from subagents.worktree.apply import lock_repository
from subagents.worktree.errors import WorktreeRefusedError
from subagents.worktree.repository import DETACHED, check_startable, open_repository, parse_status
from tests.fakes.full_disk import file_size_limit
from tests.integration.subagents.worktree.rig import Rig, environment, git


@dataclass(frozen=True, kw_only=True)
class Case:
    """A shell line in a repository with a commit, the folder it leads to, and the message about it."""

    does: str = "true"
    says: str
    folder: str = "."
    environ: Mapping[str, str] = field(default_factory=dict[str, str])


CONFLICT = "git checkout -q -b x; echo 1 > b; git commit -qam 1; git checkout -q main; echo 2 > b; git commit -qam 2; git {} || true"
PARTIAL = (
    "git config uploadpack.allowFilter true; git config uploadpack.allowAnySHA1InWant true; "
    "git clone -q --filter=blob:none --sparse file://$PWD ../part"
)
CASES = {
    "no git": Case(says="git is not installed", environ={"PATH": "/nowhere"}),
    "no repository": Case(does="mkdir ../plain", folder="../plain", says="it is not a git repository"),
    "bare": Case(does="git init -q --bare ../bare", folder="../bare", says="it is a bare repository"),
    "inside .git": Case(folder=".git", says="inside a .git folder"),
    "no commit": Case(does="git init -q ../empty", folder="../empty", says="has no commit yet"),
    "a merge": Case(does=CONFLICT.format("merge x"), says="a merge is in progress"),
    "a rebase": Case(does=CONFLICT.format("rebase x"), says="a rebase is in progress"),
    "a cherry-pick": Case(does=CONFLICT.format("cherry-pick x"), says="a cherry-pick is in progress"),
    "a revert": Case(does="echo 1 > b; git commit -qam 1; echo 2 > b; git commit -qam 2; git revert HEAD~ || true", says="a revert is"),
    "a bisect": Case(does="git bisect start", says="a bisect is in progress"),
    "conflicts of a stash": Case(
        does="echo 1 > b; git stash -q; echo 2 > b; git commit -qam 2; git stash pop || true", says="unresolved conflicts"
    ),
    "changed": Case(does="echo 1 > b", says="not clean ('b')"),
    "staged": Case(does="echo 1 > c; git add c", says="--allow-dirty"),
    "new": Case(does="for n in 1 2 3 4 5 6 7; do echo > n$n; done", says="'n5' and 2 more"),
    "a branch in the way of ours": Case(does="git branch vibe; git pack-refs --all", says="a branch named 'vibe'"),
    "deleted": Case(does="rm b", says="('b')"),
    "deleted in the index": Case(does="git rm -q --cached b", says="('b')"),
    "a partial clone": Case(does=PARTIAL, folder="../part", says="a partial clone without 1 file of"),
    "a partial clone by a path": Case(
        does=f"{PARTIAL}; git -C ../part config remote.origin.url $PWD", folder="../part", says="git fetch --refetch"
    ),
}  # fmt: skip


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path).create({"b": "b\n", "sub/c": "c\n"})


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_plan_does_not_start_where_its_steps_could_not_be_merged(rig: Rig, case: Case) -> None:
    script = f"export GIT_EDITOR=true; {case.does}"
    subprocess.run(["bash", "-ec", script], cwd=rig.root, env=environment(), check=True, capture_output=True)

    with pytest.raises(WorktreeRefusedError) as refused:
        check_startable(
            open_repository(rig.root / case.folder, {**environment(), **case.environ}, rig.base / "git"),
            allow_dirty=False,
        )

    assert case.says in str(refused.value)


def test_a_full_disk_of_the_home_is_not_blamed_on_the_repository(rig: Rig, tmp_path: Path) -> None:
    with file_size_limit(4), pytest.raises(WorktreeRefusedError) as refused:
        open_repository(rig.root, environment(), tmp_path / "keep")

    assert f"{tmp_path / 'keep'}" in str(refused.value)
    assert f"{rig.root / '.git'}" not in str(refused.value)


def test_an_old_git_is_refused(rig: Rig, tmp_path: Path) -> None:
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho git version 2.37.1\n")
    old.chmod(0o755)

    with pytest.raises(WorktreeRefusedError, match=r"git 2\.37\.1 is too old; install 2\.38 or later"):
        open_repository(rig.root, {**environment(), "PATH": f"{old.parent}:/usr/bin:/bin"}, tmp_path / "keep")


@pytest.mark.parametrize("does", ["true", "echo x > ignored.log", "git checkout -q --detach", "cp b plan.json"])
def test_a_plan_starts_where_nothing_is_in_the_way(rig: Rig, does: str) -> None:
    rig.write({".gitignore": "*.log\n"})
    rig.commit("ignore")
    subprocess.run(["bash", "-ec", does], cwd=rig.root, check=True)

    check_startable(rig.repository(), allow_dirty=False, not_counted=[rig.root / "plan.json"])


def test_uncommitted_changes_are_no_matter_if_allowed(rig: Rig) -> None:
    rig.write({"b": "changed\n", "new": "new\n"})

    check_startable(rig.repository(), allow_dirty=True)


def test_variables_that_would_lead_git_elsewhere_are_not_followed(rig: Rig, tmp_path: Path) -> None:
    other = Rig(tmp_path / "other").create({"x": "x\n"})

    found = open_repository(
        rig.root / "sub",
        {**environment(), "GIT_DIR": str(other.root / ".git"), "GIT_WORK_TREE": "/"},
        tmp_path / "keep",
    )

    assert (found.top, found.prefix, found.git_dir) == (rig.root, "sub/", rig.root / ".git")
    assert found.from_workspace("sub/c") == "c"
    assert found.from_workspace("b") == "../b"


def test_a_status_is_read_with_its_odd_names() -> None:
    zeros = "0" * 40
    found = parse_status([
        f"# branch.oid {zeros}",
        "# branch.head (detached)",
        f"1 .M N... 100644 100644 100644 {zeros} {zeros} a b\nc",
        f"1 A. N... 000000 100644 100644 {zeros} {zeros} staged",
        f"u UU N... 100644 100644 100644 100644 {zeros} {zeros} {zeros} both ways",
        "? new/",
    ])

    assert (found.head, found.ref, found.unmerged) == (zeros, DETACHED, True)
    assert found.dirty == ("a b\nc", "staged", "both ways", "new/")
    assert found.staged == {"staged"}


def test_a_repository_has_one_lock_and_no_file_of_it_when_it_is_free(rig: Rig) -> None:
    folder = rig.root / ".git"
    first = lock_repository(folder)
    assert first is not None
    assert lock_repository(folder) is None
    first.release()
    assert not list(folder.glob("vibe*"))

    second = lock_repository(folder)
    assert second is not None
    second.release()
    assert git(rig.root, "status", "--porcelain") == ""


def test_a_partial_clone_that_lacks_nothing_is_as_good_as_any(rig: Rig) -> None:
    script = f"{PARTIAL}; cd ../part; git sparse-checkout disable"
    subprocess.run(["bash", "-ec", script], cwd=rig.root, env=environment(), check=True, capture_output=True)

    check_startable(open_repository(rig.root / "../part", environment(), rig.base / "git"), allow_dirty=False)
