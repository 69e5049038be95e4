"""The whole command against a model server written by others.

Covers ``vibe.core.llm.backend``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand
from tests.fakes import model_mocks
from tests.fakes.model_mocks import call

BACKENDS = pytest.mark.parametrize(("backend", "path"), [("generic", "/v1"), ("mistral", "/mistral/v1")])


def reply(text: str = "", **calls: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "reply",
        "text": text,
        "tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls.items()],
    }


THREE_TURNS = [
    reply("I will read it.", read_file={"path": "a.txt"}),
    {"type": "fail", "status": 429, "retry_after": 0, "times": 1},
    reply(write_file={"path": "b.txt", "content": "HELLO\n"}, bash={"command": "cat b.txt > c.txt"}),
    reply("all done"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run llmock and yield its root URL."""
    with model_mocks.llmock(tmp_path_factory.mktemp("llmock")) as url:
        yield url


def talk_to(vibe: VibeCommand, server: str, backend: str, path: str, *behaviors: dict[str, Any]) -> None:
    """Make the server play a scenario, and make it the command's only model."""
    call(f"{server}/_llmock/reset", "")
    call(f"{server}/_llmock/scenario", {"behaviors": list(behaviors)})
    vibe.environ["MOCK_KEY"] = "sk-mock"
    vibe.configure(
        'active_model = "m"\n'
        f'[[providers]]\nname = "mock"\nbackend = "{backend}"\napi_base = "{server}{path}"\n'
        'api_key_env_var = "MOCK_KEY"\n'
        '[[models]]\nname = "m"\nprovider = "mock"\ninput_price = 1.0\noutput_price = 2.0\n'
    )


@BACKENDS
def test_three_turns_with_tools_and_a_rate_limit(vibe: VibeCommand, server: str, backend: str, path: str) -> None:
    talk_to(vibe, server, backend, path, *THREE_TURNS)
    (vibe.workdir / "a.txt").write_text("hello\n")

    ended = vibe("--auto-approve", "-p", "Shout a.txt into b.txt.")

    assert (ended.code, ended.out) == (0, "all done\n"), ended.err
    assert (vibe.workdir / "b.txt").read_text() == (vibe.workdir / "c.txt").read_text() == "HELLO\n"
    assert ended.err.count("\n") == 1
    assert "429" in ended.err
    assert "try 2" in ended.err
    verdict = call(f"{server}/_llmock/verdict")
    assert verdict["passed"], verdict


@BACKENDS
def test_text_is_not_doubled_when_a_stream_is_cut(vibe: VibeCommand, server: str, backend: str, path: str) -> None:
    cut = {"type": "stream_fault", "kind": "disconnect", "after_chunks": 2}
    answer = "one two three four five six seven eight"
    talk_to(vibe, server, backend, path, reply(read_file={"path": "a.txt"}), cut, reply(answer))
    (vibe.workdir / "a.txt").write_text("hello\n")

    lines = vibe("--auto-approve", "--output", "streaming", "-p", "Go.").lines

    *events, record = lines
    assert (record["outcome"], record["result"]) == ("completed", answer)
    final = next(e for e in reversed(events) if e["type"] == "assistant.message")
    deltas = [e for e in events if e["type"] == "assistant.delta" and e["message_id"] == final["message_id"]]
    last = max(delta["attempt"] for delta in deltas)
    assert "".join(delta["text"] for delta in deltas if delta["attempt"] == last) == final["text"] == answer
    assert [e["code"] for e in events if e["type"] == "warning"] == ["model.retry"]


@BACKENDS
def test_usage_and_cost_reach_the_record(vibe: VibeCommand, server: str, backend: str, path: str) -> None:
    talk_to(vibe, server, backend, path, reply("fine"))

    record = vibe("--output", "json", "-p", "Go.").document

    assert record["usage"]["calls"] == 1
    assert record["cost_usd"] == pytest.approx(
        (record["usage"]["prompt_tokens"] + 2 * record["usage"]["completion_tokens"]) / 1e6
    )


@pytest.mark.parametrize("refusal", [(401, 3, "MOCK_KEY"), (402, 4, "credit")], ids=["key", "credit"])
@BACKENDS
def test_a_refusal_is_told_by_the_exit_code_and_said_once(
    vibe: VibeCommand, server: str, backend: str, path: str, refusal: tuple[int, int, str]
) -> None:
    status, code, says = refusal
    talk_to(vibe, server, backend, path, {"type": "fail", "status": status, "times": 9})

    ended = vibe("-p", "Go.")

    assert (ended.code, ended.out, ended.err.count("vibe: failed: " if code == 3 else "\n")) == (code, "", 1), ended.err
    assert says in ended.err
    record = vibe("--output", "json", "-p", "Go.").document
    assert (record["exit_code"], record["reason"]) == (code, "provider")
    assert says in record["detail"]


@BACKENDS
def test_malformed_arguments_are_answered_and_the_work_goes_on(
    vibe: VibeCommand, server: str, backend: str, path: str
) -> None:
    broken = {"type": "tool_fault", "kind": "malformed_arguments"}
    talk_to(
        vibe, server, backend, path, reply(write_file={"path": "b.txt", "content": "x"}), broken, reply("could not")
    )

    ended = vibe("--auto-approve", "-p", "Go.")

    assert (ended.code, ended.out) == (0, "could not\n"), ended.err
    assert "Traceback" not in ended.err
