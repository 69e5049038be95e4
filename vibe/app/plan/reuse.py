"""Reuse: the results that a new plan takes over from an earlier one, and the steps that it runs."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Raw, Struct, field, json, structs

from ipc.events import PlanLeftEvent, PlanReusedEvent, PlanStepUpdateEvent
from planner.plan.diagnostics import InputsInvalidError, listed
from planner.plan.for_each import children_of
from planner.plan.loader import LoadedPlan, with_inputs
from planner.plan.model import Plan, Step, StepStatus
from planner.reuse.reuse import (
    REUSED_BY,
    EarlierRun,
    KeyedPlan,
    Selection,
    answers_taken_over,
    items_taken,
    note_of,
    reuse,
    same_base,
    select,
    steps_named,
)
from planner.state.decisions import plan_decision
from planner.state.state import ONLY_REASON, State
from planner.store.current_plan import current_state
from planner.store.errors import BrokenPlanError
from planner.store.folder import JOURNAL_FILE, PlanFolder, PlanRunOptions, RunSettings, find_plan, modified_at
from planner.store.store import PlanStore
from subagents.step_result import StepResult
from vibe.system.errors import UsageError
from vibe.system.git.calls import GitCall, GitOutput, git_environ, run_git, without_fetching
from vibe.system.git.discovery import locate
from vibe.system.globs import is_wild, matches_any

SHOWN_FILES = 6
LEFT_OUT = "not asked for"
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)")
_WIDE = re.compile(r"(?:\./)*[^/]*[*?\[]")
"""A glob of ``writes`` that names no file and no folder. It does not say whose work a file is."""


Side: TypeAlias = PlanFolder | LoadedPlan
"""One of two plans to compare: one that was run, or a document."""


class ReuseStart(Struct, frozen=True, kw_only=True):
    """The start of a run, with what it takes over.

    ``only`` are the steps that were asked for by name, ``workspace`` is where it works, and ``decisions`` are answers
    taken over. ``base_commit`` is the commit that the content keys refer to, and ``note`` describes all of this in
    words. ``warnings`` say why nothing was taken over, or what may be out of date.
    """

    selection: Selection
    only: tuple[str, ...] = ()
    workspace: Path
    decisions: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    base_commit: str | None
    reused_from: str | None = None
    note: str
    warnings: tuple[str, ...] = ()


def starting_point(loaded: LoadedPlan, options: PlanRunOptions, home: Path, environ: Mapping[str, str]) -> ReuseStart:
    """Choose the steps that a new run does, and what it takes over from another plan. Reads files.

    ``environ`` is the environment for git.

    Raises:
        UsageError: a step or plan is unknown, or that plan worked elsewhere.
        BrokenPlanError: that plan can't be read back.
    """
    plan, given, only = loaded.plan, options.decisions, steps_named(loaded.plan, options.only)
    is_sample = plan.sample is not None
    folder = find_plan(home, options.reuse) if options.reuse else None
    workspace = workspace_of(folder, options.workdir, is_sample=is_sample) if folder else options.workdir
    head = None if is_sample and folder is None else head_commit(workspace, environ)
    selection = select(plan, loaded.dag, only)
    if folder is None:
        note = note_of(selection, None, head=head)
        return ReuseStart(selection=selection, only=only, workspace=workspace, base_commit=head, note=note)
    earlier = read_earlier(folder)
    head, since = _reuse_head(earlier, folder, head, workspace, environ)
    answers = answers_taken_over(earlier, plan, given)
    base = earlier.keyed.base_commit if same_base(earlier, head) else head
    new = KeyedPlan(plan=plan, dag=loaded.dag, decisions={**answers, **given}, base_commit=base)
    selection = reuse(earlier, new, selection, only)
    note = note_of(selection, earlier, head=head) + since
    has_list = any(step.for_each is not None and step.id in selection.runs for step in plan.steps)
    start = ReuseStart(selection=selection, only=only, workspace=workspace, base_commit=base, note=note)
    if not selection.taken and not has_list:
        return structs.replace(start, warnings=(note,))
    doubts = _doubts(new, selection, folder, workspace, environ, plan_file=workspace / loaded.where)
    note = "; ".join([note, *doubts])
    return structs.replace(start, decisions=answers, reused_from=earlier.plan_id, note=note, warnings=doubts)


def items_reused(store: PlanStore, home: Path, step_id: str, items: object) -> tuple[dict[str, StepResult], str]:
    """Return the results that the reused plan has for items of a list, and that plan's id. Reads files."""
    settings, reused_from = store.settings, store.settings.reused_from
    if reused_from is None or step_id in settings.only:
        return {}, ""
    loaded, state = store.effective(), store.folder.state()
    pattern = next(step for step in loaded.plan.steps if step.id == step_id)
    try:
        earlier = read_earlier(find_plan(home, reused_from))
        loaded = loaded.unfolded(children_of(pattern, items, loaded.plan.values()))
    except (UsageError, BrokenPlanError):
        return {}, ""  # the plan is gone, or the list is invalid, which is reported when the steps are made
    return items_taken(earlier, _keyed_run(loaded, settings, state), step_id, state.reused()), reused_from


def _reuse_head(
    earlier: EarlierRun, folder: PlanFolder, head: str | None, workspace: Path, environ: Mapping[str, str]
) -> tuple[str | None, str]:
    """Return the commit that decides which results are still valid, and a note about it.

    A user who commits what the plan did, and nothing else, leaves the repository as the plan left it.
    """
    left = earlier.state.left_at or earlier.keyed.base_commit
    if head is None or left is None or same_base(earlier, head):
        return head, ""
    if (changed := changed_files(workspace, left, head, environ)) is None:
        return head, ""
    top = workspace.resolve()
    names = [str(file.relative_to(top)) if file.is_relative_to(top) else str(file) for file in changed]
    own = {file for result in earlier.state.results().values() for file in result.files_changed}
    globs = [glob for step in earlier.keyed.plan.steps for glob in step.writes or () if not _WIDE.match(glob)]
    origin = folder.settings().origin
    others = [name for name in names if name not in own and str(top / name) != origin and not matches_any(name, globs)]
    if not others:
        return left, ""
    return head, f"; since then files changed that none of its steps wrote: {listed(others, SHOWN_FILES)}"


def _doubts(
    new: KeyedPlan,
    selection: Selection,
    earlier: PlanFolder,
    workspace: Path,
    environ: Mapping[str, str],
    *,
    plan_file: Path,
) -> tuple[str, ...]:
    """Return, as sentences, what results that are taken over may depend on without any content key showing it."""
    taken = [new.steps[step_id] for step_id in selection.taken]
    files = dict.fromkeys(file for result in selection.taken.values() for file in result.files_changed)
    gone = [file for file in files if not os.path.exists(workspace / file)]
    unmade = [glob for step in taken for glob in step.writes or () if not _is_made(workspace, glob)]
    ended = modified_at(earlier.path / JOURNAL_FILE) or time.time()
    files_now = (file for file in files_of(workspace, environ) if file != plan_file)
    edited = [str(file.relative_to(workspace)) for file in files_now if modified_at(file) > ended]
    before, now = earlier.settings().variables, variables_of(taken, environ)
    others = [name for name, digest in now.items() if before is not None and before.get(name, "") != digest]
    findings = {
        "missing although a reused step changed it": gone,
        "missing although a reused step is to write it": [glob for glob in dict.fromkeys(unmade) if glob not in gone],
        "edited since that plan ended": edited,
        "reused steps name variables that have another value now": others,
    }
    return tuple(f"{about}: {listed(names, SHOWN_FILES)}" for about, names in findings.items() if names)


def _is_made(workspace: Path, glob: str) -> bool:
    """Return whether a file that a glob means exists. A glob for files in all folders promises none."""
    if _WIDE.match(glob):
        return True
    fixed = list(takewhile(lambda name: not is_wild(name), glob.split("/")))
    top = workspace.joinpath(*fixed)
    if len(fixed) == len(glob.split("/")) or not os.path.isdir(top):
        return os.path.exists(top)
    return any(matches_any(file.relative_to(workspace).as_posix(), [glob]) for file in top.rglob("*"))


def variables_of(steps: Iterable[Step], environ: Mapping[str, str]) -> dict[str, str]:
    """Return a digest of each environment variable that commands of the steps name; empty if it is not set."""
    lines = (line for step in steps for line in (step.command, *step.verify) if line)
    names = dict.fromkeys(name for line in lines for name in _VARIABLE.findall(line))
    return {name: sha256(environ[name].encode()).hexdigest()[:12] if name in environ else "" for name in names}


def read_earlier(folder: PlanFolder) -> EarlierRun:
    """Return the last state of an earlier plan. Reads files.

    Raises:
        BrokenPlanError: it can't be read back.
    """
    settings = folder.settings()
    loaded, state = current_state(folder, settings)
    return EarlierRun(plan_id=folder.plan_id, keyed=_keyed_run(loaded, settings, state), state=state)


def _keyed_run(loaded: LoadedPlan, settings: RunSettings, state: State) -> KeyedPlan:
    """Return a plan that has begun with the keys of its results."""
    decisions = {**settings.decisions, **state.answers()}
    return KeyedPlan(plan=loaded.plan, dag=loaded.dag, decisions=decisions, base_commit=settings.base_commit)


def comparable(one: Side, other: Side, environ: Mapping[str, str]) -> tuple[KeyedPlan, KeyedPlan]:
    """Return both plans with the keys of their results.

    A document gets keys as if it reused the other with ``--reuse``.

    Raises:
        BrokenPlanError: a plan that was run can't be read back.
    """
    return _keyed(one, other, environ), _keyed(other, one, environ)


def _keyed(side: Side, beside: Side, environ: Mapping[str, str]) -> KeyedPlan:
    if isinstance(side, PlanFolder):
        return read_earlier(side).keyed
    plan, dag = side.plan, side.dag
    if isinstance(beside, LoadedPlan):
        return KeyedPlan(plan=plan, dag=dag, decisions={}, base_commit=None)
    earlier, workspace = read_earlier(beside), Path(beside.settings().workspace)
    with suppress(InputsInvalidError):  # another plan may have other inputs
        bound_side = with_inputs(side, earlier.keyed.plan.values())
        plan, dag = bound_side.plan, bound_side.dag
    head, _ = _reuse_head(earlier, beside, head_commit(workspace, environ), workspace, environ)
    base = earlier.keyed.base_commit if same_base(earlier, head) else head
    return KeyedPlan(plan=plan, dag=dag, decisions=answers_taken_over(earlier, plan, {}), base_commit=base)


def workspace_of(earlier: PlanFolder, here: Path, *, is_sample: bool) -> Path:
    """Return where the new plan must work: where the earlier one did.

    For a demonstration that is a copy of its project.

    Raises:
        UsageError: that is another folder, or it is gone.
        BrokenPlanError: the earlier plan can't be read back.
    """
    there = Path(earlier.settings().workspace)
    if is_sample:
        if not os.path.isdir(there):
            raise UsageError(
                f"--reuse {earlier.plan_id}: {there}, where that plan ran, does not exist: run without --reuse"
            )
        return there
    if there.resolve() != here.resolve():
        where = f"that plan ran in {there}, and its changes are not in {here}"
        raise UsageError(f"--reuse {earlier.plan_id}: {where}; run with --workdir {there}")
    return here


def note_commit(store: PlanStore, environ: Mapping[str, str]) -> None:
    """Record the commit at which the run leaves the repository: its own merges must not prevent reuse of its results.

    Raises:
        StoreWriteError: the folder can't be written.
    """
    if store.settings.base_commit is None:
        return
    commit = head_commit(Path(store.settings.workspace), environ)
    if commit is not None:
        store.append(PlanLeftEvent(ts=time.time(), plan_id=store.plan_id, commit=commit))


def write_start(store: PlanStore, plan: Plan, start: ReuseStart) -> None:
    """Write into a new plan's folder what is taken over and what is left out. Blocks on files.

    Raises:
        StoreWriteError: the folder can't be written.
    """
    at, plan_id, from_plan = time.time(), store.plan_id, start.reused_from or ""
    own = {decision.id: plan_decision(decision) for decision in plan.decisions}
    for decision_id, chosen in start.decisions.items():
        taken = structs.replace(own[decision_id], ts=at, plan_id=plan_id, selections=chosen, by=REUSED_BY)
        store.append(taken)
    for step_id, result in start.selection.taken.items():
        raw = Raw(json.encode(result))
        store.append(PlanReusedEvent(ts=at, plan_id=plan_id, step_id=step_id, from_plan=from_plan, result=raw))
        store.write_result(step_id, result)
    titles = {step.id: step.title for step in plan.steps}
    skipped: dict[str, Any] = {"previous": StepStatus.PENDING.value, "status": StepStatus.SKIPPED.value}
    skipped |= {"reason": ONLY_REASON, "detail": LEFT_OUT}
    for step_id in start.selection.left_out:
        store.append(PlanStepUpdateEvent(ts=at, plan_id=plan_id, step_id=step_id, title=titles[step_id], **skipped))


def head_commit(folder: Path, environ: Mapping[str, str]) -> str | None:
    """Return HEAD's commit; None without git, a repository or a commit. Blocks."""
    answer = _git_output(folder, environ, "rev-parse", "--verify", "--quiet", "HEAD")
    return answer.text or None if answer else None


def lacking_note(left: str | None, folder: Path, environ: Mapping[str, str]) -> str:
    """Say that what is checked out lacks the commit at which a plan left the folder; blank if it does not. Blocks."""
    answer = _git_output(folder, environ, "rev-list", "--max-count=1", left, "^HEAD") if left else None
    if answer is None or not answer.text:
        return ""
    return (
        f"the plan was left at commit {answer.text[:12]}, which is not in what is checked out now: the work of its "
        "finished steps may be missing there; if another branch is meant, pause, switch to it and resume"
    )


def changed_files(folder: Path, before: str, after: str, environ: Mapping[str, str]) -> Sequence[Path] | None:
    """Return the files of the working tree in which two commits differ; None if git can't say. Blocks."""
    return _files(folder, environ, "diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", before, after, "--")


def files_of(folder: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files in the folder that git does not ignore; none if git can't say. Blocks."""
    words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
    return (file for file in _files(folder, environ, *words) or () if file.is_relative_to(folder))


def _files(folder: Path, environ: Mapping[str, str], *words: str) -> Sequence[Path] | None:
    """Return the files that git names in an answer; None if it gives none."""
    top, answer = _git_output(folder, environ, "rev-parse", "--show-toplevel"), _git_output(folder, environ, *words)
    return [Path(top.text, name) for name in answer.items] if top and answer else None


def _git_output(folder: Path, environ: Mapping[str, str], *words: str) -> GitOutput | None:
    """Return git's answer in the folder's repository; None if there is no repository, or git refuses."""
    try:
        located = locate(folder)
        if located is None:
            return None
        # A partial clone would fetch what it lacks by a program that its own settings name.
        surroundings = located.surroundings(without_fetching(git_environ(environ, folder)))
        answer = run_git(GitCall(words=words, folder=located.top, environ=surroundings))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return answer if answer.code == 0 else None
