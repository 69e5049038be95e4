"""Which tools exist: sources, names, patterns, settings, views."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.fakes.tools import Save, SaveArgs
from vibe.core.config.models import VibeConfig
from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, TextResult, ToolClass, ToolPermission
from vibe.core.tools.discovery import ToolSources
from vibe.core.tools.errors import NoSuchToolError, ToolArgumentsError
from vibe.core.tools.manager import ToolManager
from vibe.system.errors import ConfigError


def source(name: str, says: str) -> str:
    """Return the file of a tool that says where it is from."""
    return dedent(f"""
        from vibe.core.tools.base import BaseTool, BaseToolConfig

        class Custom(BaseTool[BaseToolConfig]):
            description = {says!r}

            @classmethod
            def get_name(cls) -> str:
                return {name!r}

            async def run(self, text: str = "") -> str:
                return text
    """)


def put(folder: Path, name: str, says: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(source(name, says))
    return path


def named(name: str) -> ToolClass:
    """Return a class made at run time, such as the proxy of a server's tool."""

    class Proxy(BaseTool[SaveArgs, TextResult, BaseToolConfig, BaseToolState]):
        description = "from a server"

        @classmethod
        def get_name(cls) -> str:
            return name

        async def run(self, args: SaveArgs) -> TextResult:
            return TextResult(text=args.text)

    return Proxy


def load(tmp_path: Path, *extra: ToolClass, **config: Any) -> ToolManager:
    sources = ToolSources(
        root=tmp_path, folders=(tmp_path / ".vibe" / "tools", tmp_path / "home" / "tools"), extra=extra
    )
    return ToolManager(sources, VibeConfig(**config))


def messages(manager: ToolManager) -> str:
    return "\n".join(manager.warnings)


def test_tools_come_from_every_source(tmp_path: Path) -> None:
    put(tmp_path / ".vibe" / "tools" / "deep", "of_project", "project")
    put(tmp_path / "home" / "tools", "of_user", "user")
    put(tmp_path / "more", "of_folder", "folder")
    file = put(tmp_path / "single", "of_file", "file")
    manager = load(tmp_path, named("srv_tool"), tool_paths=("more", str(file)))
    assert {"read_file", "write_file", "of_project", "of_user", "of_folder", "of_file", "srv_tool"} <= set(
        manager.available
    )
    assert list(manager.available) == sorted(manager.available)
    assert not manager.warnings


def test_an_untrusted_project_brings_no_tools(tmp_path: Path) -> None:
    put(tmp_path / ".vibe" / "tools", "of_project", "project")
    manager = ToolManager(ToolSources(root=tmp_path), VibeConfig())
    assert "of_project" not in manager.available


def test_a_tool_path_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    manager = load(tmp_path, tool_paths=("nowhere",))
    assert messages(manager) == "tool_paths: 'nowhere' is neither a file nor a folder"


def test_a_file_found_twice_is_loaded_once(tmp_path: Path) -> None:
    file = put(tmp_path / ".vibe" / "tools", "mine", "project")
    (tmp_path / "link").symlink_to(tmp_path / ".vibe" / "tools")
    manager = load(tmp_path, tool_paths=(str(file), ".vibe/tools", "link"))
    assert "mine" in manager.available
    assert not manager.warnings


def test_a_users_file_replaces_a_built_in_tool_and_says_so(tmp_path: Path) -> None:
    file = put(tmp_path / "home" / "tools", "todo", "my own")
    manager = load(tmp_path)
    assert manager.get("todo").get_description() == "my own"
    assert messages(manager) == f"two tools are called 'todo': the one of {file} is used, not the one of vibe itself"


def test_among_users_files_the_first_found_stays(tmp_path: Path) -> None:
    put(tmp_path / "home" / "tools", "mine", "user")
    put(tmp_path / ".vibe" / "tools", "mine", "project")
    assert load(tmp_path).get("mine").get_description() == "project"
    put(tmp_path / "listed", "mine", "listed")
    manager = load(tmp_path, tool_paths=("listed",))
    assert manager.get("mine").get_description() == "listed"
    assert len(manager.warnings) == 2


def test_a_server_takes_no_name_that_is_taken(tmp_path: Path) -> None:
    put(tmp_path / "home" / "tools", "mine", "user")
    manager = load(tmp_path, named("todo"), named("mine"))
    assert manager.get("todo").get_description() != "from a server"
    assert manager.get("mine").get_description() == "user"
    assert messages(manager).count("not the one of a server") == 2


def test_what_a_program_brings_stays_when_servers_come_and_go(tmp_path: Path) -> None:
    put(tmp_path / "tools", "mine", "by a file")
    sources = ToolSources(root=tmp_path, folders=(tmp_path / "tools",), program=(named("mine"),))
    manager = ToolManager(sources, VibeConfig())

    manager.adopt(manager.survey([named("theirs"), named("mine")]))
    assert {"mine", "theirs"} <= manager.available.keys()
    assert manager.origin("mine") == "the program"
    assert "the one of the program is used" in messages(manager)
    manager.adopt(manager.survey([]))
    assert "mine" in manager.available
    assert "theirs" not in manager.available


def test_a_call_finds_a_tool_by_the_names_of_other_agents(tmp_path: Path) -> None:
    manager = load(tmp_path)
    for asked, given in (("Write", "write_file"), ("LS", "list_dir"), ("MultiEdit", "search_replace")):
        assert manager.get(asked) is manager.get(given)


@pytest.mark.parametrize(
    ("asked", "given"), [("read", "read_file"), ("write", "write_file"), ("edit", "search_replace")]
)
def test_a_tool_answers_to_either_name(tmp_path: Path, asked: str, given: str) -> None:
    manager = load(tmp_path)
    assert manager.get(asked) is manager.get(given)
    for key in ("enabled_tools", "allowed"):
        chosen = load(tmp_path, enabled_tools=(asked,)) if key == "enabled_tools" else manager.filtered([asked])
        assert list(chosen.available) == [given]
    assert given not in load(tmp_path, disabled_tools=(f"re:^{asked}$",)).available
    table = {asked: {"permission": "never"}}
    assert load(tmp_path, tools=table).get_tool_config(given).permission is ToolPermission.NEVER


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (("todo",), {"todo"}),
        (("*_file",), {"read_file", "write_file"}),
        (("re:^(todo|bash)$",), {"todo", "bash"}),
        (("re:tod",), set[str]()),
        (("todo", "*_file"), {"todo", "read_file", "write_file"}),
        (("TODO",), set[str]()),
        (("[rw]*_file",), {"read_file", "write_file"}),
    ],
)
def test_patterns_are_names_globs_or_regular_expressions(
    tmp_path: Path, patterns: tuple[str, ...], expected: set[str]
) -> None:
    manager = load(tmp_path)
    assert set(load(tmp_path, enabled_tools=patterns).available) == expected
    assert set(manager.filtered(patterns).available) == expected
    assert set(manager.filtered(None, patterns).available) == set(manager.available) - expected
    assert set(load(tmp_path, disabled_tools=patterns).available) == set(manager.available) - expected


@pytest.mark.parametrize("key", ["enabled_tools", "disabled_tools"])
def test_a_pattern_that_matches_nothing_is_named_with_its_key(tmp_path: Path, key: str) -> None:
    manager = load(tmp_path, **{key: ("read_fiel", "todo", "re:^mcp_")})
    assert f"{key}: 'read_fiel' matches no tool; did you mean 'read_file'" in messages(manager)
    assert f"{key}: 're:^mcp_' matches no tool" in messages(manager)
    assert len(manager.warnings) == 2


def test_disabled_tools_is_ignored_beside_enabled_tools_and_that_is_said(tmp_path: Path) -> None:
    manager = load(tmp_path, enabled_tools=("todo", "bash"), disabled_tools=("bash",))
    assert list(manager.available) == ["bash", "todo"]
    assert messages(manager) == "disabled_tools is ignored because enabled_tools is set"


@pytest.mark.parametrize("key", ["enabled_tools", "disabled_tools"])
def test_a_bad_regular_expression_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        load(tmp_path, **{key: ("re:(",)})


def test_a_view_has_a_subset_and_leaves_the_original_alone(tmp_path: Path) -> None:
    manager = load(tmp_path, disabled_tools=("bash",))
    view = manager.filtered(["*"], ["todo"])
    assert set(view.available) == set(manager.available) - {"todo"}
    assert "bash" not in view.filtered(["bash", "*"]).available
    assert "todo" not in view.filtered(None).available
    assert "todo" in manager.available
    with pytest.raises(NoSuchToolError):
        view.get("todo")


def test_a_view_says_which_of_its_patterns_match_nothing(tmp_path: Path) -> None:
    view = load(tmp_path).filtered(["todo", "bsh"], ["nope"])
    assert messages(view).splitlines()[0] == "allowed_tools: 'bsh' matches no tool; did you mean 'bash'?"
    assert len(view.warnings) == 2


def test_an_instance_belongs_to_its_view(tmp_path: Path) -> None:
    manager = load(tmp_path)
    one, other = manager.filtered(None), manager.filtered(None)
    assert one.get("todo") is one.get("todo")
    assert one.get("todo") is not other.get("todo")
    assert one.get("todo").state is not other.get("todo").state


def test_an_unknown_tool_is_refused_with_the_closest_names(tmp_path: Path) -> None:
    with pytest.raises(NoSuchToolError, match="unknown tool 'reed_file'; did you mean 'read_file'"):
        load(tmp_path).get("reed_file")
    with pytest.raises(NoSuchToolError, match="available: bash, todo"):
        load(tmp_path).filtered(["todo", "bash"]).get("zzzzzz")
    with pytest.raises(NoSuchToolError, match="no tools are offered"):
        load(tmp_path).filtered([]).get("todo")


def test_settings_are_defaults_with_the_table_over_them(tmp_path: Path) -> None:
    manager = load(tmp_path, Save, tools={"save": {"denylist": ["x"], "anything": 1}})
    config = manager.get("save").config
    assert (config.permission, config.denylist, config.allowlist) == (ToolPermission.ASK, ["x"], [])
    assert not manager.warnings


def test_a_wrong_setting_is_refused_with_the_allowed_values(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tools\.bash\.permission: input should be 'always', 'never' or 'ask'"):
        load(tmp_path, tools={"bash": {"permission": "sometimes"}})


def test_a_table_or_key_that_nothing_reads_is_named(tmp_path: Path) -> None:
    manager = load(tmp_path, tools={"bsh": {}, "bash": {"permision": "always", "default_timout": 3}})
    assert "[tools.bsh] matches no tool; did you mean 'bash'?" in messages(manager)
    assert "[tools.bash]: 'default_timout' is unknown and ignored; did you mean 'default_timeout'?" in messages(manager)
    assert "permision" not in messages(manager)  # the reader of the settings names it, with its line


def test_a_tool_that_needs_a_setting_nobody_made_is_left_out_and_named(tmp_path: Path) -> None:
    path = put(tmp_path / ".vibe" / "tools", "needy", "x")
    text = path.read_text().replace("class Custom(BaseTool[BaseToolConfig])", "class Custom(BaseTool[Needs])")
    path.write_text(text.replace("class Custom", "class Needs(BaseToolConfig):\n    address: str\n\nclass Custom"))
    manager = load(tmp_path)
    assert "needy" not in manager.available
    assert "needy is not offered, set [tools.needy] address: field required" in messages(manager)
    assert "needy" in load(tmp_path, tools={"needy": {"address": "x"}}).available


def test_what_may_never_run_is_not_offered_to_the_model(tmp_path: Path) -> None:
    manager = load(tmp_path, tools={"bash": {"permission": "never"}})
    assert "bash" in manager.available
    assert "bash" not in [schema.name for schema in manager.schemas()]


def adopt(tools: ToolManager, *extra: ToolClass) -> None:
    tools.adopt(tools.survey(extra))


def test_what_is_adopted_is_seen_by_every_view_within_its_patterns(tmp_path: Path) -> None:
    tools = load(tmp_path, enabled_tools=["read_file", "srv_*"])
    agent = tools.filtered(None, ["srv_b"])
    step = agent.filtered(["srv_*"])

    adopt(tools, named("srv_a"), named("srv_b"))

    assert list(tools.available) == ["read_file", "srv_a", "srv_b"]
    assert list(agent.available) == ["read_file", "srv_a"]
    assert [schema.name for schema in step.schemas()] == ["srv_a"]
    adopt(tools)
    assert list(step.available) == []
    with pytest.raises(NoSuchToolError):
        step.get("srv_a")


def test_settings_laid_over_a_view_hold_for_what_is_adopted(tmp_path: Path) -> None:
    tools = load(tmp_path)
    view = tools.reconfigured(lambda _, config: config.model_copy(update={"permission": ToolPermission.NEVER}))

    adopt(tools, named("srv_a"))

    assert view.get_tool_config("srv_a").permission is ToolPermission.NEVER
    assert tools.get_tool_config("srv_a").permission is ToolPermission.ASK


def test_instances_and_schemas_stay_the_same_while_their_tools_do(tmp_path: Path) -> None:
    kept, changed = named("srv_a"), named("srv_b")
    tools = load(tmp_path, kept, changed)
    view = tools.filtered(None)
    before, gone, schemas = view.get("srv_a"), view.get("srv_b"), view.schemas()
    assert view.schemas() is schemas

    adopt(tools, kept, named("srv_b"))

    assert view.get("srv_a") is before
    assert view.get("srv_b") is not gone
    assert view.schemas() == schemas


def test_a_survey_alone_changes_nothing_and_knows_what_would_be_wrong(tmp_path: Path) -> None:
    tools = load(tmp_path, tools={"srv_a": {"permission": "always"}})

    survey = tools.survey([named("srv_a")])

    assert "srv_a" not in tools.available
    (warning,) = tools.warnings
    assert warning.startswith("[tools.srv_a] matches no tool")
    assert survey.warnings == ()
    tools.adopt(survey)
    assert tools.warnings == ()


def test_a_hint_that_several_tools_share_stands_once(tmp_path: Path) -> None:
    def hinting(name: str) -> ToolClass:
        cls = named(name)
        return type(name, (cls,), {"get_tool_prompt": classmethod(lambda _: "Search first.")})

    tools = load(tmp_path, hinting("srv_a"), hinting("srv_b"), enabled_tools=["srv_*"])

    assert dict(tools.prompts()) == {"srv_a": "Search first."}
    assert dict(tools.filtered(["srv_b"]).prompts()) == {"srv_b": "Search first."}


def test_with_the_sandbox_off_bash_knows_no_word_to_leave_it(tmp_path: Path) -> None:
    for mode, known in (("auto", True), ("off", False)):
        tools = load(tmp_path, sandbox={"mode": mode})
        (schema,) = [one for one in tools.schemas() if one.name == "bash"]
        assert ("unconfined" in str(schema)) is known
        bash = tools.get("bash")
        assert not bash.parse({"command": "ls"}).unconfined
        if not known:
            with pytest.raises(ToolArgumentsError):
                bash.parse({"command": "ls", "unconfined": True})
