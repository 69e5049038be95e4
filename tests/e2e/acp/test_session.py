"""Turns of a session: begun, steered, stopped, and with a plan running.

Covers ``vibe.acp``.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.acp.acp_scene import Scene, refusal, tool
from tests.e2e.conftest import leftovers
from tests.fakes.mcp_peers import PEN, http_server
from tests.fakes.ports import free_port
from tests.fakes.waiting import until


def test_a_prompt_is_answered_as_the_words_come(scene: Scene, workdir: Path) -> None:
    scene.script({"text": "It is done. " * 30, "delay_seconds": 0.5, "chunk_size": 20})
    session = scene.editing.new(workdir)

    ended = scene.editing.ask(session, "go")

    assert ended.stop_reason == "end_turn"
    assert ended.usage.output_tokens > 0
    assert scene.editor.text(session) == "It is done. " * 30
    assert len(scene.editor.of("agent_message_chunk", session)) > 1
    assert [one.title for one in scene.editor.of("session_info_update", session)] == ["go"]


def test_sessions_run_side_by_side_also_in_one_folder(scene: Scene, workdir: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    scene.script({"text": "one and only", "delay_seconds": 0.5, "chunk_size": 20})
    sessions = [scene.editing.new(folder) for folder in (workdir, workdir, other)]

    turns = [scene.editing.asking(session, f"prompt {number}") for number, session in enumerate(sessions)]

    assert [turn.result(60).stop_reason for turn in turns] == ["end_turn"] * 3
    assert [scene.editor.text(session) for session in sessions] == ["one and only"] * 3


def test_a_second_prompt_is_told_to_the_agent_at_work_and_a_command_has_to_wait(scene: Scene, workdir: Path) -> None:
    gate = workdir / "gate"
    scene.script(tool("bash", command="until test -e gate; do sleep 0.1; done"), {"text": "both done"})
    scene.editor.answers.append("allow_once")
    session = scene.editing.new(workdir)
    first = scene.editing.asking(session, "go")
    until(lambda: scene.editor.calls(session))

    said = refusal(scene.editing.ask, session, "/status")
    second = scene.editing.asking(session, "and this")
    gate.touch()

    assert "is not answered yet" in said
    assert [first.result(90).stop_reason, second.result(90).stop_reason] == ["end_turn"] * 2
    assert "both done" in scene.editor.text(session)


def test_prompts_that_come_before_the_agent_is_at_work_are_answered_too(scene: Scene, workdir: Path) -> None:
    scene.script({"text": "one"}, {"text": "two"}, {"text": "three"})
    session = scene.editing.new(workdir)

    turns = [scene.editing.asking(session, prompt) for prompt in ("go", "and this", "and that")]

    assert [turn.result(90).stop_reason for turn in turns] == ["end_turn"] * 3
    assert "one" in scene.editor.text(session)


def test_a_session_goes_on_after_a_cancel(scene: Scene, workdir: Path) -> None:
    scene.script({"text": "never " * 100, "delay_seconds": 60, "chunk_size": 6}, {"text": "still here"})
    session = scene.editing.new(workdir)
    turn = scene.editing.asking(session, "go")
    scene.editing.cancel(session)
    assert turn.result(90).stop_reason == "cancelled"

    turn = scene.editing.asking(session, "go")
    until(lambda: scene.editor.text(session))
    scene.editing.cancel(session)
    assert turn.result(90).stop_reason == "cancelled"  # its answer would take a minute
    scene.editing.cancel(session)

    assert scene.editing.ask(session, "and now?").stop_reason == "end_turn"
    assert scene.editor.text(session).endswith("still here")


def test_a_prompt_that_comes_right_after_a_cancel_is_answered(scene: Scene, workdir: Path) -> None:
    scene.script({"text": "never " * 100, "delay_seconds": 20, "chunk_size": 6}, {"text": "still here"})
    session = scene.editing.new(workdir)
    for _ in range(3):
        turn = scene.editing.asking(session, "go")
        scene.editing.cancel(session)
        following = scene.editing.asking(session, "and now?")
        assert turn.result(90).stop_reason == "cancelled"
        scene.editing.cancel(session)
        assert following.result(90).stop_reason in {"cancelled", "end_turn"}


def test_a_prompt_that_waits_for_the_end_of_a_cancelled_one_can_be_cancelled(scene: Scene, workdir: Path) -> None:
    scene.script({"text": "never " * 100, "delay_seconds": 60, "chunk_size": 6})
    session = scene.editing.new(workdir)
    turn = scene.editing.asking(session, "go")
    scene.editing.cancel(session)
    following = scene.editing.asking(session, "and now?")
    scene.editing.cancel(session)

    assert [one.result(30).stop_reason for one in (turn, following)] == ["cancelled", "cancelled"]


def test_bad_requests_are_answered_with_a_sentence(scene: Scene, workdir: Path) -> None:
    conn = scene.editing.conn
    scene.script({"text": "done"})
    session = scene.editing.new(workdir)

    assert "is relative" in refusal(scene.editing.do, conn.new_session, cwd="src", mcp_servers=[])
    assert "is not a folder" in refusal(scene.editing.do, conn.new_session, cwd="/nowhere/at/all", mcp_servers=[])
    assert "no open session 'nobody'" in refusal(scene.editing.ask, "nobody", "go")
    assert "prompt is empty" in refusal(scene.editing.ask, session, "  ")
    assert scene.editing.ask(session, "go").stop_reason == "end_turn"


def test_a_model_that_fails_is_told_and_asked_again(scene: Scene, workdir: Path) -> None:
    scene.script({"text": "", "fault": {"error": "request", "status": 400, "times": 1}}, {"text": "back"})
    session = scene.editing.new(workdir)

    said = refusal(scene.editing.ask, session, "go")

    assert said.startswith("-32603 failed: ")
    assert "400" in said


def test_an_editor_without_a_key_is_told_how_to_get_one(alone: Scene, workdir: Path) -> None:
    conn = alone.editing.conn
    alone.vibe.configure('active_modle = "mine"\n')

    refused = refusal(alone.editing.new, workdir)
    unset = refusal(alone.editing.do, conn.authenticate, method_id="setup")
    alone.script({"text": "fine"})

    assert refused.startswith("-32000 no API key for provider")
    assert refused.endswith("active_modle has no effect, did you mean 'active_model'?")
    assert "vibe setup" in unset
    assert "no way 'nonsense'" in refusal(alone.editing.do, conn.authenticate, method_id="nonsense")
    alone.editing.do(conn.authenticate, method_id="setup")
    assert alone.editing.ask(alone.editing.new(workdir), "go").stop_reason == "end_turn"


def test_an_editor_that_is_killed_leaves_nothing_running(bare: Scene, workdir: Path) -> None:
    bare.script(tool("bash", command="echo $$ > pid; exec sleep 600"), {"text": "never"})
    bare.editor.answers.append("allow_once")
    session = bare.editing.new(workdir)
    bare.editing.asking(session, "go")
    until((workdir / "pid").is_file)

    bare.editing.hang_up()

    until(lambda: bare.editing.process.returncode is not None)
    until(lambda: not leftovers(workdir))
    saved = bare.vibe("session", "list", "--output", "json").document
    assert session in json.dumps(saved)


def test_servers_that_the_editor_brings_are_used(scene: Scene, workdir: Path) -> None:
    from acp.schema import McpServerStdio  # noqa: PLC0415  slow to load, and few tests need it

    scene.script(tool("brought_echo", text="hello"), {"text": "done"})
    scene.editor.answers.append("allow_once")
    server = McpServerStdio(name="brought", command=PEN[0], args=[PEN[1], "stdio"], env=[])
    session = scene.editing.new(workdir, mcp_servers=[server])

    scene.editing.ask(session, "go")

    call = next(iter(scene.editor.calls(session).values()))
    offered = [one.name for one in scene.editor.of("available_commands_update", session)[-1].available_commands]
    assert [name for name in offered if name.startswith("brought:")]
    assert call["status"] == "completed"
    assert "hello" in json.dumps(call["content"])


def test_a_server_that_the_editor_brings_may_be_one_over_http(scene: Scene, workdir: Path) -> None:
    from acp.schema import HttpHeader, HttpMcpServer  # noqa: PLC0415  slow to load, and few tests need it

    scene.script(tool("brought_echo", text="hello"), {"text": "done"})
    scene.editor.answers.append("allow_once")
    port = free_port()
    with http_server(*PEN, "http", str(port), port=port) as url:
        headers = [HttpHeader(name="X-Of", value="the editor")]
        server = HttpMcpServer(type="http", name="brought", url=url, headers=headers)
        session = scene.editing.new(workdir, mcp_servers=[server])
        scene.editing.ask(session, "go")
        scene.editing.do(scene.editing.conn.close_session, session_id=session)

    call = next(iter(scene.editor.calls(session).values()))
    assert call["status"] == "completed"
    assert "Echo: hello" in json.dumps(call["content"])
