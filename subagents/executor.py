"""The StepExecutor port, through which a planner has one step done, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import anyio
from msgspec import Struct, structs

from subagents.step_model import Step
from subagents.step_result import ENVIRONMENT_REASON, StepResult
from vibe.core.messages import Outcome, StopSignal
from vibe.core.session.errors import WorkspaceLockedError
from vibe.shell.errors import CommandStartError
from vibe.system.errors import EnvironmentFailure, VibeError, described, innermost, shortage

STOP_POLL_SECONDS = 0.1
"""Seconds between two looks at the signal to stop."""


async def until_requested(stop: StopSignal) -> None:
    """Wait until a stop is requested."""
    while not stop.requested:  # noqa: ASYNC110  a stop signal can only be polled
        await anyio.sleep(STOP_POLL_SECONDS)


def interrupted_by(error: BaseException) -> StepResult | None:
    """Return the result of an attempt that ``error`` interrupted, or None if the error is a failure of the attempt.

    An attempt is interrupted if the system has run out of something, if others write in the folder, or if what vibe
    itself must write may not be written: its work is not lost, and goes on once a person has corrected that.
    """
    cause = innermost(error)
    is_denied = isinstance(cause, EnvironmentFailure) and isinstance(cause.__cause__, PermissionError)
    problem = str(cause) if is_denied or isinstance(cause, WorkspaceLockedError) else shortage(error)
    if problem is None:
        return None
    return StepResult(outcome=Outcome.INTERRUPTED, reason=ENVIRONMENT_REASON, detail=problem)


def ended_by(error: BaseException) -> StepResult:
    """Return the result of an attempt that ``error`` interrupted or failed; an error that is not ours is a defect."""
    cause = innermost(error)
    reason, detail = ENVIRONMENT_REASON, described(cause, bare=True)
    if isinstance(cause, CommandStartError):
        reason, detail = "workspace", detail if cause.cwd.is_dir() else f"the folder {str(cause.cwd)!r} is gone"
    elif not isinstance(cause, VibeError):
        reason, detail = "internal", described(cause)
    return interrupted_by(error) or StepResult(outcome=Outcome.FAILED, reason=reason, detail=detail)


def internal_failure(detail: str) -> StepResult:
    """Return the result of an attempt that failed because of a defect in vibe."""
    return StepResult(outcome=Outcome.FAILED, reason="internal", detail=detail)


class StepInput(Struct, frozen=True, kw_only=True):
    """The result of a direct dependency, as the dependent step sees it; ``result_file`` holds all of it."""

    step_id: str
    title: str
    status: str
    summary: str
    output: Any = None
    files_changed: tuple[str, ...] = ()
    result_file: str | None = None


class GivenItem(Struct, frozen=True, kw_only=True):
    """The item of a list for which a step is done.

    ``file`` holds the whole item if the prompt does not. ``writes`` are the globs of the step with the list, which a
    person accepted for this one, too (None if that step names none).
    """

    file: str | None = None
    writes: tuple[str, ...] | None = None


class StepTask(Struct, frozen=True, kw_only=True):
    """One attempt at a step of a plan: the step as the plan has it, and what belongs to this attempt."""

    step: Step
    goal: str
    """The goal of the whole plan."""
    context: str
    """The context of the whole plan."""
    max_tokens: int = 50_000
    """The most tokens that this attempt may use, from the step or by default."""
    max_turns: int = 10
    """The most turns that this attempt may take, from the step or by default."""
    attempt: int = 1
    """The number of the attempt, from 1."""
    continued: bool = False
    """True if the attempt was begun before and cut off; what detached from it may still run."""
    inputs: tuple[StepInput, ...] = ()
    item: GivenItem | None = None
    """The item of a list that it is done for, or None."""
    workdir: str | None = None
    """The root to work in, or None for the run's own workspace."""
    conversation: str = ""
    """The name of an extra conversation, such as one that resolves a conflict; blank for the attempt's main one."""
    only_checks: bool = False
    """True to run only the step's checks."""
    variables: Mapping[str, str] = {}
    """Further environment variables of its commands and checks. Their names decide which of them are secret."""
    setup: tuple[str, ...] = ()
    """The user's commands to run first in its worktree, if that is new or is made anew where the step is done.

    An executor that makes worktrees anew has a true ``works_elsewhere``.
    """
    before: str = ""
    """The end of the previous attempt; blank if there was none, or it completed."""
    told: tuple[str, ...] = ()
    """Messages from people to the step's agent, which may have read some of them already."""

    @property
    def step_id(self) -> str:
        """The step's id."""
        return self.step.id

    @property
    def has_agent(self) -> bool:
        """True if an agent does the work, rather than only commands."""
        return self.step.command is None and not self.only_checks

    def setup_jobs(self, commands: Iterable[str]) -> Iterator[StepTask]:
        """Yield a task for each of the user's setup commands for its worktree."""
        own = self.with_step(title=f"Set up: {self.step.title}", verify=[], output_schema=None)
        for number, command in enumerate(commands, start=1):
            job = own.with_step(command=command)
            yield structs.replace(job, inputs=(), setup=(), conversation=f"setup{number}")

    def setup_failed(self, done: StepResult) -> StepResult:
        """Return the step's result, given that this task is one of its ``setup_jobs`` and ended with ``done``."""
        said = done.detail or done.reason or done.outcome.value
        detail = f"the command {self.step.command!r} of [worktree] setup failed: {said}"
        return structs.replace(done, reason="setup", detail=detail)

    def with_step(self, **changes: Any) -> StepTask:
        """Return the task with some fields of its step changed."""
        return structs.replace(self, step=self.step.model_copy(update=changes))


class StepExecutor(Protocol):
    """Does one step per call. Several calls may run at the same time.

    A cancelled call returns only once everything that its step started has been killed.
    """

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Do the step. A failing step ends with a result, never with an exception."""
        ...


class KeptWork(Struct, frozen=True, kw_only=True):
    """A step's work that was not merged: its ``branch``, the files it ``changed``, and a ``folder`` with all files.

    ``folder`` takes the place of the workspace. It lies in ``top``, a copy of the tree without a repository.
    """

    branch: str
    changed: tuple[str, ...]
    folder: Path
    top: Path


KeptBy: TypeAlias = Callable[[str], AbstractAsyncContextManager[KeptWork | None]]
"""Takes a step's id and provides its unmerged work while the context is open, or None if it kept none."""
