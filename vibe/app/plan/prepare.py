"""Prepares a run: document, engine and settings are checked before anything is written."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ipc.commands import Decide
from ipc.registry import Registry
from planner.plan.loader import LoadedPlan, with_inputs
from planner.plan.model import OPEN_STATUSES, Plan, PlanStatus, Sample
from planner.plan.operations import RevisionInvalidError
from planner.plan.revision import operations_between
from planner.state.decide import preview_next_run
from planner.store.current_plan import effective_plan
from planner.store.folder import (
    PROGRAM,
    ApprovalSetting,
    PlanFolder,
    PlanRunOptions,
    RunSettings,
    find_plan,
    list_plans,
    plans_folder,
)
from planner.store.store import PlanStore
from vibe.app.engine.build import Engine, EngineRequest, build_engine, network_flags
from vibe.app.engine.host import Host
from vibe.app.plan import preflight
from vibe.app.plan.command_consent import check_accepted, is_by_model
from vibe.app.plan.replanning import check_replans, with_decision_timeout
from vibe.app.plan.reuse import lacking_note, starting_point, variables_of, write_start
from vibe.app.plan.step_executor import cluster_of, executor_of
from vibe.app.plan.worktrees import check_worktrees
from vibe.shell.sandbox.confinement import remove_remains
from vibe.system.errors import EnvironmentFailure, UsageError, explained_by, os_error_as

_PREFIX = "vibe-sample-"


class PlanOverError(UsageError):
    """Raised because a plan that has ended can't be resumed as it is."""

    def __init__(self, plan_id: str, status: PlanStatus) -> None:
        again = f"`vibe plan retry {plan_id} STEP` repeats a step"
        if status is PlanStatus.CANCELLED:
            again = "a cancelled plan can't be resumed; run the plan file again"
        if status is PlanStatus.FAILED:  # a retry alone would meet the same limit again
            again = f"`vibe plan status {plan_id}` says how it can go on"
        super().__init__(f"plan {plan_id} has ended ({status.value}): nothing to resume; {again}")


class PreparedRun(Struct, frozen=True, kw_only=True):
    """A run that could start. ``open_store`` creates or opens the plan's folder, and is the first thing that writes."""

    loaded: LoadedPlan
    engine: Engine
    options: PlanRunOptions
    open_store: Callable[[], PlanStore]


def prepare_new(loaded: LoadedPlan, options: PlanRunOptions, host: Host) -> PreparedRun:
    """Prepare the run of a new plan. Nothing is written yet.

    Raises:
        UsageError: the plan, a flag or the configuration is wrong.
        EnvironmentFailure: a provider's key is missing.
    """
    loaded = with_inputs(loaded, options.inputs)
    plan, sample = loaded.plan, loaded.plan.sample
    engine = engine_of_new(plan, options, host)
    replay = engine.request.replay
    does = RunSettings(workspace="").with_program(options.program)
    preflight.check_functions(loaded, options.program)
    with explained_by(engine.warnings):
        preflight.check_surroundings(plan, engine, options.model, does.by_program)
    check_replans(plan, engine.config.planner, engine.loaded.origins)
    check_accepted(plan, loaded.where, accepted=_is_accepted(options, engine))
    start = starting_point(loaded, options, host.home, engine.environ)
    check_worktrees(plan, start.workspace, host, engine, allow_dirty=options.allow_dirty, where=loaded.where)
    engine = replace(engine, warnings=(*engine.warnings, *start.warnings))
    executor = executor_of(options)
    cluster = cluster_of(executor, options.cluster or "", engine.config.cluster)
    preflight.check_needs([step for step in plan.steps if step.id in start.selection.runs], cluster)

    def make_store() -> PlanStore:
        fresh = sample if start.reused_from is None else None
        settings = RunSettings(
            plan_id=options.plan_id,
            goal=plan.goal,
            workspace=str(copy_sample(fresh, options.plan_folder, host) if fresh else start.workspace),
            sample=sample is not None,
            script=str(replay) if replay else None,
            model=options.model,
            approvals=ApprovalSetting.AUTO if engine.config.auto_approve and not options.asked else options.approvals,
            max_parallel=options.max_parallel or plan.max_parallel_steps or engine.config.planner.max_parallel_steps,
            decisions=dict(options.decisions),
            fail_fast=options.fail_fast,
            executor=PROGRAM if does.executor == PROGRAM else executor,
            cluster=cluster,
            functions=does.functions,
            allow_dirty=options.allow_dirty,
            accept_writes=_is_accepted(options, engine) or not is_by_model(plan),
            network=options.network,
            origin=loaded.where,
            session=options.session,
            messages=options.messages,
            given=host.given.names if host.given else (),
            only=start.only,
            reused_from=start.reused_from,
            base_commit=start.base_commit,
            variables=variables_of(plan.steps, engine.environ),
            inputs=plan.values(),
            note=start.note,
        )
        try:
            store = PlanStore.create(host.home, settings, loaded.source_bytes)
        except BaseException:
            if fresh and (copy := sample_copy(settings)):
                remove_sample_copy(copy)  # no plan refers to it
            raise
        try:
            write_start(store, plan, start)
        except BaseException:
            store.close()
            raise
        return store

    return _prepared(loaded, engine, options, make_store)


def _is_accepted(options: PlanRunOptions, engine: Engine) -> bool:
    """Return whether a model's commands may run, because a person has read them or a setting of theirs allows it."""
    unasked = options.approvals is ApprovalSetting.AUTO or engine.config.auto_approve or engine.config.planner.auto_run
    return options.accepted or unasked


def engine_of_new(plan: Plan, options: PlanRunOptions, host: Host) -> Engine:
    """Return the engine for a new plan.

    A demonstration's script serves as the model unless one was chosen. Reads files.

    Raises:
        UsageError: a flag or the configuration is wrong, or a demonstration's project is not there.
    """
    executor_of(options)
    preflight.check_decisions(plan.decisions, options.decisions)
    if plan.sample is not None and options.reuse is None:
        _sample_project(plan.sample, options.plan_folder)
    sample = plan.sample if options.model is None else None
    replay = options.plan_folder / sample.replay if sample and sample.replay else None
    request = replace(_engine_request(options, options.workdir, replay), flags=network_flags(on=options.network))
    return build_engine(host, request)


def _engine_request(options: PlanRunOptions, workdir: Path, replay: Path | None) -> EngineRequest:
    return EngineRequest(
        workdir=workdir,
        trust=options.trust,
        replay=replay,
        slowed=options.slowed,
        tools=options.tools,
        hooks=options.hooks,
    )


def prepare_resumed(reference: str, options: PlanRunOptions, host: Host) -> PreparedRun:
    """Prepare to resume a plan. The present choices override its settings. Nothing is written yet.

    Raises:
        UsageError: there is no such plan, or it has ended.
        EnvironmentFailure: a provider's key is missing.
    """
    folder = find_plan(host.home, reference)
    state = folder.state()
    # A run that was killed could not clean up after itself.
    remove_remains(host.environ, Path(folder.settings().workspace))
    Registry(host.home, host.runtime_dir).sweep()
    if state.status not in OPEN_STATUSES:
        raise PlanOverError(folder.plan_id, state.status)
    settings = _resumed_settings(folder.settings(), options)
    if options.inputs and {**settings.inputs, **options.inputs} != settings.inputs:
        raise UsageError(f"plan {folder.plan_id}: its inputs are those it was begun with: run the plan file again")
    loaded = preflight.as_begun(effective_plan(folder, state, where=settings.origin or "plan.json"), state)
    preflight.check_program(folder.settings(), loaded, state, options.program)
    preflight.check_functions(loaded, options.program)
    known = len(state.revisions), len(state.unfolded)
    waiting = preview_next_run(state, loaded, folder.settings().decisions)
    answers = preflight.check_answers(loaded.plan, waiting, options.decisions)
    replay = Path(settings.script) if settings.script and options.model is None else None
    rest = preflight.rest_of(loaded.plan, state)
    engine = engine_of_resume(rest, settings, host, _engine_request(options, Path(settings.workspace), replay))
    cluster = cluster_of(settings.executor, settings.cluster, engine.config.cluster)
    preflight.check_needs(rest.steps, cluster)
    settings = settings.model_copy(update={"cluster": cluster})

    gone = ", ".join(name for name in settings.given if host.given is None or name not in host.given.names)
    not_kept = f"plan {folder.plan_id} was begun with {gone}, which is not kept: give it again if it is meant"
    lacking = lacking_note(state.left_at or settings.base_commit, Path(settings.workspace), host.environ)
    engine = replace(engine, warnings=(*engine.warnings, *filter(None, (not_kept if gone else "", lacking))))

    def reopen_store() -> PlanStore:
        store = PlanStore.open(host.home, folder.plan_id)
        try:
            _check_unchanged(store, known)
            for decision_id, selections in answers.items():
                store.take(Decide(decision_id=decision_id, selections=tuple(selections), by="flag"))
            store.note_program(options.program)
        except BaseException:
            store.close()
            raise
        store.settings = settings
        return store

    return _prepared(loaded, engine, options, reopen_store)


def _prepared(
    loaded: LoadedPlan, engine: Engine, options: PlanRunOptions, open_store: Callable[[], PlanStore]
) -> PreparedRun:
    timed = with_decision_timeout(loaded, engine.config.planner.decision_timeout_seconds)
    ready = preflight.with_ladders(timed, engine.agents, options.program)
    return PreparedRun(loaded=ready, engine=engine, options=options, open_store=open_store)


def _check_unchanged(store: PlanStore, known: tuple[int, int]) -> None:
    """Check that the plan has not ended or changed since its revisions and lists were first looked at."""
    now = store.state()
    if now.status not in OPEN_STATUSES:
        raise PlanOverError(store.plan_id, now.status)
    if (len(now.revisions), len(now.unfolded)) != known:
        raise UsageError(f"plan {store.plan_id} was just changed by another command: resume it again")


def engine_of_resume(rest: Plan, settings: RunSettings, host: Host, request: EngineRequest) -> Engine:
    """Return the engine for the rest of a plan, after checking that each of its steps could start. Reads files.

    The settings add to the request.

    Raises:
        UsageError: its workspace is gone, or a step or the configuration is wrong.
        EnvironmentFailure: a provider's key is missing.
    """
    workdir = settings.existing_workspace()
    engine = build_engine(host, replace(request, flags=network_flags(on=settings.network)))
    with explained_by(engine.warnings):
        preflight.check_surroundings(rest, engine, settings.model, settings.by_program)
    check_replans(rest, engine.config.planner, engine.loaded.origins)
    check_worktrees(rest, workdir, host, engine)
    return engine


def _resumed_settings(settings: RunSettings, options: PlanRunOptions) -> RunSettings:
    given = {
        "model": options.model,
        "max_parallel": options.max_parallel,
        "approvals": options.approvals if options.asked or options.approvals is not ApprovalSetting.ASK else None,
        "fail_fast": options.fail_fast or None,
        "network": options.network or None,
        "accept_writes": options.accepted or None,
        "executor": executor_of(options, settings.executor),
        "cluster": options.cluster,
        "decisions": {**settings.decisions, **options.decisions},
    }
    given = {name: value for name, value in given.items() if value is not None}
    return settings.model_copy(update=given).with_program(options.program)


def unfinished_run(home: Path, loaded: LoadedPlan, options: PlanRunOptions) -> str | None:
    """Return the id of the newest unfinished plan that was begun from this file in this workspace.

    None if there is none.

    Plans begun with other input values than those in ``options`` don't count. A demonstration works in a copy of its
    own, wherever it was started. Reads files.

    Raises:
        UsageError: there is one, but its text differs from the file.
        BrokenPlanError: there is one, and it can't be read back.
    """
    for plan in reversed(list_plans(home)):
        if plan.problem is not None or plan.status not in OPEN_STATUSES:
            continue
        folder = PlanFolder(plans_folder(home) / plan.plan_id)
        settings = folder.settings()
        if settings.origin == loaded.where and (settings.sample or Path(settings.workspace) == options.workdir):
            kept = {one.name: settings.inputs[one.name] for one in loaded.plan.inputs if one.name in settings.inputs}
            wanted = with_inputs(loaded, {**kept, **options.inputs})
            if wanted.plan.values() != settings.inputs:
                continue
            if folder.source() != wanted.source_bytes and _differs(folder, wanted):
                raise UsageError(
                    f"{loaded.where} has changed since plan {plan.plan_id} started from it: `vibe plan edit "
                    f"{plan.plan_id} --file FILE` applies the changes, `vibe plan cancel {plan.plan_id}` cancels it"
                )
            return plan.plan_id
    return None


def _differs(folder: PlanFolder, loaded: LoadedPlan) -> bool:
    """Return whether the file asks for anything else than the current plan with its changes."""
    with suppress(RevisionInvalidError):
        return bool(operations_between(effective_plan(folder).plan, loaded.plan))
    return True  # they differ in more than steps


def _sample_project(sample: Sample, plan_folder: Path) -> Path:
    """Return the project of a sample.

    Raises:
        UsageError: it is not there.
    """
    project = plan_folder / sample.project
    if not os.path.isdir(project):
        raise UsageError(f"the plan's sample project {str(project)!r} is not a folder: keep it beside the plan file")
    return project


def copy_sample(sample: Sample, plan_folder: Path, host: Host) -> Path:
    """Copy a sample's project into a new temporary folder, and return the copy.

    Raises:
        UsageError: the project is not there.
        EnvironmentFailure: the copy can't be made.
    """
    project = _sample_project(sample, plan_folder)
    folder: Path | None = None
    try:
        folder = host.new_folder(_PREFIX)
        workspace = folder / project.name
        shutil.copytree(project, workspace, ignore=shutil.ignore_patterns("__pycache__"))
    except OSError as error:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise EnvironmentFailure(f"the sample project can't be copied to a temporary folder: {error}") from error
    return workspace


def sample_copy(settings: RunSettings) -> Path | None:
    """Return the temporary folder in which a demonstration's plan worked, if it exists and is ours."""
    folder = Path(settings.workspace).parent
    if settings.sample and folder.name.startswith(_PREFIX):
        with suppress(OSError):
            found = folder.lstat()
            return folder if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() else None
    return None


def remove_sample_copy(folder: Path) -> None:
    """Remove such a folder.

    Raises:
        EnvironmentFailure: the disk refuses.
    """
    lost = f"the sample's copy {str(folder)!r} can't be removed"
    with os_error_as(lambda error: EnvironmentFailure(f"{lost}: {error.strerror}")):
        shutil.rmtree(folder)
