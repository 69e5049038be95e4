"""Results of merging a step into repositories in many states."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec import structs

from ipc.events import WarningEvent
from subagents.executor import StepResult
from tests.fakes.unprivileged import folder_of_nobody
from tests.integration.subagents.worktree.rig import (
    FILES,
    EditingExecutor,
    Rig,
    git,
    line,
    run,
    shell,
    user_does,
    worktree_task,
    writes,
)
from vibe.core.messages import NeverStop, Outcome


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path).create(FILES)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A step's shell line on a clean repository, the files it changes, and a shell line to ``check`` the result."""

    does: str
    changed: tuple[str, ...]
    check: str = "true"
    files: dict[str, str] = field(default_factory=dict[str, str])


KINDS = {
    "nothing": Case(does="true", changed=()),
    "a change": Case(does="echo x > b.txt", changed=("b.txt",), files={"b.txt": "x\n"}),
    "a new file in a new folder": Case(does="mkdir n; echo x > n/f", changed=("n/f",), files={"n/f": "x\n"}),
    "a deletion that empties a folder": Case(does="rm dir/c.txt", changed=("dir/c.txt",), check="test ! -e dir"),
    "a rename": Case(does="git mv b.txt z.txt", changed=("b.txt", "z.txt"), files={"z.txt": "b\n"}, check="test ! -e b.txt"),
    "a file becomes a folder": Case(
        does="rm b.txt; mkdir b.txt; echo x > b.txt/f", changed=("b.txt", "b.txt/f"), files={"b.txt/f": "x\n"}
    ),
    "a folder becomes a file": Case(does="rm -r dir; echo x > dir", changed=("dir", "dir/c.txt"), files={"dir": "x\n"}),
    "a folder becomes a link": Case(
        does="rm -r dir; ln -s b.txt dir", changed=("dir", "dir/c.txt"), check='test "$(readlink dir)" = b.txt'
    ),
    "a link out of the project": Case(does="ln -s /etc/passwd l", changed=("l",), check="test -L l"),
    "a mode": Case(does="chmod +x b.txt", changed=("b.txt",), check="test -x b.txt"),
    "a mode taken back": Case(does="chmod +x b.txt; chmod -x b.txt", changed=(), check="test ! -x b.txt"),
    "bytes": Case(does=r"printf '\0\377\r\n' > bin", changed=("bin",), check=r"printf '\0\377\r\n' | cmp - bin"),
    "an empty file": Case(does=": > e", changed=("e",), check="test -f e -a ! -s e"),
    "odd names": Case(
        does="echo x > $'new\\nline'; echo y > ' sp\"ace\t'; echo z > -dash; echo g > ':(top)'",
        changed=(" sp\"ace\t", "-dash", ":(top)", "new\nline"),
        check="test \"$(cat $'new\\nline')\" = x",
    ),
    "a name that is no text": Case(does="echo x > $'\\377'", changed=("\\udcff",), check="test -f $'\\377'"),
    "commits of its own": Case(
        does="echo x > b.txt; git commit -qam one; echo y > y; git add y; git commit -qm two; echo z > z",
        changed=("b.txt", "y", "z"),
        files={"b.txt": "x\n", "y": "y\n", "z": "z\n"},
    ),
    "a branch of its own": Case(
        does="git checkout -q -b other; echo x > b.txt; git commit -qam one; git checkout -q --detach",
        changed=("b.txt",),
        files={"b.txt": "x\n"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", KINDS.values(), ids=KINDS)
async def test_what_a_step_does_arrives_in_files_and_branch(rig: Rig, case: Case) -> None:
    start = git(rig.root, "rev-parse", "HEAD")

    result = await run(rig, shell(case.does))

    assert (result.outcome, result.detail) == (Outcome.COMPLETED, "")
    assert result.files_changed == case.changed
    assert {name: rig.read(name) for name in case.files} == case.files
    shell(case.check)(rig.root)
    assert rig.status() == []
    assert rig.leftovers() == []
    if case.changed:
        assert len(git(rig.root, "rev-list", "--parents", "-1", "HEAD").split()) == 3
        assert git(rig.root, "rev-parse", "HEAD^1") == start
        assert git(rig.root, "rev-parse", "HEAD^2^") == start
    else:
        assert git(rig.root, "rev-parse", "HEAD") == start
    git(rig.root, "fsck", "--strict", "--no-dangling")


async def test_a_file_the_step_did_not_touch_stays_as_the_user_left_it(rig: Rig) -> None:
    rig.write({"b.txt": "staged\n", "new.txt": "new\n", "untracked.txt": "mine\n"})
    git(rig.root, "add", "b.txt", "new.txt")
    rig.write({"b.txt": "staged, then changed\n"})
    before = rig.status()

    result = await run(rig, writes("a.txt", line(3, "three")))

    assert result.files_changed == ("a.txt",)
    assert rig.read("a.txt") == line(3, "three")
    assert rig.status() == before == ["MM b.txt", "A  new.txt", "?? untracked.txt"]
    assert (rig.read("b.txt"), git(rig.root, "show", ":b.txt")) == ("staged, then changed\n", "staged\n")
    assert git(rig.root, "diff", "--name-only", "HEAD^1", "HEAD").split() == ["a.txt"]
    assert "mine" not in git(rig.root, "log", "-p", "--all") + git(rig.root, "log", "-p", "-m")
    assert rig.leftovers() == []


async def test_lines_apart_from_the_users_are_committed_without_theirs(rig: Rig) -> None:
    rig.write({"a.txt": line(15, "mine")})

    await run(rig, shell("sed -i s/^3$/three/ a.txt"))

    assert rig.read("a.txt") == line(3, "three", line(15, "mine"))
    assert git(rig.root, "show", "HEAD:a.txt") == git(rig.root, "show", ":a.txt") == line(3, "three")
    assert "mine" not in git(rig.root, "log", "-p", "-m")


@pytest.mark.parametrize("staged", [False, True])
async def test_lines_beside_the_users_are_changed_in_the_working_tree_alone_and_that_is_said(
    rig: Rig,
    staged: bool,  # noqa: FBT001  a table of two
) -> None:
    rig.write({"a.txt": line(3, "mine")})
    if staged:
        git(rig.root, "add", "a.txt")
    head = git(rig.root, "rev-parse", "HEAD")

    result = await run(rig, shell("sed -i 's/^mine$/mine, and more/' a.txt; echo x > b.txt"))

    assert result.files_changed == ("a.txt", "b.txt")
    assert rig.read("a.txt") == line(3, "mine, and more")
    assert rig.status() == ["MM a.txt" if staged else " M a.txt"]
    assert git(rig.root, "diff", "--name-only", head.strip(), "HEAD").split() == ["b.txt"]
    warnings = [event.message for event in rig.sink.events if isinstance(event, WarningEvent)]
    assert [warning for warning in warnings if "its changes of 'a.txt' are in your tree" in warning]


async def test_work_of_shared_steps_that_is_not_committed_is_the_base_and_stays_uncommitted(rig: Rig) -> None:
    rig.write({"from_shared.txt": "shared\n"})

    result = await run(rig, shell("cat from_shared.txt > copy.txt"))

    assert result.files_changed == ("copy.txt",)
    assert rig.read("copy.txt") == "shared\n"
    assert rig.status() == ["?? from_shared.txt"]
    assert git(rig.root, "show", "--format=", "--name-only", "-m", "HEAD").split() == ["copy.txt"]


async def test_commits_made_meanwhile_are_kept(rig: Rig) -> None:
    def commit(rig: Rig) -> None:
        rig.write({"b.txt": "theirs\n"})
        rig.commit("meanwhile")

    await run(rig, writes("a.txt", line(3, "three")), user_does(rig, commit))

    assert (rig.read("a.txt"), rig.read("b.txt"), rig.status()) == (line(3, "three"), "theirs\n", [])
    assert git(rig.root, "log", "--first-parent", "--format=%s").splitlines() == [
        "Merge step 's' of plan p",
        "meanwhile",
        "start",
    ]


async def test_a_history_rewritten_meanwhile_is_merged_by_what_changed(rig: Rig) -> None:
    def amend(rig: Rig) -> None:
        rig.write({"b.txt": "amended\n"})
        git(rig.root, "commit", "-q", "--amend", "-am", "start again")

    await run(rig, writes("a.txt", line(3, "three")), user_does(rig, amend))

    assert (rig.read("a.txt"), rig.read("b.txt"), rig.status()) == (line(3, "three"), "amended\n", [])
    assert "start\n" not in git(rig.root, "log", "--format=%s")


async def test_a_detached_head_moves_and_no_branch_does(rig: Rig) -> None:
    main = git(rig.root, "rev-parse", "main")
    git(rig.root, "checkout", "-q", "--detach")

    result = await run(rig, writes("b.txt", "x\n"))

    assert (result.outcome, rig.read("b.txt"), rig.status()) == (Outcome.COMPLETED, "x\n", [])
    assert git(rig.root, "rev-parse", "main") == main == git(rig.root, "rev-parse", "HEAD^1")
    assert git(rig.root, "rev-parse", "--abbrev-ref", "HEAD") == "HEAD\n"


REFUSALS: dict[str, tuple[str, str]] = {
    "another branch": ("git checkout -q -b elsewhere", "at refs/heads/elsewhere, but was at refs/heads/main"),
    "a merge under way": (
        "git checkout -q -b x; echo 1 > b.txt; git commit -qam 1; git checkout -q main; echo 2 > b.txt; git commit -qam 2; ! git merge x",
        "a merge is in progress",
    ),
    "a file git ignores in the way": (
        "echo new.txt >> .git/info/exclude; echo mine > new.txt",
        "'new.txt' would be overwritten",
    ),
    "a change git was told not to see": (
        "git update-index --assume-unchanged a.txt; echo mine >> a.txt",
        "'a.txt' would be overwritten",
    ),
}


@pytest.mark.parametrize(("line_", "says"), REFUSALS.values(), ids=REFUSALS)
async def test_what_can_not_be_merged_fails_the_step_and_is_kept_on_its_branch(rig: Rig, line_: str, says: str) -> None:
    git(rig.root, "config", "core.editor", "true")

    def act(rig: Rig) -> None:
        subprocess.run(["bash", "-ec", line_], cwd=rig.root, check=True, capture_output=True)

    def files() -> dict[str, bytes]:
        found = (path for path in rig.root.rglob("*") if path.is_file() and ".git" not in path.parts)
        return {str(path): path.read_bytes() for path in found}

    seen: list[dict[str, bytes]] = []
    work = shell("echo more >> a.txt; echo new > new.txt; git add -f new.txt")
    result = await run(rig, work, user_does(rig, act), lambda _: seen.append(files()))

    assert (result.outcome, result.reason) == (Outcome.FAILED, "merge"), result
    assert says in result.detail
    assert "kept on branch vibe/p/s" in result.detail
    assert files() == seen[0]
    assert git(rig.root, "show", "vibe/p/s:new.txt") == "new\n"
    assert rig.leftovers() == [found for found in rig.leftovers() if "vibe/p/s" in found or found.endswith("/vibe")]


async def test_a_repository_inside_the_worktree_is_not_committed_and_stays_where_it_is(rig: Rig) -> None:
    result = await run(
        rig, shell("git init -q inner; cd inner; git -c user.name=x -c user.email=x commit -q --allow-empty -m x")
    )

    assert (result.outcome, result.reason) == (Outcome.FAILED, "merge")
    assert result.detail.count("made a git repository at 'inner'") == 1
    assert (rig.home / "worktrees" / "s" / "inner" / ".git").is_dir()
    assert rig.status() == []


async def test_submodules_are_left_alone(rig: Rig, tmp_path: Path) -> None:
    other = Rig(tmp_path / "other").create({"x": "x\n"})
    git(rig.root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.root), "sub")
    rig.commit("with a submodule")

    result = await run(rig, writes("b.txt", "x\n"))

    assert (result.outcome, result.files_changed) == (Outcome.COMPLETED, ("b.txt",))
    assert (rig.status(), rig.read("sub/x")) == ([], "x\n")
    refused = await run(rig, shell("rm -r sub"), step_id="t")
    assert (refused.reason, "'sub' is a nested repository" in refused.detail) == ("merge", True)
    assert (rig.status(), rig.read("sub/x")) == ([], "x\n")


async def test_a_workspace_below_the_top_has_its_folder_in_the_worktree(rig: Rig) -> None:
    rig.workspace = "dir"
    inner = EditingExecutor({"s": writes("c.txt", "in dir\n")})

    result = await rig.executor(inner).run(worktree_task("s"), NeverStop())

    assert inner.tasks[0].workdir == str(rig.home / "worktrees" / "s" / "dir")
    assert (result.files_changed, rig.read("dir/c.txt"), rig.status()) == (("c.txt",), "in dir\n", [])


async def test_line_ends_are_converted_as_the_user_has_it(rig: Rig) -> None:
    git(rig.root, "config", "core.autocrlf", "true")

    result = await run(rig, shell("sed -i s/^3/three/ a.txt"))

    assert result.outcome is Outcome.COMPLETED, result
    assert (rig.root / "a.txt").read_bytes() == line(3, "three").replace("\n", "\r\n").encode()
    assert rig.status() == []


async def test_hooks_and_signing_of_the_users_do_not_run(rig: Rig) -> None:
    for name in (
        "pre-commit",
        "post-checkout",
        "post-merge",
        "reference-transaction",
        "commit-msg",
        "pre-merge-commit",
    ):
        hook = rig.root / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {rig.base}/ran-{name}\nexit 1\n")
        hook.chmod(0o755)
    git(rig.root, "config", "commit.gpgSign", "true")
    git(rig.root, "config", "gpg.program", "/bin/false")

    result = await run(rig, writes("b.txt", "x\n"))

    assert result.outcome is Outcome.COMPLETED, result
    assert not list(rig.base.glob("ran-*"))


async def test_a_failed_attempt_keeps_its_branch_until_a_later_one_is_merged(rig: Rig) -> None:
    def half(folder: Path) -> StepResult:
        (folder / "b.txt").write_text("half\n")
        return StepResult(outcome=Outcome.FAILED, reason="verify", detail="it does not work")

    seen: list[str] = []

    def whole(folder: Path) -> None:
        seen.append((folder / "b.txt").read_text())
        (folder / "b.txt").write_text("whole\n")

    failed = await rig.executor(EditingExecutor({"s": half})).run(worktree_task("s"), NeverStop())
    kept = git(rig.root, "show", "vibe/p/s:b.txt")
    again = await rig.executor(EditingExecutor({"s": whole})).run(worktree_task("s", attempt=2), NeverStop())

    assert failed.detail == "it does not work; its work is kept on branch vibe/p/s"
    assert (kept, seen, again.outcome) == ("half\n", ["b\n"], Outcome.COMPLETED)
    assert (rig.read("b.txt"), rig.status(), rig.leftovers()) == ("whole\n", [], [])


async def test_an_interrupted_attempt_finds_its_worktree_again(rig: Rig) -> None:
    interrupted = StepResult(outcome=Outcome.INTERRUPTED, reason="stopped")

    def first(folder: Path) -> StepResult:
        (folder / "b.txt").write_text("half\n")
        (rig.step_folder("s") / "messages.jsonl").write_text("{}\n")
        return interrupted

    stopped = await rig.executor(EditingExecutor({"s": first})).run(worktree_task("s"), NeverStop())
    assert (stopped.outcome, stopped.reason, rig.read("b.txt")) == (Outcome.INTERRUPTED, "stopped", "b\n")
    assert stopped.folder.endswith("/worktrees/s")
    ended = await run(rig, shell("grep -q half b.txt; echo whole >> b.txt"))

    assert (ended.outcome, rig.read("b.txt"), rig.leftovers()) == (Outcome.COMPLETED, "half\nwhole\n", [])


async def test_processes_left_in_the_worktree_are_ended_before_it_is_removed(rig: Rig) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("only /proc tells where a process works")
    started: list[subprocess.Popen[bytes]] = []

    def work(folder: Path) -> None:
        (folder / "b.txt").write_text("x\n")
        started.append(subprocess.Popen(["sleep", "600"], cwd=folder, start_new_session=True))

    result = await rig.executor(EditingExecutor({"s": work})).run(worktree_task("s"), NeverStop())

    assert result.outcome is Outcome.COMPLETED
    assert started[0].wait(timeout=120) == -9


async def test_what_was_merged_is_not_merged_again_when_the_result_was_not_recorded(rig: Rig) -> None:
    first = await run(rig, writes("b.txt", "x\n"))
    again = await run(rig, shell("exit 1"))

    assert again == structs.replace(first)
    assert git(rig.root, "log", "--merges", "--format=%s").count("\n") == 1


async def test_without_an_identity_vibe_commits(rig: Rig) -> None:
    git(rig.root, "config", "--unset", "user.name")
    git(rig.root, "config", "--unset", "user.email")

    await run(rig, writes("b.txt", "x\n"))

    assert git(rig.root, "log", "-1", "--format=%an <%ae> %cn") == "vibe <vibe@localhost> vibe\n"


async def test_an_index_held_for_a_moment_is_waited_for(rig: Rig) -> None:
    lock = rig.root / ".git" / "index.lock"

    waiting: list[subprocess.Popen[bytes]] = []

    def hold(folder: Path) -> None:
        (folder / "b.txt").write_text("x\n")
        lock.touch()
        waiting.append(subprocess.Popen(["bash", "-c", f"sleep 0.3; rm {lock}"], start_new_session=True))

    result = await rig.executor(EditingExecutor({"s": hold})).run(worktree_task("s"), NeverStop())

    assert (result.outcome, rig.read("b.txt")) == (Outcome.COMPLETED, "x\n")
    assert waiting[0].wait(timeout=120) == 0
    assert rig.leftovers() == []


async def test_what_a_merge_is_about_to_do_is_on_the_disk_before_it_does_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, str]] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        with suppress(ValueError, KeyError):
            record = json.loads(Path(f"/proc/self/fd/{descriptor}").read_bytes())
            synced.append((record["phase"], rig.read("b.txt")))

    monkeypatch.setattr(os, "fsync", watched)

    await run(rig, writes("b.txt", "x\n"))

    assert synced == [("finished", "b\n"), ("merging", "b\n")]
    assert rig.read("b.txt") == "x\n"


@pytest.mark.parametrize(
    ("moves", "lacks"),
    [
        (["switch -qc other HEAD^1"], True),
        (["checkout -q --detach HEAD^1"], True),
        (["switch -qc feature"], False),
        (["checkout -q --detach"], False),
        (["commit -q --amend -m squashed"], False),
        (["switch -qc release HEAD^1", "merge -q --squash main", "commit -qm squashed"], False),
        (["switch -qc release HEAD^1", "commit -q --allow-empty -m x", "cherry-pick main^2"], False),
    ],
)
async def test_a_step_begins_only_where_the_work_of_earlier_steps_is(
    rig: Rig, moves: list[str], *, lacks: bool
) -> None:
    edits = {"one": writes("one.txt", "1\n"), "two": writes("two.txt", "2\n")}
    await rig.executor(EditingExecutor(edits)).run(worktree_task("one"), NeverStop())
    for move in moves:
        git(rig.root, *move.split())

    later = rig.executor(EditingExecutor(edits))
    result = await later.run(worktree_task("two"), NeverStop())

    if lacks:
        assert (result.outcome, result.reason) == (Outcome.FAILED, "workspace")
        assert "lacks the work of earlier steps, merged at refs/heads/main: switch back" in result.detail
        git(rig.root, "switch", "-q", "main")
        result = await later.run(worktree_task("two", attempt=2), NeverStop())
    assert result.outcome is Outcome.COMPLETED, result
    assert (rig.read("one.txt"), rig.read("two.txt"), rig.status()) == ("1\n", "2\n", [])


async def test_a_folder_that_a_step_closed_is_not_silently_left_behind() -> None:
    with folder_of_nobody() as base:
        rig = Rig(base).create(FILES)
        work = shell("mkdir shut; echo x > shut/x; chmod 0 shut; echo x > b.txt")

        result = await rig.executor(EditingExecutor({"s": work})).run(worktree_task("s"), NeverStop())

        assert (result.outcome, result.reason) == (Outcome.FAILED, "merge")
        assert "the step left 'shut', which can't be read" in result.detail
