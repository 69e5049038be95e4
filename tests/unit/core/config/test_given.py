from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.config.surroundings import Surroundings
from vibe.core.config.loader import GivenSettings
from vibe.system.errors import ConfigError, UsageError

SERVER = {"name": "pen", "transport": "stdio", "command": "pen"}


def given(values: dict[str, Any] | None = None, **more: Any) -> GivenSettings:
    return GivenSettings(values=values or {}, named="config", **more)


def test_values_go_before_files_and_variables_and_flags_of_their_own_before_them(surroundings: Surroundings) -> None:
    surroundings.user_file("api_timeout = 1\n[planner]\nmax_parallel_steps = 2\n")
    surroundings.project_file("api_timeout = 3\n")
    loaded = surroundings.load(
        environ={"VIBE_API_TIMEOUT": "4"},
        given=given({"api_timeout": 5, "planner.max_parallel_steps": 6}),
        flags={"planner.max_parallel_steps": 7},
    )
    assert (loaded.config.api_timeout, loaded.config.planner.max_parallel_steps) == (5, 7)
    assert loaded.origins["api_timeout"] == "config"


def test_a_text_stays_the_text_it_is(surroundings: Surroundings) -> None:
    values = {"instructions": "5", "tools.mine.label": "true", "tools.mine.size": 3}
    config = surroundings.load(given=given(values)).config
    assert config.instructions == "5"
    assert config.tools["mine"] == {"label": "true", "size": 3}


def test_a_field_of_a_configured_entry_can_be_set(surroundings: Surroundings) -> None:
    surroundings.user_file('[[models]]\nname = "m"\nprovider = "mistral"\ntemperature = 0.1\n')
    (model,) = (
        one for one in surroundings.load(given=given({"models[m].temperature": 0.9})).config.models if one.name == "m"
    )
    assert (model.temperature, model.provider) == (0.9, "mistral")


def test_a_file_of_a_configured_entry_is_below_the_folder_of_work(surroundings: Surroundings) -> None:
    surroundings.user_file('[[providers]]\nname = "p"\nbackend = "scripted"\nscript = "/other.json"\n')
    providers = surroundings.load(given=given({"providers[p].script": "mine.json"})).config.providers
    (script,) = (one.script for one in providers if one.name == "p")
    assert script == str(surroundings.project / "mine.json")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("activ_model", "config activ_model: no such setting; did you mean 'active_model'?"),
        ("models[none].temperature", "config models[none].temperature: no such entry of models; there are: "),
        (
            "models[m].temprature",
            "config models[m].temprature: no such setting; did you mean 'models[m].temperature'?",
        ),
        ("", "config '': no such setting; see `vibe config show`"),
    ],
)
def test_what_is_no_setting_is_said(surroundings: Surroundings, key: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        surroundings.load(given=given({key: 1}))
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize("value", [object(), b"\xff"])
def test_what_is_no_value_is_said(surroundings: Surroundings, value: object) -> None:
    said = f"config instructions: {type(value).__name__} can't be the value of a setting"
    with pytest.raises(UsageError, match=said):
        surroundings.load(given=given({"instructions": value}))


def test_what_is_not_utf_8_is_told_with_its_place(surroundings: Surroundings) -> None:
    values = {"instructions": "\udcff", "tools.mine.words": ["\udcff"]}
    with pytest.raises(ConfigError) as refused:
        surroundings.load(given=given(values), environ={"VIBE_ACTIVE_MODEL": "\udcff"})
    assert str(refused.value).splitlines() == [
        "VIBE_ACTIVE_MODEL: active_model: holds what is not UTF-8",
        "config: instructions: holds what is not UTF-8",
        "config: tools.mine.words: holds what is not UTF-8",
    ]


def test_a_value_of_the_wrong_type_is_said(surroundings: Surroundings) -> None:
    with pytest.raises(ConfigError, match="config: api_timeout: must be a number"):
        surroundings.load(given=given({"api_timeout": "soon"}))


def test_instructions_and_tools_are_added_and_servers_replace_none(surroundings: Surroundings) -> None:
    surroundings.user_file(
        'instructions = "One."\ndenied_tools = ["bash"]\n[[mcp_servers]]\nname = "pen"\ntransport = "stdio"\ncommand = "mine"\n'
    )
    more = given(instructions="Two.", disabled_tools=("grep",), servers=(SERVER, {**SERVER, "name": "ink"}))
    loaded = surroundings.load(given=more)
    assert loaded.config.instructions == "One.\n\nTwo."
    assert loaded.config.denied_tools == ("bash", "grep")
    assert {one.name: one.command for one in loaded.config.mcp_servers} == {"pen": "mine", "ink": "pen"}
    assert loaded.warnings == ("--mcp: server [pen] is not used: one of that name is configured",)
    assert more.names == ("--instructions", "--disabled-tools", "--mcp")
