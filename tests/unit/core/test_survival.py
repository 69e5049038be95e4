from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from ipc.events import ToolResultEvent, UsageEvent, WarningEvent
from tests.fakes.engine import Bench
from tests.fakes.model_server import ModelServer, Reply
from tests.fakes.models import answer, calling
from vibe.core.agent_loop import ActResult, AgentLoop
from vibe.core.config.models import BackendKind, ModelConfig, ProviderConfig, VibeConfig
from vibe.core.llm.factory import ModelCatalog
from vibe.core.llm.history import PromptHistory, normalised
from vibe.core.messages import (
    AssistantMessage,
    Denial,
    Message,
    Outcome,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from vibe.core.session.folder import Transcript
from vibe.core.tools.guidance import CallGuidance

WRITE = ("write_file", {"path": "a.txt", "content": "x"})
READ = ("read_file", {"path": "b.txt"})


async def test_malformed_arguments_come_back_with_the_path_in_the_schema(tmp_path: Path) -> None:
    torn = ("todo", {"action": "write", "todos": [{"id": "1", "content": "x"}, {"id": 2}]})
    bench = Bench(root=tmp_path, answers=[calling(torn), answer("understood")])

    await bench.loop.act("go")

    told = bench.model.requests[1].messages[-1]
    assert isinstance(told, ToolMessage)
    assert told.status == "error"
    assert "todos[1].content" in told.content or "todos.1.content" in told.content


async def test_calls_as_other_agents_make_them_are_run_under_our_names(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("hello\n")
    remarked = ("Bash", {"command": "cat b.txt", "description": "look at b", "run_in_background": False})
    calls = calling(remarked, ("Read", {"file_path": "b.txt"}), ("Edit", {"file_path": "b.txt", "oldText": "x"}))
    bench = Bench(root=tmp_path, answers=[calls, answer("ok")])

    await bench.loop.act("go")

    said = bench.model.requests[1].messages[2]
    assert isinstance(said, AssistantMessage)
    assert [call.name for call in said.tool_calls] == ["bash", "read_file", "search_replace"]
    ran, read, refused = bench.model.requests[1].messages[3:]
    assert (ran.content, read.content) == ("hello\n\n(Not an argument of bash, ignored: description)", "hello\n")
    assert "arguments.oldText: extra inputs are not permitted; it takes file_path, content" in refused.content


async def test_another_agents_name_for_a_tool_leads_round_no_refusal(tmp_path: Path) -> None:
    guard = CallGuidance(profile="plan", refused=frozenset({"write_file"}))
    for name in ("Write", "write", "write_file"):
        bench = Bench(root=tmp_path, answers=[calling((name, WRITE[1])), answer("ok")], guidance=guard)
        assert [denial.by for denial in (await bench.loop.act("go")).denied] == ["rule"]


async def test_a_refused_call_is_denied_in_its_place_and_the_others_run(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("hello\n")
    guard = CallGuidance(profile="plan", refused=frozenset({"write_file"}))
    bench = Bench(root=tmp_path, answers=[calling(WRITE, READ, WRITE), answer("ok")], guidance=guard)

    result = await bench.loop.act("go")

    told = [message for message in bench.transcript.messages if isinstance(message, ToolMessage)]
    assert [(message.tool_call_id, message.status) for message in told] == [
        ("call0", "denied"),
        ("call1", "ok"),
        ("call2", "denied"),
    ]
    assert result.outcome is Outcome.COMPLETED
    reason = "the agent 'plan' is read-only and has no write_file"
    assert result.denied == (Denial("write_file", "write_file", reason, "rule"),) * 2
    assert not (tmp_path / "a.txt").exists()
    assert len(bench.events(ToolResultEvent)) == 3


async def test_a_history_with_wrong_roles_and_dangling_calls_is_mended_for_the_model(tmp_path: Path) -> None:
    stray = ToolMessage("from nowhere", "zz", "grep")
    call = AssistantMessage("", (ToolCall("1", "grep", "{}"),))
    broken: list[Message] = [UserMessage("go"), stray, call, UserMessage("hello?"), SystemMessage("odd")]
    bench = Bench(root=tmp_path, answers=[answer("fine")], transcript=Transcript(broken))

    await bench.loop.act("and now")

    sent = list(bench.model.requests[0].messages)
    assert [type(message).__name__ for message in sent] == [
        "SystemMessage",
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
        "UserMessage",
        "UserMessage",
        "UserMessage",
    ]
    assert normalised(sent) == sent


def test_the_incremental_history_is_the_whole_one_at_every_length() -> None:
    call = ToolCall("1", "grep", "{}")
    talk: list[Message] = [
        UserMessage("a"),
        AssistantMessage("", (call,)),
        ToolMessage("r", "1", "grep"),
        AssistantMessage(""),
        UserMessage("b"),
        SystemMessage("late"),
        AssistantMessage("x", (call, ToolCall("2", "bash", "{}"))),
        ToolMessage("r", "2", "bash"),
        UserMessage("c"),
        ToolMessage("stray", "9", "bash"),
        AssistantMessage("end"),
    ]
    history = PromptHistory("you are")
    growing: list[Message] = []

    for message in talk:
        growing.append(message)
        assert history.messages(growing) == normalised([SystemMessage("you are"), *growing])
    other = talk[:3]
    assert history.messages(other) == normalised([SystemMessage("you are"), *other])


async def act(bench: Bench, server: ModelServer, *, silence: float = 100.0) -> ActResult:
    """Have the bench's agent answer, with a real provider."""
    provider = ProviderConfig(
        name="local",
        backend=BackendKind.GENERIC,
        api_base=server.api_base,
        timeout_seconds=silence,
        retry_max_seconds=2.0,
    )
    model = ModelConfig(name="m", provider="local")
    catalog = ModelCatalog(VibeConfig(providers=(provider,), models=(model,), active_model="m"), {})
    try:
        return await AgentLoop(replace(bench.kit, model=model, backend=catalog.backend(model))).act("go")
    finally:
        await catalog.aclose()


async def test_a_stream_that_goes_silent_is_cut_and_asked_again(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[])
    with ModelServer() as server:
        server.enqueue(Reply(text="one two three", silent_after=2), Reply(text="whole"))

        result = await act(bench, server, silence=0.3)

    assert (result.outcome, result.text.strip()) == (Outcome.COMPLETED, "whole")
    assert [event.code for event in bench.events(WarningEvent) if isinstance(event, WarningEvent)] == ["model.retry"]
    (used,) = bench.events(UsageEvent)
    assert isinstance(used, UsageEvent)
    assert used.estimated
    assert used.prompt_tokens > 1_000 + 11  # the answer that broke off was asked for with the instructions and tools
    assert used.completion_tokens > 7
    assert (result.usage.calls, result.usage.prompt_tokens) == (2, used.prompt_tokens)
    assert bench.account.usage == result.usage


async def test_an_answer_that_broke_off_costs_what_others_do_if_no_price_is_set(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[])
    dear = {"prompt_tokens": 11, "completion_tokens": 7, "cost": 0.18}
    with ModelServer() as server:
        server.enqueue(Reply(text="one two three", cut_after=2), Reply(text="whole", usage=dear))

        result = await act(bench, server)

    assert result.cost_usd == pytest.approx(0.01 * result.usage.total_tokens)


async def test_a_call_that_fails_after_its_first_words_counts(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[])
    with ModelServer() as server:
        server.enqueue(Reply(text="one two three", cut_after=2), Reply(status=400, body='{"error": {"message": "no"}}'))

        result = await act(bench, server)

    (used,) = bench.events(UsageEvent)
    assert isinstance(used, UsageEvent)
    assert (result.outcome, used.estimated, result.usage.calls) == (Outcome.FAILED, True, 1)
    assert bench.account.usage == result.usage


async def test_a_call_that_got_no_answer_costs_nothing(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[])
    with ModelServer() as server:
        server.enqueue(Reply(status=503, body="busy"), Reply(text="whole"))

        result = await act(bench, server)

    assert (result.usage.calls, result.usage.prompt_tokens) == (1, 11)
    assert [event.estimated for event in bench.events(UsageEvent) if isinstance(event, UsageEvent)] == [False]


async def test_a_refused_key_ends_the_work_at_once(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[])
    with ModelServer() as server:
        server.enqueue(Reply(status=401, body='{"error": {"message": "bad key"}}'))

        result = await act(bench, server)

    assert (result.outcome, result.reason) == (Outcome.FAILED, "provider")
    assert len(server.requests) == 1


async def test_the_first_request_of_a_tiny_repository_is_small(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[])
    with ModelServer() as server:
        server.enqueue(Reply(text="hi"))

        await act(bench, server)

    assert int(server.requests[0].headers["content-length"]) < 20_000
