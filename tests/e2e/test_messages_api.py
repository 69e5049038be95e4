"""A whole conversation over the Messages API: thoughts are sent back unchanged, images are shown, and it can be
resumed.

Covers ``vibe.core.llm.backend``.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.e2e.conftest import VibeCommand
from tests.e2e.test_images import PICTURE
from tests.fakes.model_server import ModelServer, Received, Reply, ServedCall

KEY = "sk-ant-0123456789abcdef"
THOUGHT = {"type": "thinking", "thinking": "I should look.", "signature": "sig"}


def look_then_say(request: Received) -> Reply:
    used = [block for message in request.body["messages"] for block in message["content"]]
    if any(block["type"] == "tool_result" for block in used):
        usage = {"prompt_tokens": 900, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 800}}
        return Reply(text="A red dot.", usage=usage)
    call = ServedCall(name="read_file", arguments=json.dumps({"path": "dot.png"}), id="toolu_1")
    return Reply(text="Let me see.", reasoning="I should look.", tool_calls=(call,))


def plain(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in block.items() if name != "cache_control"} for block in blocks]


def test_thoughts_and_pictures_go_back_and_a_resumed_conversation_keeps_them(vibe: VibeCommand) -> None:
    (vibe.workdir / "dot.png").write_bytes(PICTURE)
    vibe.environ["CLAUDE_KEY"] = KEY
    with ModelServer("anthropic", responder=look_then_say) as server:
        server.key = KEY
        vibe.configure(
            'active_model = "claude-haiku-4-5"\n[[providers]]\npreset = "anthropic"\n'
            f'api_base = "{server.url}"\napi_key_env_var = "CLAUDE_KEY"\n'
            '[[models]]\nname = "claude-haiku-4-5"\nprovider = "anthropic"\nsees_images = true\nthinking = "low"\n'
        )
        ended = vibe("-p", "what is on dot.png?", "--output", "json")
        resumed = vibe("-p", "are you sure?", "--resume", ended.document["session_id"], "--output", "json")

    assert (ended.code, ended.document["result"].strip()) == (0, "A red dot.")
    assert (resumed.code, ended.err, resumed.err) == (0, "", "")
    first, second, third = (received.body for received in server.requests)
    assert [body["thinking"]["budget_tokens"] for body in (first, second, third)] == [4_000] * 3
    assert [first["messages"][0]["role"], first["system"][-1]["cache_control"]["type"]] == ["user", "ephemeral"]
    said, shown = second["messages"][-2:]
    assert [block["type"] for block in said["content"]] == ["thinking", "text", "tool_use"]
    assert plain(said["content"])[0] == THOUGHT
    assert [block["type"] for block in shown["content"]] == ["tool_result", "text", "image"]
    assert shown["content"][2]["source"]["data"] == base64.b64encode(PICTURE).decode()
    assert [plain(message["content"]) for message in third["messages"][: len(second["messages"])]] == [
        plain(message["content"]) for message in second["messages"]
    ]
    assert [message["role"] for message in third["messages"]][-2:] == ["assistant", "user"]
    assert KEY not in "".join(path.read_text(errors="replace") for path in vibe.home.rglob("*.jsonl"))


def test_another_server_of_the_same_conversation_gets_no_thoughts_of_the_first(vibe: VibeCommand) -> None:
    (vibe.workdir / "dot.png").write_bytes(PICTURE)
    with ModelServer("anthropic", responder=look_then_say) as server, ModelServer() as other:
        other.enqueue(Reply(text="Yes."))
        vibe.configure(
            f'[[providers]]\nname = "one"\nbackend = "anthropic"\napi_base = "{server.url}"\n'
            f'[[providers]]\nname = "other"\napi_base = "{other.api_base}"\n'
            '[[models]]\nname = "a"\nprovider = "one"\nsees_images = true\n[[models]]\nname = "b"\nprovider = "other"\n'
        )
        ended = vibe("-p", "what is on dot.png?", "--model", "a", "--output", "json")
        resumed = vibe("-p", "sure?", "--model", "b", "--resume", ended.document["session_id"], "--output", "json")

    assert (ended.code, resumed.code, resumed.document["result"].strip()) == (0, 0, "Yes.")
    sent = json.dumps(other.requests[0].body)
    assert "Let me see." in sent
    assert "I should look." not in sent
    assert "signature" not in sent
