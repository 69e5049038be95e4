"""The view's transcripts of each agent's prompts, words and actions, and its requests to people."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from ipc import events as e
from ipc.events import Event
from tests.fakes.plain_view import look
from vibe.view import agent_view, view
from vibe.view.agent_view import AgentView, CallView
from vibe.view.view import ANEW, View, apply, lose

WHO: dict[str, Any] = {"subagent_id": "agent"}
CALL = e.ToolCallEvent(tool_call_id="c", tool="bash", arguments={"command": "ls"}, summary="bash ls", **WHO)


def view_of(*events: Event) -> View:
    seen = View()
    for seq, event in enumerate(events, 1):
        apply(seen, structs.replace(event, source="run", seq=seq, ts=float(seq)))
    return seen


def agent_of(*events: Event) -> AgentView:
    return view_of(*events).agents["agent"]


def said(agent: AgentView) -> list[tuple[str, str, str]]:
    return [(entry.kind, entry.text, entry.status) for entry in agent.entries.values()]


def delta(text: str, attempt: int = 1, message: str = "m") -> e.AssistantDeltaEvent:
    return e.AssistantDeltaEvent(message_id=message, text=text, attempt=attempt, **WHO)


def test_an_answer_grows_and_its_whole_text_replaces_what_streamed() -> None:
    streamed = [
        e.UserMessageEvent(text="go", **WHO),
        e.ReasoningDeltaEvent(message_id="m", text="hm", **WHO),
        delta("on"),
    ]
    assert said(agent_of(*streamed, delta("e"))) == [
        ("user", "go", "done"),
        ("reasoning", "hm", "streaming"),
        ("answer", "one", "streaming"),
    ]
    whole = e.AssistantEvent(message_id="m", text="one.", **WHO)
    assert said(agent_of(*streamed, whole, delta("late")))[1:] == [
        ("reasoning", "hm", "done"),
        ("answer", "one.", "done"),
    ]


def test_a_higher_attempt_replaces_what_the_lower_showed() -> None:
    assert said(agent_of(delta("wrong"), delta("ri", 2), delta("lower"), delta("ght", 2))) == [
        ("answer", "right", "streaming")
    ]


def test_a_call_is_written_waits_runs_prints_and_ends_as_one_entry() -> None:
    written = e.ToolArgumentsEvent(message_id="m", index=0, tool="bash", text='{"com', **WHO)
    agent = agent_of(written)
    (call,) = agent.entries.values()
    assert isinstance(call, CallView)
    assert (call.status, call.written, agent.doing()) == ("writing", '{"com', "writing a call")

    agent = agent_of(written, e.ToolQueuedEvent(tool_call_id="c", tool="bash", summary="bash ls", **WHO))
    assert [entry.status for entry in agent.entries.values()] == ["queued"]

    printed = e.ToolStreamEvent(tool_call_id="c", tool="bash", text="a\nb\n", dropped_bytes=9, **WHO)
    agent = agent_of(written, CALL, printed)
    (call,) = agent.entries.values()
    assert isinstance(call, CallView)
    assert (call.status, call.text, call.cut, call.arguments, call.written) == (
        "running",
        "a\nb\n",
        9,
        {"command": "ls"},
        "",
    )

    result = e.ToolResultEvent(
        tool_call_id="c",
        tool="bash",
        status="error",
        content="a\nb",
        diff="+x",
        display=e.CommandDisplay(command="ls", exit_code=2),
        **WHO,
    )
    agent = agent_of(written, CALL, printed, result, printed)
    (call,) = agent.entries.values()
    assert isinstance(call, CallView)
    assert (call.status, call.text, call.diff, call.display) == ("error", "a\nb", "+x", result.display)
    assert (call.source, call.first, call.last, agent.open_calls) == ("run", 1, 4, {})


def writing(text: str, attempt: int = 1, index: int = 0) -> e.ToolArgumentsEvent:
    return e.ToolArgumentsEvent(message_id="m", index=index, tool="bash", text=text, attempt=attempt, **WHO)


@pytest.mark.parametrize(
    ("pieces", "kept"),
    [
        ([writing('{"com'), writing('mand":'), writing(' "ls"}')], '{"command": "ls"}'),
        ([writing('{"wrong"'), writing('{"ri', 2), writing("lower"), writing('ght"', 2)], '{"right"'),
    ],
    ids=["one after another", "a retry begins anew"],
)
def test_pieces_of_a_calls_arguments_join(pieces: list[e.ToolArgumentsEvent], kept: str) -> None:
    (call,) = agent_of(*pieces).entries.values()
    assert isinstance(call, CallView)
    assert (call.written, call.status, call.last, call.attempt) == (kept, "writing", len(pieces), pieces[-1].attempt)


def test_pieces_of_two_calls_are_told_apart() -> None:
    entries = agent_of(writing("a"), writing("x", index=1), writing("b"), writing("y", index=1)).entries.values()
    assert [entry.written for entry in entries if isinstance(entry, CallView)] == ["ab", "xy"]


def test_the_end_of_long_arguments_is_kept_while_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_view, "ARGUMENT_CHARACTERS", 5)
    (call,) = agent_of(writing("abc"), writing("defg")).entries.values()
    assert isinstance(call, CallView)
    assert call.written == "cdefg"


@pytest.mark.parametrize("late", [writing("late"), writing("late", 2)], ids=["same attempt", "next attempt"])
def test_a_piece_that_comes_once_the_call_runs_changes_nothing(late: e.ToolArgumentsEvent) -> None:
    seen = view_of(structs.replace(writing("early"), tool_call_id="c"), CALL)
    before = look(seen, ("agents", "agent", "entries", "1"))
    apply(seen, structs.replace(late, tool_call_id="c", source="run", seq=3, ts=3.0))
    assert look(seen, ("agents", "agent", "entries", "1")) == before
    assert len(seen.agents["agent"].entries) == 1


def test_what_went_on_when_its_agent_ended_goes_on_no_more() -> None:
    ended = e.SubAgentFinishedEvent(outcome="failed", reason=None, tokens=1, turns=1, duration_s=1.0, **WHO)
    asked = e.QuestionEvent(request_id="q", questions=(), **WHO)
    seen = view_of(delta("half"), CALL, asked, ended)
    assert [entry.status for entry in seen.agents["agent"].entries.values()] == ["interrupted", "cancelled"]
    assert (seen.requests, seen.agents["agent"].requests) == ({}, {})


def test_older_entries_are_kept_by_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_view, "MOST_ENTRIES", 3)
    agent = agent_of(*(e.UserMessageEvent(text=str(number), **WHO) for number in range(10)))
    assert [entry.text for entry in agent.entries.values()] == ["7", "8", "9"]
    assert (agent.first, agent.transcript.older) == (8, {"run": (1, 7)})


def test_texts_are_cut_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_view, "TEXT_CHARACTERS", 10)
    printed = [e.ToolStreamEvent(tool_call_id="c", tool="bash", text=text, **WHO) for text in ("0123456", "789abc")]
    agent = agent_of(CALL, *printed, e.UserMessageEvent(text="x" * 25, **WHO))
    call, told = agent.entries.values()
    assert (call.text, call.cut) == ("3456789abc", 3)
    assert (told.text, told.cut) == ("x" * 10, 15)


def test_large_arguments_are_shortened() -> None:
    content = {"path": "a.py", "content": "x" * 100_000, "many": list(range(1_000))}
    agent = agent_of(structs.replace(CALL, arguments=content))
    (call,) = agent.entries.values()
    assert isinstance(call, CallView)
    assert call.arguments["path"] == "a.py"
    assert call.arguments["content"] == "x" * 1_000 + "…"
    assert len(call.arguments["many"]) == 50


def test_all_transcripts_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "MOST_CHARACTERS", 10_000)
    seen = view_of(*(e.UserMessageEvent(text="x" * 900, subagent_id=f"agent-{number}") for number in range(40)))
    assert seen.kept.count <= 10_000
    assert seen.kept.count == sum(agent.transcript.size for agent in seen.agents.values())
    assert (seen.agents["agent-0"].entries, seen.agents["agent-0"].transcript.older) == ({}, {"run": (1, 1)})
    assert seen.agents["agent-39"].entries


def test_a_conversation_stays_one_under_other_session_ids_and_is_cleared_and_taken_back() -> None:
    first: dict[str, Any] = {"session_id": "one"}
    started = e.PromptStartedEvent(prompt_id="p", conversation_id="talk", **first)
    told = [e.UserMessageEvent(text=text, message_index=index, **first) for index, text in enumerate("abc")]
    back = e.ConversationRewoundEvent(
        message_index=1, files=("a.py", "b.py"), prompt="b", conversation_id="talk", new_session_id="two", **first
    )
    on = e.UserMessageEvent(text="d", message_index=1, session_id="two")
    seen = view_of(started, *told, back, on)
    assert list(seen.agents) == ["one"]
    assert [entry.text for entry in seen.agents["one"].entries.values()] == [
        "a",
        'back to before "b" · 2 files restored',
        "d",
    ]
    assert [entry.number for entry in seen.agents["one"].entries.values()] == [1, 4, 5]

    cleared = e.ConversationClearedEvent(conversation_id="talk", new_session_id="three", session_id="two")
    seen = view_of(started, *told, back, on, cleared, structs.replace(on, session_id="three"))
    assert [entry.text for entry in seen.agents["one"].entries.values()] == [
        "new conversation; the old one is under /resume",
        "d",
    ]


def test_one_that_is_cleared_before_its_first_prompt_stays_the_one_that_was_begun() -> None:
    begun = e.SessionStartedEvent(workspace="/", model="m", agent="default", session_id="one")
    cleared = e.ConversationClearedEvent(conversation_id="one", new_session_id="two", session_id="two")
    seen = view_of(begun, cleared, e.UserMessageEvent(text="hi", session_id="two"))
    assert [[entry.text for entry in agent.entries.values()] for agent in seen.agents.values()] == [[ANEW, "hi"]]
    assert list(seen.agents) == ["one"]


def test_the_context_of_one_that_goes_back_is_not_known_until_its_model_is_called_again() -> None:
    used = e.ModelStartedEvent(message_id="1", model="m", context_tokens=9, context_limit=90, session_id="one")
    cleared = e.ConversationClearedEvent(conversation_id="one", new_session_id="two", session_id="one")
    summary = structs.replace(used, message_id="2", purpose="compact", context_tokens=1)
    assert view_of(used, summary).agents["one"].context_tokens == 9
    assert view_of(used, cleared).agents["one"].context_tokens is None


def test_what_a_summary_stands_in_for_is_not_taken_back_with_what_came_after_it() -> None:
    told = [e.UserMessageEvent(text=str(index), message_index=index, session_id="one") for index in range(6)]
    ended = e.CompactEndEvent(
        tokens_before=9, tokens_after=2, messages_before=6, messages_after=3, conversation_id="talk", session_id="two"
    )
    after = e.UserMessageEvent(text="6", message_index=3, session_id="two")
    back = e.ConversationRewoundEvent(message_index=2, prompt="5", conversation_id="talk", session_id="two")
    started = e.PromptStartedEvent(prompt_id="p", conversation_id="talk", session_id="one")
    entries = view_of(started, *told, ended, after, back).agents["one"].entries.values()
    assert [(entry.text, entry.message_index) for entry in entries] == [
        *(("0", None), ("1", None), ("2", None), ("3", None), ("4", 1)),
        ('back to before "5"', 2),
    ]


def test_a_conversation_that_its_process_resumes_begins_again() -> None:
    begun = e.SessionStartedEvent(workspace="/", model="m", agent="default", session_id="one")
    cleared = e.ConversationClearedEvent(conversation_id="one", new_session_id="two", session_id="one")
    told = [e.UserMessageEvent(text="before", session_id="one"), e.UserMessageEvent(text="after", session_id="two")]
    seen = view_of(begun, told[0], cleared, told[1], begun, e.UserMessageEvent(text="again", session_id="one"))
    (agent,) = seen.agents.values()
    assert ([entry.text for entry in agent.entries.values()], agent.transcript.older) == (["again"], {})
    assert seen.kept.count == agent.transcript.size


def test_a_conversation_that_was_summarised_goes_on_under_its_new_session_id() -> None:
    started = e.PromptStartedEvent(prompt_id="p", conversation_id="talk", session_id="one")
    begun = e.CompactStartEvent(context_tokens=9, threshold=8, session_id="one")
    ended = e.CompactEndEvent(tokens_before=9, tokens_after=1, conversation_id="talk", session_id="two")
    said = e.AssistantEvent(message_id="m", text="and so on", session_id="two")
    done = e.PromptEndedEvent(prompt_id="p", outcome="completed", conversation_id="talk", session_id="two")
    seen = view_of(started, begun, ended, said, done)
    assert list(seen.agents) == ["one"]
    assert [entry.text for entry in seen.agents["one"].entries.values()][1:] == ["and so on"]
    assert (seen.agents["one"].activity, seen.agents["one"].prompt) == ("", None)


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        (e.UsageSum(), "stopped after 3.0 s"),
        (e.UsageSum(completion_tokens=7, calls=1), "stopped after 3.0 s · 7 tok · $0.00"),
    ],
)
def test_a_prompt_that_was_stopped_says_so_even_before_the_model_said_anything(usage: e.UsageSum, words: str) -> None:
    started = e.PromptStartedEvent(prompt_id="p", conversation_id="talk")
    ended = e.PromptEndedEvent(
        prompt_id="p", outcome="interrupted", conversation_id="talk", duration_s=3.0, cost_usd=0.0, usage=usage
    )
    (agent,) = view_of(started, ended).agents.values()
    assert [(entry.kind, entry.text) for entry in agent.entries.values()] == [("note", words)]


ASKED = e.ApprovalRequestEvent(request_id="r", tool_call_id="c", tool="bash", arguments={}, rule="ask", **WHO)


@pytest.mark.parametrize(
    "end",
    [
        e.ApprovalDecisionEvent(request_id="r", decision="deny", **WHO),
        e.RequestWithdrawnEvent(request_id="r", kind="approval", **WHO),
        e.SessionEndedEvent(outcome="failed", exit_code=1),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_request_is_open_until_it_is_decided_withdrawn_or_nobody_waits_any_more(end: Event) -> None:
    seen = view_of(ASKED)
    assert [(each.kind, each.words) for each in seen.requests.values()] == [("approval", "asks: bash")]
    assert view_of(ASKED, end).requests == {}


@pytest.mark.parametrize(
    ("by", "told"), [("ana", ["allowed by ana"]), ("control", ["allowed in another window"]), ("user", [])]
)
def test_an_answer_from_elsewhere_is_told(by: str, told: list[str]) -> None:
    seen = view_of(ASKED, e.ApprovalDecisionEvent(request_id="r", decision="allow", by=by, **WHO))
    assert [notice.message for notice in seen.notices.values()] == told


def test_who_declined_elsewhere_is_told() -> None:
    asked = e.QuestionEvent(request_id="q", questions=({"question": "Which?"},), **WHO)
    seen = view_of(asked, e.AnswerEvent(request_id="q", cancelled=True, by="ana", **WHO))
    assert [notice.message for notice in seen.notices.values()] == ["declined by ana"]


def test_a_process_that_died_leaves_nothing_going_on() -> None:
    seen = view_of(CALL, ASKED)
    keys = lose(seen, "run")
    assert (seen.requests, seen.runs["run"].lost) == ({}, True)
    assert look(seen, ("requests", "r")) is None
    assert ("requests", "r") in keys
    assert [entry.status for entry in seen.agents["agent"].entries.values()] == ["cancelled"]


def test_decisions_of_two_plans_are_told_apart_and_leave_with_a_revision() -> None:
    steps = (e.StepOutline(id="a", title="A", mode="code"),)
    opened = e.PlanDecisionEvent(
        decision_id="failed:a:1", question="?", options=("x",), kind="failed", step_id="a", attempt=1
    )
    both = [
        event
        for plan_id in ("p", "q")
        for event in (
            e.PlanStartedEvent(goal="g", steps=steps, plan_id=plan_id),
            structs.replace(opened, plan_id=plan_id),
        )
    ]
    seen = view_of(*both)
    assert list(seen.requests) == ["p:failed:a:1", "q:failed:a:1"]
    gone = e.PlanRevisedEvent(operations=({"op": "remove_step", "id": "a"},), plan_id="p")
    assert list(view_of(*both, gone).requests) == ["q:failed:a:1"]


def test_a_resumed_plan_counts_what_another_run_spent_once() -> None:
    ours: dict[str, Any] = {"plan_id": "p"}
    usage = e.UsageEvent(model="m", prompt_tokens=30, completion_tokens=10, **ours)
    resumed = e.PlanResumedEvent(goal="g", steps=(), done=0, tokens=55, **ours)
    assert view_of(resumed, usage).plans["p"].tokens == 95
    both = view_of(e.PlanStartedEvent(goal="g", steps=(), **ours), usage, resumed, usage)
    assert both.plans["p"].tokens == 95
