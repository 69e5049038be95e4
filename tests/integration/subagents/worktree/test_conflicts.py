"""Steps whose changes conflict with changes made to the project meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ipc.events import WorktreeEvent
from subagents.executor import StepResult
from tests.integration.subagents.worktree.rig import (
    FILES,
    Edit,
    EditingExecutor,
    Rig,
    git,
    line,
    shell,
    worktree_task,
    writes,
)
from vibe.core.messages import NeverStop, Outcome, Usage
from vibe.core.modes import ExecutionMode


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path).create(FILES)


def told(rig: Rig) -> list[tuple[str, tuple[str, ...]]]:
    events = [event for event in rig.sink.events if isinstance(event, WorktreeEvent)]
    assert {event.subagent_step_id for event in events} == {"s"}
    return [(event.status, event.files) for event in events]


async def test_a_binary_conflict_is_explained_in_the_file_and_settled_by_its_new_content(rig: Rig) -> None:
    rig.write({"bin": b"\0start"})
    rig.commit("binary")

    def meanwhile(rig: Rig) -> None:
        rig.write({"bin": b"\0theirs", "b.txt": "theirs\n"})
        rig.commit("meanwhile")

    def work(folder: Path) -> None:
        (folder / "bin").write_bytes(b"\0ours")
        (folder / "b.txt").unlink()
        meanwhile(rig)

    shown: dict[str, str] = {}

    def resolve(folder: Path) -> None:
        shown.update({name: (folder / name).read_text() for name in ("bin", "b.txt")})
        (folder / "bin").write_bytes(b"\0both")
        (folder / "b.txt").unlink()

    inner = EditingExecutor({"s": work, "s:merge1": resolve})
    result = await rig.executor(inner).run(worktree_task("s"), NeverStop())

    assert result.outcome is Outcome.COMPLETED, result
    assert "`git cat-file blob " in shown["bin"]
    assert "this side deleted the file" in shown["b.txt"]
    assert ((rig.root / "bin").read_bytes(), (rig.root / "b.txt").exists()) == (b"\0both", False)
    assert (rig.status(), rig.leftovers()) == ([], [])


async def test_a_conflict_with_what_the_user_has_not_committed_is_resolved_in_their_files_alone(rig: Rig) -> None:
    def work(folder: Path) -> None:
        (folder / "a.txt").write_text(line(3, "ours"))
        rig.write({"a.txt": line(3, "mine")})

    inner = EditingExecutor({"s": work, "s:merge1": writes("a.txt", line(3, "mine, ours"))})
    result = await rig.executor(inner).run(worktree_task("s"), NeverStop())

    assert result.outcome is Outcome.COMPLETED, result
    assert told(rig) == [("created", ()), ("conflict", ("a.txt",)), ("resolved", ("a.txt",)), ("merged", ("a.txt",))]
    assert (result.folder, result.branch) == (str(rig.home / "worktrees" / "s"), "")
    assert rig.read("a.txt") == line(3, "mine, ours")
    assert rig.status() == [" M a.txt"]
    assert "mine" not in git(rig.root, "log", "-p", "-m")


@pytest.mark.parametrize("given_up", ["git merge --abort", "git reset -q --hard"])
async def test_a_merge_that_the_subagent_gave_up_is_not_taken_for_a_resolution(rig: Rig, given_up: str) -> None:
    def work(folder: Path) -> None:
        (folder / "a.txt").write_text(line(3, "ours"))
        rig.write({"a.txt": line(3, "theirs"), "b.txt": "theirs\n"})
        rig.commit("meanwhile")

    inner = EditingExecutor({"s": work, "s:merge1": shell(given_up), "s:merge1-2": shell("true")})
    result = await rig.executor(inner).run(worktree_task("s"), NeverStop())

    assert (result.outcome, result.reason) == (Outcome.FAILED, "merge")
    assert "aborted" in result.detail
    assert [status for status, _ in told(rig)] == ["created", "conflict", "kept"]
    kept = rig.sink.events[-1]
    assert isinstance(kept, WorktreeEvent)
    assert (kept.detail, kept.branch, kept.round) == (result.detail, result.branch, 1)
    assert git(rig.root, "rev-parse", "--verify", result.branch)
    assert (rig.read("a.txt"), rig.read("b.txt")) == (line(3, "theirs"), "theirs\n")


def clashing(rig: Rig, **result: Any) -> Edit:
    """Return an edit of a line that the user meanwhile changes and commits too."""

    def work(folder: Path) -> StepResult:
        (folder / "a.txt").write_text(line(3, "ours"))
        if "meanwhile" not in git(rig.root, "log", "--format=%s"):
            rig.write({"a.txt": line(3, "theirs")})
            rig.commit("meanwhile")
        return StepResult(outcome=Outcome.COMPLETED, summary="It is ours.", **result)

    return work


async def test_a_conflict_is_resolved_on_what_is_left_of_the_steps_budget(rig: Rig) -> None:
    used = Usage(prompt_tokens=700, completion_tokens=100, calls=3)
    resolved = StepResult(outcome=Outcome.COMPLETED, usage=Usage(prompt_tokens=50, calls=1), cost_usd=0.25, turns=2)

    def resolve(folder: Path) -> StepResult:
        (folder / "a.txt").write_text(line(3, "both"))
        return resolved

    inner = EditingExecutor({"s": clashing(rig, usage=used, cost_usd=0.5, turns=4), "s:merge1": resolve})
    task = worktree_task("s", max_tokens=1_000, max_price=2.0, writes=("a.txt",), denied_tools=("bash",))
    result = await rig.executor(inner).run(task, NeverStop())

    asked = inner.tasks[1]
    assert (asked.max_tokens, asked.step.max_price, asked.step.mode) == (200, 1.5, ExecutionMode.CODE)
    assert (asked.step.writes, asked.step.denied_tools, asked.workdir) == (
        ["a.txt"],
        ["bash"],
        inner.tasks[0].workdir,
    )
    assert "It is ours." in asked.step.instructions
    assert "- meanwhile" in asked.step.instructions
    assert (result.usage.total_tokens, result.usage.calls, result.cost_usd, result.turns) == (850, 4, 0.75, 6)
    assert (result.outcome, result.summary, rig.read("a.txt")) == (Outcome.COMPLETED, "It is ours.", line(3, "both"))


async def test_a_conflict_is_not_begun_on_an_empty_budget(rig: Rig) -> None:
    used = Usage(prompt_tokens=1_000, calls=3)
    inner = EditingExecutor({"s": clashing(rig, usage=used, cost_usd=0.5)})

    result = await rig.executor(inner).run(worktree_task("s", max_tokens=1_000), NeverStop())

    assert (result.outcome, result.reason, len(inner.tasks)) == (Outcome.FAILED, "merge", 1)
    assert "no budget left" in result.detail


async def test_a_resolution_may_not_change_the_steps_checks(rig: Rig) -> None:
    rig.write({"test_it.sh": "grep -q ours a.txt\n"})
    rig.commit("a check")

    def cheat(folder: Path) -> None:
        (folder / "a.txt").write_text(line(3, "theirs"))
        (folder / "test_it.sh").write_text("true\n")

    inner = EditingExecutor({"s": clashing(rig), "s:merge1": cheat, "s:merge1-2": cheat})
    result = await rig.executor(inner).run(worktree_task("s", verify=("bash test_it.sh",)), NeverStop())

    assert (result.outcome, result.reason) == (Outcome.FAILED, "merge")
    assert "'test_it.sh' are part of the step's checks and were changed" in result.detail
    assert rig.read("test_it.sh") == "grep -q ours a.txt\n"


async def test_a_resolution_that_was_interrupted_is_gone_on_with(rig: Rig) -> None:
    interrupted = StepResult(outcome=Outcome.INTERRUPTED, reason="stopped", usage=Usage(calls=1))

    def first_half(folder: Path) -> StepResult:
        assert "<<<<<<< HEAD" in (folder / "a.txt").read_text()
        (folder / "half").write_text("half\n")
        return interrupted

    def second_half(folder: Path) -> None:
        (folder / "half").unlink()
        (folder / "a.txt").write_text(line(3, "both"))

    stopped = await rig.executor(EditingExecutor({"s": clashing(rig), "s:merge1": first_half})).run(
        worktree_task("s"), NeverStop()
    )
    inner = EditingExecutor({"s:merge1": second_half})
    ended = await rig.executor(inner).run(worktree_task("s"), NeverStop())

    assert (stopped.outcome, stopped.reason, stopped.summary) == (Outcome.INTERRUPTED, "stopped", "It is ours.")
    assert (ended.outcome, rig.read("a.txt"), rig.leftovers()) == (Outcome.COMPLETED, line(3, "both"), [])
