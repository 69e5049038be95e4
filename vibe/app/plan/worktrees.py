"""Worktrees of a plan's run: checked before it starts, wrapped round the executor, and cleared when it has ended."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from msgspec.structs import replace

from ipc.events import WarningEvent
from ipc.sink import EventSink
from planner.plan.model import Plan
from planner.state.outcome import RunResult
from planner.store.folder import PlanFolder
from planner.store.store import PlanStore
from subagents.agent.run_services import RunServices
from subagents.executor import StepExecutor
from subagents.worktree.errors import WorktreeError, WorktreeRefusedError
from subagents.worktree.executor import WorktreeExecutor
from subagents.worktree.lifecycle import WorktreePlace
from subagents.worktree.repository import Repository, check_startable, open_repository
from vibe.app.engine.build import Engine
from vibe.app.engine.host import Host
from vibe.core.config.trust import TrustStore
from vibe.core.instructions.project_context import GIT_DIRECTORY
from vibe.system.errors import UsageError


def worktrees_folder(folder: PlanFolder) -> Path:
    """Return the folder that holds a plan's worktrees."""
    return folder.path / "worktrees"


def place_of(folder: PlanFolder) -> WorktreePlace:
    """Return the place of a plan's worktrees, for a look at them and for their removal."""
    return WorktreePlace(plan_id=folder.plan_id, folder=worktrees_folder(folder), step_folder=folder.step_folder)


def check_worktrees(
    plan: Plan, workspace: Path, host: Host, engine: Engine, *, allow_dirty: bool = True, where: str = ""
) -> None:
    """Check that the steps that want worktrees can have them.

    ``where`` is the plan's file, which may be new in the repository. ``allow_dirty`` accepts uncommitted changes; for a
    plan that has begun, they may well be its own work.

    Raises:
        UsageError: there is no repository, something is under way in it, it has uncommitted changes, or it chose
            programs for git and is not trusted.
    """
    if not wants_worktrees(plan):
        return
    if plan.sample is not None:
        raise UsageError(
            "the demonstration runs on a copy of its files, which is not a git repository: use workspace 'shared'"
        )
    repository = repository_of(workspace, host, engine)
    check_startable(repository, allow_dirty=allow_dirty, not_counted=[Path(where)] if Path(where).is_absolute() else [])


def repository_of(workspace: Path, host: Host, engine: Engine) -> Repository:
    """Return the repository. Programs that it chose for git run only if the user trusts it.

    Raises:
        UsageError: there is no repository, or it names such programs and is not trusted.
    """
    trusted = engine.request.trust or TrustStore(host.home).is_trusted(workspace)
    keep = git_folder(host.home)
    repository = open_repository(workspace, engine.environ, keep, own=host.own_places, programs=trusted)
    repository = replace(repository, share=engine.config.worktree.share)
    if repository.left_out:
        fix = (
            "move them from the included file to the repository's own configuration (`git config --local --edit`)"
            if trusted
            else "check that they are yours (`git config --local --list`), then run with --trust, or trust the folder "
            "with `vibe trust add`"
        )
        raise UsageError(
            "worktree steps use git checkout and merge, and this repository's own configuration runs "
            f"programs for that ({', '.join(repository.left_out)}): {fix}"
        )
    return repository


def git_folder(home: Path) -> Path:
    """Return the folder of the settings that git follows in the repositories of worktree steps."""
    return home / GIT_DIRECTORY


def worktree_executor(
    inner: StepExecutor, store: PlanStore, engine: Engine, host: Host, services: RunServices
) -> WorktreeExecutor:
    """Return the executor that gives worktrees to the steps that want them.

    No repository is needed unless a step wants one.
    """
    place = replace(place_of(store.folder), step_folder=store.step_folder, setup=engine.config.worktree.setup)
    opened = partial(repository_of, Path(store.settings.workspace), host, engine)
    return WorktreeExecutor(inner, place, opened, services.sink, services.turns)


async def clear_worktrees(worktrees: WorktreeExecutor, outcome: RunResult, sink: EventSink) -> None:
    """Remove the worktrees of steps that will not be resumed. A failure to do so does not change the outcome."""
    try:
        await worktrees.clear({step.id for step in outcome.steps if step.status.is_final})
    except (WorktreeError, WorktreeRefusedError) as error:
        sink.publish(WarningEvent(code="worktree.left", message=f"{error}; remove the rest with `vibe plan clean`"))


def wants_worktrees(plan: Plan) -> bool:
    """Return whether any step works in a worktree of its own."""
    return any(step.workspace == "worktree" for step in plan.steps)
