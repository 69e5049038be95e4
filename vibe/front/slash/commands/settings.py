"""Slash commands about the agent, the model, approvals and settings."""

from __future__ import annotations

from functools import cache
from statistics import median

from anyio import to_thread

from ipc.registry import Registry
from vibe.app.conversation.opening import AgentChange
from vibe.app.engine.build import Engine
from vibe.app.engine.settings import Settings
from vibe.app.plan.looking_back import ModelUse, models_used
from vibe.core.agents.models import AgentProfile, AgentType
from vibe.core.config.models import ModelConfig, Thinking
from vibe.core.llm.pricing import usual_prices
from vibe.core.tools.permissions import ApprovalMode
from vibe.front.cells import Line
from vibe.front.listings import setting_line
from vibe.front.picker import Picker, PickRow, titled, wrapped
from vibe.front.slash.command import Talk, TypedCommand
from vibe.front.slash.wording import setup_line
from vibe.front.start_screen import price
from vibe.system.errors import UsageError, VibeError, os_error_as
from vibe.system.plain_text import counted, one_line
from vibe.view.figures import dollars, short, took

ABOUT_LENGTH = 400


async def run_agents(talk: Talk, typed: TypedCommand) -> None:
    """List the agents, or switch to one."""
    if typed.rest:
        await talk.conversation.configure(AgentChange(agent=typed.rest))
        talk.say(setup_line(talk))
        await talk.refresh()
        return
    for profile in profiles(talk):
        mark = "*" if profile.name == talk.conversation.setup.profile.name else " "
        talk.say(f"{mark} {profile.name}: {profile.description}")


def profiles(talk: Talk) -> list[AgentProfile]:
    """Return the agents that a person can talk to."""
    profiles = talk.conversation.setup.engine.agents.profiles.values()
    return [profile for profile in profiles if profile.agent_type is not AgentType.SUBAGENT]


async def agents_picker(talk: Talk) -> Picker:
    """Return a picker of agents."""
    now = talk.conversation.setup.profile.name
    about = {f"/agents {one.name}": one for one in profiles(talk)}
    rows = [PickRow(line, one_line(one.name), "now" if one.name == now else "") for line, one in about.items()]

    def preview(row: PickRow, _mode: int) -> list[Line]:
        one = about[row.line]
        facts = [("model", ", then ".join(one.models)), ("from", one.source)]
        return [*titled(row.title, facts), [], *wrapped(one_line(one.description, ABOUT_LENGTH))]

    return Picker(title="Agent", rows=lambda _: rows, preview=preview, first=f"/agents {now}", enter="from now on")


async def run_approvals(talk: Talk, typed: TypedCommand) -> None:
    """Say what needs approval, or change it."""
    if typed.rest and typed.rest not in list(ApprovalMode):
        raise UsageError(f"/approvals {typed.rest}: say one of {', '.join(ApprovalMode)}")
    if typed.rest:
        await talk.conversation.configure(AgentChange(approvals=ApprovalMode(typed.rest)))
    talk.say(setup_line(talk))


async def run_config(talk: Talk, typed: TypedCommand) -> None:
    """Show the settings that are not as by default, or one group of them, or change one in the user's file."""
    settings = _settings(talk)
    key, _, word = typed.rest.partition(" ")
    if key and word:
        path = await to_thread.run_sync(_set, settings, key, word.strip())
        talk.say(f"{key} is set in {path}; /reload applies it")
        return
    shown = await to_thread.run_sync(lambda: settings.get(key) if key else tuple(settings.shown()))
    lines = [setting_line(setting, origin=True) for setting in shown if key or setting.origin != "default"]
    more = "" if key else f"\n{len(shown) - len(lines)} more are as by default: /config ui shows those of a group"
    talk.say("\n".join(lines) + more)


def _settings(talk: Talk) -> Settings:
    opening = talk.conversation.setup.opening
    return Settings(talk.runtime.host, opening.workdir, trust=opening.trust)


def _set(settings: Settings, key: str, word: str) -> str:
    value = settings.value_of(key, word)
    with os_error_as(lambda error: UsageError(f"/config {key}: the file can't be written ({error.strerror})")):
        settings.writer(project=False, key=key).set(key, value)
    return settings.label(settings.path(project=False))


async def run_model(talk: Talk, typed: TypedCommand) -> None:
    """List the models, or switch to another model or thinking level."""
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


async def model_picker(talk: Talk) -> Picker:
    """Return a picker of models and their thinking level."""
    setup = talk.conversation.setup
    engine, levels = setup.engine, list(Thinking)
    models = {f"/model {one.key}": one for one in engine.config.models}
    priced = await to_thread.run_sync(lambda: {line: _prices(engine, one) for line, one in models.items()})
    rows = [PickRow(line, one_line(one.key), priced[line][0], words=one.name) for line, one in models.items()]
    host = talk.runtime.host
    used = cache(lambda: models_used(Registry(host.home, host.runtime_dir), setup.opening.workdir))

    def preview(row: PickRow, mode: int) -> list[Line]:
        one = models[row.line]
        facts = [
            ("context", short(one.context_size)),
            ("price", priced[row.line][1]),
            ("thinking", levels[mode]),
            ("images", "yes" if one.sees_images else ""),
            ("provider", one.provider),
            ("called", one.name if one.name != one.key else ""),
            *_used(used().get(one.key, ModelUse())),
        ]
        return titled(row.title, facts)

    return Picker(
        title="Model",
        rows=lambda _: rows,
        preview=preview,
        modes=[(level.value, f" {level}") for level in levels],
        mode=levels.index(setup.model.thinking),
        mode_key="←→ thinking",
        first=f"/model {setup.model.key}",
        enter="from the next prompt on",
    )


def _used(use: ModelUse) -> list[tuple[str, str]]:
    """Describe what a model has done in this folder; blank if it did nothing."""
    cost = "" if not use.cost_usd else f" · {dollars(use.cost_usd)}"
    first = f"first token after {took(median(use.waits))}" if use.waits else ""
    return [("did here", f"{counted(use.answers, 'turn')}{cost}" if use.answers else ""), ("", first)]


def _prices(engine: Engine, model: ModelConfig) -> tuple[str, str]:
    """Return a model's prices, or why it can't be used, in short and in words; may load a price list."""
    try:
        provider = engine.models.provider(model)
    except VibeError:
        return "no provider", f"there is no provider {one_line(model.provider)}"
    if provider.api_key_env_var and not engine.environ.get(provider.api_key_env_var):
        return "no key", f"unknown: {provider.api_key_env_var} is not set"
    prices = usual_prices(provider, model)
    if prices is None:
        return "", "unknown"
    sent, received = map(price, prices)
    return f"{sent} / {received}", f"{sent} in, {received} out per M tok"


async def run_reload(talk: Talk, _typed: TypedCommand) -> None:
    """Read all settings again; an error leaves everything as it was."""
    setup = talk.conversation.setup
    await talk.conversation.configure(AgentChange(agent=setup.profile.name, model=setup.opening.model))
    for warning in talk.conversation.setup.engine.warnings:
        talk.say(warning, "warning")
    await talk.refresh()
    talk.say(f"reloaded: {setup_line(talk)}; MCP servers keep running as they were started")
