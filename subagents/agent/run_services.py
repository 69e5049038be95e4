"""The services that all agents of a run share, in whatever process they work."""

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
    """The services of a run: in its own process themselves, in the process of a step what reaches them."""

    account: Account
    """The plan's."""
    approvals: Approvals
    sink: EventSink
    spawning: SpawnPool
    limiter_of: Callable[[str], CallLimiter]
    """The limiter that lets calls to a provider begin, by the provider's name."""
    user_input: UserInput | None = None
    """Answers agents; None: no user is there."""
    steering: Steering = field(default_factory=Steering)
    turns: Turns | None = None
    """Turns to write in the shared workspace; None: no other process writes there."""
