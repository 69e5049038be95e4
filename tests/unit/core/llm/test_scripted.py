"""A script answers by caller and history alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TypeAlias, get_args

import anyio
import pytest

from tests.fakes.llm_ports import MemoryObserver, request
from vibe.core.llm.backend.scripted import FAULTS, FaultKind, ScriptedBackend, load_script, parse_script, turn_index
from vibe.core.llm.errors import ModelError, ModelOverloadedError, ModelRequestError, ModelTransportError
from vibe.core.llm.port import FinishReason
from vibe.core.llm.retry import RetryingBackend, RetryPolicy
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage
from vibe.system.errors import ConfigError

Agents: TypeAlias = dict[str, list[dict[str, object]]]
Scripted: TypeAlias = Callable[[Agents], ScriptedBackend]


@pytest.fixture
def scripted(tmp_path: Path) -> Scripted:
    path = tmp_path / "demo.json"

    def make(agents: Agents) -> ScriptedBackend:
        document = {"version": 1, "agents": {name: {"turns": turns} for name, turns in agents.items()}}
        path.write_text(json.dumps(document), encoding="utf-8")
        return ScriptedBackend(path)

    return make


async def say(backend: ScriptedBackend, caller: str, *messages: Message) -> str:
    done = await backend.complete(request(*(messages or (UserMessage("go"),)), caller=caller), MemoryObserver())
    return done.message.content


def turn(number: int, status: str = "ok") -> tuple[Message, ...]:
    call = ToolCall(f"c{number}", "read", "{}")
    return AssistantMessage("", (call,)), ToolMessage("result", call.id, "read", status)


async def test_delays_take_as_many_times_as_long_as_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "slow.json"
    path.write_text(json.dumps({"version": 1, "agents": {"*": {"turns": [{"text": "a", "delay_seconds": 0.01}]}}}))
    began = monotonic()
    await say(ScriptedBackend(path, slowed=20.0), "me")
    assert monotonic() - began >= 0.2


async def test_a_caller_is_matched_exactly_then_by_pattern_then_by_the_star(scripted: Scripted) -> None:
    backend = scripted({
        "*": [{"text": "anyone"}],
        "test-*": [{"text": "a test"}],
        "t*": [{"text": "something with t"}],
        "test-unit": [{"text": "the unit test"}],
    })
    answers = [await say(backend, caller) for caller in ("test-unit", "test-e2e", "tidy", "main")]
    assert answers == ["the unit test", "a test", "something with t", "anyone"]


async def test_the_turn_follows_from_the_history_in_any_process(scripted: Scripted) -> None:
    agents: dict[str, list[dict[str, object]]] = {"main": [{"text": "one"}, {"text": "two"}, {"text": "three"}]}
    history = (UserMessage("go"), *turn(1), *turn(2))
    assert await say(scripted(agents), "main") == "one"
    assert await say(scripted(agents), "main", *history) == "three"


@pytest.mark.parametrize(
    ("history", "index"),
    [
        ((), 0),
        ((UserMessage("go"),), 0),
        (turn(1), 1),
        (turn(1) + turn(2, "interrupted"), 1),
        (turn(1, "interrupted") + turn(2), 1),
        (turn(1, "cancelled") + turn(2, "denied"), 1),
        (turn(1) + turn(2, "cancelled"), 1),
        ((*turn(1, "cancelled"), UserMessage("go on"), *turn(2, "denied")), 2),
        ((*turn(1, "interrupted"), ToolMessage("late", "c2", "read", "ok")), 0),
        ((*turn(1, "interrupted"), UserMessage("go on"), AssistantMessage("said")), 1),
    ],
)
def test_an_interrupted_turn_is_asked_again(history: tuple[Message, ...], index: int) -> None:
    assert turn_index(history) == index


async def test_a_turn_streams_reasoning_text_calls_and_usage(scripted: Scripted) -> None:
    backend = scripted({
        "main": [
            {
                "text": "Reading.",
                "reasoning": "hm",
                "chunk_size": 3,
                "tool_calls": [
                    {"name": "read_file", "arguments": {"path": "a.txt"}},
                    {"name": "bash", "arguments": '{"command": '},
                ],
                "usage": {"prompt_tokens": 100, "completion_tokens": 20, "cached_tokens": 60},
            }
        ]
    })
    seen = MemoryObserver()
    done = await backend.complete(request(), seen)
    assert [delta.text for delta in seen.deltas if delta.text] == ["Rea", "din", "g."]
    assert (done.message.content, done.message.reasoning) == ("Reading.", "hm")
    assert [(call.name, call.arguments) for call in done.message.tool_calls] == [
        ("read_file", '{"path":"a.txt"}'),
        ("bash", '{"command": '),
    ]
    assert done.finish_reason is FinishReason.TOOL_CALLS
    assert done.usage == Usage(100, 20, 60, 1)


async def test_call_ids_are_unique_in_a_conversation_and_the_same_in_each_replay(scripted: Scripted) -> None:
    agents: dict[str, list[dict[str, object]]] = {"main": [{"tool_calls": [{"name": "a"}, {"name": "b"}]}] * 2}
    ids: list[str] = []
    for history in ((UserMessage("go"),), turn(1), turn(1, "interrupted")):
        done = await scripted(agents).complete(request(*history), MemoryObserver())
        ids += [call.id for call in done.message.tool_calls]
    assert ids[:2] == ["s00000000", "s00000001"]
    # The turn after an interrupted one repeats the words, but not the ids.
    assert set(ids[4:]).isdisjoint(ids[:2])


async def test_usage_not_given_is_estimated_and_a_reason_given_is_kept(scripted: Scripted) -> None:
    backend = scripted({"*": [{"text": "12345678", "finish_reason": "length"}]})
    done = await backend.complete(request(), MemoryObserver())
    assert (done.usage.completion_tokens, done.finish_reason) == (2, FinishReason.LENGTH)


@pytest.mark.parametrize("kind", FAULTS)
async def test_every_fault_raises_its_error_as_often_as_it_says(scripted: Scripted, kind: FaultKind) -> None:
    fault = {"error": kind, "times": 2, "status": 418, "retry_after": 1.5}
    backend = scripted({"*": [{"text": "fine", "fault": fault}]})
    for _ in range(2):
        with pytest.raises(FAULTS[kind]) as caught:
            await say(backend, "main")
        assert (caught.value.status, caught.value.retry_after) == (418, 1.5)
        assert type(caught.value) is FAULTS[kind]
    assert await say(backend, "main") == "fine"


def test_there_is_a_fault_for_every_kind_of_model_error() -> None:
    assert set(FAULTS) == set(get_args(FaultKind)) - {"silent"}
    assert set(FAULTS.values()) == set(ModelError.__subclasses__())


async def test_each_caller_meets_the_fault_of_a_shared_turn_for_itself(scripted: Scripted) -> None:
    backend = scripted({"*": [{"text": "fine", "fault": {"error": "overloaded"}}]})
    for caller in ("a", "b"):
        with pytest.raises(ModelOverloadedError):
            await say(backend, caller)


async def test_a_fault_in_the_middle_of_a_text_shows_it_once_in_the_end(scripted: Scripted) -> None:
    fault = {"error": "transport", "after_chunks": 2}
    backend = scripted({"*": [{"text": "abcdefgh", "chunk_size": 2, "fault": fault}]})
    seen = MemoryObserver()
    done = await RetryingBackend(backend, RetryPolicy(initial_seconds=0.001)).complete(request(), seen)
    assert (seen.text, seen.visible) == ("abcdabcdefgh", "abcdefgh")
    assert done.message.content == "abcdefgh"


async def test_a_cut_before_the_first_chunk_shows_nothing(scripted: Scripted) -> None:
    backend = scripted({"*": [{"text": "abc", "fault": {"error": "transport"}}]})
    seen = MemoryObserver()
    with pytest.raises(ModelTransportError):
        await backend.complete(request(), seen)
    assert seen.deltas == []


async def test_silence_lasts_until_it_is_cancelled(scripted: Scripted) -> None:
    backend = scripted({"*": [{"text": "abcd", "chunk_size": 2, "fault": {"error": "silent", "after_chunks": 1}}]})
    seen = MemoryObserver()
    with anyio.move_on_after(0.05) as scope:
        await backend.complete(request(), seen)
    assert scope.cancelled_caught
    assert seen.text == "ab"
    assert await say(backend, "main") == "abcd"


async def test_a_script_that_is_spent_names_the_agent_the_turn_and_the_file(scripted: Scripted) -> None:
    backend = scripted({"main": [{"text": "one"}]})
    with pytest.raises(ModelRequestError, match=r"demo\.json has no turn 2 for agent 'main' \(it has 1\)"):
        await say(backend, "main", *turn(1))
    with pytest.raises(ModelRequestError, match=r"demo\.json has no turns for agent 'other'"):
        await say(backend, "other")


async def test_parallel_agents_each_get_their_own_turns(scripted: Scripted) -> None:
    backend = scripted({f"s{n}": [{"text": f"{n}-{t}"} for t in range(3)] for n in range(20)})
    said: dict[str, list[str]] = {}

    async def run(caller: str) -> None:
        history: list[Message] = [UserMessage("go")]
        for number in range(3):
            said.setdefault(caller, []).append(await say(backend, caller, *history))
            history += turn(number)

    async with anyio.create_task_group() as group:
        for n in range(20):
            group.start_soon(run, f"s{n}")
    assert said == {f"s{n}": [f"{n}-0", f"{n}-1", f"{n}-2"] for n in range(20)}


def test_a_yaml_script_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "demo.yaml"
    path.write_text("version: 1\nagents:\n  main:\n    turns:\n      - text: hello\n", encoding="utf-8")
    agent = load_script(path).agent_for("main")
    assert agent is not None
    assert agent.turns[0].text == "hello"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", r"a\.json: no valid JSON"),
        ("a.yaml", "version: 1\nagents: [", r"a\.yaml:2: no valid YAML"),
        ("a.yaml", "a: \x01", r"a\.yaml: no valid YAML"),
        ("a.json", "[]", r"a\.json: "),
        ("a.yaml", "", r"a\.yaml: "),
        ("a.json", '{"version": 2, "agents": {"*": {"turns": []}}}', r"a\.json: version: "),
        ("a.json", '{"version": 1, "agents": {}}', r"no agents: name at least one"),
        (
            "a.json",
            '{"version": 1, "agents": {"main": {"turns": [{"text": "x"}, {"txt": "x"}]}}}',
            r"a\.json: agents\.main\.turns\[1\]\.txt: Extra inputs",
        ),
        (
            "a.json",
            '{"version": 1, "agents": {"main": {"turns": [{"fault": {"error": "hiccup"}}]}}}',
            r"agents\.main\.turns\[0\]\.fault\.error: Input should be 'overloaded'",
        ),
    ],
)
def test_a_bad_script_is_refused_with_file_and_place(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_script(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: the script cannot be read \(No such file"):
        load_script(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_script(tmp_path / "b.yaml")


def test_the_reference_shows_a_script_that_loads() -> None:
    page = Path(__file__).parents[4] / "docs" / "reference" / "scripted-backend.md"
    blocks = page.read_text(encoding="utf-8").split("```yaml\n")[1:]
    assert blocks
    for block in blocks:
        parse_script(block.split("```")[0], source=str(page), json=False)
    assert all(f"`{kind}`" in page.read_text(encoding="utf-8") for kind in get_args(FaultKind))
    assert "yaml" in sys.modules
