from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vibe.core.agents.manager import (
    AgentError,
    AgentManager,
    AgentSources,
    BrokenAgentError,
)
from vibe.core.agents.models import AgentSafety, AgentType

REVIEWER = """\
name = "reviewer"
display_name = "Code Reviewer"
description = "Specialized agent for code reviews"
safety = "safe"
active_model = "devstral-2"
system_prompt_id = "cli"

# Only allow read operations
[tools.read]
permission = "always"

[tools.bash]
permission = "never"
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write_agent(name: str, text: str, folder: str = "agents") -> Path:
        path = tmp_path / folder / f"{name}.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write_agent


def manager(tmp_path: Path, *folders: str, **settings: tuple[str, ...]) -> AgentManager:
    found = tuple(tmp_path / folder for folder in folders or ("agents",))
    return AgentManager(AgentSources(user_home=tmp_path, folders=found, **settings))  # pyright: ignore[reportArgumentType]  patterns only


def test_the_documented_profile_loads_with_all_it_says(tmp_path: Path, write: Callable[..., Path]) -> None:
    write("anything", REVIEWER)

    agents = manager(tmp_path)
    profile = agents.main("reviewer")

    assert agents.warnings == ()
    assert (profile.display_name, profile.safety, profile.agent_type) == (
        "Code Reviewer",
        AgentSafety.SAFE,
        AgentType.AGENT,
    )
    assert (profile.active_model, profile.system_prompt_id) == ("devstral-2", "cli")
    assert profile.tool_tables == {"read_file": {"permission": "always"}, "bash": {"permission": "never"}}
    assert profile.where("tools", "bash", "permission") == "~/agents/anything.toml:13"


def test_settings_of_mistral_vibe_spoil_no_agent(tmp_path: Path, write: Callable[..., Path]) -> None:
    write("old", 'safety = "neutral"\ntextual_theme = "dark"\nvim_keybindings = true\napi_timeout = 60\n')

    assert manager(tmp_path).get("old").settings == {"api_timeout": 60}


def test_the_name_of_the_file_is_the_name_unless_given(tmp_path: Path, write: Callable[..., Path]) -> None:
    write("helper", 'safety = "neutral"')

    assert manager(tmp_path).get("helper").display_name == "helper"


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ('[agent]\nname = "x"\nsafety = "safe"', ["~/agents/x.toml:1: agent: is not a table", "at the top level"]),
        ('safety = "safe"\nsafty = "safe"', ["~/agents/x.toml:2: safty: is not a key", "did you mean 'safety'?"]),
        ('safety = "harmless"', ["~/agents/x.toml:1: safety: must be", "'safe', 'neutral'", 'not "harmless"']),
        ('agent_type = "main"', ["agent_type: must be 'agent' or 'subagent'"]),
        ('safety = "safe"\n[tools.bash]\npermission = "sometimes"', ["x.toml:3: tools.bash.permission: must be"]),
        ('safety = "safe"\n[tools.bash]\npermision = "never"', ["x.toml:3: tools.bash.permision: did you mean"]),
        ('safety = "safe"\n[permissions]\nbash = "never"', ["x.toml:2: permissions: is not a table"]),
        ('enabled_tools = "grep"', ["enabled_tools: must be a list"]),
        ('enabled_tools = ["re:("]', ["enabled_tools", "not a valid regular expression"]),
        ('safety = "safe"\nauto_approve = true', ["x.toml:2: auto_approve", 'needs safety = "yolo"']),
        ("[tools.read]\npermission='never'\n[tools.read_file]\npermission='ask'", ["the same tool as tools.read"]),
        ("safety = \n", ["x.toml:1", "is not valid TOML"]),
        ('safety = "safe"\nsafety = "yolo"', ["x.toml:2: safety: is already set on line 1"]),
        ("# nothing but a comment\n", ["is empty"]),
        ('name = "../x"', ["x.toml:1: name: may have letters"]),
    ],
)
def test_a_file_that_is_wrong_makes_its_agent_unusable_and_says_where(
    tmp_path: Path, write: Callable[..., Path], text: str, sentences: list[str]
) -> None:
    write("x", text)

    agents = manager(tmp_path)

    with pytest.raises(BrokenAgentError) as raised:
        agents.get("x")
    assert [sentence for sentence in sentences if sentence not in str(raised.value)] == []
    assert "x" not in agents.profiles
    assert any("x" in warning for warning in agents.warnings)


def test_a_broken_file_never_falls_back_to_the_built_in_agent_it_was_to_replace(
    tmp_path: Path, write: Callable[..., Path]
) -> None:
    write("default", '[agent]\nsafety = "safe"')

    with pytest.raises(BrokenAgentError, match="agent 'default' can't be used"):
        manager(tmp_path).main("default")


def test_the_first_file_of_a_name_stays_and_built_in_agents_can_be_replaced(
    tmp_path: Path, write: Callable[..., Path]
) -> None:
    write("plan", 'description = "mine"\nsafety = "safe"', "first")
    write("plan", 'description = "other"\nsafety = "safe"', "second")

    agents = manager(tmp_path, "first", "second")

    assert agents.get("plan").description == "mine"
    assert agents.warnings == (
        "~/first/plan.toml: replaces the built-in agent 'plan'",
        "two agents are called 'plan': ~/first/plan.toml is used, ~/second/plan.toml is not",
    )


def test_patterns_leave_agents_out_and_one_that_matches_nothing_warns(tmp_path: Path) -> None:
    only = manager(tmp_path, enabled=("default", "pl*", "nosuch"), disabled=("plan",))

    assert sorted(only.profiles) == ["default", "plan"]
    with pytest.raises(AgentError, match=r"'explore' is disabled by enabled_agents"):
        only.get("explore")
    assert len(only.warnings) == 2

    without = manager(tmp_path, disabled=("re:auto-.*",))
    assert "auto-approve" not in without.profiles
    assert "default" in without.profiles


def test_subagents_and_agents_do_not_stand_in_for_one_another(tmp_path: Path) -> None:
    agents = manager(tmp_path)

    assert agents.subagent("explore").name == "explore"
    with pytest.raises(AgentError, match="'explore' is a subagent"):
        agents.main("explore")
    with pytest.raises(AgentError, match=r"'default' is not a subagent.*choose from explore"):
        agents.subagent("default")


def test_an_unknown_name_names_the_closest(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="did you mean 'plan'"):
        manager(tmp_path).get("plann")
