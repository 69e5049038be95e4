"""Slash commands of agent, model, approvals and settings."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import to_thread

from vibe.app.conversation.opening import AgentChange
from vibe.app.engine.settings import Settings
from vibe.core.agents.models import AgentProfile, AgentType
from vibe.core.config.models import Thinking
from vibe.core.tools.permissions import ApprovalMode
from vibe.front.listings import setting_line
from vibe.front.slash.command import ArgumentChoice, Talk, Typed
from vibe.front.slash.wording import setup_line, words
from vibe.system.errors import UsageError


async def run_agents(talk: Talk, typed: Typed) -> None:
    """List the agents, or go on with another."""
    if typed.rest:
        await talk.conversation.configure(AgentChange(agent=typed.rest))
        talk.say(setup_line(talk))
        await talk.refresh()
        return
    for profile in _profiles(talk):
        mark = "*" if profile.name == talk.conversation.setup.profile.name else " "
        talk.say(f"{mark} {profile.name}: {profile.description}")


async def agents_choices(talk: Talk, _text: str) -> Sequence[ArgumentChoice]:
    """Return the agents."""
    return [ArgumentChoice(profile.name, profile.description) for profile in _profiles(talk)]


def _profiles(talk: Talk) -> list[AgentProfile]:
    profiles = talk.conversation.setup.engine.agents.profiles.values()
    return [profile for profile in profiles if profile.agent_type is not AgentType.SUBAGENT]


async def run_approvals(talk: Talk, typed: Typed) -> None:
    """Say what is asked about, or change it."""
    if typed.rest and typed.rest not in list(ApprovalMode):
        raise UsageError(f"/approvals {typed.rest}: say one of {', '.join(ApprovalMode)}")
    if typed.rest:
        await talk.conversation.configure(AgentChange(approvals=ApprovalMode(typed.rest)))
    talk.say(setup_line(talk))


async def approvals_choices(_talk: Talk, _text: str) -> Sequence[ArgumentChoice]:
    """Return the modes."""
    return words(*ApprovalMode)


async def run_config(talk: Talk, typed: Typed) -> None:
    """Show all settings or some, or change one in the user's file."""
    settings = _settings(talk)
    key, _, word = typed.rest.partition(" ")
    if key and word:
        path = await to_thread.run_sync(_set, settings, key, word.strip())
        talk.say(f"{key} is set in {path}; /reload applies it")
        return
    shown = await to_thread.run_sync(lambda: settings.get(key) if key else tuple(settings.shown()))
    talk.say("\n".join(setting_line(setting, origin=True) for setting in shown))


async def config_choices(talk: Talk, text: str) -> Sequence[ArgumentChoice]:
    """Return the keys."""
    if " " in text:
        return ()
    shown = await to_thread.run_sync(lambda: tuple(_settings(talk).shown()))
    return [ArgumentChoice(setting.key, setting.origin) for setting in shown]


def _settings(talk: Talk) -> Settings:
    opening = talk.conversation.setup.opening
    return Settings(talk.runtime.host, opening.workdir, trust=opening.trust)


def _set(settings: Settings, key: str, word: str) -> str:
    value = settings.value_of(key, word)
    try:
        settings.writer(project=False, key=key).set(key, value)
    except OSError as error:
        raise UsageError(f"/config {key}: the file can't be written ({error.strerror})") from error
    return settings.label(settings.path(project=False))


async def run_model(talk: Talk, typed: Typed) -> None:
    """List the models, or go on with another, or with another thinking."""
    setup = talk.conversation.setup
    if not typed.rest:
        for one in setup.engine.config.models:
            talk.say(f"{'*' if one.key == setup.model.key else ' '} {one.key}")
        return
    given = typed.rest.split()
    levels = [word for word in given if word in list(Thinking)]
    aliases = [word for word in given if word not in levels]
    if len(levels) > 1 or len(aliases) > 1:
        raise UsageError("/model takes one model and one level of thinking: /model ALIAS high")
    thinking = Thinking(levels[0]) if levels else None
    await talk.conversation.configure(AgentChange(model=aliases[0] if aliases else None, thinking=thinking))
    talk.say(setup_line(talk))


async def model_choices(talk: Talk, text: str) -> Sequence[ArgumentChoice]:
    """Return the models, and behind one the levels of thinking."""
    models = () if " " in text else (one.key for one in talk.conversation.setup.engine.config.models)
    return words(*models, *Thinking)


async def run_reload(talk: Talk, _typed: Typed) -> None:
    """Read all of it again; what is wrong with it leaves everything as it was."""
    setup = talk.conversation.setup
    await talk.conversation.configure(AgentChange(agent=setup.profile.name, model=setup.opening.model))
    for warning in talk.conversation.setup.engine.warnings:
        talk.say(f"warning: {warning}")
    await talk.refresh()
    talk.say(f"reloaded: {setup_line(talk)}; MCP servers keep running as they were started")
