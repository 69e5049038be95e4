"""Settings of providers and models that users bring along, as the server sees them, with prompts and agents beside
them.

Covers ``vibe.core.llm``, ``vibe.core.config``.
"""

from __future__ import annotations

import pytest

from tests.e2e.conftest import VibeCommand
from tests.fakes.model_server import ModelServer, Reply, ServedCall

ONE_PIXEL = (
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c020000000b4944415478da63fcff1f0003030200efbfa1d5"
    "0000000049454e44ae426082"
)


@pytest.fixture
def server(vibe: VibeCommand, server: ModelServer) -> ModelServer:
    vibe.environ["TEAM"] = "search"
    vibe.configure(f"""
active_model = "m"
api_timeout = 100.0
[[providers]]
name = "local"
api_base = "{server.api_base}"
api_style = "openai"
reasoning_field_name = "thoughts"
region = ""
extra_headers = {{ "X-Team" = "${{TEAM}}" }}
[[models]]
name = "m"
provider = "local"
thinking = "max"
supports_images = true
""")
    return server


def test_they_reach_the_server(vibe: VibeCommand, server: ModelServer) -> None:
    (vibe.workdir / "dot.png").write_bytes(bytes.fromhex(ONE_PIXEL))
    look = ServedCall(name="read_file", arguments='{"path": "dot.png"}')
    server.enqueue(Reply(tool_calls=(look,)), Reply(text="a dot"))

    ended = vibe("--output", "json", "-p", "look at dot.png")

    record = ended.document
    assert (ended.code, record["result"]) == (0, "a dot ")
    first, second = server.requests
    assert first.body["reasoning_effort"] == "high"
    assert first.headers["x-team"] == "search"
    assert first.headers["user-agent"].startswith("vibe/")
    assert first.headers["x-affinity"] == second.headers["x-affinity"] == record["session_id"]
    assert "image_url" in str(second.body["messages"])


def test_a_summary_is_made_as_the_users_own_prompt_says(vibe: VibeCommand, server: ModelServer) -> None:
    prompts = vibe.home / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "compact.md").write_text("Summarise as a haiku.\n")
    config = vibe.home / "config.toml"
    config.write_text(config.read_text().replace("api_timeout", "auto_compact_threshold = 3000\napi_timeout"))
    seq = ServedCall(name="bash", arguments='{"command": "seq 1 4000"}')
    other = ServedCall(name="bash", arguments='{"command": "seq 1 3999"}')
    server.enqueue(Reply(tool_calls=(seq,), usage=None), Reply(tool_calls=(other,), usage=None))
    server.enqueue(*[Reply(text="done", usage=None)] * 9)

    vibe("--auto-approve", "-p", "count")

    said = [request.body["messages"][0]["content"] for request in server.requests]
    assert "Summarise as a haiku.\n" in said


@pytest.mark.parametrize(("agent", "writes", "says"), [("chat", False, "You change nothing"), ("lean", True, "Lean 4")])
def test_built_in_agents_have_prompts_of_their_own(
    vibe: VibeCommand, server: ModelServer, agent: str, says: str, *, writes: bool
) -> None:
    server.enqueue(Reply(text="hello"))

    assert vibe("--agent", agent, "-p", "hi").code == 0

    body = server.requests[0].body
    tools = {tool["function"]["name"] for tool in body["tools"]}
    assert ("write_file" in tools) is ("bash" in tools) is writes
    assert "read_file" in tools
    assert says in body["messages"][0]["content"]
