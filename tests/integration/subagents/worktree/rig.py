"""A repository, and a WorktreeExecutor in it whose steps edit files as a table says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from anyio import to_thread
from msgspec.structs import replace

from ipc.sink import MemorySink
from subagents.executor import StepExecutor, StepResult, StepTask, StopSignal
from subagents.worktree.executor import WorktreeExecutor
from subagents.worktree.lifecycle import WorktreePlace
from subagents.worktree.repository import Repository, open_repository
from tests.fakes.tasks import task_of
from vibe.core.messages import NeverStop, Outcome

Edit: TypeAlias = Callable[[Path], "StepResult | None"]
"""Changes a worktree. The return value, if any, is the step's result."""


def git(folder: Path, *words: str, stdin: bytes = b"") -> str:
    """Run git as a user would, and return its output."""
    ended = subprocess.run(["git", *words], cwd=folder, env=environment(), input=stdin, capture_output=True, check=True)
    return ended.stdout.decode("utf-8", "surrogateescape")


def environment() -> dict[str, str]:
    """Return the environment without git settings of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


async def set_up(inner: StepExecutor, task: StepTask, stop: StopSignal) -> StepResult | None:
    """Have an executor run the setup commands of a step's worktree. Return a result only if one does not complete."""
    for job in task.setup_jobs(task.setup):
        done = await inner.run(job, stop)
        if done.outcome is not Outcome.COMPLETED:
            return done if done.outcome is Outcome.INTERRUPTED else job.setup_failed(done)
    return None


class EditingExecutor:
    """Does steps by editing files. The table has a step's additional conversations as ``step:conversation``."""

    def __init__(self, edits: Mapping[str, Edit]) -> None:
        self._edits = edits
        self.tasks: list[StepTask] = []

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:  # noqa: ARG002  the port
        """Do the step's edit in a thread."""
        self.tasks.append(task)
        name = f"{task.step_id}:{task.conversation}" if task.conversation else task.step_id
        done = StepResult(outcome=Outcome.COMPLETED, summary=f"{name} is done")
        if not task.has_agent or task.workdir is None:
            return done
        return await to_thread.run_sync(self._edits[name], Path(task.workdir)) or done


@dataclass
class Rig:
    """A repository at ``root`` with a commit, and everything of a plan below ``home``."""

    base: Path
    sink: MemorySink = field(default_factory=MemorySink)
    workspace: str = "."
    programs: bool = False
    share: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()

    @property
    def root(self) -> Path:
        """The repository's folder."""
        return self.base / "repo"

    @property
    def home(self) -> Path:
        """The plan's folder."""
        return self.base / "plan"

    def create(self, files: Mapping[str, str | bytes]) -> Rig:
        """Create the repository with these files committed."""
        self.root.mkdir(parents=True)
        git(self.root, "init", "-q", "-b", "main")
        git(self.root, "config", "user.name", "Ada")
        git(self.root, "config", "user.email", "ada@example.org")
        self.write(files)
        self.commit("start")
        return self

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Write files as the user."""
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def commit(self, message: str) -> str:
        """Commit everything as the user, and return the commit."""
        git(self.root, "add", "-A")
        git(self.root, "commit", "-qm", message)
        return git(self.root, "rev-parse", "HEAD").strip()

    def read(self, name: str) -> str:
        """Return the text of one of the user's files."""
        return (self.root / name).read_text()

    def status(self) -> list[str]:
        """Return the entries of ``git status``."""
        return [part for part in git(self.root, "status", "--porcelain", "-z").split("\0") if part]

    def repository(self) -> Repository:
        """Return the repository as steps see it."""
        opened = open_repository(self.root / self.workspace, environment(), self.base / "git", programs=self.programs)
        return replace(opened, share=self.share)

    def step_folder(self, step_id: str) -> Path:
        """Return the folder of a step's record, creating it if needed."""
        path = self.home / "steps" / step_id
        path.mkdir(parents=True, exist_ok=True)
        return path

    def place(self, plan_id: str = "p") -> WorktreePlace:
        """Return the plan's place for worktrees."""
        return WorktreePlace(
            plan_id=plan_id, folder=self.home / "worktrees", step_folder=self.step_folder, setup=self.setup
        )

    def executor(self, inner: EditingExecutor, plan_id: str = "p") -> WorktreeExecutor:
        """Return an executor, as a new process would make it."""
        return WorktreeExecutor(inner, self.place(plan_id), self.repository, self.sink)

    def leftovers(self) -> list[str]:
        """Return everything that should be gone once all is over."""
        found = git(self.root, "worktree", "list").splitlines()[1:]
        found += git(self.root, "for-each-ref", "refs/heads/vibe").splitlines()
        inside = ("vibe*", "index.lock", "worktrees/*", "refs/heads/vibe", "logs/refs/heads/vibe")
        found += [str(path) for name in inside for path in (self.root / ".git").glob(name)]
        return found + [str(path) for path in self.home.glob("worktrees")]


def worktree_task(step_id: str, attempt: int = 1, **fields: Any) -> StepTask:
    """Return the task of a step with a worktree."""
    return task_of(step_id, workspace="worktree", attempt=attempt, **fields)


LINES = "".join(f"{number}\n" for number in range(1, 21))
FILES = {"a.txt": LINES, "b.txt": "b\n", "dir/c.txt": "c\n"}


def line(old: int, new: str, text: str = LINES) -> str:
    """Return the text with one line replaced."""
    return text.replace(f"\n{old}\n", f"\n{new}\n")


async def run(rig: Rig, *edits: Edit, step_id: str = "s") -> StepResult:
    """Run one step that makes these edits in its worktree."""

    def all_of_them(folder: Path) -> None:
        for edit in edits:
            edit(folder)

    executor = rig.executor(EditingExecutor({step_id: all_of_them}))
    return await executor.run(worktree_task(step_id), NeverStop())


def writes(name: str, text: str | bytes) -> Edit:
    """Return an edit that writes a file of the worktree."""

    def edit(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    return edit


def shell(command: str) -> Edit:
    """Return an edit that runs a command in the worktree."""

    def edit(folder: Path) -> None:
        subprocess.run(["bash", "-c", command], cwd=folder, check=True, capture_output=True)

    return edit


def user_does(rig: Rig, act: Callable[[Rig], object]) -> Edit:
    """Return an edit during which the user does something."""

    def edit(_: Path) -> None:
        act(rig)

    return edit
