"""Covers ``vibe.cli.commands``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import VibeCommand

CONFIG = '# keep me\nactive_model = "local"  # and me\n'


def test_show_tells_each_setting_and_where_it_was_set(vibe: VibeCommand) -> None:
    vibe.configure(CONFIG)
    vibe.environ["VIBE_PLANNER__MAX_PARALLEL_STEPS"] = "7"

    shown = vibe("config", "show", "--origin").out.splitlines()

    assert f'active_model = "local"  # {vibe.home}/config.toml:2' in [
        line.replace("~", str(Path.home())) for line in shown
    ]
    assert "planner.max_parallel_steps = 7  # VIBE_PLANNER__MAX_PARALLEL_STEPS" in shown
    assert "auto_approve = false  # default" in shown
    assert vibe("config", "show", "--output", "json").document["active_model"] == "local"


def test_secrets_are_never_shown(vibe: VibeCommand) -> None:
    vibe.configure(
        '[tools.deploy]\napi_token = "tell-nobody-1"\n[[mcp_servers]]\nname = "s"\ntransport = "http"\n'
        'url = "https://me:tell-nobody-2@host/mcp"\nheaders = { Authorization = "Bearer tell-nobody-3" }\n'
        "[[providers]]\n"
        'name = "p"\napi_base = "http://x/v1"\napi_key_env_var = "MY_KEY"\n'
    )
    vibe.environ["MY_KEY"] = "tell-nobody-4"

    for flags in ([], ["--output", "json"], ["--origin"]):
        ended = vibe("config", "show", *flags)
        assert ended.code == 0
        assert "tell-nobody" not in ended.out + ended.err
        assert "MY_KEY" in ended.out


def test_set_changes_one_line_and_keeps_the_rest(vibe: VibeCommand) -> None:
    vibe.configure(CONFIG)

    assert vibe("config", "set", "active_model", "devstral-small").code == 0
    assert vibe("config", "set", "auto_approve", "true").code == 0
    assert vibe("config", "set", "disabled_tools", '["bash"]').code == 0

    text = (vibe.home / "config.toml").read_text()
    assert text == (
        '# keep me\nactive_model = "devstral-small"  # and me\nauto_approve = true\ndisabled_tools = ["bash"]\n'
    )


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("active_model", "nosuch", "active_model: unknown model 'nosuch' (known: "),
        ("auto_approve", "perhaps", 'auto_approve: must be true or false, not "perhaps"'),
        ("planner.max_parallel_steps", "0", "must be at least 1, not 0"),
        ("tools.bash.permission", "sometimes", "'always', 'ask' or 'never'"),
        ("tools.bash.default_timeout", "soon", "default_timeout"),
        ("activ_model", "local", "activ_model: no such setting; did you mean 'active_model'?"),
        ("planner", "{}", "planner: is a table"),
        ("api_key", "s", "api_key: no such setting; did you mean 'providers[NAME].api_key_env_var'?"),
        ("providers[mistral].api_key", "s", "did you mean 'providers[mistral].api_key_env_var'?"),
        ("base_url", "s", "did you mean 'providers[NAME].api_base'?"),
    ],
)
def test_set_refuses_what_the_loader_would_refuse(vibe: VibeCommand, key: str, value: str, sentence: str) -> None:
    vibe.configure(CONFIG)

    ended = vibe("config", "set", key, value)

    assert ended.code == 2
    assert sentence in ended.err
    assert (vibe.home / "config.toml").read_text() == CONFIG


def test_one_of_several_faults_can_be_mended(vibe: VibeCommand) -> None:
    vibe.configure('active_model = "nosuch"\nauto_approve = "perhaps"\n')

    assert vibe("config", "set", "auto_approve", "false").code == 0
    assert vibe("config", "set", "active_model", "local").code == 0
    assert vibe("config", "show", "--output", "json").document["active_model"] == "local"
    assert (vibe.home / "config.toml").read_text() == 'active_model = "local"\nauto_approve = false\n'


def test_set_says_what_wins_over_it(vibe: VibeCommand) -> None:
    vibe.configure(CONFIG)
    vibe.environ["VIBE_ACTIVE_MODEL"] = "devstral-2"

    ended = vibe("config", "set", "active_model", "devstral-small")

    assert ended.code == 0
    assert "VIBE_ACTIVE_MODEL also sets it, and takes precedence" in ended.err
    for place in ((), ("--project",)):  # both count for what is denied
        assert vibe("config", "set", *place, "denied_tools", '["bash"]').code == 0
    vibe("trust", "add")
    assert vibe("config", "set", "denied_tools", '["grep"]').err == ""
    assert vibe("config", "get", "denied_tools").out == '["grep", "bash"]\n'


def test_the_project_has_a_file_of_its_own(vibe: VibeCommand) -> None:
    path = vibe("config", "path", "--project").out.strip()
    assert path == str(vibe.workdir / ".vibe" / "config.toml")
    assert vibe("config", "path").out.strip() == str(vibe.home / "config.toml")

    ended = vibe("config", "set", "--project", "active_model", "local")

    assert (ended.code, Path(path).read_text()) == (0, 'active_model = "local"\n')
    assert "not trusted" in ended.err
    vibe("config", "set", "active_model", "local")
    why = "this folder is not trusted, so it is not read; `vibe trust add` trusts it"
    assert why in vibe("config", "set", "--project", "active_model", "local").err
    assert vibe("config", "show", "--trust", "--output", "json").document["active_model"] == "local"


def test_edit_checks_before_it_replaces(vibe: VibeCommand) -> None:
    vibe.configure(CONFIG)
    editor = vibe.home / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/local/$NEW/" "$1"\n')
    editor.chmod(0o755)
    vibe.environ["EDITOR"] = str(editor)

    vibe.environ["NEW"] = "nosuch"
    refused = vibe("config", "edit")
    assert refused.code == 2
    assert "unknown model 'nosuch'" in refused.err
    kept = refused.err.strip().rpartition(" ")[2]
    assert "nosuch" in Path(kept).read_text()
    assert (vibe.home / "config.toml").read_text() == CONFIG

    vibe.environ["NEW"] = "devstral-small"
    assert vibe("config", "edit").code == 0
    assert (vibe.home / "config.toml").read_text() == CONFIG.replace("local", "devstral-small")

    editor.write_text('#!/bin/sh\necho "# mine" >> "$1"; mv "$VIBE_HOME" "$VIBE_HOME.away"; touch "$VIBE_HOME"\n')
    unsaved = vibe("config", "edit")
    assert unsaved.code == 3
    assert "# mine" in Path(unsaved.err.strip().rpartition(" ")[2]).read_text()
    vibe.home.unlink()
    vibe.home.with_name(f"{vibe.home.name}.away").rename(vibe.home)

    before = set(Path(vibe.environ["TMPDIR"]).iterdir())
    vibe.environ["EDITOR"] = "false"
    assert (vibe("config", "edit").code, set(Path(vibe.environ["TMPDIR"]).iterdir())) == (3, before)
    del vibe.environ["EDITOR"]
    assert (vibe("config", "edit").code, "set EDITOR" in vibe("config", "edit").err) == (3, True)


def test_tools_are_listed_with_source_and_permission(vibe: VibeCommand) -> None:
    vibe.configure('[tools.bash]\npermission = "never"\n')

    rows = {row["name"]: row for row in vibe("tools", "list", "--output", "json").document}
    assert (rows["bash"]["permission"], rows["bash"]["source"]) == ("never", "built-in")
    assert rows["read_file"]["permission"] == "always"
    assert rows["propose_plan"]["source"] == "built-in"

    reading = {row["name"] for row in vibe("tools", "list", "--agent", "plan", "--output", "json").document}
    assert {"read_file", "grep", "glob", "list_dir", "task", "todo"} <= reading
    assert not {"bash", "write_file", "search_replace", "web_fetch", "background"} & reading

    vibe.configure('disabled_tools = ["propose_plan", "propose_plans"]\n')
    listed = vibe("tools", "list")
    assert "propose_plan  " not in listed.out
    assert "'propose_plans' matches no tool" in listed.err
    assert "'propose_plan' matches no tool" not in listed.err


def test_agents_are_listed_and_broken_files_named(vibe: VibeCommand) -> None:
    folder = vibe.home / "agents"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text('description = "mine"\nsafety = "safe"\n')
    (folder / "bad.toml").write_text('[agent]\nsafety = "safe"\n')

    ended = vibe("agents", "list")
    assert ended.code == 0
    assert "mine" in ended.out
    assert "bad.toml:1: agent: is not a table" in ended.err
    document = vibe("agents", "list", "--output", "json").document
    assert {"mine", "default", "explore"} <= {agent["name"] for agent in document["agents"]}
    assert [entry["name"] for entry in document["broken"]] == ["bad"]

    refused = vibe("-p", "go", "--agent", "bad")
    assert refused.code == 2
    assert "bad.toml:1: agent" in refused.err
    assert vibe("-p", "go", "--agent", "explore").code == 2
    assert json.loads(vibe("config", "show", "--output", "json").out)["default_agent"] == "default"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("active_model",), "devstral-2\n"),
        (("auto_approve",), "true\n"),
        (("planner.max_parallel_steps", "--output", "json"), "4\n"),
        (("providers[mistral].api_base", "--output", "json"), '"https://api.mistral.ai/v1"\n'),
    ],
)
def test_one_setting_is_printed_bare(vibe: VibeCommand, words: tuple[str, ...], shown: str) -> None:
    vibe.configure("auto_approve = true\n")

    ended = vibe("config", "get", *words)

    assert (ended.code, ended.out, ended.err) == (0, shown, "")


def test_a_table_is_printed_as_show_has_it(vibe: VibeCommand) -> None:
    table = vibe("config", "get", "planner").out

    assert table.startswith("planner.")
    assert table in vibe("config", "show").out
    assert vibe("config", "get", "plannr").err == "vibe: plannr: no such setting; did you mean 'planner'?\n"


def test_a_key_in_the_settings_is_told_where_it_belongs(vibe: VibeCommand) -> None:
    vibe.configure('[[providers]]\nname = "p"\napi_base = "http://127.0.0.1:1/v1"\napi_key = "secret"\n')

    ended = vibe("doctor")

    assert (
        "unknown setting providers[0].api_key has no effect, did you mean 'providers[p].api_key_env_var'?" in ended.out
    )


@pytest.mark.parametrize("words", ["set planner 1", "set models x"])
def test_a_table_is_not_taken_for_a_misspelling_of_itself(vibe: VibeCommand, words: str) -> None:
    key = words.split()[1]
    told = f"{key}: is a table; name one of its keys, see `vibe config get {key}`"

    ended = vibe("config", *words.split())

    assert (ended.code, ended.err) == (2, f"vibe: {told}\n")


def test_tables_of_tools_are_shown_with_their_keys_and_may_be_empty(vibe: VibeCommand) -> None:
    empty, unset = vibe("config", "get", "tools"), vibe("config", "get", "tools.bash.permission")
    vibe("config", "set", "tools.bash.permission", "never")
    one = vibe("config", "get", "tools")

    assert (empty.code, empty.out) == (0, "")
    assert unset.err == "vibe: 'tools.bash.permission' is not set: `vibe tools list` shows what holds without it\n"
    assert (one.out, vibe("config", "get", "tools.bash.permission").out) == (
        'tools.bash.permission = "never"\n',
        "never\n",
    )


def test_a_misspelled_key_of_a_tool_is_told_when_it_is_set(vibe: VibeCommand) -> None:
    ended = vibe("config", "set", "tools.bash.permision", "never")

    assert ended.code == 0
    assert "config.toml:2: tools.bash.permision: did you mean 'permission'?" in ended.err


@pytest.mark.parametrize(
    "words",
    [
        ("-p", "hi"),
        ("-p", "/mine", "--model", "served"),
        ("-p", "hi", "--model", "served", "--agent", "reviewer"),
        ("plan", "new", "Tidy up"),
        ("tools", "list", "--agent", "reviewer"),
        ("plan", "run", "plan.json"),
    ],
    ids=" ".join,
)
def test_what_has_no_effect_is_told_with_the_error_that_it_explains(vibe: VibeCommand, words: tuple[str, ...]) -> None:
    vibe.configure(
        'active_modle = "served"\n[[providers]]\nname = "served"\napi_base = "http://127.0.0.1:1/v1"\n'
        '[[models]]\nname = "served"\nprovider = "served"\n'
    )
    (vibe.workdir / ".vibe" / "agents").mkdir(parents=True)
    (vibe.workdir / ".vibe" / "agents" / "reviewer.toml").write_text('description = "Reviews"\n')
    step = {"id": "a", "title": "Look", "mode": "research"}
    (vibe.workdir / "plan.json").write_text(json.dumps({"version": 1, "goal": "g", "steps": [step]}))

    ended = vibe(*words)

    error, *warnings = ended.err.splitlines()
    assert (ended.code in {2, 3}, ended.out, error.startswith("vibe: ")) == (True, "", True)
    assert ["active_modle has no effect, did you mean 'active_model'?" in line for line in warnings] == [False, True]
    assert "(agents) was not loaded" in warnings[0]


def test_a_dry_run_tells_what_has_no_effect(vibe: VibeCommand) -> None:
    vibe.configure('active_modle = "served"\n')
    step = {"id": "a", "title": "Look", "mode": "research"}
    (vibe.workdir / "plan.json").write_text(json.dumps({"version": 1, "goal": "g", "steps": [step]}))

    assert "note: " in (shown := vibe("plan", "run", "plan.json", "--dry-run").out)
    assert "active_modle has no effect, did you mean 'active_model'?" in shown
