"""Questions that a server asks during a call go to the person who answers for the agent."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from ipc.events import AnswerEvent, QuestionEvent, RequestWithdrawnEvent
from tests.fakes.mcp_peers import PEN, http_server, over_http, over_stdio
from tests.fakes.mcp_rig import McpRig, running
from tests.fakes.ports import free_port
from tests.fakes.tools import call
from vibe.core.tools.questions import Question, QuestionAnswer, UserInput

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"count": {"type": "integer", "minimum": 1}, "size": {"type": "string", "enum": ["s", "m"]}},
    "required": ["count", "size"],
}


class Person:
    """Gives one list of answers to each round of questions, and declines when none is left."""

    def __init__(self, *rounds: Sequence[str]) -> None:
        self.rounds: list[Sequence[str]] = list(rounds)
        self.asked: list[str] = []

    async def __call__(self, questions: Sequence[Question], request_id: str = "") -> Sequence[QuestionAnswer] | None:  # noqa: ARG002
        await anyio.lowlevel.checkpoint()
        self.asked += [question.question for question in questions]
        if not self.rounds:
            return None
        given = self.rounds.pop(0)
        return [QuestionAnswer(question=one.question, answer=text) for one, text in zip(questions, given, strict=True)]


@asynccontextmanager
async def pen(root: Path, person: UserInput | None, transport: str = "stdio", **fields: Any) -> AsyncGenerator[McpRig]:
    if transport == "stdio":
        async with running(root, over_stdio("pen", *PEN, "stdio", **fields), user_input=person) as rig:
            yield rig
        return
    port = free_port()
    with http_server(*PEN, "http", str(port), port=port) as url:
        async with running(root, over_http("pen", url, **fields), user_input=person) as rig:
            yield rig


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_form_is_filled_in_and_what_does_not_fit_is_asked_again(transport: str, tmp_path: Path) -> None:
    person = Person(["none", "m"], ["3"])
    async with pen(tmp_path, person, transport) as rig:
        answer = await rig.call("pen_ask", schema=json.dumps(FORM))

    assert json.loads(answer.content) == {"action": "accept", "content": {"count": 3, "size": "m"}}
    assert [text.splitlines()[0] for text in person.asked] == [
        "MCP server 'pen' asks: About your order",
        "size",
        "MCP server 'pen' asks: About your order",
    ]
    events = rig.rig.sink.events
    assert [event.tool_call_id for event in events if isinstance(event, QuestionEvent)] == ["c1", "c1"]
    assert sum(isinstance(event, AnswerEvent) for event in events) == 2


async def test_a_person_declines_and_an_address_is_only_shown(tmp_path: Path) -> None:
    person = Person()
    async with pen(tmp_path, person) as rig:
        declined = await rig.call("pen_ask", schema=json.dumps(FORM))
        person.rounds.append(["I have opened it"])
        opened = await rig.call("pen_ask", schema="", url="https://pay.example/1")
        odd = await rig.call("pen_ask", schema="", url="file:///etc/passwd")
        nested = await rig.call("pen_ask", schema='{"type": "object", "properties": {"a": {"type": "object"}}}')

    assert json.loads(declined.content)["action"] == "decline"
    assert json.loads(opened.content)["action"] == "accept"
    assert "https://pay.example/1" in person.asked[-1]
    assert json.loads(odd.content)["action"] == "decline"
    assert "can't be put to a person" in nested.content
    assert len(person.asked) == 2 + 1


async def test_where_nobody_can_answer_the_server_is_told_at_once(tmp_path: Path) -> None:
    async with pen(tmp_path, None) as rig:
        answer = await rig.call("pen_ask", schema=json.dumps(FORM))

    assert "error" in answer.content
    assert not any(isinstance(event, QuestionEvent) for event in rig.rig.sink.events)


async def test_a_question_is_withdrawn_with_its_call(tmp_path: Path) -> None:
    asked = anyio.Event()

    async def wait(questions: Sequence[Question], request_id: str = "") -> Sequence[QuestionAnswer] | None:  # noqa: ARG001
        asked.set()
        await anyio.sleep_forever()

    log = tmp_path / "log"
    async with pen(tmp_path, wait) as rig:
        async with anyio.create_task_group() as group:
            given = call("c1", "pen_ask", schema=json.dumps(FORM), log=str(log))
            group.start_soon(rig.rig.executor.run_all, [given], rig.rig.record)
            await asked.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(60):
            while not log.exists():  # noqa: ASYNC110  it happens in another process
                await anyio.sleep(0.01)
        assert (await rig.call("pen_echo", text="still here")).content == "Echo: still here"

    assert any(isinstance(event, RequestWithdrawnEvent) for event in rig.rig.sink.events)
