"""Preparation of a step's worktree by the user's configuration: setup commands and shared files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from anyio import to_thread

from subagents.executor import StepResult, StepTask, StopSignal
from subagents.worktree.executor import WorktreeExecutor
from tests.integration.subagents.worktree.rig import (
    EditingExecutor,
    Rig,
    git,
    run,
    set_up,
    shell,
    worktree_task,
    writes,
)
from vibe.core.messages import NeverStop, Outcome


class RunningExecutor(EditingExecutor):
    """Runs commands of the form ``NAME=TEXT`` by writing files. ``stop`` is interrupted once, and ``fail`` fails."""

    stops = 1

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Run a setup command, or do the step's edit."""
        if (ended := await set_up(self, task, stop)) is not None:
            return ended
        if not task.conversation.startswith("setup"):
            return await super().run(task, stop)
        self.tasks.append(task)
        name, _, text = (task.step.command or "").partition("=")
        if name == "stop" and self.stops:
            self.stops -= 1
            return StepResult(outcome=Outcome.INTERRUPTED)
        if name == "fail":
            return StepResult(outcome=Outcome.FAILED, reason="command", detail="it ended with 1")
        file = Path(task.workdir or "") / name
        await to_thread.run_sync(file.write_text, text)
        return StepResult(outcome=Outcome.COMPLETED)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path).create({"a.txt": "a\n", ".gitignore": "node_modules/\nout\n"})
    made.write({"node_modules/lib/x.js": "x\n"})
    return made


def work(rig: Rig, inner: RunningExecutor) -> WorktreeExecutor:
    return rig.executor(inner)


@pytest.mark.parametrize("workspace", [".", "app"])
async def test_what_is_shared_is_a_link_and_no_work(rig: Rig, workspace: str) -> None:
    rig.write({"app/b.txt": "b\n"})
    rig.commit("app")
    rig.write({"app/node_modules/lib/x.js": "x\n"})
    rig.workspace, rig.share = workspace, ("node_modules", "missing", "a.txt")
    read = shell("test -L node_modules && cp node_modules/lib/x.js seen.js")

    for step_id in ("s", "t"):
        result = await run(rig, read, writes("more.txt", step_id), step_id=step_id)
        assert (result.outcome, result.detail) == (Outcome.COMPLETED, "")

    assert git(rig.root, "ls-files", "*node_modules*") == ""
    assert (rig.root / workspace / "seen.js").read_text() == "x\n"
    assert not (rig.root / workspace / "node_modules").is_symlink()
    assert rig.leftovers() == []


async def test_a_link_of_the_project_leads_no_share_out_of_the_worktree(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (rig.root / "away").symlink_to(tmp_path / "outside")
    rig.commit("away")
    rig.write({"away/shared/x": "x\n"})
    rig.share = ("away/shared",)
    inside = os.listdir(tmp_path / "outside")  # noqa: PTH208  only the names

    result = await run(rig, writes("b.txt", "b\n"))

    assert (result.outcome, os.listdir(tmp_path / "outside")) == (Outcome.COMPLETED, inside)  # noqa: PTH208


async def test_commands_run_before_the_step_in_its_worktree(rig: Rig) -> None:
    rig.setup = ("out=made", "b.txt=b")
    inner = RunningExecutor({"s": shell("cp out c.txt")})

    result = await work(rig, inner).run(worktree_task("s", verify=("true",)), NeverStop())

    assert (result.outcome, rig.read("c.txt"), rig.read("b.txt")) == (Outcome.COMPLETED, "made", "b")
    assert [(task.step.command, task.step.verify) for task in inner.tasks] == [
        ("out=made", []),
        ("b.txt=b", []),
        (None, ["true"]),
    ]
    assert all(task.workdir == str(rig.home / "worktrees" / "s") for task in inner.tasks)


async def test_a_command_that_fails_fails_the_step(rig: Rig) -> None:
    rig.setup = ("fail",)
    inner = RunningExecutor({})

    result = await work(rig, inner).run(worktree_task("s"), NeverStop())

    assert (result.outcome, result.reason) == (Outcome.FAILED, "setup")
    assert result.detail.startswith("the command 'fail' of [worktree] setup failed: it ended with 1")


async def test_commands_are_not_repeated_where_an_attempt_goes_on(rig: Rig) -> None:
    rig.setup = ("out=made", "stop")
    edits = iter([StepResult(outcome=Outcome.INTERRUPTED), None])

    def edit(_: Path) -> StepResult | None:
        (rig.step_folder("s") / "messages.jsonl").write_text("{}\n")
        return next(edits)

    inner = RunningExecutor({"s": edit})
    executor = work(rig, inner)

    outcomes = [(await executor.run(worktree_task("s"), NeverStop())).outcome for _ in range(3)]

    assert outcomes == [Outcome.INTERRUPTED, Outcome.INTERRUPTED, Outcome.COMPLETED]
    assert [task.step.command for task in inner.tasks] == ["out=made", "stop", "out=made", "stop", None, None]
