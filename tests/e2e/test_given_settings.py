"""Settings for one run, given by flags: their effect in each front end, and the messages where they can't be used.

Covers ``vibe.core.config``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import VIBE, VibeCommand, snapshot
from tests.fakes.mcp_client import connected
from tests.fakes.mcp_peers import FAULTY
from tests.fakes.model_server import ModelServer, Reply, ServedCall

WritePlan = Callable[..., str]
DOORS = [
    ("-p", "hi"),
    ("hi",),
    ("plan", "run", "plan.json"),
    ("plan", "resume", "latest"),
    ("plan", "new", "mend it"),
    ("mcp", "serve"),
]
STEP = {"id": "a", "title": "A", "mode": "code", "prompt": "do it"}


def system(server: ModelServer, number: int = -1) -> str:
    return server.requests[number].body["messages"][0]["content"]


def offered(server: ModelServer, number: int = -1) -> set[str]:
    return {tool["function"]["name"] for tool in server.requests[number].body.get("tools", ())}


def kept(vibe: VibeCommand) -> dict[str, bytes]:
    """Return the records of plans, without the words of their agents."""
    return {name: text for name, text in snapshot(vibe.home / "plans").items() if name.endswith("run.json")}


def answers(server: ModelServer, *texts: str) -> None:
    server.enqueue(*(Reply(text=text) for text in texts or ("done",)))


def test_a_value_goes_before_project_variable_and_file(vibe: VibeCommand, server: ModelServer) -> None:
    (vibe.workdir / ".vibe").mkdir()
    (vibe.workdir / ".vibe" / "config.toml").write_text('active_model = "nope"\nauto_compact_threshold = 5\n')
    vibe.environ["VIBE_ACTIVE_MODEL"] = "neither"
    answers(server)
    ended = vibe("-p", "hi", "--trust", "--set", "active_model=first", "--set", "auto_compact_threshold = 70_000")
    assert (ended.code, ended.out.strip()) == (0, "done")


@pytest.mark.parametrize("door", DOORS, ids=" ".join)
@pytest.mark.parametrize(
    ("flag", "word", "said"),
    [
        ("--set", "activ_model=m", "--set activ_model: no such setting; did you mean 'active_model'?"),
        ("--set", "suggest=auto", "--set suggest: no such setting; did you mean 'planner.suggest'?"),
        ("--set", "active_model", "--set active_model: write it as --set KEY=VALUE"),
        (
            "--instructions",
            "@none.md",
            "--instructions none.md: can't be read (No such file or directory): name a text file",
        ),
        ("--mcp", "s.json", "--mcp s.json lists no servers: it has no object mcpServers or servers or context_servers"),
    ],
    ids=["unknown", "elsewhere", "no value", "no instructions", "no servers"],
)
def test_what_can_not_be_given_is_said_at_every_door_before_anything_is_done(
    vibe: VibeCommand, door: tuple[str, ...], flag: str, word: str, said: str
) -> None:
    (vibe.workdir / "s.json").write_text("{}")
    vibe.home.mkdir()
    before = snapshot(vibe.home)
    ended = vibe(*door, flag, word)
    assert (ended.code, ended.out, ended.err) == (2, "", f"vibe: {said}\n")
    assert snapshot(vibe.home) == before


def test_a_value_of_the_wrong_type_is_said(vibe: VibeCommand, server: ModelServer) -> None:
    del server
    assert vibe("-p", "hi", "--set", "api_timeout=x").err == 'vibe: --set: api_timeout: must be a number, not "x"\n'
    ended = vibe("-p", "hi", "--set", "models[frist].temperature=1")
    assert ended.err == "vibe: --set models[frist].temperature: no such entry of models; did you mean 'first'?\n"


def test_instructions_come_after_those_of_the_file(vibe: VibeCommand, server: ModelServer) -> None:
    config = (vibe.home / "config.toml").read_text()
    vibe.configure(f'instructions = "Write tests."\n{config}')
    (vibe.workdir / "more.md").write_text("Write German.\n")
    answers(server)
    assert vibe("-p", "hi", "--instructions", "Be brief.", "--instructions", "@more.md").code == 0
    assert "Write tests.\n\nBe brief.\n\nWrite German." in system(server)


@pytest.mark.parametrize("enabled", [(), ("--enabled-tools", "re:(bash|grep|list_dir)")], ids=["all", "some"])
def test_tools_are_left_out_also_of_those_that_are_enabled(
    vibe: VibeCommand, server: ModelServer, enabled: tuple[str, ...]
) -> None:
    config = (vibe.home / "config.toml").read_text()
    vibe.configure(f'denied_tools = ["list_dir"]\n{config}')
    answers(server)
    ended = vibe("-p", "hi", *enabled, "--disabled-tools", "bash", "--disabled-tools", "web_*", "--output", "json")
    assert ended.document["warnings"] == []
    assert not {"bash", "web_fetch", "list_dir"} & offered(server)
    assert offered(server) == {"grep"} if enabled else offered(server) > {"grep", "read_file"}


def test_a_pattern_that_matches_no_tool_is_told_by_the_flag_it_came_with(
    vibe: VibeCommand, server: ModelServer
) -> None:
    answers(server)
    warned = vibe("-p", "hi", "--disabled-tools", "bsh", "--enabled-tools", "grep", "--enabled-tools", "gerp").err
    assert "warning: --disabled-tools: 'bsh' matches no tool; did you mean 'bash'?" in warned
    assert "warning: --enabled-tools: 'gerp' matches no tool; did you mean 'grep'?" in warned
    config = (vibe.home / "config.toml").read_text()
    vibe.configure(f'denied_tools = ["gerp"]\n{config}')
    for words in ((), ("--disabled-tools", "bash")):  # it may be the file's
        assert "warning: denied_tools: 'gerp' matches no tool" in vibe("-p", "hi", *words).err


def test_servers_come_beside_the_configured_and_replace_none(vibe: VibeCommand, server: ModelServer) -> None:
    command, *words = FAULTY
    config = (vibe.home / "config.toml").read_text()
    vibe.configure(
        f'{config}[[mcp_servers]]\nname = "taken"\ntransport = "stdio"\ncommand = "false"\nenabled = false\n'
    )
    entry = {"command": command, "args": [*words, "none"]}
    (vibe.workdir / "s.json").write_text(json.dumps({"mcpServers": {"pen": entry, "taken": entry}}))
    server.enqueue(Reply(tool_calls=(ServedCall(name="pen_echo", arguments='{"text": "hi"}'),)), Reply(text="done"))
    lines = vibe("-p", "hi", "--mcp", "s.json", "--auto-approve", "--output", "streaming").lines
    assert [line["content"] for line in lines if line["type"] == "tool.result"] == ["Echo: hi"]
    assert not [name for name in offered(server) if name.startswith("taken")]
    assert "--mcp: server [taken] is not used: one of that name is configured" in lines[-1]["warnings"]


@pytest.mark.parametrize("executor", ["local", "process"])
def test_steps_have_them_and_a_resume_says_that_it_has_not(
    vibe: VibeCommand, server: ModelServer, write_plan: WritePlan, executor: str
) -> None:
    plan = write_plan(STEP, {**STEP, "id": "b", "depends_on": ["a"]}, max_parallel_steps=1)
    command, *words = FAULTY
    servers = {"mcpServers": {"pen": {"command": command, "args": [*words, "none"], "env": {"TOKEN": "geheim"}}}}
    (vibe.workdir / "s.json").write_text(json.dumps(servers))
    given = ("--instructions", "Be brief.", "--disabled-tools", "grep", "--set", "include_model_info=false")
    given += ("--mcp", "s.json")
    server.enqueue(Reply(text="a is done"), Reply(status=401, body="{}"))
    ended = vibe("plan", "run", plan, "--executor", executor, "--output", "json", *given)
    assert ended.code == 3
    assert "Be brief." in system(server, 0)
    assert "m1" not in system(server, 0)
    assert "grep" not in offered(server, 0)
    assert "pen_echo" in offered(server, 0)
    assert not any(b"geheim" in content or b"Be brief." in content for content in kept(vibe).values())

    answers(server, "b is done")
    resumed = vibe("plan", "resume", "latest", "--output", "json", "--instructions", "Be wordy.").document
    (said,) = resumed["warnings"]
    plan_id = resumed["plan_id"]
    lost = "--set include_model_info, --disabled-tools, --mcp"
    assert said == f"plan {plan_id} was begun with {lost}, which is not kept: give it again if it is meant"
    assert "Be wordy." in system(server)
    assert "grep" in offered(server)


def test_who_plans_has_them(vibe: VibeCommand, server: ModelServer) -> None:
    server.enqueue(Reply(text="no"), Reply(text="no"))
    vibe("plan", "new", "mend it", "--instructions", "Be brief.", "--disabled-tools", "grep")
    assert "Be brief." in system(server)
    assert "grep" not in offered(server)


def test_who_is_served_has_them(vibe: VibeCommand, server: ModelServer, workdir: Path) -> None:
    from mcp import StdioServerParameters  # noqa: PLC0415  slow to load, and few tests need it

    answers(server)
    words = ["mcp", "serve", "--instructions", "Be brief.", "--set", "active_model=first"]
    program = StdioServerParameters(command=str(VIBE), args=words, env=vibe.variables(), cwd=str(vibe.workdir))
    with connected(program, can_ask=False) as served:
        assert served.call("call_vibe", prompt="go", cwd=str(workdir)).content[0].text.strip() == "done"
    assert "Be brief." in system(server)
