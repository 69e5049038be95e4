"""Which layer wins, and which source a setting reports."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest

from tests.unit.core.config.surroundings import Surroundings
from vibe.cli.textual_ui.app import read_settings
from vibe.core.config.models import LOCAL_ENGINE, LOCAL_MODEL, LOCAL_PROVIDER, VibeConfig

MINE = '[[models]]\nname = "big"\nalias = "mine"\nprovider = "mistral"\n'


def test_without_files_everything_is_the_default(surroundings: Surroundings) -> None:
    loaded = surroundings.load()
    assert loaded.config == VibeConfig()
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.warnings == ()
    assert loaded.project_dir is None
    assert list(surroundings.user_home.rglob("*")) == [surroundings.project.parent, surroundings.project]


def test_where_the_engine_is_installed_there_is_a_local_model(
    surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ModuleType(LOCAL_ENGINE)
    engine.__spec__ = ModuleSpec(LOCAL_ENGINE, None)
    monkeypatch.setitem(sys.modules, LOCAL_ENGINE, engine)

    loaded = surroundings.load()

    assert (loaded.config.models[-1], loaded.config.providers[-1]) == (LOCAL_MODEL, LOCAL_PROVIDER)
    assert surroundings.load().config.find_model("local") != LOCAL_MODEL, "the name of a server's model stays its own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Precedence:
    user: str = ""
    project: str = ""
    environ: dict[str, str] = field(default_factory=dict[str, str])
    flags: dict[str, Any] = field(default_factory=dict[str, Any])
    steps: int
    origin: str


PARALLEL = "[planner]\nmax_parallel_steps = {}\n"
VARIABLE = "VIBE_PLANNER__MAX_PARALLEL_STEPS"


@pytest.mark.parametrize(
    "case",
    [
        Precedence(steps=4, origin="default"),
        Precedence(user=PARALLEL.format(5), steps=5, origin="~/.vibe/config.toml:2"),
        Precedence(
            user=PARALLEL.format(5),
            project=PARALLEL.format(6),
            steps=6,
            origin="~/code/project/.vibe/config.toml:2",
        ),
        Precedence(project=PARALLEL.format(6), environ={VARIABLE: "7"}, steps=7, origin=VARIABLE),
        Precedence(
            project=PARALLEL.format(6),
            environ={VARIABLE: "7"},
            flags={"planner.max_parallel_steps": 8},
            steps=8,
            origin="--max-parallel",
        ),
        Precedence(environ={VARIABLE: "7"}, flags={"planner.max_parallel_steps": None}, steps=7, origin=VARIABLE),
        Precedence(flags={"planner.max_parallel_steps": "8"}, steps=8, origin="--max-parallel"),
        Precedence(environ={"VIBE_PLANNER": '{"max_parallel_steps": 3}'}, steps=3, origin="VIBE_PLANNER"),
        Precedence(environ={"VIBE_PLANNER": "{max_parallel_steps = 3}", VARIABLE: "7"}, steps=7, origin=VARIABLE),
        Precedence(user=PARALLEL.format(5), environ={VARIABLE: ""}, steps=5, origin="~/.vibe/config.toml:2"),
    ],
)
def test_the_higher_layer_wins(surroundings: Surroundings, case: Precedence) -> None:
    surroundings.user_file(case.user)
    surroundings.project_file(case.project)
    loaded = surroundings.load(environ=case.environ, flags=case.flags)
    assert loaded.config.planner.max_parallel_steps == case.steps
    assert loaded.origins["planner.max_parallel_steps"] == case.origin


def test_tables_merge_key_by_key(surroundings: Surroundings) -> None:
    surroundings.user_file('[tools.bash]\npermission = "never"\ntimeout = 10\n[tools.bash.env]\nA = "1"\n')
    surroundings.project_file('[tools.bash]\ntimeout = 20\n[tools.bash.env]\nB = "2"\n')
    loaded = surroundings.load()
    assert loaded.config.tools == {"bash": {"permission": "never", "timeout": 20, "env": {"A": "1", "B": "2"}}}
    assert loaded.origins["tools.bash.permission"] == "~/.vibe/config.toml:2"
    assert loaded.origins["tools.bash.env.B"] == "~/code/project/.vibe/config.toml:4"


def test_lists_replace_one_another(surroundings: Surroundings) -> None:
    surroundings.user_file('enabled_tools = ["grep", "bash"]\n')
    surroundings.project_file('enabled_tools = ["glob"]\n')
    assert surroundings.load().config.enabled_tools == ("glob",)


def test_a_project_adds_to_what_the_user_denies_and_replaces_none_of_it(surroundings: Surroundings) -> None:
    surroundings.user_file(
        'denied_tools = ["task"]\n[tools.bash]\ndenylist = ["git push"]\ndenylist_standalone = ["make"]\n'
        '[tools.write]\npermission = "never"\n[tools.grep]\npermission = "ask"\n[sandbox]\nmode = "required"\n'
    )
    surroundings.project_file(
        'denied_tools = []\n[tools.bash]\ndenylist = ["npm publish"]\ndenylist_standalone = ["sh"]\n'
        '[tools.write_file]\npermission = "always"\n[tools.grep]\npermission = "always"\n[sandbox]\nmode = "off"\n'
    )
    loaded = surroundings.load()
    assert loaded.config.denied_tools == ("task",)
    assert loaded.config.tools == {
        "bash": {"denylist": ["git push", "npm publish"], "denylist_standalone": ["make", "sh"]},
        "write_file": {"permission": "never"},
        "grep": {"permission": "always"},
    }
    assert loaded.config.sandbox.mode == "required"
    mine, theirs = "~/.vibe/config.toml", "~/code/project/.vibe/config.toml"
    assert loaded.origins["tools.bash.denylist"] == f"{mine}:3, {theirs}:3"
    assert loaded.warnings == (
        f"{theirs}:6: tools.write_file.permission has no effect: {mine}:6 says 'never'",
        f"{theirs}:10: sandbox.mode has no effect: {mine}:10 says 'required'",
    )
    own = surroundings.load(environ={"VIBE_DENIED_TOOLS": "[]", "VIBE_SANDBOX__MODE": "off"}).config
    assert (own.denied_tools, own.sandbox.mode) == ((), "off"), "the user's own word counts"


def test_an_agent_takes_nothing_back_that_the_user_denies_and_one_of_a_project_no_sandbox(
    surroundings: Surroundings,
) -> None:
    surroundings.user_file('denied_tools = ["task"]\n[sandbox]\nmode = "required"\n')
    text = (
        'denied_tools = []\n[ipc]\nlisteners = ["otlp"]\n[sandbox]\nmode = "off"\n'
        '[[providers]]\nname = "x"\nbackend = "theirs"\napi_base = "https://x.example/v1"\n'
    )
    theirs = surroundings.load(agent=surroundings.project_file(text, "agents/one.toml"))
    assert (theirs.config.denied_tools, theirs.config.sandbox.mode, theirs.config.ipc.listeners) == (
        ("task",),
        "required",
        (),
    )
    why = "a project names no installed packages; set it in your own config.toml if it is meant"
    assert theirs.warnings == (
        f"one.toml:3: ipc.listeners has no effect: {why}",
        "one.toml:5: sandbox.mode has no effect: ~/.vibe/config.toml:3 says 'required'",
        f"one.toml:8: providers[x].backend has no effect: {why}",
    )
    mine = surroundings.load(agent=surroundings.user_file(text.partition("[[")[0], "agents/one.toml"))
    assert (mine.config.denied_tools, mine.config.sandbox.mode, mine.config.ipc.listeners) == (
        ("task",),
        "off",
        ("otlp",),
    )
    variable = {"VIBE_SANDBOX__MODE": "required"}
    surroundings.user_file("")
    loaded = surroundings.load(environ=variable, agent=surroundings.project / ".vibe" / "agents" / "one.toml")
    assert loaded.config.sandbox.mode == "required", "what the user sets by a variable stays, too"


def test_what_a_project_approves_is_added_to_what_the_user_approved(surroundings: Surroundings) -> None:
    surroundings.user_file('approved = ["/w: bash: make"]\n')
    surroundings.project_file('approved = ["/w: bash: ninja"]\n')
    assert surroundings.load().config.approved == ("/w: bash: make", "/w: bash: ninja")


def test_models_merge_by_alias_or_name_with_defaults_last(surroundings: Surroundings) -> None:
    surroundings.user_file(MINE + '[[models]]\nname = "other"\nalias = "local"\nprovider = "llamacpp"\n')
    surroundings.project_file('[[models]]\nname = "huge"\nalias = "mine"\nprovider = "llamacpp"\ncontext_size = 9\n')
    loaded = surroundings.load()
    assert [(model.key, model.name) for model in loaded.config.models] == [
        ("mine", "huge"),
        ("local", "other"),
        ("devstral-2", "devstral-2512"),
        ("devstral-small", "devstral-small-latest"),
    ]
    assert loaded.origins["models[mine].context_size"] == "~/code/project/.vibe/config.toml:5"
    assert loaded.origins["models[devstral-2].provider"] == "default"


def test_an_entry_replaces_the_one_of_its_name_as_a_whole(surroundings: Surroundings) -> None:
    surroundings.user_file('[[providers]]\nname = "mistral"\napi_base = "http://localhost/v1"\n')
    provider = surroundings.load().config.find_provider("mistral")
    assert provider is not None
    assert (provider.api_base, provider.api_key_env_var, provider.backend) == (
        "http://localhost/v1",
        "",
        "generic",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    variable: str
    word: str
    found: object


@pytest.mark.parametrize(
    "case",
    [
        Word(variable="VIBE_ACTIVE_MODEL", word="local", found="local"),
        Word(variable="VIBE_AUTO_APPROVE", word="1", found=True),
        Word(variable="VIBE_AUTO_APPROVE", word="No", found=False),
        Word(variable="VIBE_ENABLED_TOOLS", word='["grep", "bash"]', found=("grep", "bash")),
        Word(variable="VIBE_ENABLED_TOOLS", word="['grep']", found=("grep",)),
        Word(variable="VIBE_TOOLS__READ__PERMISSION", word="never", found={"read_file": {"permission": "never"}}),
        Word(variable="VIBE_TOOLS__BASH__TIMEOUT", word="30", found={"bash": {"timeout": 30}}),
        Word(variable="VIBE_TOOLS__BASH__SHELL", word="zsh", found={"bash": {"shell": "zsh"}}),
        Word(variable="VIBE_IPC__ADDRESS", word="123", found="123"),
    ],
)
def test_a_variable_means_what_its_setting_is(surroundings: Surroundings, case: Word) -> None:
    config = surroundings.load(environ={case.variable: case.word}).config
    name = case.variable.removeprefix("VIBE_").lower().split("__")[0]
    found = config.ipc.address if name == "ipc" else getattr(config, name)
    assert found == case.found


def test_vibe_home_is_not_a_setting(surroundings: Surroundings) -> None:
    assert surroundings.load(environ={"VIBE_HOME": "/elsewhere", "VIBE_LOG_LEVEL": "DEBUG"}).warnings == ()


def test_flags_are_called_by_their_flag(surroundings: Surroundings) -> None:
    flags = {"active_model": "local", "enabled_tools": ("grep",), "tools.bash.permission": "ask"}
    loaded = surroundings.load(flags=flags)
    assert loaded.config.active_model == "local"
    assert loaded.config.enabled_tools == ("grep",)
    assert loaded.origins["active_model"] == "--model"
    assert loaded.origins["tools.bash.permission"] == "--tools.bash.permission"


def test_tools_may_be_called_by_either_name(surroundings: Surroundings) -> None:
    surroundings.user_file(
        'enabled_tools = ["read", "write", "re*"]\ndisabled_tools = ["edit"]\n[tools.edit]\npermission = "never"\n'
    )
    config = surroundings.load().config
    assert config.enabled_tools == ("read_file", "write_file", "re*")
    assert config.disabled_tools == ("search_replace",)
    assert config.tools == {"search_replace": {"permission": "never"}}


def test_paths_are_relative_to_the_file_that_names_them(surroundings: Surroundings) -> None:
    surroundings.user_file(
        'tool_paths = ["mine", "~/tools", "/opt/tools"]\n'
        '[[providers]]\nname = "replay"\nbackend = "scripted"\nscript = "turns.json"\n'
    )
    config = surroundings.load().config
    assert config.tool_paths == (
        str(surroundings.home / "mine"),
        str(surroundings.user_home / "tools"),
        "/opt/tools",
    )
    provider = config.find_provider("replay")
    assert provider is not None
    assert provider.script == str(surroundings.home / "turns.json")
    assert surroundings.load(flags={"tool_paths": ["x"]}).config.tool_paths == (str(surroundings.project / "x"),)


def test_loading_writes_nothing(surroundings: Surroundings) -> None:
    file = surroundings.user_file('# mine\nactive_model = "local"  # why\n')
    before = file.read_bytes(), file.stat().st_mtime_ns
    surroundings.load()
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    assert list(surroundings.home.iterdir()) == [file]


def test_models_are_found_by_alias_before_name(surroundings: Surroundings) -> None:
    surroundings.user_file(
        '[[models]]\nname = "a"\nalias = "b"\nprovider = "mistral"\n[[models]]\nname = "b"\nalias = "c"\nprovider = "mistral"\n'
    )
    config = surroundings.load().config
    found = {name: config.find_model(name) for name in ("a", "b", "c", "d")}
    assert {name: model and model.key for name, model in found.items()} == {"a": "b", "b": "b", "c": "c", "d": None}


def test_settings_of_mistral_vibe_that_are_elsewhere_here_have_their_effect(surroundings: Surroundings) -> None:
    theirs = 'enable_update_checks = false\ntheme = "nord"\nenable_notifications = false\n'
    surroundings.user_file(theirs)
    loaded = surroundings.load()
    ui = loaded.config.ui
    assert (loaded.config.updates.check, ui.theme, ui.notify) == (False, "nord", "off")
    assert (loaded.warnings, loaded.foreign) == ((), ())
    assert read_settings(surroundings.home).theme == "nord"
    assert read_settings(surroundings.home).notify == "off"
    surroundings.user_file(f'{theirs}[ui]\ntheme = "gruvbox"\n')
    assert surroundings.load().config.ui.theme == "gruvbox"
    assert read_settings(surroundings.home).theme == "gruvbox"


def test_a_project_that_is_trusted_names_no_installed_packages(surroundings: Surroundings) -> None:
    surroundings.user_file('[ipc]\nlisteners = ["mine"]\n')
    surroundings.project_file(
        '[ipc]\nlisteners = ["theirs"]\n[[providers]]\nname = "p"\nbackend = "theirs"\napi_base = "http://x"\n'
    )
    loaded = surroundings.load()
    assert loaded.config.ipc.listeners == ("mine",)
    assert [one.backend for one in loaded.config.providers if one.name == "p"] == ["generic"]
    assert [warning.partition(":")[2].split(" has no effect")[0] for warning in loaded.warnings] == [
        "2: ipc.listeners",
        "5: providers[p].backend",
    ]
