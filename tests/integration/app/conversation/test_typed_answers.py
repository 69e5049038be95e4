"""A prompt that asks for a typed value is answered with one, and the prompts around it are unaffected."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ipc.events import SubAgentStartedEvent
from tests.fakes.model_server import Reply, ServedCall
from tests.integration.app.conversation.conftest import Rig
from tests.integration.app.conversation.test_conversation import asked
from vibe.app.conversation.runtime import Runtime
from vibe.core.messages import Outcome
from vibe.core.tools.hand_in import MAX_BYTES, HandIn
from vibe.system.errors import UsageError

COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def handing(value: Any, **more: Any) -> Reply:
    call = ServedCall(name="hand_in", arguments=json.dumps({"value": value, **more}), id="h1")
    return Reply(tool_calls=(call,))


def calling(name: str, **arguments: Any) -> Reply:
    return Reply(tool_calls=(ServedCall(name=name, arguments=json.dumps(arguments), id="c1"),))


def offered(rig: Rig, number: int) -> set[str]:
    return {tool["function"]["name"] for tool in rig.server.requests[number].body["tools"]}


def duty(**more: Any) -> HandIn:
    return HandIn.of_prompt(COUNT, "output", **more)


async def test_the_tool_is_offered_for_the_one_prompt_and_states_go_on(rig: Rig) -> None:
    (rig.folder / "sub").mkdir()
    rig.server.enqueue(
        Reply(text="hello"),
        calling("bash", command="cd sub"),
        handing({"n": "x"}),
        handing({"n": 3}, summary="three files"),
        calling("bash", command="pwd"),
        Reply(text="bye"),
    )
    async with Runtime(rig.host) as runtime:
        opening = rig.opening(flags={"tools.bash.stateful": True})
        conversation = await runtime.open_conversation(opening, rig.seat)
        plain = await conversation.send("hi")
        typed = await conversation.send("count", hand_in=duty())
        after = await conversation.send("where?")
        record = typed.record("s", conversation.channel, ()).as_document()
        await conversation.aclose()

    assert [("hand_in" in offered(rig, number)) for number in range(6)] == [False, True, True, True, False, False]
    assert "value.n: 'x' is not an integer" in asked(rig, 3)[-1]["content"]
    assert (typed.acted.outcome, typed.value, typed.acted.text) == (Outcome.COMPLETED, {"n": 3}, "three files")
    assert record["value"] == {"n": 3}
    assert "value" not in plain.record("s", conversation.channel, ()).as_document()
    assert after.acted.text.strip() == "bye"
    assert str(rig.folder / "sub") in asked(rig, 5)[-1]["content"]  # the typed prompt has the same shell
    system = {request.body["messages"][0]["content"] for request in rig.server.requests}
    assert len(system) == 1
    assert not rig.seen(SubAgentStartedEvent)


async def test_what_a_check_of_the_program_says_goes_back(rig: Rig) -> None:
    rig.server.enqueue(handing({"n": -1}), handing({"n": 1}))

    def check(value: Any) -> str | None:
        return "value.n: must be positive" if value["n"] < 0 else None

    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        result = await conversation.send("count", hand_in=duty(check=check))
        await conversation.aclose()

    assert "not accepted: value.n: must be positive" in asked(rig, 1)[-1]["content"]
    assert result.value == {"n": 1}


@pytest.mark.parametrize(
    ("value", "said"),
    [({"n": "x"}, "value.n: 'x' is not an integer"), ({"n": 1, "long": "x" * MAX_BYTES}, "bytes long")],
    ids=["type", "size"],
)
async def test_where_none_fits_the_prompt_fails_and_the_conversation_goes_on(rig: Rig, value: Any, said: str) -> None:
    rig.server.enqueue(handing(value), Reply(text="so"), Reply(text="no"), Reply(text="fine"), handing({"n": 2}))
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        result = await conversation.send("count", hand_in=duty())
        plain = await conversation.send("never mind")
        again = await conversation.send("now", hand_in=duty())
        await conversation.aclose()

    assert (result.acted.outcome, result.acted.reason, result.value) == (Outcome.FAILED, "output", None)
    assert result.acted.detail.startswith("the agent ended without handing in its result with hand_in; the last value")
    assert said in result.acted.detail
    assert (plain.acted.text.strip(), again.value) == ("fine", {"n": 2})


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "nope"}, "output: type: 'nope' is not a JSON Schema type"),
        ({"properties": {"a b": {"type": "nope"}}}, "output: properties[a b].type: 'nope'"),
        ({"$ref": "#/nowhere"}, "output: $ref: '#/nowhere' leads nowhere in this schema"),
        ([], "output: not a JSON Schema: write an object"),
        (True, "output: not a JSON Schema"),
        ({"not": json.loads('{"not":' * 200 + "{}" + "}" * 200)}, "output: is nested deeper than 64 levels"),
    ],
)
def test_what_is_no_schema_is_said_with_the_place(schema: object, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        HandIn.of_prompt(schema, "output")
    assert str(refused.value).startswith(said)
