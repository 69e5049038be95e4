"""``/agents``: the agents a person can talk to."""

from __future__ import annotations

from collections.abc import Sequence

from vibe.app.conversation.opening import AgentChange
from vibe.cli.slash.command import ArgumentChoice, Talk, Typed
from vibe.cli.slash.wording import setup_line
from vibe.core.agents.profiles import AgentProfile, AgentType


async def run(talk: Talk, typed: Typed) -> None:
    """List the agents, or go on with another."""
    if typed.rest:
        await talk.conversation.configure(AgentChange(agent=typed.rest))
        talk.say(setup_line(talk))
        await talk.refresh()
        return
    for profile in _profiles(talk):
        mark = "*" if profile.name == talk.conversation.setup.profile.name else " "
        talk.say(f"{mark} {profile.name}: {profile.description}")


async def choices(talk: Talk, _text: str) -> Sequence[ArgumentChoice]:
    """Return the agents."""
    return [ArgumentChoice(profile.name, profile.description) for profile in _profiles(talk)]


def _profiles(talk: Talk) -> list[AgentProfile]:
    profiles = talk.conversation.setup.engine.agents.profiles.values()
    return [profile for profile in profiles if profile.agent_type is not AgentType.SUBAGENT]
