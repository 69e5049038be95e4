"""The cost of a worktree for a step: the same step in the shared workspace and in its own worktree, merged back.

The repository is clean and has ``--files`` files in folders of 50. The bound is 120 ms more at 1 000 files, for the
steps after a run's first one, which also opens the repository.
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
from functools import partial
from pathlib import Path

import anyio

from ipc.sink import MemorySink
from subagents.executor import StepResult, StepTask, StopSignal
from subagents.worktree.executor import WorktreeExecutor
from subagents.worktree.lifecycle import WorktreePlace
from subagents.worktree.repository import Git, open_repository
from tests.fakes.tasks import task_of
from vibe.core.messages import NeverStop, Outcome

BOUND_MS = 120.0
RUN_STEPS = 5
"""Steps of a run, which do not overlap."""


class _Touching:
    """Does a step by changing one file and adding another."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:  # noqa: ARG002  the port
        root = Path(task.workdir) if task.workdir else self._root
        (root / "folder0" / "file0.py").write_text(f"changed by {task.step_id} in {root}\n")
        (root / "folder1" / f"{task.step_id}.py").write_text("new\n")
        return StepResult(outcome=Outcome.COMPLETED)


def measure(files: int, times: int) -> dict[str, float]:
    """Return medians and least values in ms of ``times`` runs.

    ``first_ms`` is a run's first step, ``worktree_ms`` a later one, ``end_ms`` deleting the worktree at the run's end,
    and ``bare_ms`` the time of ``git worktree add`` and ``remove`` alone. ``processor_ms`` is the processor time per
    step, including git's and that of the run's beginning and end.
    """
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        root = _repository(base / "repo", files)
        before = _processor_ms()
        own = [anyio.run(_run, _executor(base, root, number), "worktree") for number in range(times)]
        processor = (_processor_ms() - before) / (times * RUN_STEPS)
        bare = _bare(root, base / "bare", times)
        shared = [anyio.run(_run, _executor(base, root, times), "shared") for _ in range(times)]
    following = [duration for steps, _ in own for duration in steps[1:]]
    return {
        "first_ms": statistics.median(steps[0] for steps, _ in own),
        "worktree_ms": statistics.median(following),
        "worktree_least_ms": min(following),
        "end_ms": statistics.median(end for _, end in own),
        "processor_ms": processor,
        "shared_ms": statistics.median(duration for steps, _ in shared for duration in steps),
        "bare_ms": statistics.median(bare),
        "bare_least_ms": min(bare),
    }


def _executor(base: Path, root: Path, number: int) -> WorktreeExecutor:
    place = WorktreePlace(
        plan_id=f"bench{number}",
        folder=base / f"worktrees{number}",
        step_folder=lambda step_id: _made(base / f"steps{number}" / step_id),
    )
    opened = partial(open_repository, root, os.environ, root.parent / "git")
    return WorktreeExecutor(_Touching(root), place, opened, MemorySink())


async def _run(executor: WorktreeExecutor, workspace: str) -> tuple[list[float], float]:
    """Return the time of each step, and that of the end."""
    async with executor:
        durations = [await _time(executor, workspace, number) for number in range(RUN_STEPS)]
        started = time.perf_counter()
    return durations, (time.perf_counter() - started) * 1e3


async def _time(executor: WorktreeExecutor, workspace: str, number: int) -> float:
    task = task_of(f"{workspace}{number}", workspace=workspace)
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
    """Measure, print one JSON line, and return 0 if the bound holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--times", type=int, default=8, help="runs")
    args = parser.parse_args()
    found = measure(args.files, args.times)
    more = found["worktree_ms"] - found["shared_ms"]
    rounded = {name: round(value, 1) for name, value in found.items()}
    write(json.dumps({**rounded, "more_ms": round(more, 1), "bound_ms": BOUND_MS}) + "\n")
    return 0 if more <= BOUND_MS else 1


if __name__ == "__main__":
    sys.exit(main())
