"""Covers ``vibe.app.conversation``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand

WRITE = {"name": "write_file", "arguments": {"path": "a.txt", "content": "hello\n"}}


def turns(*given: dict[str, Any]) -> dict[str, Any]:
    return {"agents": {"main": {"turns": list(given)}}}


def test_stdout_is_the_answer_and_nothing_else(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "looking", "tool_calls": [WRITE]}, {"text": "All done."}))

    ended = vibe.process("--auto-approve", "-p", "write a.txt")

    assert (ended.code, ended.out, ended.err) == (0, "All done.\n", "")
    assert (vibe.workdir / "a.txt").read_text() == "hello\n"


def test_the_prompt_may_come_through_a_pipe(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "hello"}))

    assert vibe.process("-p", stdin="hi\n").out == "hello\n"
    assert vibe(stdin="hi\n").out == "hello\n"
    assert vibe.process("-p", "-", stdin="hi\n").out == "hello\n"


def test_the_json_document_is_the_result_record(vibe: VibeCommand) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 20}
    vibe.replay(turns({"tool_calls": [WRITE], "usage": usage}, {"text": "Done.", "usage": usage}))

    record = vibe("--yolo", "--output", "json", "-p", "go").document

    assert record["type"] == "result"
    assert record["schema_version"] == 1
    assert (record["outcome"], record["exit_code"], record["result"]) == ("completed", 0, "Done.")
    assert record["usage"] == {"prompt_tokens": 200, "completion_tokens": 40, "cached_tokens": 0, "calls": 2}
    assert record["cost_usd"] is None
    assert record["denied"] == []
    assert (vibe.home / "logs" / "session" / record["session_id"] / "messages.jsonl").is_file()


def test_streaming_is_every_event_in_order_and_the_record_last(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "one", "tool_calls": [WRITE]}, {"text": "two"}))

    lines = vibe.process("--yolo", "--output", "streaming", "-p", "go").lines

    *events, record = lines
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    kinds = [event["type"] for event in events]
    assert kinds[0] == "session.started"
    assert kinds[-1] == "session.ended"
    assert {"user.message", "assistant.delta", "tool.call", "tool.result", "usage"} <= set(kinds)
    assert record["type"] == "result"


def test_a_call_nobody_could_approve_blocks_the_run(vibe: VibeCommand) -> None:
    vibe.replay(turns({"tool_calls": [WRITE]}, {"text": "I was not allowed to."}))

    ended = vibe.process("-p", "go")

    assert (ended.code, ended.out) == (5, "I was not allowed to.\n")
    assert ended.err.count("\n") == 1
    assert "blocked" in ended.err
    assert not (vibe.workdir / "a.txt").exists()


def test_a_call_that_a_rule_denies_is_policy_at_work(vibe: VibeCommand) -> None:
    vibe.replay(
        turns({"tool_calls": [{"name": "bash", "arguments": {"command": "vim a.txt"}}]}, {"text": "No editor."})
    )

    record = vibe("--yolo", "--output", "json", "-p", "go").document

    assert (record["outcome"], record["exit_code"]) == ("completed", 0)
    assert [(denial["tool"], denial["by"]) for denial in record["denied"]] == [("bash", "rule")]


@pytest.mark.parametrize(
    ("flags", "reason"), [(["--max-turns", "2"], "turns"), (["--max-tokens", "60"], "budget")], ids=["turns", "tokens"]
)
def test_a_limit_ends_the_run_with_a_record(vibe: VibeCommand, flags: list[str], reason: str) -> None:
    listing = {"name": "bash", "arguments": {"command": "date +%N"}}
    vibe.replay(turns(*[{"tool_calls": [listing]}] * 5, {"text": "never"}))

    ended = vibe("--yolo", *flags, "--output", "json", "-p", "go")

    assert (ended.code, ended.document["outcome"], ended.document["reason"]) == (4, "limit", reason)


def test_a_price_limit_on_a_model_of_unknown_price_is_refused(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "never"}))

    ended = vibe("--max-price", "1", "-p", "go")

    assert ended.code == 2
    assert "price of model 'replay' is unknown" in ended.err


def test_enabled_tools_are_all_there_is(vibe: VibeCommand) -> None:
    vibe.replay(turns({"tool_calls": [WRITE]}, {"text": "no such tool"}))

    lines = vibe("--yolo", "--enabled-tools", "read", "--output", "streaming", "-p", "go").lines

    results = [line for line in lines if line["type"] == "tool.result"]
    assert results[0]["status"] == "error"
    assert "read_file" in results[0]["content"]
    assert not (vibe.workdir / "a.txt").exists()


CUSTOM_TOOL = '''
from vibe.core.tools.base import BaseTool, BaseToolConfig


class ShoutConfig(BaseToolConfig):
    mark: str = "!"


class Shout(BaseTool[ShoutConfig]):
    @classmethod
    def get_name(cls) -> str:
        return "shout"

    @classmethod
    def get_description(cls) -> str:
        return "Says it louder"

    async def run(self, text: str, times: int = 1) -> str:
        """Say it."""
        return text.upper() + self.config.mark * times
'''


def test_a_custom_tool_of_a_trusted_project_is_found_and_called(vibe: VibeCommand) -> None:
    tools = vibe.workdir / ".vibe" / "tools"
    tools.mkdir(parents=True)
    (tools / "shout.py").write_text(CUSTOM_TOOL)
    call = {"name": "shout", "arguments": {"text": "hello", "times": 3}}
    vibe.replay(turns({"tool_calls": [call]}, {"text": "ok"}))

    untrusted = vibe("--yolo", "--output", "streaming", "-p", "go").lines
    trusted = vibe("--yolo", "--trust", "--output", "streaming", "-p", "go").lines

    def result(lines: list[dict[str, Any]]) -> tuple[str, str]:
        return next((line["status"], line["content"]) for line in lines if line["type"] == "tool.result")

    assert result(untrusted)[0] == "error"
    assert any("--trust" in warning for warning in untrusted[-1]["warnings"])
    assert result(trusted) == ("ok", "HELLO!!!")


def test_the_transcript_holds_the_whole_conversation(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "writing", "tool_calls": [WRITE]}, {"text": "done"}))

    session = vibe("--yolo", "--output", "json", "-p", "go").document["session_id"]

    folder = vibe.home / "logs" / "session" / session
    roles = [json.loads(line)["role"] for line in (folder / "messages.jsonl").read_text().splitlines()]
    assert roles == ["user", "assistant", "tool", "assistant"]
    meta = json.loads((folder / "meta.json").read_text())
    assert (meta["outcome"], meta["workspace"]) == ("completed", str(vibe.workdir))
