"""Preparation of a run: document, engine and settings, checked before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ipc.commands import Decide
from ipc.registry import Registry
from planner.plan.loader import LoadedPlan
from planner.plan.model import Plan, PlanStatus
from planner.plan.operations import RevisionInvalidError
from planner.plan.revision import operations_between
from planner.reuse.reuse import steps_named
from planner.state.decide import look
from planner.store.current_plan import effective_plan
from planner.store.folder import ApprovalSetting, PlanFolder, RunSettings, find_plan, list_plans, plans_folder
from planner.store.store import PlanStore
from vibe.app.engine.base_commit import head_commit
from vibe.app.engine.build import Engine, EngineRequest, build_engine, network_flags
from vibe.app.engine.host import Host
from vibe.app.plan.command_consent import check_accepted, is_by_model
from vibe.app.plan.preflight import check_answers, check_decisions, check_surroundings
from vibe.app.plan.replanning import check_replans, with_decision_timeout
from vibe.app.plan.reuse import ReuseRequest, ReuseStart, starting_point, variables_of, workspace_of, write_start
from vibe.app.plan.sample_project import copy_sample, remove_sample_copy, sample_copy
from vibe.app.plan.step_executor import DEFAULT_EXECUTOR, check_executor
from vibe.app.plan.worktrees import check_worktrees, check_worktrees_again
from vibe.shell.sandbox.confinement import remove_abandoned_placeholders
from vibe.shell.sandbox.temporary import remove_abandoned
from vibe.system.errors import UsageError

RESUMABLE = frozenset({PlanStatus.IDLE, PlanStatus.ACTIVE, PlanStatus.PAUSED})
"""Plans that a resume takes up again."""


class PlanOverError(UsageError):
    """A plan that has ended can't be resumed as it is."""

    def __init__(self, plan_id: str, status: PlanStatus) -> None:
        again = (
            "a cancelled plan can't be resumed; run the plan file again"
            if status is PlanStatus.CANCELLED
            else f"`vibe plan retry {plan_id} STEP` repeats a step"
        )
        super().__init__(f"plan {plan_id} has ended ({status.value}): nothing to resume; {again}")


class PlanChangedError(UsageError):
    """Another process changed a plan while it was being taken up."""

    def __init__(self, plan_id: str) -> None:
        super().__init__(f"plan {plan_id} was just changed by another command: resume it again")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRunOptions:
    """Choices of the user for this run; None: the plan's or the configuration's own.

    ``plan_folder`` is where the plan file lies: a sample's files are found beside it. ``only``: the steps asked for
    (none: all); ``reuse``: the plan whose results are taken over; ``allow_dirty``: worktrees may start from what is not
    committed. ``accepted``: a person has read the commands of a plan that a model wrote. ``network``: confined commands
    reach everything. ``plan_id`` is the id of a new plan (blank: one is chosen).
    """

    workdir: Path
    plan_folder: Path
    approvals: ApprovalSetting = ApprovalSetting.ASK
    max_parallel: int | None = None
    decisions: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    model: str | None = None
    fail_fast: bool = False
    trust: bool = False
    bus_address: str | None = None
    executor: str | None = None
    only: tuple[str, ...] = ()
    reuse: str | None = None
    allow_dirty: bool = False
    accepted: bool = False
    network: bool = False
    plan_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A run that could start. ``open_store`` makes or opens the plan's folder: the first thing that writes."""

    loaded: LoadedPlan
    engine: Engine
    bus_address: str
    open_store: Callable[[], PlanStore]


def prepare_new(loaded: LoadedPlan, options: PlanRunOptions, host: Host) -> PreparedRun:
    """Prepare a new plan's run; nothing is written yet.

    Raises:
        UsageError: the plan, a flag or the configuration is wrong.
        EnvironmentFailure: a provider's key is missing.
    """
    plan, sample = loaded.plan, loaded.plan.sample
    executor = options.executor or DEFAULT_EXECUTOR
    check_executor(executor)
    check_decisions(plan, options.decisions)
    replay = replay_of(plan, options)
    flags = network_flags(on=options.network)
    engine = build_engine(host, EngineRequest(workdir=options.workdir, flags=flags, trust=options.trust, replay=replay))
    check_surroundings(plan, engine, options.model)
    check_replans(plan, engine)
    check_accepted(plan, loaded.where, accepted=_is_accepted(options, engine))
    start = choose_start(loaded, options, host, engine)
    check_worktrees(plan, start.workspace, host, engine, allow_dirty=options.allow_dirty, where=loaded.where)
    engine = replace(engine, warnings=(*engine.warnings, *start.warnings))

    def make_store() -> PlanStore:
        fresh = sample if start.reused_from is None else None
        temporary = host.environ.get("TMPDIR")
        settings = RunSettings(
            plan_id=options.plan_id,
            goal=plan.goal,
            workspace=str(copy_sample(fresh, options.plan_folder, temporary) if fresh else start.workspace),
            sample=sample is not None,
            script=str(replay) if replay else None,
            model=options.model,
            approvals=ApprovalSetting.AUTO if engine.config.auto_approve else options.approvals,
            max_parallel=options.max_parallel or plan.max_parallel_steps or engine.config.planner.max_parallel_steps,
            decisions=dict(options.decisions),
            fail_fast=options.fail_fast,
            executor=executor,
            allow_dirty=options.allow_dirty,
            accept_writes=_is_accepted(options, engine) or not is_by_model(plan),
            network=options.network,
            origin=loaded.where,
            only=steps_named(plan, options.only),
            reused_from=start.reused_from,
            base_commit=start.base_commit,
            variables=variables_of(plan.steps, engine.environ),
            note=start.note,
        )
        try:
            store = PlanStore.create(host.home, settings, loaded.source_bytes)
        except BaseException:
            if fresh and (copy := sample_copy(settings)):
                remove_sample_copy(copy)  # nothing refers to it
            raise
        try:
            write_start(store, plan, start)
        except BaseException:
            store.close()
            raise
        return store

    address = options.bus_address or engine.config.ipc.address
    timed = with_decision_timeout(loaded, engine.config.planner.decision_timeout_seconds)
    return PreparedRun(loaded=timed, engine=engine, bus_address=address, open_store=make_store)


def _is_accepted(options: PlanRunOptions, engine: Engine) -> bool:
    """Return whether a model's commands may run: read by a person, or let through by a setting of theirs."""
    unasked = options.approvals is ApprovalSetting.AUTO or engine.config.auto_approve or engine.config.planner.auto_run
    return options.accepted or unasked


def replay_of(plan: Plan, options: PlanRunOptions) -> Path | None:
    """The script that serves as a demonstration's model, unless a model was chosen."""
    sample = plan.sample
    return options.plan_folder / sample.replay if sample and sample.replay and options.model is None else None


def choose_start(loaded: LoadedPlan, options: PlanRunOptions, host: Host, engine: Engine) -> ReuseStart:
    """Which steps a new run is about and what it takes over from another; reads files.

    Raises:
        UsageError: a step or plan is unknown, or that plan worked elsewhere.
        BrokenPlanError: that plan can't be read back.
    """
    is_sample = loaded.plan.sample is not None
    earlier = find_plan(host.home, options.reuse) if options.reuse else None
    workspace = workspace_of(earlier, options.workdir, is_sample=is_sample) if earlier else options.workdir
    head = None if is_sample and earlier is None else head_commit(workspace, engine.environ)
    wanted = ReuseRequest(
        workspace=workspace,
        environ=engine.environ,
        origin=loaded.where,
        only=steps_named(loaded.plan, options.only),
        earlier=earlier,
    )
    return starting_point(loaded, wanted, options.decisions, head=head)


def prepare_resumed(reference: str, options: PlanRunOptions, host: Host) -> PreparedRun:
    """Prepare a resume of a plan, whose settings the present choices override; nothing is written yet.

    Raises:
        UsageError: no such plan, or it has ended.
        EnvironmentFailure: a provider's key is missing.
    """
    folder = find_plan(host.home, reference)
    state = folder.state()
    # What a run that was killed could not take with it, even at its end.
    remove_abandoned(host.environ.get("TMPDIR"))
    remove_abandoned_placeholders(Path(folder.settings().workspace))
    Registry(host.home, host.runtime_dir).sweep()
    if state.status not in RESUMABLE:
        raise PlanOverError(folder.plan_id, state.status)
    settings = _resumed_settings(folder.settings(), options)
    check_executor(settings.executor)
    loaded = effective_plan(folder, state, where=settings.origin or "plan.json")
    revisions = len(state.revisions)
    answers = check_answers(loaded.plan, look(state, loaded, folder.settings().decisions), options.decisions)
    replay = Path(settings.script) if settings.script and options.model is None else None
    engine = engine_of_resume(loaded.plan, settings, host, trust=options.trust, replay=replay)

    def reopen_store() -> PlanStore:
        store = PlanStore.open(host.home, folder.plan_id)
        try:
            _check_unchanged(store, revisions)
            for decision_id, selections in answers.items():
                store.take(Decide(decision_id=decision_id, selections=tuple(selections), by="flag"))
        except BaseException:
            store.close()
            raise
        store.settings = settings
        return store

    address = options.bus_address or engine.config.ipc.address
    timed = with_decision_timeout(loaded, engine.config.planner.decision_timeout_seconds)
    return PreparedRun(loaded=timed, engine=engine, bus_address=address, open_store=reopen_store)


def _check_unchanged(store: PlanStore, revisions: int) -> None:
    """Check that the plan was neither ended nor changed between the first look and its being held."""
    now = store.state()
    if now.status not in RESUMABLE:
        raise PlanOverError(store.plan_id, now.status)
    if len(now.revisions) != revisions:
        raise PlanChangedError(store.plan_id)


def engine_of_resume(
    plan: Plan, settings: RunSettings, host: Host, *, trust: bool, replay: Path | None = None
) -> Engine:
    """Return what does the rest of a plan that was begun, every step of which could start; reads files.

    Raises:
        UsageError: its workspace is gone, or a step or the configuration is wrong.
        EnvironmentFailure: a provider's key is missing.
    """
    workdir = Path(settings.workspace)
    if not workdir.is_dir():
        raise UsageError(
            f"the workspace of plan {settings.plan_id}, {str(workdir)!r}, does not exist: restore it first"
        )
    flags = network_flags(on=settings.network)
    engine = build_engine(host, EngineRequest(workdir=workdir, flags=flags, trust=trust, replay=replay))
    check_surroundings(plan, engine, settings.model)
    check_replans(plan, engine)
    check_worktrees_again(plan, workdir, host, engine)
    return engine


def _resumed_settings(settings: RunSettings, options: PlanRunOptions) -> RunSettings:
    given = {
        "model": options.model,
        "max_parallel": options.max_parallel,
        "approvals": options.approvals if options.approvals is not ApprovalSetting.ASK else None,
        "fail_fast": options.fail_fast or None,
        "network": options.network or None,
        "executor": options.executor,
        "decisions": {**settings.decisions, **options.decisions},
    }
    return settings.model_copy(update={name: value for name, value in given.items() if value is not None})


class PlanFileChangedError(UsageError):
    """The file of a plan that was begun is not what it was."""

    def __init__(self, plan_id: str, where: str) -> None:
        super().__init__(
            f"{where} has changed since plan {plan_id} started from it: `vibe plan edit {plan_id} --file FILE` "
            f"applies the changes, `vibe plan cancel {plan_id}` cancels it"
        )
        self.plan_id = plan_id


def unfinished_run(home: Path, loaded: LoadedPlan, workspace: Path) -> str | None:
    """The id of the newest plan begun from this file, in this workspace, that has not ended; None if there is none.

    A demonstration works in a copy of its own, wherever it was started. Reads files.

    Raises:
        PlanFileChangedError: there is one, of another text.
        BrokenPlanError: there is one, and it can't be read back.
    """
    for plan in reversed(list_plans(home)):
        if plan.problem is not None or plan.status not in RESUMABLE:
            continue
        folder = PlanFolder(plans_folder(home) / plan.plan_id)
        settings = folder.settings()
        if settings.origin == loaded.where and (settings.sample or Path(settings.workspace) == workspace):
            if folder.source() != loaded.source_bytes and _differs(folder, loaded):
                raise PlanFileChangedError(plan.plan_id, loaded.where)
            return plan.plan_id
    return None


def _differs(folder: PlanFolder, loaded: LoadedPlan) -> bool:
    """Return whether the file asks for something else than the current plan, changes included."""
    try:
        return bool(operations_between(effective_plan(folder).plan, loaded.plan))
    except RevisionInvalidError:
        return True  # in more than steps
