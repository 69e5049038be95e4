"""StepExecutor: the port through which a planner has one step done, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from msgspec import Struct, structs

from subagents.step_model import Step
from subagents.step_result import ENVIRONMENT_REASON, StepResult
from vibe.core.messages import Outcome, StopSignal
from vibe.core.session.errors import WorkspaceLockedError
from vibe.system.errors import innermost, shortage


def unserved(error: BaseException) -> StepResult | None:
    """Return where an attempt stands that ``error`` ended, if the system had run out of something or others wrote.

    None: it is a failure.
    """
    cause = innermost(error)
    problem = str(cause) if isinstance(cause, WorkspaceLockedError) else shortage(error)
    if problem is None:
        return None
    return StepResult(outcome=Outcome.INTERRUPTED, reason=ENVIRONMENT_REASON, detail=problem)


def internal_failure(detail: str) -> StepResult:
    """Return where an attempt stands that ended because of a fault in the program."""
    return StepResult(outcome=Outcome.FAILED, reason="internal", detail=detail)


class StepInput(Struct, frozen=True, kw_only=True):
    """The result of a direct dependency, as its dependant is told; ``result_file`` is where the whole of it is."""

    step_id: str
    title: str
    status: str
    summary: str
    output: Any = None
    files_changed: tuple[str, ...] = ()
    result_file: str | None = None


class GivenItem(Struct, frozen=True, kw_only=True):
    """The item of a list that a step does its work for.

    ``file`` holds the whole of it where its prompt does not. ``writes``: what the step of the list names, by which a
    person accepted what this one writes (None: nothing).
    """

    file: str | None = None
    writes: tuple[str, ...] | None = None


class StepTask(Struct, frozen=True, kw_only=True):
    """One attempt at a step of a plan: the step, as the plan has it, and what is this attempt's."""

    step: Step
    goal: str
    """The whole plan's."""
    context: str
    """The whole plan's."""
    max_tokens: int = 50_000
    """The most tokens this attempt may use: what the step says, or the default."""
    max_turns: int = 10
    """As ``max_tokens``."""
    attempt: int = 1
    """Counts from 1."""
    inputs: tuple[StepInput, ...] = ()
    item: GivenItem | None = None
    """None: it is not one of a list's."""
    workdir: str | None = None
    """The root to work in; None: the run's own workspace."""
    conversation: str = ""
    """The name of one that the attempt has besides its own (blank), as for resolving a conflict."""
    only_checks: bool = False
    """Nothing is done but the step's checks."""
    variables: Mapping[str, str] = {}
    """Further variables of its commands and checks, secret or not by their names."""
    setup: tuple[str, ...] = ()
    """The user's commands for its worktree, to be run first: that is new, or is made anew where the step is done.

    An executor for which the latter is so has a true ``works_elsewhere``.
    """
    before: str = ""
    """The end of the attempt before, by another model; blank: there was none."""
    told: tuple[str, ...] = ()
    """Words of people to the step's agent, which may have read some of them."""

    @property
    def step_id(self) -> str:
        """The step's id."""
        return self.step.id

    @property
    def has_agent(self) -> bool:
        """True if an agent does it, not only commands."""
        return self.step.command is None and not self.only_checks

    def setup_jobs(self, commands: Iterable[str]) -> Iterator[StepTask]:
        """Yield the user's commands for its worktree as tasks."""
        own = self.with_step(title=f"Set up: {self.step.title}", verify=[], output_schema=None)
        for number, command in enumerate(commands, start=1):
            job = own.with_step(command=command)
            yield structs.replace(job, inputs=(), setup=(), conversation=f"setup{number}")

    def setup_failed(self, done: StepResult) -> StepResult:
        """Return the result of a step of whose ``setup_jobs`` this is one, and did not complete."""
        said = done.detail or done.reason or done.outcome.value
        detail = f"the command {self.step.command!r} of [worktree] setup failed: {said}"
        return structs.replace(done, reason="setup", detail=detail)

    def with_step(self, **changes: Any) -> StepTask:
        """Return the task with some fields of its step changed."""
        return structs.replace(self, step=self.step.model_copy(update=changes))


class StepExecutor(Protocol):
    """Does one step at a time per call; calls may run side by side.

    Cancelling the call kills everything the step started before it returns.
    """

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Do the step. A step that fails is a result, never an exception."""
        ...


class KeptWork(Struct, frozen=True, kw_only=True):
    """A step's work that was not merged: its ``branch``, the files it ``changed``, and a ``folder`` with all of them.

    ``folder`` stands for the workspace; it is in ``top``, a copy without a repository.
    """

    branch: str
    changed: tuple[str, ...]
    folder: Path
    top: Path


KeptBy: TypeAlias = Callable[[str], AbstractAsyncContextManager[KeptWork | None]]
"""Has the work of a step for as long as it is open; None: it kept none."""
