"""What the worktree steps of ended plans left, worktrees and branches with work that was not merged: listed, removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from planner.plan_folder import PlanFolder, PlanSummary, find_plan, list_plans, plans_folder
from subagents.worktree_errors import WorktreeRefusedError
from subagents.worktree_leftovers import Leftovers, find_leftovers, give_up_worktrees, remove_leftovers
from subagents.worktree_repository import Repository, open_repository
from vibe.app.host import Host
from vibe.app.plan_start import RESUMABLE
from vibe.app.plan_worktrees import worktrees_folder
from vibe.core.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What was found of one plan; ``kept_because`` says why it was left (blank: it was removed, or would be)."""

    plan_id: str
    found: Leftovers
    kept_because: str = ""


def clean_plans(host: Host, references: Sequence[str], *, dry_run: bool) -> list[Cleaned]:
    """Clean the plans named, or all that have ended where none is; plans with nothing left are not in the answer. Blocks.

    Raises:
        UsageError: no such plan, or one that was named is running or can be gone on with; nothing was removed.
        EnvironmentFailure: git or the disk refuses.
    """
    folders = [find_plan(host.home, reference) for reference in references]
    for folder in folders:
        why = _kept_because(folder.summary())
        if why:
            raise UsageError(f"plan {folder.plan_id} is not cleaned: {why}")
    root = plans_folder(host.home)
    if not folders:
        folders = [PlanFolder(root / plan.plan_id) for plan in list_plans(host.home) if plan.problem is None]
    cleaned = (_clean(folder, host, dry_run=dry_run) for folder in folders)
    return [one for one in cleaned if one.found]


def give_up(host: Host, folder: PlanFolder) -> None:
    """Remove the worktrees of a plan that was cancelled and that nobody runs; its branches stay. Blocks.

    Raises:
        EnvironmentFailure: git or the disk refuses.
    """
    place = worktrees_folder(folder)
    repository = _repository(folder, host) if place.is_dir() else None
    if repository is not None:
        give_up_worktrees(repository, place, folder.plan_id, folder.step_folder)


def what_is_left(host: Host, folder: PlanFolder) -> str:
    """What there is of a plan that was cancelled, and how it goes, as a phrase; blank if nothing is. Blocks.

    Raises:
        EnvironmentFailure: git or the disk refuses.
    """
    found = find_leftovers(_repository(folder, host), worktrees_folder(folder), folder.plan_id)
    if not found:
        return ""
    kept = f"what was not merged is kept on {', '.join(found.branches)}" if found.branches else ""
    left = "its worktrees are still there" if found.worktrees else ""
    return f"{' and '.join(filter(None, (left, kept)))}; `vibe plan clean {folder.plan_id}` removes that"


def _clean(folder: PlanFolder, host: Host, *, dry_run: bool) -> Cleaned:
    repository = _repository(folder, host)
    place = worktrees_folder(folder)
    found = find_leftovers(repository, place, folder.plan_id)
    why = _kept_because(folder.summary())
    if found and not why and not dry_run:
        remove_leftovers(repository, place, found)
    return Cleaned(plan_id=folder.plan_id, found=found, kept_because=why)


def _kept_because(plan: PlanSummary) -> str:
    if plan.holder is not None:
        return f"process {plan.holder} runs it"
    if plan.status in RESUMABLE:
        return f"it can be gone on with; `vibe plan cancel {plan.plan_id}` gives it up"
    return ""


def _repository(folder: PlanFolder, host: Host) -> Repository | None:
    workspace = Path(folder.settings().workspace)
    try:
        return open_repository(workspace, host.environ) if workspace.is_dir() else None
    except WorktreeRefusedError:
        return None
