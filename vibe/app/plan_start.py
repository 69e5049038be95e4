"""What a plan's run starts from: the document, the engine and the settings, checked before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from planner.loader import LoadedPlan, load_plan
from planner.model import PlanStatus
from planner.plan_folder import find_plan
from planner.records import Approvals as ApprovalSetting
from planner.records import RunSettings
from planner.store import PlanStore
from vibe.app.build import Engine, EngineRequest, build_engine
from vibe.app.host import Host
from vibe.app.plan_preflight import check_decisions, check_surroundings
from vibe.app.sample_project import copy_sample
from vibe.core.errors import UsageError

RESUMABLE = frozenset({PlanStatus.IDLE, PlanStatus.ACTIVE, PlanStatus.PAUSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRunOptions:
    """What a person chose for this run; None: the plan's or the configuration's own.

    ``plan_folder`` is where the plan file lies: a sample's files are found beside it.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A run that could start. ``open_store`` makes or opens the plan's folder: the first thing that writes."""

    loaded: LoadedPlan
    engine: Engine
    bus_address: str
    open_store: Callable[[], PlanStore]


def prepare_new(loaded: LoadedPlan, options: PlanRunOptions, host: Host) -> PreparedRun:
    """A new plan's run; nothing is written yet.

    Raises:
        UsageError: the plan, a flag or the configuration is wrong.
        EnvironmentFailure: a provider's key is missing.
    """
    plan, sample = loaded.plan, loaded.plan.sample
    check_decisions(plan, options.decisions)
    replay = options.plan_folder / sample.replay if sample and sample.replay and options.model is None else None
    engine = build_engine(host, EngineRequest(workdir=options.workdir, trust=options.trust, replay=replay))
    check_surroundings(plan, engine, options.model)

    def make_store() -> PlanStore:
        settings = RunSettings(
            goal=plan.goal,
            workspace=str(copy_sample(sample, options.plan_folder) if sample else options.workdir),
            sample=sample is not None,
            script=str(replay) if replay else None,
            model=options.model,
            approvals=ApprovalSetting.AUTO if engine.config.auto_approve else options.approvals,
            max_parallel=options.max_parallel or plan.max_parallel_steps or engine.config.planner.max_parallel_steps,
            decisions=dict(options.decisions),
            fail_fast=options.fail_fast,
            origin=loaded.where,
        )
        return PlanStore.create(host.home, settings, loaded.source_bytes)

    address = options.bus_address or engine.config.ipc.address
    return PreparedRun(loaded=loaded, engine=engine, bus_address=address, open_store=make_store)


def prepare_resumed(reference: str, options: PlanRunOptions, host: Host) -> PreparedRun:
    """The rest of a plan's run, with what is said now put over its settings; nothing is written yet.

    Raises:
        UsageError: no such plan, or it has ended.
        EnvironmentFailure: a provider's key is missing.
    """
    folder = find_plan(host.home, reference)
    status = folder.replay().status
    if status not in RESUMABLE:
        raise UsageError(f"plan {folder.plan_id} has ended ({status.value}): there is nothing to resume")
    settings = _resumed_settings(folder.settings(), options)
    loaded = load_plan(folder.source(), where=settings.origin or "plan.json")
    check_decisions(loaded.plan, options.decisions)
    workdir = Path(settings.workspace)
    if not workdir.is_dir():
        raise UsageError(f"the workspace of plan {folder.plan_id}, {str(workdir)!r}, is gone: restore it first")
    replay = Path(settings.script) if settings.script and options.model is None else None
    engine = build_engine(host, EngineRequest(workdir=workdir, trust=options.trust, replay=replay))
    check_surroundings(loaded.plan, engine, settings.model)

    def reopen_store() -> PlanStore:
        store = PlanStore.open(host.home, folder.plan_id)
        store.settings = settings
        return store

    address = options.bus_address or engine.config.ipc.address
    return PreparedRun(loaded=loaded, engine=engine, bus_address=address, open_store=reopen_store)


def _resumed_settings(settings: RunSettings, options: PlanRunOptions) -> RunSettings:
    given = {
        "model": options.model,
        "max_parallel": options.max_parallel,
        "approvals": options.approvals if options.approvals is not ApprovalSetting.ASK else None,
        "fail_fast": options.fail_fast or None,
        "decisions": {**settings.decisions, **options.decisions},
    }
    return settings.model_copy(update={name: value for name, value in given.items() if value is not None})
