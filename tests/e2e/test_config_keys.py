"""Covers ``vibe.core.config``."""

from __future__ import annotations

import json

from tests.e2e.conftest import VibeCommand
from tests.fakes.model_server import ModelServer, Received, Reply, ServedCall

LOOK = ServedCall(name="bash", arguments=json.dumps({"command": "date +%N"}))


def serve(vibe: VibeCommand, server: ModelServer, settings: str = "", model: str = "") -> None:
    vibe.configure(
        f'active_model = "m"\n{settings}\n[[providers]]\nname = "p"\nbackend = "generic"\n'
        f'api_base = "{server.api_base}"\n[[models]]\nname = "m"\nprovider = "p"\n{model}\n'
    )


def test_instructions_and_thinking_reach_the_model(vibe: VibeCommand) -> None:
    received: list[Received] = []

    def respond(request: Received) -> Reply:
        received.append(request)
        return Reply(text="done")

    with ModelServer("openai", respond) as server:
        serve(vibe, server, 'instructions = "Answer in rhymes."', 'thinking = "medium"')
        ended = vibe("-p", "go")

    assert (ended.code, ended.err) == (0, "")
    assert "\n\nAnswer in rhymes.\n\n" in received[0].body["messages"][0]["content"]
    assert received[0].body["reasoning_effort"] == "medium"


def warned_and_summarised(vibe: VibeCommand, settings: str, tokens: int) -> tuple[bool, bool]:
    """Return whether a conversation of ``tokens``, of 10 000 at most, is warned about, and whether it is summarised."""

    def respond(request: Received) -> Reply:
        if "Write the summary" in str(request.body["messages"][-1]["content"]):
            return Reply(text="a summary")
        said = sum(message["role"] == "assistant" for message in request.body["messages"])
        whole = "takes the place of" in str(request.body["messages"][1]["content"])
        full = {"prompt_tokens": tokens, "completion_tokens": 5}
        return Reply(text="done") if whole or said > 1 else Reply(tool_calls=(LOOK,), usage=full)

    with ModelServer("openai", respond) as server:
        serve(vibe, server, settings, "auto_compact_threshold = 10000")
        lines = vibe("--yolo", "--output", "streaming", "-p", "go").lines
    assert lines[-1]["outcome"] == "completed"
    return (
        any(line.get("code") == "context.half" for line in lines),
        any(line["type"] == "compact.start" for line in lines),
    )


def test_a_warning_about_the_context_can_be_turned_off(vibe: VibeCommand) -> None:
    assert warned_and_summarised(vibe, "", 8_000) == (True, False)
    assert warned_and_summarised(vibe, "context_warnings = false", 8_000) == (False, False)


def test_a_conversation_can_be_summarised_before_the_threshold(vibe: VibeCommand) -> None:
    assert warned_and_summarised(vibe, "memory_soft_limit_ratio = 0.7", 8_000) == (True, True)


def test_a_profile_whose_prompt_is_missing_is_told_before_anything_begins(vibe: VibeCommand) -> None:
    vibe.replay({"agents": {"main": {"turns": [{"text": "done"}]}}})
    (vibe.home / "agents").mkdir()
    (vibe.home / "agents" / "reviewer.toml").write_text('name = "reviewer"\nsystem_prompt_id = "reviews"\n')

    ended = vibe("--agent", "reviewer", "-p", "go")
    assert (ended.code, ended.out) == (2, "")
    assert "no prompt 'reviews'" in ended.err
    assert not (vibe.home / "logs" / "session").exists()


def test_hooks_are_off_until_they_are_turned_on(vibe: VibeCommand) -> None:
    vibe.replay({"agents": {"main": {"turns": [{"text": "done"}]}}})
    canary = vibe.workdir / "ran"
    (vibe.home / "hooks.toml").write_text(
        f'[[hooks]]\nname = "h"\nevent = "post_agent_turn"\ncommand = "touch {canary}"\n'
    )
    settings = (vibe.home / "config.toml").read_text()

    ended = vibe("-p", "go")
    assert (ended.code, ended.err.count("\n")) == (0, 1)
    assert "hooks.toml is not used: set enable_experimental_hooks = true" in ended.err
    assert not canary.exists()

    vibe.configure(f"enable_experimental_hooks = true\n{settings}")
    assert vibe("-p", "go").code == 0
    assert canary.exists()
