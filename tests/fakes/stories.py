"""Stories of runs, as events: plausible ones, and stray events to mix into them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from msgspec import Raw, structs

from ipc import events as e
from tests.fakes.events import event_classes, example

STEPS = ("a", "b", "c", "d")
_NAMES: dict[str, tuple[Any, ...]] = {
    "plan_id": ("plan", "other", None),
    "subagent_id": ("agent-a1", "agent-b1", "stranger", None),
    "subagent_step_id": (*STEPS, "nowhere", None),
    "session_id": ("run-1", "session", "elsewhere"),
    "step_id": (*STEPS, "nowhere"),
    "message_id": ("m1", "m2"),
    "tool_call_id": ("c1", "c2", ""),
    "request_id": ("r1", "r2", "plan:d1"),
    "decision_id": ("d1", "d2"),
    "attempt": (1, 2),
    "status": (
        "pending",
        "in_progress",
        "completed",
        "failed",
        "skipped",
        "needs_decision",
        "blocked",
        "ok",
        "paused",
        "?",
    ),
    "previous": ("pending", "in_progress"),
    "message_index": (0, 3, None),
    "selections": ((), ("x",), ("retry",), ("again",)),
    "kind": ("", "failed", "interrupted", "approval"),
    "left": (None, "retrying", "asking", "revising", "stopped", "cut", "?"),
    "outcome": (None, "completed", "failed", "?"),
    "parent_id": (None, "agent-a1"),
    "conversation_id": ("", "talk"),
    "new_session_id": ("", "elsewhere"),
    "step_ids": ((), ("a", "nowhere"), ("b", "c")),
    "dropped_bytes": (0, 7),
    "handle": ("h1", "h2"),
    "server": ("one", "two"),
    "code": ("model.retry", "model.wait", "start", "odd"),
    "cost_usd": (None, 0.25),
}
_EXAMPLES = tuple(example(kind) for kind in event_classes())
_RESULTS = tuple(Raw(b'{"outcome":"%s"}' % each) for each in (b"completed", b"failed", b"interrupted", b"limit", b"?"))
_OPERATIONS: tuple[tuple[dict[str, Any], ...], ...] = (
    ({"op": "remove_step", "id": "a"},),
    ({"op": "add_step", "step": {"id": "new", "title": "New", "mode": "code", "depends_on": ["a", "new"]}},),
    (
        {"op": "update_step", "id": "b", "changes": {"title": "Better"}},
        {"op": "add_edge", "step": "a", "depends_on": "b"},
    ),
    ({"op": "odd"}, {"op": "remove_edge", "step": "c", "depends_on": "b"}),
)


def outlines(*, cyclic: bool = False) -> tuple[e.StepOutline, ...]:
    """Return a plan of four steps. With ``cyclic`` it has a cycle, which no real plan has."""
    above = {"a": ("d",) if cyclic else (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
    return tuple(e.StepOutline(id=name, title=name.upper(), mode="code", depends_on=above[name]) for name in STEPS)


def strays(random: Random, count: int) -> list[e.Event]:
    """Return events of any kind about anything, known or not."""
    return [_stray(random) for _ in range(count)]


def story(random: Random) -> list[e.Event]:
    """Return the events of a plan that two runs work on, with a separate conversation between them."""
    first = _plan_run(random, "run-1", e.PlanStartedEvent(goal="g", steps=outlines(), max_tokens=9_000), cut=True)
    resumed = e.PlanResumedEvent(goal="g", steps=outlines(), done=1, tokens=400, max_tokens=9_000)
    return [*first, *_chat(random), *_plan_run(random, "run-2", resumed, cut=False)]


def mixed(events: Sequence[e.Event], others: Iterable[e.Event], random: Random) -> list[e.Event]:
    """Return events with others inserted at random places, each taking the source of the event before it."""
    result = list(events)
    for stray in others:
        place = random.randrange(1, len(result) + 1)
        result.insert(place, structs.replace(stray, source=result[place - 1].source))
    return result


def numbered(events: Iterable[e.Event]) -> list[e.Event]:
    """Return the events numbered and dated as their sources would have done it."""
    heads: dict[str, int] = {}
    result: list[e.Event] = []
    for number, event in enumerate(events):
        seq = heads[event.source] = heads.get(event.source, 0) + 1
        stamp: dict[str, Any] = {"event_id": f"{number:032x}", "seq": seq, "ts": 1_000.0 + number / 8}
        result.append(structs.replace(event, **stamp))
    return result


def _stray(random: Random) -> e.Event:
    event = random.choice(_EXAMPLES)
    fields = {name: random.choice(_NAMES[name]) for name in event.__struct_fields__ if name in _NAMES}
    if fields.get("outcome", "") is None and not isinstance(event, _MAY_HAVE_NO_OUTCOME):
        fields["outcome"] = "completed"
    if fields.get("message_index", 0) is None and isinstance(event, e.ConversationRewoundEvent):
        fields["message_index"] = 1
    changes: dict[str, Any] = {"event_id": "", "seq": 0, **fields}
    if isinstance(event, e.PlanStartedEvent | e.PlanResumedEvent):
        changes["steps"] = outlines(cyclic=random.random() < 0.3)
    if isinstance(event, e.PlanAttemptEvent | e.PlanReusedEvent):
        changes["result"] = random.choice(_RESULTS)
    if isinstance(event, e.PlanRevisedEvent):
        changes["operations"] = random.choice(_OPERATIONS)
    return structs.replace(event, **changes)


_MAY_HAVE_NO_OUTCOME = (e.PlanStoppingEvent, e.PlanPausedEvent, e.PlanCompletedEvent)


def _plan_run(random: Random, source: str, begin: e.Event, *, cut: bool) -> list[e.Event]:
    ours: dict[str, Any] = {"source": source, "session_id": source, "plan_id": "plan"}
    told: list[e.Event] = [begin]
    steps = STEPS[: random.randrange(1, 4)] if cut else STEPS
    for name in steps:
        told.append(e.PlanStepUpdateEvent(step_id=name, title=name, status="in_progress", previous="pending"))
    lanes = [_step(random, f"{name}{source[-1]}", name) for name in steps]
    while lanes:
        lane = random.choice(lanes)
        if lane:
            told.append(lane.pop(0))
        else:
            lanes.remove(lane)
    if random.random() < 0.5:
        opened = e.PlanDecisionEvent(decision_id="d1", question="which?", options=("x", "y"))
        told.insert(random.randrange(1, len(told)), opened)
        told.append(structs.replace(opened, selections=("x",), by="user"))
    if not cut:
        told.append(
            e.PlanCompletedEvent(status="completed", counts={"completed": 4}, duration_s=3.0, outcome="completed")
        )
    elif random.random() < 0.5:
        told.append(e.PlanPausedEvent(reason="SIGINT", outcome="interrupted"))
    return [structs.replace(event, **ours) for event in told]


def _step(random: Random, agent: str, name: str) -> list[e.Event]:
    who: dict[str, Any] = {"subagent_id": f"agent-{agent}", "subagent_step_id": name}
    told: list[e.Event] = [
        e.SubAgentStartedEvent(title=name, mode="code", model="m", tools=("bash",), max_tokens=900, max_turns=9, **who),
        e.UserMessageEvent(text="do it", message_index=0, **who),
    ]
    for turn in range(random.randrange(1, 3)):
        told += _turn(random, f"{agent}-{turn}", who)
    command: dict[str, Any] = {"tool_call_id": f"check-{agent}", "tool": "command"}
    host: dict[str, Any] = {"subagent_step_id": name}
    told += [
        e.ToolCallEvent(arguments={"command": "make", "purpose": "verify"}, **command, **host),
        e.ToolStreamEvent(text="all is well\n", **command, **host),
        e.ToolResultEvent(status="ok", content="all is well", **command, **host),
        e.SubAgentFinishedEvent(outcome="completed", reason=None, tokens=300, turns=2, duration_s=1.0, **who),
        e.PlanStepUpdateEvent(
            step_id=name,
            title=name,
            status="completed",
            previous="in_progress",
            duration_s=1.5,
            work=e.WorkDone(summary="done", files_changed=("x.py",)),
        ),
    ]
    return told


def _turn(random: Random, name: str, who: dict[str, Any]) -> list[e.Event]:
    message, call = f"message-{name}", f"call-{name}"
    told: list[e.Event] = [
        e.ModelStartedEvent(message_id=message, model="m", context_tokens=40, context_limit=99, **who)
    ]
    told += [e.ReasoningDeltaEvent(message_id=message, text="hm ", **who) for _ in range(random.randrange(3))]
    attempts = sorted(random.choice((1, 1, 2)) for _ in range(random.randrange(5)))
    told += [e.AssistantDeltaEvent(message_id=message, text="word ", attempt=each, **who) for each in attempts]
    told += [
        e.ToolArgumentsEvent(message_id=message, index=0, tool="bash", text='{"comm', tool_call_id="", **who),
        e.AssistantEvent(message_id=message, text="word " * len(attempts), tool_calls=1, **who),
        e.UsageEvent(model="m", prompt_tokens=90, completion_tokens=9, cost_usd=random.choice((0.5, None)), **who),
    ]
    if random.random() < 0.3:
        told.append(e.ToolQueuedEvent(tool_call_id=call, tool="bash", summary="bash ls", **who))
    told.append(e.ToolCallEvent(tool_call_id=call, tool="bash", arguments={"command": "ls"}, summary="bash ls", **who))
    if random.random() < 0.4:
        asked = e.ApprovalRequestEvent(
            request_id=f"yes-{name}", tool_call_id=call, tool="bash", arguments={"command": "ls"}, rule="ask", **who
        )
        told.append(asked)
        answer = e.ApprovalDecisionEvent(request_id=f"yes-{name}", decision="allow", by="user", **who)
        gone = e.RequestWithdrawnEvent(request_id=f"yes-{name}", kind="approval", **who)
        told.append(random.choice((answer, gone)))
    told += [
        e.ToolStreamEvent(tool_call_id=call, tool="bash", text="line\n", **who) for _ in range(random.randrange(4))
    ]
    status = random.choice(("ok", "error", "denied"))
    told.append(e.ToolResultEvent(tool_call_id=call, tool="bash", status=status, content="line\n" * 3, **who))
    return told


def _chat(random: Random) -> list[e.Event]:
    ours: dict[str, Any] = {"source": "chat", "session_id": "session"}
    told: list[e.Event] = [e.SessionStartedEvent(workspace="/w", model="m")]
    for number in range(random.randrange(1, 4)):
        told += [
            e.PromptStartedEvent(prompt_id=f"p{number}", conversation_id="talk"),
            e.UserMessageEvent(text="hello", message_index=number * 2),
            *_turn(random, f"chat{number}", {}),
            e.PromptEndedEvent(prompt_id=f"p{number}", outcome="completed", conversation_id="talk"),
        ]
        change = random.randrange(4)
        if change == 0:
            told.append(e.ConversationClearedEvent(conversation_id="talk", new_session_id="session"))
        elif change == 1:
            told.append(e.ConversationRewoundEvent(message_index=number * 2, conversation_id="talk"))
    told.append(e.SessionEndedEvent(outcome="completed", exit_code=0))
    return [structs.replace(event, **ours) for event in told]
