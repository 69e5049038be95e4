"""What a worktree costs a step: the same step in the shared workspace and in a worktree of its own, merged back.

The repository is clean and has ``--files`` files in folders of 50. The bound is 120 ms more at 1 000 files.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio

from ipc.sink import MemorySink
from subagents.executor import StepResult, StepTask, StopSignal
from subagents.worktree_executor import WorktreeExecutor, WorktreePlace
from subagents.worktree_git import Git
from subagents.worktree_repository import open_repository
from vibe.core.modes import ExecutionMode
from vibe.core.outcome import Outcome
from vibe.core.stop import NeverStop

BOUND_MS = 120.0


class _Touching:
    """Does a step by changing one file and adding another."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:  # noqa: ARG002  the port
        root = Path(task.workdir) if task.workdir else self._root
        (root / "folder0" / "file0.py").write_text(f"changed by {task.step_id}\n")
        (root / "folder1" / f"{task.step_id}.py").write_text("new\n")
        return StepResult(outcome=Outcome.COMPLETED)


def measure(files: int, times: int) -> dict[str, float]:
    """Medians and least values in ms; ``bare_ms`` is what ``git worktree add`` and ``remove`` alone take.

    ``worktree_processor_ms`` is the time of processors, of git's and of the deletion beside the next step too.
    """
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        root = _repository(base / "repo", files)
        place = WorktreePlace(
            open_repository=lambda: open_repository(root, os.environ),
            plan_id="bench",
            folder=base / "worktrees",
            step_folder=lambda step_id: _made(base / "steps" / step_id),
        )
        executor = WorktreeExecutor(_Touching(root), place, MemorySink())
        before = _processor_ms()
        own = anyio.run(_times, executor, "worktree", times)
        processor = (_processor_ms() - before) / (times + 1)
        bare = _bare(root, base / "bare", times)
        shared = anyio.run(_times, WorktreeExecutor(_Touching(root), place, MemorySink()), "shared", times)
    return {
        "worktree_ms": statistics.median(own),
        "worktree_least_ms": min(own),
        "worktree_processor_ms": processor,
        "shared_ms": statistics.median(shared),
        "bare_ms": statistics.median(bare),
        "bare_least_ms": min(bare),
    }


async def _times(executor: WorktreeExecutor, workspace: str, times: int) -> list[float]:
    durations: list[float] = []
    async with executor:
        for number in range(times + 1):
            durations.append(await _time(executor, workspace, number))
    return durations[1:]  # the first one opens the repository


async def _time(executor: WorktreeExecutor, workspace: str, number: int) -> float:
    task = StepTask(
        step_id=f"{workspace}{number}", title="t", mode=ExecutionMode.CODE, goal="g", context="", prompt="p"
    )
    if workspace == "worktree":
        task = replace(task, workspace="worktree")
    started = time.perf_counter()
    result = await executor.run(task, NeverStop())
    assert result.outcome is Outcome.COMPLETED, result
    return (time.perf_counter() - started) * 1e3


def _processor_ms() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used) * 1e3


def _bare(root: Path, path: Path, times: int) -> list[float]:
    durations: list[float] = []
    git = Git(folder=root, environ=os.environ)
    for _ in range(times):
        started = time.perf_counter()
        git("worktree", "add", "-q", "--detach", str(path))
        git("worktree", "remove", "--force", str(path))
        durations.append((time.perf_counter() - started) * 1e3)
    return durations


def _repository(root: Path, files: int) -> Path:
    for number in range(files):
        folder = _made(root / f"folder{number // 50}")
        (folder / f"file{number}.py").write_text("".join(f"line {number} {line}\n" for line in range(60)))
    _made(root / "folder1")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "start")):
        identity = ("-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0")
        subprocess.run(["git", *identity, *words], cwd=root, check=True)
    return root


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def main(write: Callable[[str], object] = sys.stdout.write) -> int:
    """Measure, print one JSON line, and say by the exit code whether the bound holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--times", type=int, default=15)
    args = parser.parse_args()
    found = measure(args.files, args.times)
    more = found["worktree_ms"] - found["shared_ms"]
    rounded = {name: round(value, 1) for name, value in found.items()}
    write(json.dumps({**rounded, "more_ms": round(more, 1), "bound_ms": BOUND_MS}) + "\n")
    return 0 if more <= BOUND_MS else 1


if __name__ == "__main__":
    sys.exit(main())
