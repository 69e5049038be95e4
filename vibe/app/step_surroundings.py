"""What the agents of a plan's steps share, made of an engine: the same in the run's process and in a step's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ipc.sink import EventSink
from subagents.budget import Account
from subagents.spawner import SpawnPool
from subagents.surroundings import Surroundings
from vibe.app.build import Engine
from vibe.core.guidance import Guidance
from vibe.core.tools.approvals import Approvals
from vibe.core.tools.questions import UserInput


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlace:
    """Where a plan's steps work and with which model (None: the configured one). A ``sample`` is taught nothing."""

    workspace: Path
    model: str | None = None
    sample: bool = False
    session_id: str = ""
    accepted_writes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepServices:
    """What is one for all steps of a run. ``user_input`` None: nobody is there to answer agents."""

    sink: EventSink
    account: Account
    approvals: Approvals
    spawning: SpawnPool
    user_input: UserInput | None = None


def step_surroundings(engine: Engine, place: StepPlace, services: StepServices) -> Surroundings:
    """The surroundings of a plan's agents."""
    return Surroundings(
        models=engine.models,
        default_model=place.model,
        tools=engine.tools,
        workspace=engine.workspace(place.workspace),
        approvals=services.approvals,
        sink=services.sink,
        account=services.account,
        base_prompt=engine.base_prompt,
        guidance=Guidance() if place.sample else replace(engine.guidance, session_id=place.session_id),
        environ=engine.environ,
        agents=engine.agents,
        confinement=engine.confinement,
        spawning=services.spawning,
        user_input=services.user_input,
        accepted_writes=place.accepted_writes,
        verify_seconds=engine.config.planner.verify_timeout_seconds,
    )
