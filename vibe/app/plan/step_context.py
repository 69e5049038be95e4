"""Context of the agents of a plan's steps, made of an engine: the same in the run's process and in a step's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msgspec import Struct

from subagents.agent.run_context import AgentContext, RunContext
from subagents.agent.run_services import RunServices
from vibe.app.engine.build import Engine
from vibe.core.guidance import Guidance


class StepPlace(Struct, frozen=True, kw_only=True):
    """Workspace and settings of a plan's steps."""

    workspace: str
    model: str | None = None
    """Of the steps that name none; None: the configured one."""
    sample: bool = False
    """A demonstration's, whose agents are taught nothing."""
    session_id: str = ""
    accepted_writes: frozenset[str] = frozenset()


def step_context(engine: Engine, place: StepPlace, services: RunServices) -> AgentContext:
    """Return what each agent of the plan's steps has."""
    return AgentContext(
        run=RunContext(
            base_prompt=engine.base_prompt,
            confinement=engine.confinement,
            accepted_writes=place.accepted_writes,
            verify_seconds=engine.config.planner.verify_timeout_seconds,
            steering=services.steering,
            turns=services.turns,
        ),
        models=engine.models,
        default_model=place.model,
        tools=engine.tools,
        agents=engine.agents,
        guidance=Guidance() if place.sample else replace(engine.guidance, session_id=place.session_id),
        workspace=engine.workspace(Path(place.workspace)),
        approvals=services.approvals,
        user_input=services.user_input,
        environ=engine.environ,
        sink=services.sink,
        account=services.account,
        spawning=services.spawning,
    )
