"""Carries out a review of a plan's changes: gives files back, and sends comments to the steps they are about."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from anyio import to_thread
from msgspec import Struct, structs

from ipc.commands import Act, StepAction
from ipc.events import ReviewComment
from planner.plan.diagnostics import listed
from planner.store.store import PlanStore
from vibe.app.engine.host import Host
from vibe.app.plan.commands import CommandReport, give
from vibe.app.plan.review import ChangedFile, FileState, PlanReview
from vibe.app.plan.rewind import FILES_FOLDER, PlanFilesLog
from vibe.core.config.paths import in_utf8
from vibe.core.session.errors import SnapshotError
from vibe.core.session.restoring import Blame, Restoration, RestoredFiles, aside_folder
from vibe.core.session.snapshots import Point
from vibe.core.session.write_turn import Tell
from vibe.system.errors import UsageError
from vibe.system.plain_text import counted


class Rejection(Struct, frozen=True):
    """A change to undo. With ``force``, it is undone even if others have changed the file since."""

    change: ChangedFile
    force: bool = False


async def carry_out(
    host: Host,
    review: PlanReview,
    rejected: Sequence[Rejection],
    comments: Sequence[tuple[str, ReviewComment]],
    *,
    tell: Tell,
) -> CommandReport:
    """Restore files to what they were before a step, then send comments to their steps, grouped by step.

    A step with comments is done again. ``tell`` is told if others that write are waited for.

    Raises:
        UsageError: a file was restored before, or others changed it since, or as ``give``. Earlier items are done.
        EnvironmentFailure: another process runs the plan, or git or the disk refuses.
    """
    turn, notes, running = await to_thread.run_sync(host.turn, [review.workspace], "a review"), list[str](), False
    for one in rejected:
        restored = await turn.act(tell, partial(_give_back, host, review, one))
        notes.append(f"{one.change.name} is as it was before step {one.change.step_id!r}")
        notes += [f"what others made of it is kept as {in_utf8(conflict.saved_as)}" for conflict in restored.conflicts]
    for step_id in dict.fromkeys(step_id for step_id, _ in comments):
        own = tuple(comment for name, comment in comments if name == step_id)
        act = Act(step_id=step_id, action=StepAction.RETRY, comments=own)
        running = (await give(host, review.plan_id, act)).running
        stale = [f"{one.file}:{one.first}" for one in own if one.stale]
        also = f", stale: {listed(stale)}" if stale else ""
        notes.append(f"step {step_id!r} runs again with {counted(len(own), 'comment')}{also}")
    data = {
        "rejected": [one.change.name for one in rejected],
        "comments": [{"step": step_id, **structs.asdict(comment)} for step_id, comment in comments],
    }
    return CommandReport(plan_id=review.plan_id, message="; ".join(notes), running=running, data=data)


def _give_back(
    host: Host, review: PlanReview, rejection: Rejection, now: Callable[[], float] = time.time
) -> RestoredFiles:
    """Restore a file. With ``force``, what others made of it is set aside. Blocks."""
    change, snapshots = rejection.change, review.snapshots
    standing = review.standing(change)
    if standing is FileState.REJECTED:
        raise UsageError(f"{change.name} is as it was before step {change.step_id!r} already")
    by_others = standing is FileState.CHANGED
    if by_others and not rejection.force:
        raise UsageError(f"{review.since(change)}: nothing was given back; --force does, and keeps a copy")
    with PlanStore.open(host.home, review.plan_id) as store:
        log = PlanFilesLog(snapshots, now) if snapshots.points() else None
        if log is not None:
            log.take()
        blame = Blame(mine={change.path}, others={change.path} if by_others else frozenset())
        before = review.as_file(change, change.before)
        points = [Point(changed={change.path: state}) for state in (before, change.after)]
        aside = aside_folder(store.folder.path / FILES_FOLDER, now())
        restored = Restoration(snapshots, points, 0, lambda _: blame, aside).carry_out()
        if log is not None:
            log.take()
    if restored.skipped:
        raise SnapshotError(f"{change.name} was not given back: {restored.skipped[change.name]}")
    return restored
