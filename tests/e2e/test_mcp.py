"""Covers ``vibe.core.tools.mcp``."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import REPOSITORY, VibeCommand
from tests.fakes.mcp_peers import EVERYTHING, FAULTY, PEN, http_server, left_over
from tests.fakes.npm_peers import install_peers
from tests.fakes.ports import free_port
from tests.fakes.waiting import until

Result = tuple[str, str]


def turns(*given: dict[str, Any], **steps: list[dict[str, Any]]) -> dict[str, Any]:
    agents = {"main": {"turns": list(given)}} if given else {}
    return {"agents": {**agents, **{name: {"turns": turns} for name, turns in steps.items()}}}


def calls(*names: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments} for name in names]}


def serve(vibe: VibeCommand, name: str, *argv: str, **fields: Any) -> None:
    """Add a server that is run as a command to the user's configuration."""
    entry = {"name": name, "transport": "stdio", "command": list(argv), "startup_timeout_sec": 30.0, **fields}
    lines = [f"{key} = {json.dumps(value)}" for key, value in entry.items()]
    with (vibe.home / "config.toml").open("a") as file:
        file.write("\n[[mcp_servers]]\n" + "\n".join(lines) + "\n")


def results(lines: Iterable[dict[str, Any]]) -> list[Result]:
    return [(line["status"], line["content"]) for line in lines if line["type"] == "tool.result"]


def test_the_main_agent_calls_the_tools_of_a_server_from_its_first_turn(vibe: VibeCommand) -> None:
    install_peers()
    vibe.replay(
        turns(
            calls("everything_echo", message="hi"),
            calls("everything_get-sum", a=2, b=3.5),
            calls("everything_get-tiny-image"),
            {"text": "done"},
        )
    )
    serve(vibe, "everything", *EVERYTHING, "stdio")

    *lines, record = vibe("--yolo", "--output", "streaming", "-p", "go").lines

    echo, total, image = results(lines)
    assert (echo, total) == (("ok", "Echo: hi"), ("ok", "The sum of 2 and 3.5 is 5.5."))
    assert image[0] == "ok"
    assert str(vibe.home) in image[1]
    kinds = [line["type"] for line in lines]
    assert kinds.index("server.state") < kinds.index("user.message")
    state = next(line for line in lines if line["type"] == "server.state" and line["status"] != "starting")
    assert (state["server"], state["status"], state["tools"]) == ("everything", "ready", 15)
    assert (record["outcome"], record["exit_code"], record["warnings"]) == ("completed", 0, [])


def test_a_step_has_the_servers_tools_but_for_those_its_filter_forbids(
    vibe: VibeCommand, write_plan: Callable[..., str]
) -> None:
    install_peers()
    step = [calls("everything_echo", "everything_get-sum", message="hi", a=1, b=1), {"text": "done"}]
    vibe.replay(turns(look=step))
    serve(vibe, "everything", *EVERYTHING, "stdio")
    name = write_plan({
        "id": "look",
        "title": "Look",
        "mode": "code",
        "prompt": "look",
        "allowed_tools": ["read_file", "everything_*"],
        "denied_tools": ["everything_echo"],
    })

    lines = vibe("plan", "run", name, "--auto-approve", "--output", "streaming").lines

    echo, total = results(lines)
    assert echo[0] == "error"
    assert "unknown tool 'everything_echo'" in echo[1]
    assert total == ("ok", "The sum of 1 and 1 is 2.")
    started = next(line for line in lines if line["type"] == "subagent.started")
    assert "everything_get-sum" in started["tools"]
    assert "everything_echo" not in started["tools"]


def test_a_server_over_http_serves_steps_side_by_side(vibe: VibeCommand, write_plan: Callable[..., str]) -> None:
    steps = {name: [calls("pen_echo", text=name), {"text": "done"}] for name in ("one", "two", "three")}
    vibe.replay(turns(**steps))
    port = free_port()
    with http_server(*PEN, "http", str(port), port=port) as url:
        with (vibe.home / "config.toml").open("a") as file:
            file.write(f'[[mcp_servers]]\nname = "pen"\ntransport = "http"\nurl = "{url}"\nrequired = true\n')
        plan = write_plan(*({"id": name, "title": name, "mode": "code", "prompt": "go"} for name in steps))
        lines = vibe("plan", "run", plan, "--auto-approve", "--output", "streaming").lines

    assert sorted(results(lines)) == [("ok", "Echo: one"), ("ok", "Echo: three"), ("ok", "Echo: two")]
    assert lines[-1]["outcome"] == "completed"


def test_without_a_yes_a_servers_tool_is_not_called(vibe: VibeCommand) -> None:
    vibe.replay(turns(calls("srv_look"), {"text": "not allowed"}))
    serve(vibe, "srv", *FAULTY, "none")

    ended = vibe("--output", "json", "-p", "go")

    assert (ended.code, ended.document["denied"][0]["tool"]) == (5, "srv_look")


def test_a_table_for_a_servers_tool_is_a_table_like_any_other(vibe: VibeCommand) -> None:
    vibe.replay(turns(calls("srv_look"), {"text": "looked"}))
    serve(vibe, "srv", *FAULTY, "none")
    with (vibe.home / "config.toml").open("a") as file:
        file.write('\n[tools.srv_look]\npermission = "always"\n[tools.srv_lokk]\npermission = "never"\n')

    ended = vibe("--output", "json", "-p", "go")

    assert (ended.code, ended.document["denied"]) == (0, [])
    assert len(ended.document["warnings"]) == 1
    assert "did you mean 'srv_look'" in ended.document["warnings"][0]


def test_servers_that_fail_are_told_and_the_run_goes_on(vibe: VibeCommand) -> None:
    vibe.replay(
        turns(
            calls("dies_echo", text="a"),
            calls("dies_echo", text="b"),
            calls("hang_echo", text="c"),
            calls("good_echo", text="d"),
            {"text": "done"},
        )
    )
    serve(vibe, "silent", *FAULTY, "silent", startup_timeout_sec=0.5)
    serve(vibe, "missing", "no-such-command")
    serve(vibe, "dies", *FAULTY, "dies")
    serve(vibe, "hang", *FAULTY, "hang", tool_timeout_sec=0.5)
    serve(vibe, "good", *FAULTY, "rubbish")

    *lines, record = vibe("--yolo", "--output", "streaming", "-p", "go").lines

    statuses = {line["server"]: line["status"] for line in lines if line["type"] == "server.state"}
    assert statuses == {"silent": "failed", "missing": "failed", "dies": "failed", "hang": "ready", "good": "ready"}
    assert [status for status, _ in results(lines)] == ["error", "error", "error", "ok"]
    assert ["MCP server 'dies'" in content for _, content in results(lines)] == [True, True, False, False]
    warnings = [line["message"] for line in lines if line["type"] == "warning"]
    assert any("MCP server 'silent' did not start within 0.5 s" in message for message in warnings)
    assert any("no command 'no-such-command'" in message for message in warnings)
    assert any("its tools fail until it works again" in message and "'dies' died" in message for message in warnings)
    assert len(warnings) == len(set(warnings)), "each is told once, whatever becomes of the others"
    assert (record["outcome"], record["exit_code"], len(record["warnings"])) == ("completed", 0, 3)


def test_a_required_server_that_fails_ends_the_run_with_a_record(
    vibe: VibeCommand, write_plan: Callable[..., str]
) -> None:
    vibe.replay(turns({"text": "never"}, a=[{"text": "never"}]))
    serve(vibe, "missing", "no-such-command", required=True)

    chat = vibe("--output", "json", "-p", "go")
    plan = vibe("plan", "run", write_plan({"id": "a", "title": "A", "mode": "code", "prompt": "a"}))

    assert (chat.code, plan.code) == (3, 3)
    assert "MCP server 'missing' is required: can't be started" in chat.document["detail"]
    assert "MCP server 'missing' is required" in plan.out


def test_a_plan_of_commands_waits_for_no_server(vibe: VibeCommand, write_plan: Callable[..., str]) -> None:
    vibe.replay(turns())
    serve(vibe, "silent", "sleep", "61.7", required=True, startup_timeout_sec=3.0)
    plan = write_plan({"id": "a", "title": "A", "mode": "run", "command": "echo done"})
    assert vibe("plan", "run", plan, "--output", "json").document["exit_code"] == 0
    until(lambda: not left_over("sleep 61.7"))


def test_an_agent_that_comes_to_a_plan_of_commands_has_the_servers_tools(
    vibe: VibeCommand, write_plan: Callable[..., str]
) -> None:
    vibe.replay(turns(look=[calls("pen_grow"), {"text": "done"}]))
    serve(vibe, "pen", *PEN, "stdio")
    first = {"id": "a", "title": "A", "mode": "run", "command": "while [ ! -e go ]; do sleep 0.05; done"}
    look = {"id": "look", "title": "Look", "mode": "code", "depends_on": ["a"]}
    process = vibe.start("plan", "run", write_plan(first), "--yolo", "--output", "streaming")
    assert process.stdout is not None
    lines = map(json.loads, process.stdout)
    assert next(line for line in lines if line["type"] == "server.state")["status"] == "ready"
    (plan_id,) = vibe.plan_ids()
    assert vibe("plan", "edit", plan_id, "--file", write_plan(first, look)).code == 0
    (vibe.workdir / "go").touch()
    assert results(lines)[-1][0] == "ok"


def test_a_tool_that_a_server_adds_is_there_on_the_next_turn(vibe: VibeCommand) -> None:
    vibe.replay(turns(calls("pen_grow"), calls("pen_grown"), {"text": "done"}))
    serve(vibe, "missing", "no-such-command")
    serve(vibe, "pen", *PEN, "stdio")

    lines = vibe("--yolo", "--output", "streaming", "-p", "go").lines

    assert results(lines)[-1] == ("ok", "new")
    states = [line for line in lines if line["type"] == "server.state"]
    assert [line["tools"] for line in states if line["status"] == "ready"] == [12, 13]
    assert [line["server"] for line in states if line["status"] == "failed"] == ["missing"]


def test_a_projects_servers_are_started_only_if_it_is_trusted(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "hello"}))
    project = vibe.workdir / ".vibe"
    project.mkdir()
    ran = vibe.workdir / "ran"
    (project / "config.toml").write_text(
        f'[[mcp_servers]]\nname = "evil"\ntransport = "stdio"\ncommand = ["touch", "{ran}"]\n'
    )

    assert vibe("-p", "go").out == "hello\n"
    assert not ran.exists()
    assert vibe("--trust", "-p", "go").out == "hello\n"
    assert ran.exists()


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda sign: sign.name)
def test_no_server_outlives_vibe_however_it_ends(vibe: VibeCommand, sign: signal.Signals, tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    wait = {"tool_calls": [{"name": "bash", "arguments": {"command": "touch running; sleep 600"}}]}
    vibe.replay(turns(wait, {"text": "never"}))
    serve(vibe, "stubborn", *FAULTY, "stubborn", mark)

    process = vibe.start("--yolo", "-p", "go")
    until((vibe.workdir / "running").exists)
    assert left_over(mark)
    os.kill(process.pid, sign)

    process.wait(timeout=120)
    until(lambda: not left_over(mark))


def test_a_signal_does_not_wait_for_a_server_that_starts(vibe: VibeCommand, tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    vibe.replay(turns({"text": "never"}))
    serve(vibe, "silent", *FAULTY, "silent", mark)

    process = vibe.start("--output", "streaming", "-p", "go")
    assert process.stdout is not None
    assert b"session.started" in process.stdout.readline()
    until(lambda: bool(left_over(mark)))
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=120)

    assert process.returncode == 143
    assert json.loads(out.splitlines()[-1])["outcome"] == "interrupted"
    until(lambda: not left_over(mark))


def test_listing_connects_and_says_how_each_stands(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "never"}))
    serve(vibe, "good", *FAULTY, "none")
    serve(vibe, "exit", *FAULTY, "exit")
    serve(vibe, "off", *FAULTY, "none", enabled=False)

    text, document = vibe("mcp", "list"), vibe("mcp", "list", "--output", "json")

    assert (text.code, document.code, text.err) == (1, 1, "")
    assert "good stdio ready, 2 tools\n  good_echo\n  good_look\n" in text.out
    assert "exit stdio failed\n  died (exit code 3): cannot open the database" in text.out
    servers = {server["name"]: server for server in document.document["servers"]}
    assert {name: server["status"] for name, server in servers.items()} == {
        "good": "ready",
        "exit": "failed",
        "off": "disabled",
    }
    assert servers["good"]["tools"] == ["good_echo", "good_look"]
    assert "config.toml:" in servers["good"]["origin"]


def test_a_listing_of_servers_that_are_all_ready_ends_well_and_counts_one_as_one(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "never"}))
    serve(vibe, "good", *FAULTY, "none", disabled_tools=["echo"])
    serve(vibe, "off", *FAULTY, "exit", enabled=False)

    ended = vibe("mcp", "list")

    assert (ended.code, ended.out) == (0, "good stdio ready, 1 tool\n  good_look\noff stdio disabled\n")


def test_a_run_without_servers_does_not_load_the_client(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "hello"}))
    vibe.environ["PYTHONPROFILEIMPORTTIME"] = "1"

    ended = vibe.process("-p", "go")

    imported = {line.rpartition("|")[2].strip() for line in ended.err.splitlines() if "|" in line}
    assert ended.out == "hello\n"
    assert "vibe.app.conversation.runtime" in imported
    assert not {name for name in imported if name.partition(".")[0] in {"mcp", "mcp_types", "httpx2"}}
    assert "vibe.core.tools.mcp.servers" not in imported


def test_the_servers_in_the_guide_are_configured_as_it_shows(vibe: VibeCommand) -> None:
    guide = (REPOSITORY / "docs" / "guide" / "mcp.md").read_text(encoding="utf-8")
    example = guide.partition("```toml\n")[2].partition("```")[0]
    without_network = example.replace('"npx", "-y"', '"no-such-npx"').replace(
        "https://tickets.example.com", "http://0.0.0.0:1"
    )
    vibe.configure(without_network)
    vibe.environ["FILES_ACCOUNT"] = "x"

    listed = vibe("mcp", "list", "--output", "json")

    assert (listed.code, listed.err) == (3, "")
    problems = {server["name"]: server["problem"] for server in listed.document["servers"]}
    assert "no command 'no-such-npx'" in problems["files"]
    assert "needs the environment variable TICKETS_KEY" in problems["tickets"]


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_a_plan_that_is_paused_waits_for_no_server(
    vibe: VibeCommand, write_plan: Callable[..., str], which: signal.Signals
) -> None:
    vibe.replay({"turns": [{"text": "done"}]})
    began = vibe.workdir / "began"
    serve(vibe, "slow", "sh", "-c", f"touch {began}; exec sleep 600", startup_timeout_sec=600.0)

    process = vibe.start("plan", "run", write_plan({"id": "a", "title": "A", "mode": "code", "prompt": "Go."}))
    until(began.exists)
    process.send_signal(which)
    out, _ = process.communicate(timeout=60)

    assert process.returncode == 128 + which
    assert b"paused" in out
    assert b"continue with: vibe plan resume" in out
