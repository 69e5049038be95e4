"""Plans that the agent of a conversation proposes: a person answers them, and the agent hears the answer."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from ipc.events import PlanProposedEvent, ToolCallEvent
from tests.fakes.model_server import Reply, ServedCall
from tests.integration.app.conversation.conftest import CONFIG, Rig
from tests.integration.app.conversation.scripted_talk import ScriptedTalk
from tests.integration.app.conversation.test_slash_plans import BUILD, CHECK, Answers
from vibe.app.conversation.opening import AgentChange
from vibe.app.conversation.runtime import Runtime
from vibe.core.tools.questions import Question, QuestionAnswer
from vibe.front.slash.plan_talk import PlanVerdict, VerdictKind

RUN, DROP, LATER = (PlanVerdict(kind) for kind in (VerdictKind.RUN, VerdictKind.DROP, VerdictKind.LATER))
GOAL = "Build it all"


def proposal(value: dict[str, Any], call_id: str = "p1") -> Reply:
    return Reply(tool_calls=(ServedCall(name="propose_plan", arguments=json.dumps(value), id=call_id),))


async def nobody(questions: Sequence[Question], request_id: str = "") -> Sequence[QuestionAnswer] | None:  # noqa: ARG001
    return None


@asynccontextmanager
async def attended(
    rig: Rig, *verdicts: PlanVerdict, settings: str = "", **flags: Any
) -> AsyncGenerator[tuple[ScriptedTalk, Answers]]:
    (rig.host.home / "config.toml").write_text(CONFIG.format(api_base=rig.server.api_base) + settings)
    async with Runtime(rig.host) as runtime:
        talk = ScriptedTalk(runtime, rig.opening(flags=flags), replace(rig.seat, user_input=nobody))
        await talk.open()
        yield talk, Answers(talk, *verdicts)


def told(rig: Rig, request: int = -1) -> str:
    """Return what the model was told about its call."""
    return str(rig.server.requests[request].body["messages"][-1]["content"])


def offered(rig: Rig, request: int = -1) -> set[str]:
    return {tool["function"]["name"] for tool in rig.server.requests[request].body["tools"]}


def system(rig: Rig) -> str:
    return str(rig.server.requests[-1].body["messages"][0]["content"])


@pytest.mark.parametrize("is_flat", [True, False], ids=["flat", "as a value"])
async def test_a_proposal_that_is_accepted_runs_and_the_chat_goes_on(rig: Rig, *, is_flat: bool) -> None:
    plan = {"goal": GOAL, "steps": [BUILD]}
    rig.server.enqueue(
        proposal(plan if is_flat else {"value": plan}), Reply(text="It runs."), Reply(text="Still here.")
    )
    async with attended(rig, RUN) as (talk, answers):
        assert (await talk.conversation.send("build")).acted.text.strip() == "It runs."
        assert answers.asked == [["build"]]
        assert "accepted the plan" in told(rig)
        assert talk.plans.is_taken
        await talk.do_begun()
        assert not talk.plans.is_taken
        assert answers.statuses == ["completed"]
        assert (await talk.conversation.send("and now?")).acted.text.strip() == "Still here."

    (proposed,) = rig.seen(PlanProposedEvent)
    assert (proposed.goal, proposed.draft, len(proposed.commands)) == (GOAL, 1, 1)
    assert proposed.document["metadata"] == {"origin": "model", "model": "first"}
    assert rig.seen(ToolCallEvent)[0].summary == f"propose_plan {GOAL}"
    assert (rig.folder / "built.txt").exists()


async def test_a_refused_proposal_names_its_fields_and_is_mended(rig: Rig) -> None:
    bad = {"goal": GOAL, "steps": [{**BUILD, "verify": 7}, {"id": "x", "title": "Without a mode"}]}
    rig.server.enqueue(
        proposal(bad), proposal({"steps": [BUILD, BUILD]}, "p2"), Reply(text="Dropped."), Reply(text="Well.")
    )
    async with attended(rig, DROP) as (talk, answers):
        await talk.conversation.send("please build\nall of it")
        assert answers.asked == [["build", "build-2"]]
        assert talk.begun == []
        assert not talk.plans.is_taken

    refused = told(rig, 1)
    assert "value.steps[0].verify: 7 is not an array" in refused
    assert "value.steps[1]: 'mode' is a required property" in refused
    assert "dropped the plan" in told(rig)
    (proposed,) = rig.seen(PlanProposedEvent)
    assert proposed.goal == "please build all of it"
    assert len(proposed.repairs) == 1


async def test_what_is_to_be_changed_is_told_to_the_agent_whose_next_plan_is_the_next_version(rig: Rig) -> None:
    verdicts = (PlanVerdict(VerdictKind.REVISE, "check it, {too}"), LATER, RUN)
    plans = [
        proposal({"goal": GOAL, "steps": steps}, f"p{n}") for n, steps in enumerate(([BUILD], [BUILD, CHECK], [BUILD]))
    ]
    rig.server.enqueue(plans[0], plans[1], Reply(text="I wait."), plans[2], Reply(text="It runs."))
    async with attended(rig, *verdicts) as (talk, answers):
        await talk.conversation.send("build")
        assert told(rig, 1).startswith("to be changed: check it, {too}\n")
        assert "in their next message" in told(rig, 2)
        assert not talk.plans.is_taken
        await talk.conversation.send("no check after all")
        await talk.do_begun()
        assert answers.asked == [["build"], ["build", "check"], ["build"]]
        assert answers.statuses == ["completed"]
        assert talk.plans.revised == []

    assert [event.draft for event in rig.seen(PlanProposedEvent)] == [1, 2, 3]


async def test_one_plan_at_a_time_is_proposed(rig: Rig) -> None:
    rig.server.enqueue(proposal({"goal": GOAL, "steps": [BUILD]}), Reply(text="Later then."))
    async with attended(rig) as (talk, answers):
        talk.plans.take()
        await talk.conversation.send("build")
        assert talk.plans.is_taken
        assert answers.asked == []

    assert told(rig).startswith("propose_plan: ")


@pytest.mark.parametrize(
    ("settings", "is_offered"),
    [
        ("", True),
        ('[planner]\nsuggest = "auto"\n', True),
        ('[planner]\nsuggest = "never"\n', False),
        ("[planner]\nenabled = false\n", False),
        ('[[models]]\nname = "m3"\nalias = "third"\nprovider = "served"\nplans_at_once = true\n', True),
    ],
)
async def test_the_settings_say_whether_the_agent_may_propose(rig: Rig, settings: str, *, is_offered: bool) -> None:
    rig.server.enqueue(Reply(text="hello"))
    async with attended(rig, settings=settings) as (talk, _):
        await talk.conversation.send("hi")

    assert ("propose_plan" in offered(rig)) is is_offered
    assert ("propose a plan" in system(rig)) is ("auto" in settings)


async def test_only_an_agent_with_a_person_may_propose_and_no_subagent(rig: Rig) -> None:
    task = ServedCall(name="task", arguments=json.dumps({"task": "look", "agent": "explore"}), id="t1")
    rig.server.enqueue(Reply(text="alone"), Reply(tool_calls=(task,)), Reply(text="seen"), Reply(text="done"))
    async with Runtime(rig.host) as runtime:
        alone = await runtime.open_conversation(rig.opening(), rig.seat)
        await alone.send("hi")
        assert "propose_plan" not in offered(rig)
    async with attended(rig) as (talk, _):
        await talk.conversation.send("look around")

    assert ["propose_plan" in offered(rig, at) for at in (1, 2, 3)] == [True, False, True]


async def test_the_planning_agent_reads_asks_and_proposes_and_does_nothing_else(rig: Rig) -> None:
    rig.server.enqueue(Reply(text="planned"), Reply(text="left out"))
    async with attended(rig) as (talk, _):
        await talk.conversation.configure(AgentChange(agent="plan"))
        await talk.conversation.send("plan it")
    tools = {"glob", "grep", "list_dir", "read_file", "task", "todo", "ask_user_question", "propose_plan"}
    assert offered(rig) == tools
    assert "End your turn by handing the plan in with propose_plan" in system(rig)

    async with attended(rig, disabled_tools=["propose_plan"]) as (talk, _):
        await talk.conversation.send("hi")
    assert "propose_plan" not in offered(rig)
