"""Covers ``vibe.core.session``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand
from tests.fakes.model_server import ModelServer, Received, Reply, ServedCall
from tests.fakes.waiting import until

CHANGE = {"name": "bash", "arguments": {"command": "echo changed > a.txt; echo new > b.txt"}}


def turns(*given: dict[str, Any]) -> dict[str, Any]:
    return {"agents": {"main": {"turns": list(given)}}}


def messages_of(vibe: VibeCommand, session_id: str) -> list[dict[str, Any]]:
    return vibe("session", "export", session_id, "--format", "json").document["messages"]


def serve_from(vibe: VibeCommand, server: ModelServer, *, threshold: int) -> None:
    vibe.configure(
        f'active_model = "m"\n[[providers]]\nname = "p"\nbackend = "generic"\napi_base = "{server.api_base}"\n'
        f'[[models]]\nname = "m"\nprovider = "p"\nauto_compact_threshold = {threshold}\n'
    )


def test_the_last_session_here_is_continued(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "one"}, {"text": "two"}, {"text": "three"}))

    first = vibe("--output", "json", "-p", "first").document
    second = vibe("-c", "--output", "json", "-p", "second").document
    third = vibe("--resume", first["session_id"][:8], "--max-turns", "1", "--output", "json", "-p", "third").document

    title = vibe("session", "rename", "latest", "Three words").out
    assert title == f"{first['session_id'][:12]}  Three words\n"
    assert [record["result"] for record in (first, second, third)] == ["one", "two", "three"]
    assert first["session_id"] == second["session_id"] == third["session_id"]
    assert [record["usage"]["calls"] for record in (first, second, third)] == [1, 1, 1]
    assert [message["role"] for message in messages_of(vibe, first["session_id"])] == ["user", "assistant"] * 3


def test_there_may_be_nothing_to_continue(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "one"}))

    here = "no session to continue in"
    for words, said in (
        (("-c",), here), (("--resume", "zz"), "no session 'zz'"), (("--resume", ""), "no session ''"),
        (("--resume", "latest"), here),
    ):  # fmt: skip
        ended = vibe(*words, "-p", "go")
        assert (ended.code, ended.out) == (2, "")
        assert said in ended.err
        assert ended.err.count("\n") == 1


def test_a_session_is_listed_shown_and_exported(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "writing", "tool_calls": [CHANGE]}, {"text": "done \x1b[31mred"}))
    session = vibe("--yolo", "--output", "json", "-p", "do \x1b[2Jit").document["session_id"]

    listed, shown = vibe("session", "list"), vibe("session", "show", session[:6])
    exported = vibe("session", "export", session[:6]).out

    assert listed.out.startswith(session[:12])
    assert "completed" in listed.out
    assert "\x1b" not in listed.out + shown.out
    assert "   2  bash (ok): [no output]" in shown.out
    assert exported.startswith("# do it\n")
    assert '## assistant\n\nwriting\n\n````json\nbash {"command"' in exported
    assert vibe("session", "list", "--output", "json").document[0]["workspace"] == str(vibe.workdir)


def test_files_and_conversation_are_taken_back(vibe: VibeCommand) -> None:
    (vibe.workdir / "a.txt").write_text("before\n")
    vibe.replay(turns({"tool_calls": [CHANGE]}, {"text": "done"}, {"text": "again"}))
    session = vibe("--yolo", "--output", "json", "-p", "change it").document["session_id"]

    report = vibe("session", "rewind", session, "0", "--files", "--output", "json").document

    assert (vibe.workdir / "a.txt").read_text() == "before\n"
    assert not (vibe.workdir / "b.txt").exists()
    assert (report["restored"], report["deleted"]) == (["a.txt"], ["b.txt"])
    assert messages_of(vibe, report["session_id"]) == []
    assert len(messages_of(vibe, session)) == 4
    assert "no recorded file has changed since" in vibe("session", "rewind", session, "0", "--files").out
    assert "no recorded file" not in vibe("session", "rewind", session, "0").out
    refused = vibe("session", "rewind", session, "2")
    assert (refused.code, "message 2 is not a point to rewind to" in refused.err) == (2, True)


def test_state_in_the_workspace(vibe: VibeCommand) -> None:
    vibe.home = vibe.workdir / ".vibe"
    name = os.fsdecode(b"\xff.txt")
    (vibe.workdir / name).write_bytes(b"before\r\n")
    lines = "echo x > *.txt; echo y > b.txt"
    vibe.replay(turns({"tool_calls": [{"name": "bash", "arguments": {"command": lines}}]}, {"text": "done"}))
    session = vibe("--yolo", "--output", "json", "-p", "change it", "--output-dir", "out").document["session_id"]

    report = vibe("session", "rewind", session, "0", "--files", "--output", "json")

    assert report.code == 0, report.err
    assert (vibe.workdir / name).read_bytes() == b"before\r\n"
    assert (report.document["restored"], report.document["deleted"]) == (["\\xff.txt"], ["b.txt"])
    assert (vibe.workdir / "out" / "result.json").exists()
    assert b"config.toml" not in (vibe.workdir / ".vibe/logs/session" / session / "history.jsonl").read_bytes()


def test_a_conversation_that_was_summarised_goes_on_in_a_session_of_its_own(vibe: VibeCommand) -> None:
    listing = ServedCall(name="bash", arguments=json.dumps({"command": "date +%N"}))

    def respond(request: Received) -> Reply:
        asked = str(request.body["messages"][-1]["content"])
        if "Write the summary" in asked:
            return Reply(text="a summary")
        said = sum(message["role"] == "assistant" for message in request.body["messages"])
        full = {"prompt_tokens": 50_000, "completion_tokens": 5}
        whole = "takes the place of" in str(request.body["messages"][1]["content"])
        return Reply(text="finished") if whole or said > 3 else Reply(tool_calls=(listing,), usage=full if said else {})

    with ModelServer("openai", respond) as server:
        serve_from(vibe, server, threshold=20_000)
        lines = vibe("--yolo", "--output", "streaming", "-p", "work").lines
        record = lines[-1]
        again = vibe("-c", "--output", "json", "-p", "more").document

    assert (record["outcome"], record["result"].strip()) == ("completed", "finished")
    assert [line["type"] for line in lines if line["type"].startswith("compact")] == ["compact.start", "compact.end"]
    sessions = {saved["session_id"]: saved for saved in vibe("session", "list", "--output", "json").document}
    child = sessions[record["session_id"]]
    assert sessions[child["parent_id"]]["outcome"] == "compacted"
    assert len(sessions) == 2
    assert "a summary" in messages_of(vibe, child["session_id"])[0]["content"]
    assert messages_of(vibe, child["parent_id"])[0]["content"] == "work"
    assert record["usage"]["calls"] == 4
    assert again["session_id"] == child["session_id"]


@pytest.fixture
def busy(vibe: VibeCommand) -> Any:
    """Start a ``vibe -p`` that waits in a tool."""
    wait = {"name": "bash", "arguments": {"command": "test -e started && exit; touch started; sleep 600"}}
    vibe.replay(turns({"tool_calls": [wait]}, {"text": "done"}))
    process = vibe.start("--yolo", "-p", "wait")
    until((vibe.workdir / "started").exists)
    return process


def test_a_session_two_want_to_go_on_with_has_one_holder(vibe: VibeCommand, busy: subprocess.Popen[bytes]) -> None:
    refused = vibe("-c", "--agent", "plan", "-p", "me too")

    assert refused.code == 3
    assert f"is in use by process {busy.pid}" in refused.err
    assert refused.err.startswith("vibe: session ")


def test_a_killed_run_is_taken_up_again_and_what_was_lost_is_said(
    vibe: VibeCommand, busy: subprocess.Popen[bytes]
) -> None:
    os.killpg(busy.pid, signal.SIGKILL)
    busy.wait()
    (folder,) = (vibe.home / "logs" / "session").iterdir()
    with (folder / "messages.jsonl").open("ab") as log:
        log.write(b'{"role":"assist')

    ended = vibe("-c", "--output", "json", "-p", "go on", "--yolo", "--max-turns", "1")

    assert ended.code == 4
    said = " ".join(ended.document["warnings"]) + ended.err
    assert "15 bytes of an incomplete message" in said
    assert "1 tool calls without a result" in said
    statuses = [message.get("status") for message in messages_of(vibe, folder.name) if message["role"] == "tool"]
    assert statuses[0] == "interrupted"


def test_a_cut_off_conversation_goes_on_without_a_prompt(vibe: VibeCommand) -> None:
    vibe.replay(turns({"tool_calls": [CHANGE]}, {"text": "finished"}))
    assert vibe("--yolo", "--max-turns", "1", "-p", "work").code == 4

    ended = vibe("-c", "-p")

    assert (ended.code, ended.out) == (0, "finished\n")


def test_a_read_only_agent_that_asks_for_a_writing_tool_is_denied_by_rule(vibe: VibeCommand) -> None:
    write = {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}
    vibe.replay(turns({"tool_calls": [write]}, {"text": "I can't write."}))

    record = vibe("--agent", "plan", "--yolo", "--output", "json", "-p", "go").document

    assert (record["outcome"], record["exit_code"]) == ("completed", 0)
    assert [(denial["tool"], denial["by"]) for denial in record["denied"]] == [("write_file", "rule")]
    assert not (vibe.workdir / "a.txt").exists()


def test_the_first_request_of_a_tiny_repository_is_small_and_its_prefix_stable(vibe: VibeCommand) -> None:
    (vibe.workdir / "README.md").write_text("# Tiny\n")
    lock = threading.Lock()
    sizes: list[int] = []

    def respond(request: Received) -> Reply:
        with lock:
            sizes.append(int(request.headers["content-length"]))
            call = ServedCall(name="read_file", arguments='{"path": "README.md"}')
            return Reply(text="done") if len(sizes) > 1 else Reply(tool_calls=(call,))

    with ModelServer("openai", respond) as server:
        serve_from(vibe, server, threshold=0)
        assert vibe("-p", "read").code == 0
        first, second = (request.body for request in server.requests)

    assert sizes[0] <= 20_000
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert json.dumps(second["tools"]) == json.dumps(first["tools"])


def test_the_list_of_things_to_do_is_there_when_a_session_is_continued(vibe: VibeCommand) -> None:
    todos = [{"id": "1", "content": "write the lexer", "status": "in_progress"}]
    write = {"name": "todo", "arguments": {"action": "write", "todos": todos}}
    read = {"name": "todo", "arguments": {"action": "read"}}
    vibe.replay(turns({"tool_calls": [write]}, {"text": "noted"}, {"tool_calls": [read]}, {"text": "read"}))

    session_id = vibe("--output", "json", "-p", "first").document["session_id"]
    assert vibe("-c", "-p", "second").code == 0

    results = [message for message in messages_of(vibe, session_id) if message["role"] == "tool"]
    assert "[>] 1 (medium): write the lexer" in results[1]["content"]
