"""The context for agents of a plan's steps, and the document from which a step's own process builds it."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, structs

from subagents.agent.budget import Limits
from subagents.agent.run_context import AgentContext, RunContext
from subagents.agent.run_services import RunServices
from vibe.app.engine.build import Engine, EngineRequest
from vibe.core.guidance import Guidance
from vibe.core.tools.permissions import ApprovalMode


class StepPlace(Struct, frozen=True, kw_only=True):
    """The workspace and settings of a plan's steps."""

    workspace: Path
    model: str | None = None
    """The model of steps that name none. None means the configured one."""
    sample: bool = False
    """True for a demonstration, whose agents get no guidance."""
    session_id: str = ""
    accepted_writes: frozenset[str] = frozenset()


def step_context(engine: Engine, place: StepPlace, services: RunServices) -> AgentContext:
    """Return the context of each agent of the plan's steps."""
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
        guidance=Guidance() if place.sample else structs.replace(engine.guidance, session_id=place.session_id),
        workspace=engine.workspace(place.workspace),
        approvals=services.approvals,
        user_input=services.user_input,
        environ=engine.environ,
        sink=services.sink,
        account=services.account,
        spawning=services.spawning.below,
    )


class StepDocument(Struct, frozen=True, kw_only=True):
    """The document from which a step's process builds its engine, by the same ``request`` as the run's.

    ``steps`` is the folder that holds the folders of the steps. ``limits`` are the plan's.
    """

    home: Path
    steps: Path
    request: EngineRequest
    approvals: ApprovalMode
    place: StepPlace
    limits: Limits = Limits()
