"""The settings of a session that an editor shows and changes: mode, model, thinking and approvals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from acp.schema import SessionConfigOptionSelect, SessionConfigSelectOption, SessionMode, SessionModeState

from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.opening import AgentChange
from vibe.core.agents.models import AgentProfile, AgentType
from vibe.core.config.models import Thinking
from vibe.core.tools.permissions import ApprovalMode
from vibe.system.errors import UsageError

Category = Literal["mode", "model", "thought_level"]
MODE, MODEL, THINKING, APPROVALS = "mode", "model", "thinking", "approvals"
ASKED_ABOUT = {
    ApprovalMode.ASK: "Ask about what no rule allows",
    ApprovalMode.EDITS: "Edit files without asking",
    ApprovalMode.ALL: "Ask about nothing",
}


def modes_of(conversation: Conversation) -> SessionModeState:
    """Return the modes, which are the agents that a person can talk to."""
    modes = [
        SessionMode(id=one.name, name=one.display_name, description=one.description) for one in _profiles(conversation)
    ]
    return SessionModeState(current_mode_id=conversation.setup.profile.name, available_modes=modes)


def options_of(conversation: Conversation) -> list[SessionConfigOptionSelect]:
    """Return all settings with their values."""
    setup = conversation.setup
    agents = [(one.name, one.display_name, one.description) for one in _profiles(conversation)]
    models = [(one.key, one.key, f"{one.name} by {one.provider}") for one in setup.engine.config.models]
    if setup.model.key not in {key for key, _, _ in models}:
        models.append((setup.model.key, setup.model.key, ""))
    levels = [(level.value, level.value.capitalize(), "") for level in Thinking]
    approvals = [(mode.value, words, "") for mode, words in ASKED_ABOUT.items()]
    return [
        _select(MODE, "Mode", setup.profile.name, agents, "mode"),
        _select(MODEL, "Model", setup.model.key, models, "model"),
        _select(THINKING, "Thinking", setup.model.thinking.value, levels, "thought_level"),
        _select(APPROVALS, "Approvals", conversation.approvals.mode.value, approvals),
    ]


def change_of(conversation: Conversation, option: str, value: object) -> AgentChange:
    """Return the change that giving a setting a value makes.

    Raises:
        UsageError: there is no such setting, or it can't have this value.
    """
    known = {one.id: one for one in options_of(conversation)}
    if option not in known:
        raise UsageError(f"there is no setting {option[:80]!r}: it is one of {', '.join(known)}")
    values = [one.value for one in known[option].options if isinstance(one, SessionConfigSelectOption)]
    if not isinstance(value, str) or value not in values:
        raise UsageError(f"{option} can't be {str(value)[:80]!r}: it is one of {', '.join(values)}")
    match option:
        case "mode":
            return AgentChange(agent=value)
        case "model":
            return AgentChange(model=value)
        case "thinking":
            return AgentChange(thinking=Thinking(value))
        case _:
            return AgentChange(approvals=ApprovalMode(value))


def _profiles(conversation: Conversation) -> list[AgentProfile]:
    profiles = conversation.setup.engine.agents.profiles.values()
    return [profile for profile in profiles if profile.agent_type is not AgentType.SUBAGENT]


def _select(
    option: str, name: str, value: str, values: Iterable[tuple[str, str, str]], category: Category | None = None
) -> SessionConfigOptionSelect:
    options = [
        SessionConfigSelectOption(value=one, name=shown, description=about or None) for one, shown, about in values
    ]
    return SessionConfigOptionSelect(
        type="select", id=option, name=name, current_value=value, options=options, category=category
    )
