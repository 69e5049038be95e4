"""The services that all agents of a run share, whatever process they work in."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from ipc.sink import EventSink
from subagents.agent.budget import Account
from subagents.agent.spawner import SpawnPool
from subagents.agent.steering import Steering
from vibe.core.llm.limiter import CallLimiter
from vibe.core.session.write_turn import Turns
from vibe.core.tools.gate import Approvals
from vibe.core.tools.questions import UserInput


class RunServices(Struct, frozen=True, kw_only=True):
    """The services of a run.

    In the run's own process they are the services themselves, in the process of a step stand-ins that reach them.
    """

    account: Account
    """The account of the plan."""
    approvals: Approvals
    sink: EventSink
    spawning: SpawnPool
    limiter_of: Callable[[str], CallLimiter]
    """Returns the limiter of calls to a provider, by the provider's name."""
    user_input: UserInput | None = None
    """Asks the user; None if no user is there."""
    steering: Steering = field(default_factory=Steering)
    turns: Turns | None = None
    """The turns to write in the shared workspace; None if no other process writes there."""
