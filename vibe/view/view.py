"""The view: it turns events into runs, plans, agents, open requests and totals. No clock, no I/O, no terminal.

``apply`` takes one event and returns the keys of what it changed. It ignores an event whose number is not higher than
the highest one taken from its source, so repeated and late events do no harm. A reader who replays a run's journal and
then takes its live events has the same view as one who was there all the time. Events of several runs of one plan must
be applied in the order of the runs. Front ends compute times from the events' ``ts``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, TypeAlias, get_args

from msgspec import Struct, field

from ipc import events as e
from planner.state.state import State
from vibe.system.plain_text import plain_line
from vibe.view.agent_view import (
    ASKING_TOOL,
    CHECK,
    HOST_TOOL,
    AgentView,
    CallView,
    EntryView,
    KeptCharacters,
    Key,
    RequestView,
    Totals,
    TranscriptView,
    TurnView,
    index_after_summary,
    waiting,
)
from vibe.view.figures import short
from vibe.view.plan_view import RUNNING, PlanView, StepView, labelled, revision_text, step_name

MOST_NOTICES = MOST_ANSWERED = 200
"""The most notices, and the most settled requests, that are kept."""
MOST_NAMED = 60
"""The most characters of a prompt that stand for it in a sentence."""
MOST_CHARACTERS = 32 * 1024 * 1024
"""The most characters kept of all transcripts together. Beyond it, the oldest agents' are kept by reference only."""

PASSING: Final = frozenset({"budget.waited", "model.wait", "model.waited"})
"""Codes of warnings that are shown beside their step but not as lasting lines: agents side by side cause many of them.
"""
SUMMARISED: Final = frozenset({"start", "journal.torn"})
"""Codes of warnings that the summary at the end of a plan contains. A conversation has none and shows them at once."""
CLEARED, REWOUND = "conversation.cleared", "conversation.rewound"
"""Names of the notes where a conversation began anew. Their ``message_index`` is the first message that is gone."""
ANEW = "new conversation; the old one is under /resume"
"""The text of the note on a conversation that was cleared."""
ENDED = "prompt.ended"
"""The name of the note on the time, the tokens and the cost of an answer."""
COMPACTED = "compact.end"
"""The name of the note that stands where a conversation was summarised."""

_Answer: TypeAlias = e.ApprovalDecisionEvent | e.AnswerEvent | e.RequestWithdrawnEvent | e.PlanDecisionEvent
Changed: TypeAlias = tuple[Key, ...]
_Handler: TypeAlias = Callable[["View", "RunView", Any], Changed]
_NewConversation: TypeAlias = e.ConversationClearedEvent | e.ConversationRewoundEvent
_ConversationEvent: TypeAlias = (
    e.PromptStartedEvent | e.PromptEndedEvent | e.ConversationConfiguredEvent | e.CompactEndEvent | _NewConversation
)


class NoticeView(Struct, frozen=True, kw_only=True):
    """Something to say once. ``kind`` is ``note``, ``warning`` or ``error``; ``number`` counts from 1."""

    number: int
    kind: str
    code: str
    message: str
    source: str
    ts: float
    plan_id: str | None = None
    agent_id: str | None = None
    step_id: str | None = None


class AnsweredView(Struct, frozen=True, kw_only=True):
    """A request that was settled. ``asked`` and ``answered`` are the events; their ``by`` says who answered."""

    id: str
    kind: str
    asked: e.ApprovalRequestEvent | e.QuestionEvent | e.PlanDecisionEvent
    answered: _Answer
    step_id: str | None = None


class RunView(Struct, kw_only=True, eq=False):
    """One run of a process, identified by its source. ``seq`` is the number of the last event taken from it.

    ``outcome`` and ``exit_code`` are those of its session or plan, None while that goes on or if it names none.
    ``servers`` holds the latest event about each tool server. ``lost`` means that its process died without announcing
    it.
    """

    key: Key
    source: str
    updated_at: float
    seq: int = 0
    ended_at: float | None = None
    workspace: str = ""
    agent: str = ""
    model: str = ""
    pid: int = 0
    version: str = ""
    outcome: str | None = None
    exit_code: int | None = None
    lost: bool = False
    plan_ids: dict[str, None] = field(default_factory=dict[str, None])
    servers: dict[str, e.ToolServerEvent] = field(default_factory=dict[str, e.ToolServerEvent])
    spent: Totals = field(default_factory=Totals)


class View(Struct, kw_only=True, eq=False):
    """Everything announced so far: runs by source, plans and agents by id, open requests, the newest notices.

    It belongs to the one thread that applies the events. It is mutable on purpose: a plan may have 10 000 steps and a
    step hundreds of events a second, and copying the table for each would cost more than everything else. Between two
    events a reader sees a consistent view.
    """

    runs: dict[str, RunView] = field(default_factory=dict[str, RunView])
    plans: dict[str, PlanView] = field(default_factory=dict[str, PlanView])
    agents: dict[str, AgentView] = field(default_factory=dict[str, AgentView])
    requests: dict[str, RequestView] = field(default_factory=dict[str, RequestView])
    answered: list[AnsweredView] = field(default_factory=list[AnsweredView])
    """The newest requests that were settled."""
    notices: dict[int, NoticeView] = field(default_factory=dict[int, NoticeView])
    spent: Totals = field(default_factory=Totals)
    noticed: int = 0
    """The number of the newest notice."""
    kept: KeptCharacters = field(default_factory=KeptCharacters)
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    """The id of a conversation's agent, by the other ids that it has: its conversation's, and of its later sessions."""
    whole: str | None = None
    """The id of an agent whose transcript is kept whole; None if only the newest entries of each are kept."""

    @property
    def plan(self) -> PlanView | None:
        """The plan that was taken up last."""
        return max(self.plans.values(), key=lambda plan: plan.started_at or 0.0, default=None)

    @property
    def main(self) -> AgentView | None:
        """The agent the user talks to: the first one without a parent and a plan."""
        free = (agent for agent in self.agents.values() if agent.plan_id is None and agent.parent_id is None)
        return next(free, None)

    def agent_of(self, event: e.Event) -> AgentView | None:
        """Return the agent that an event is about; None if nothing was heard of it before."""
        return self.agents.get(event.subagent_id or _own_id(self, event))

    def step(self, plan_id: str | None, step_id: str | None) -> StepView | None:
        """Return a step of a plan; None if there is none."""
        plan = self.plans.get(plan_id or "")
        return None if plan is None else plan.steps.get(step_id or "")

    def step_of(self, agent: AgentView) -> StepView | None:
        """Return the step an agent works on."""
        return self.step(agent.plan_id, agent.step_id)

    def asking_step(self, request_id: str) -> str:
        """Return the id of the step that asks; empty if no step does, or it is unknown."""
        step = self._asking(request_id)
        return "" if step is None else step.id

    def asker(self, request_id: str) -> str:
        """Return the name, for people, of the step that asks; empty if no step does, or it is unknown."""
        step = self._asking(request_id)
        return "" if step is None else step_name(step, self.plans[step.key[1]])

    def _asking(self, request_id: str) -> StepView | None:
        request = self.requests.get(request_id)
        agent = None if request is None else self.agents.get(request.agent_id or "")
        return None if agent is None else self.step_of(agent)

    def notices_after(self, number: int) -> Iterable[NoticeView]:
        """Return the notices after the one of a number, as far as they are kept."""
        return (notice for notice in self.notices.values() if notice.number > number)


def apply(view: View, event: e.Event) -> Changed:
    """Take one event and return the keys of what it changed. An event that was taken before changes nothing."""
    run = view.runs.get(event.source)
    if run is None:
        key = ("runs", event.source)
        run = RunView(key=key, source=event.source, updated_at=event.ts)
        view.runs[event.source] = run
    if event.seq:
        if event.seq <= run.seq:
            return ()
        run.seq = event.seq
    run.updated_at = event.ts
    changed = (run.key, *_APPLY[type(event)](view, run, event))
    return changed if view.kept.count <= MOST_CHARACTERS else (*changed, *_drop_oldest(view, view.agent_of(event)))


def lose(view: View, source: str) -> Changed:
    """Note that the process of a run is gone without having said how the run ended.

    Returns the keys of what that changed.
    """
    run = view.runs.get(source)
    if run is None:
        return ()
    run.lost = True
    agents = [agent for agent in view.agents.values() if agent.source == source]
    left = [plan for plan in view.plans.values() if plan.source == source and plan.ended_at is None]
    at, now_at_rest = run.updated_at, e.PlanEditedEvent(ts=run.updated_at)  # its attempts ended with its process
    let_go = [key for plan in left for key in (*plan.release(at), *(plan.take(now_at_rest) or ()))]
    return (run.key, *_set_to_rest(view, agents, at), *let_go)


# --- agents ---------------------------------------------------------------------------------------------------


def _agent(view: View, event: e.Event) -> AgentView:
    """Return the agent that an event is about, creating it if it is new."""
    agent_id = event.subagent_id or _own_id(view, event)
    agent = view.agents.get(agent_id)
    if agent is None:
        key = ("agents", agent_id)
        transcript = TranscriptView(key, view.kept, is_whole=agent_id == view.whole)
        agent = view.agents[agent_id] = AgentView(id=agent_id, key=key, transcript=transcript)
        agent.started_at, agent.plan_id, agent.step_id = event.ts, event.plan_id, event.subagent_step_id
        plan = view.plans.get(event.plan_id or "")
        if plan is not None:
            plan.team[agent_id] = agent
    agent.source = event.source
    agent.session_id = event.session_id
    return agent


def _own_id(view: View, event: e.Event) -> str:
    """Return the id of an agent that is no subagent: the host at a step, or the agent of a conversation."""
    if event.subagent_step_id is not None:
        return f"{event.plan_id or ''}/{event.subagent_step_id}"
    session = event.session_id or event.source
    return view.aliases.get(session, session)


def _seen(view: View, agent: AgentView, entry: EntryView | None = None) -> Changed:
    """Note that an agent did something; return the keys of it, its step and the entry."""
    step = view.step_of(agent)
    if step is not None and step.current is not agent:
        step.current = step.agents[agent.id] = agent
    keys = (agent.key,) if step is None else (agent.key, step.key)
    return keys if entry is None else (*keys, entry.key)


def _drop_oldest(view: View, busy: AgentView | None) -> Changed:
    """Drop the transcripts of the oldest agents, except the one at work, down to three quarters of the limit."""
    dropped: list[Key] = []
    for agent in view.agents.values():
        if view.kept.count <= MOST_CHARACTERS * 3 // 4:
            break
        if agent is not busy and agent.transcript.size and not agent.transcript.is_whole:
            agent.transcript.forget_all()
            dropped.append((*agent.key, "entries"))
    return tuple(dropped)


def _entry_handler(take: Callable[[AgentView, Any], EntryView | None]) -> _Handler:
    """Return a handler for events from which an agent makes an entry, or none."""

    def handle(view: View, _: RunView, event: e.Event) -> Changed:
        agent = _agent(view, event)
        return _seen(view, agent, take(agent, event))

    return handle


def _answer(view: View, _: RunView, event: e.AssistantEvent) -> Changed:
    agent = _agent(view, event)
    entry = agent.add_answer(event)
    step = view.step_of(agent)
    if step is not None and agent.parent_id is None:
        step.turns, step.activity = step.turns + 1, ""
    before = reversed(agent.entries.values())
    reasoning = next((one for one in before if one.kind == "reasoning" and one.ref == event.message_id), None)
    return (*_seen(view, agent, entry), *(() if reasoning is None else (reasoning.key,)))


def _tool(view: View, _: RunView, event: e.ToolQueuedEvent | e.ToolCallEvent | e.ToolResultEvent) -> Changed:
    agent = _agent(view, event)
    entry = agent.end_call(event) if isinstance(event, e.ToolResultEvent) else agent.add_call(event)
    seen = _seen(view, agent, entry)
    if isinstance(entry, CallView) and (entry.waits_for or entry.tool == ASKING_TOOL):
        seen = (*seen, *_update_waiting(view, agent, event.ts))
    plan = view.plans.get(agent.plan_id or "")
    step = view.step_of(agent)
    if plan is None or step is None or isinstance(event, e.ToolQueuedEvent):
        return seen
    goes_on, proved = isinstance(event, e.ToolResultEvent) and bool(event.files_changed), False
    if isinstance(event, e.ToolResultEvent):
        step.add_files(event.files_changed, event.display.files if isinstance(event.display, e.DiffDisplay) else ())
    if event.tool == HOST_TOOL and isinstance(entry, CallView) and entry.arguments.get("purpose") == CHECK:
        goes_on |= step.update_check(event, str(entry.arguments.get("command", "")), plan.clock(event.ts))
        proved = plan.recount_checks(step)
    if not goes_on and not proved:
        return seen
    plan.progress_at = event.ts if goes_on else plan.progress_at
    return (*seen, plan.key)


def _compact_started(view: View, _: RunView, event: e.CompactStartEvent) -> Changed:
    agent = _agent(view, event)
    agent.set_activity(f"summarising {event.context_tokens:,} tokens of history")
    return _seen(view, agent)


def _compact_ended(view: View, _: RunView, event: e.CompactEndEvent) -> Changed:
    agent = _conversation_agent(view, event)
    agent.set_activity(waiting(agent))
    agent.context_tokens = event.tokens_after
    before, after = event.messages_before, event.messages_after
    kept_from = before - after + 1 if before and after else 0
    for entry in agent.entries.values():
        entry.message_index = index_after_summary(entry.message_index, kept_from)
    text = f"summarised: {short(event.tokens_before)} → {short(event.tokens_after)} tok"
    note = agent.transcript.add_note(event, text, name=COMPACTED)
    note.kept_from = kept_from
    return _seen(view, agent, note)


def _conversation_agent(view: View, event: _ConversationEvent) -> AgentView:
    """Return the agent of a conversation, whatever session id the conversation continues under."""
    if event.subagent_id is None and event.conversation_id:
        first = event.conversation_id if event.conversation_id in view.agents else _own_id(view, event)
        known = view.aliases.setdefault(event.conversation_id, first)
        if event.session_id not in view.agents:
            view.aliases[event.session_id] = known
    agent = _agent(view, event)
    if isinstance(event, _NewConversation) and event.new_session_id and event.subagent_id is None:
        view.aliases[event.new_session_id] = agent.id
    return agent


def _prompt(view: View, _: RunView, event: e.PromptStartedEvent | e.PromptEndedEvent) -> Changed:
    agent = _conversation_agent(view, event)
    if isinstance(event, e.PromptStartedEvent):
        agent.prompt, agent.outcome, agent.reason = event, None, None
        agent.turn = TurnView()
        agent.set_activity("starting")
        return _seen(view, agent)
    agent.prompt, agent.outcome, agent.reason = None, event.outcome, event.detail or event.reason
    changed = (*_seen(view, agent), *agent.rest(), *_withdraw(view, list(agent.requests), event.ts))
    turn = agent.turn = agent.turn or TurnView()
    turn.end(event)
    if not event.usage.calls and event.outcome != "interrupted":
        return changed
    return (*changed, agent.transcript.add_note(event, turn.words, name=ENDED).key)


def _configured(view: View, _: RunView, event: e.ConversationConfiguredEvent) -> Changed:
    agent = _conversation_agent(view, event)
    agent.profile, agent.model = event.agent, event.model
    agent.thinking, agent.approvals = event.thinking, event.approvals
    return (agent.key,)


def _new_conversation(view: View, _: RunView, event: _NewConversation) -> Changed:
    agent = _conversation_agent(view, event)
    agent.todo, agent.context_tokens = (), None
    if isinstance(event, e.ConversationClearedEvent):
        agent.transcript.forget_all()
        agent.changed.clear()
        text, code, index = ANEW, CLEARED, 0
    else:
        text, code, index = back_to(event.prompt, len(event.files)), REWOUND, event.message_index
        agent.transcript.drop_from(event.message_index)
        for path in event.files:
            agent.changed.pop(path, None)
    note = agent.transcript.add_note(event, text, name=code)
    note.message_index = index
    return (agent.key, note.key, (*agent.key, "entries"))


def back_to(prompt: str, count: int) -> str:
    """Return a sentence on the prompt that a conversation went back to, and on how many files were restored."""
    words = plain_line(prompt[: 2 * MOST_NAMED])
    named = words if len(words) <= MOST_NAMED else f"{words[: MOST_NAMED - 1]}…"
    files = f" · {count} file{'s' if count > 1 else ''} restored" if count else ""
    return (f'back to before "{named}"' if named else "back to an earlier prompt") + files


def _background(view: View, _: RunView, event: e.BackgroundStartedEvent | e.BackgroundEndedEvent) -> Changed:
    agent = _agent(view, event)
    if isinstance(event, e.BackgroundStartedEvent):
        agent.background[event.handle] = event
        return (agent.key,)
    agent.background.pop(event.handle, None)
    ended = f"exit {event.exit_code}" if event.status == "exited" and event.exit_code else event.status
    mark = "✓" if event.exit_code == 0 else "✗"
    text = f"{mark} {event.command} · {'done' if mark == '✓' else ended}, in the background"
    return (agent.key, agent.transcript.add_note(event, text).key)


def _subagent_started(view: View, _: RunView, event: e.SubAgentStartedEvent) -> Changed:
    agent = _agent(view, event)
    agent.title, agent.mode, agent.model, agent.profile = event.title, event.mode, event.model, event.agent
    agent.max_tokens, agent.max_turns, agent.parent_id = event.max_tokens, event.max_turns, event.parent_id
    agent.folder, agent.pid = event.folder, event.pid
    agent.ended_at = agent.outcome = agent.reason = None
    agent.set_activity(waiting(agent))
    step = view.step_of(agent)
    if step is None or event.parent_id is not None:
        return _seen(view, agent)
    step.agent_started(agent)
    view.plans[step.key[1]].regroup(step)
    return (*_seen(view, agent), view.plans[step.key[1]].key)


def _subagent_finished(view: View, _: RunView, event: e.SubAgentFinishedEvent) -> Changed:
    agent = _agent(view, event)
    agent.ended_at, agent.outcome, agent.reason = event.ts, event.outcome, event.reason
    keys = [*agent.rest(), *_withdraw(view, list(agent.requests), event.ts)]
    agent.set_activity("answered")
    step = view.step_of(agent)
    if step is not None and agent.parent_id is None:
        step.agent_finished(agent, event.tokens)
        view.plans[step.key[1]].regroup(step)
        keys.append(view.plans[step.key[1]].key)
    return (*_seen(view, agent), *keys)


# --- requests -------------------------------------------------------------------------------------------------


def _asked(view: View, _: RunView, event: e.ApprovalRequestEvent | e.QuestionEvent) -> Changed:
    agent = _agent(view, event)
    kind = "approval" if isinstance(event, e.ApprovalRequestEvent) else "question"
    key = ("requests", event.request_id)
    gone = _withdraw(view, [event.request_id], event.ts)
    request = RequestView(
        id=event.request_id, kind=kind, event=event, agent_id=agent.id, plan_id=agent.plan_id, key=key
    )
    view.requests[request.id] = agent.requests[request.id] = request
    call = None if isinstance(event, e.QuestionEvent) else agent.transcript.call(event.tool_call_id)
    if call is not None:  # one that is asked about has had its turn
        call.status, call.waits_for = "running", "request"
    return (*_seen(view, agent, call), *gone, *_update_waiting(view, agent, event.ts), key)


def _request_settled(
    view: View, _: RunView, event: e.ApprovalDecisionEvent | e.AnswerEvent | e.RequestWithdrawnEvent
) -> Changed:
    request = view.requests.get(event.request_id)
    if request is None or request.kind == "decision":
        return ()
    agent = view.agents.get(request.agent_id or "")
    call = None if agent is None else agent.open_calls.get(getattr(request.event, "tool_call_id", ""))
    if call is not None:
        call.began_at, call.waits_for = event.ts, ""  # the time a person takes to answer is not the call's
    _keep_answered(view, request, event, None if agent is None else agent.step_id)
    noticed = _notice(view, event, "note", note) if (note := answered_elsewhere(event)) else ()
    asked = [] if call is None else [call.key]
    return (("answered",), *asked, *_withdraw(view, [event.request_id], event.ts), *noticed)


def answered_elsewhere(event: e.Event) -> str:
    """Return a sentence about an answer from elsewhere; empty if it came from here, or if the event is none."""
    if not isinstance(event, e.ApprovalDecisionEvent | e.AnswerEvent) or event.by in e.OWN_ANSWERS:
        return ""
    decided = "declined" if getattr(event, "cancelled", False) else getattr(event, "decision", "answered")
    given = {"allow": "allowed", "deny": "refused"}.get(decided, decided)
    return f"{given} in another window" if event.by == "control" else f"{given} by {event.by}"


def _keep_answered(view: View, request: RequestView, event: _Answer, step_id: str | None) -> None:
    """Keep a request that was settled, and its answer."""
    settled = AnsweredView(id=request.id, kind=request.kind, asked=request.event, answered=event, step_id=step_id)
    view.answered.append(settled)
    del view.answered[:-MOST_ANSWERED]


def _update_waiting(view: View, agent: AgentView, at: float) -> Changed:
    """Update whether an agent's turn, step and plan wait for a person from a moment on (unix seconds)."""
    if agent.turn is not None:
        agent.turn.set_wait(at, for_a_person=agent.waits_for_you)
    plan, step = view.plans.get(agent.plan_id or ""), view.step_of(agent)
    if plan is None:
        return ()
    plan.set_wait(at, for_a_person=any(request.plan_id == plan.id for request in view.requests.values()))
    if step is not None and step.status == RUNNING:
        step.enter("ask" if step.is_asking else "work", plan.clock(at))
    return (plan.key,)


def _withdraw(view: View, request_ids: Iterable[str], at: float) -> Changed:
    """Remove requests at a moment (unix seconds), and return the keys of all that this changed."""
    keys: list[Key] = []
    for request_id in request_ids:
        request = view.requests.pop(request_id, None)
        if request is None:
            continue
        keys.append(request.key)
        agent = view.agents.get(request.agent_id or "")
        if agent is not None:
            agent.requests.pop(request_id, None)
            step = view.step_of(agent)
            keys += [agent.key] if step is None else [agent.key, step.key]
            keys += _update_waiting(view, agent, at)
    return tuple(keys)


def _set_to_rest(view: View, agents: Collection[AgentView], at: float) -> Changed:
    """Set agents to rest and withdraw their requests at a moment (unix seconds); return the changed keys."""
    resting = [key for agent in agents for key in agent.rest()]
    asked = _withdraw(view, [request_id for agent in agents for request_id in list(agent.requests)], at)
    steps = [step.key for agent in agents if (step := view.step_of(agent)) is not None]
    return (*resting, *asked, *steps)


# --- plans ----------------------------------------------------------------------------------------------------


def _plan(view: View, plan_id: str) -> PlanView:
    plan = view.plans.get(plan_id)
    if plan is None:
        plan = view.plans[plan_id] = PlanView(key=("plans", plan_id), state=State(plan_id=plan_id))
        plan.team = {agent.id: agent for agent in view.agents.values() if (agent.plan_id or "") == plan_id}
    return plan


def _fact(view: View, run: RunView, event: e.Fact) -> Changed:
    plan = _plan(view, event.plan_id or "")
    run.plan_ids.setdefault(plan.id)
    if not run.agent:  # otherwise the events of its session say these things
        if isinstance(event, e.PlanStartedEvent | e.PlanResumedEvent):
            run.workspace, run.pid, run.version = event.workspace, event.pid, event.version
            run.ended_at = run.outcome = None
        elif isinstance(event, e.PlanPausedEvent | e.PlanCompletedEvent):
            run.ended_at, run.outcome = event.ts, event.outcome
    changed = plan.take(event)
    if changed is None:
        return (plan.key,)
    match event:
        case e.PlanStepUpdateEvent():
            step = plan.steps[event.step_id]
            asking = [request_id for agent in step.agents.values() for request_id in agent.requests]
            return (*changed, *_withdraw(view, asking, event.ts)) if asking else tuple(changed)
        case e.PlanStartedEvent() if event.note:
            noticed = _notice(view, event, "note", event.note)
        case e.PlanRevisedEvent():
            noticed = _notice(view, event, "note", revision_text(event.operations, event.reason))
        case e.PlanDecisionEvent() if event.selections:
            taken = f"decision {event.decision_id} → {labelled(event, event.selections)}"
            noticed = _notice(view, event, "note", taken)
        case _:
            noticed = ()
    quiet: Changed = ()
    if isinstance(event, e.PlanStartedEvent | e.PlanResumedEvent | e.PlanPausedEvent | e.PlanCompletedEvent):
        quiet = _set_to_rest(view, plan.team.values(), event.ts)
    return (*changed, *_decisions(view, plan), *quiet, *noticed)


def _decisions(view: View, plan: PlanView) -> Changed:
    """Make the open decisions of a plan, and no others, its requests."""
    known = {
        request.event.decision_id: request
        for request in view.requests.values()
        if isinstance(request.event, e.PlanDecisionEvent) and request.plan_id == plan.id
    }
    open_now = plan.state.open
    keys: list[Key] = []
    for name, request in known.items():
        if open_now.get(name) is not request.event:
            del view.requests[request.id]
            keys.append(request.key)
            taken = plan.state.decisions.get(name)
            if taken is not None and isinstance(request.event, e.PlanDecisionEvent):
                _keep_answered(view, request, taken, request.event.step_id)
                keys.append(("answered",))
    for name, opened in open_now.items():
        if name not in known or known[name].event is not opened:
            request_id = f"{plan.id}:{name}"
            key = ("requests", request_id)
            request = RequestView(id=request_id, kind="decision", event=opened, agent_id=None, plan_id=plan.id, key=key)
            view.requests[request_id] = request
            keys.append(key)
    if keys:
        plan.set_wait(plan.state.updated, for_a_person=any(one.plan_id == plan.id for one in view.requests.values()))
    return tuple(keys)


def _proposed(view: View, run: RunView, event: e.PlanProposedEvent) -> Changed:
    plan = _plan(view, event.plan_id or "")
    run.plan_ids.setdefault(plan.id)
    plan.proposal = event
    return (plan.key,)


def _surroundings(view: View, _: RunView, event: e.PlanWaitingEvent | e.PlacementEvent | e.WorktreeEvent) -> Changed:
    """Note what a step waits for, where it is done, or the state of its worktree."""
    step_id = event.step_id if isinstance(event, e.PlanWaitingEvent) else event.subagent_step_id
    step = view.step(event.plan_id, step_id)
    if step is None:
        return ()
    match event:
        case e.PlanWaitingEvent():
            step.waits = event
        case e.PlacementEvent():
            step.place, step.waits = event, None
        case e.WorktreeEvent():
            step.worktree = event
            if step.status == RUNNING:
                kind = "merge" if event.status == "conflict" else "work"
                step.enter(kind, view.plans[event.plan_id or ""].clock(event.ts))
    return (step.key,)


# --- sessions, spending, trouble --------------------------------------------------------------------------------


def _session(view: View, run: RunView, event: e.SessionStartedEvent | e.SessionEndedEvent) -> Changed:
    agent = _agent(view, event)
    if isinstance(event, e.SessionStartedEvent):
        run.workspace, run.agent, run.model, run.version = event.workspace, event.agent, event.model, event.version
        run.ended_at = run.outcome = run.exit_code = None
        agent.profile, agent.model, agent.ended_at, agent.outcome = event.agent, event.model, None, None
        if agent.source == event.source and agent.entries:  # the process that left it resumes it: begin again
            agent.transcript.forget_all()
            agent.transcript.older.clear()
            return (agent.key, (*agent.key, "entries"))
        return (agent.key,)
    run.ended_at, run.outcome, run.exit_code = event.ts, event.outcome, event.exit_code
    agent.ended_at, agent.outcome = event.ts, event.outcome
    same = (event.source, event.session_id)
    agents = [each for each in view.agents.values() if (each.source, each.session_id) == same]
    return (agent.key, *_set_to_rest(view, agents, event.ts))


def _server(_: View, run: RunView, event: e.ToolServerEvent) -> Changed:
    run.servers[event.server] = event
    return ()


def _usage(view: View, run: RunView, event: e.UsageEvent) -> Changed:
    plan, agent = view.plans.get(event.plan_id or ""), view.agent_of(event)
    step = view.step(event.plan_id, event.subagent_step_id)
    view.spent.add(event)
    run.spent.add(event)
    keys: list[Key] = [("spent",)]
    if plan is not None:
        plan.spend(event)
        keys.append(plan.key)
    for part in (step, agent):
        if part is not None:
            part.spent.add(event)
            keys.append(part.key)
    if agent is not None and agent.turn is not None and agent.turn.seconds is None:
        agent.turn.spent.add(event)
    if step is not None:
        step.budget_used += event.prompt_tokens + event.completion_tokens
    return tuple(keys)


def _trouble(view: View, _: RunView, event: e.WarningEvent | e.ErrorEvent) -> Changed:
    kind = "warning" if isinstance(event, e.WarningEvent) else "error"
    keys: list[Key] = []
    agent = view.agent_of(event)
    is_shown = event.code not in PASSING | SUMMARISED
    if is_shown:
        keys += _notice(view, event, kind, event.message)
    if agent is not None and (is_shown or (event.code in SUMMARISED and not event.plan_id)):
        note = agent.transcript.add_note(event, event.message, name=event.code, status=kind)
        keys += (agent.key, note.key)
    step = view.step(event.plan_id, event.subagent_step_id)
    if step is not None and step.status != RUNNING:
        return tuple(keys)
    if agent is not None:
        agent.set_activity(event.message)
        keys += _seen(view, agent)
    elif step is not None:
        step.set_activity(event.message)
        keys.append(step.key)
    return tuple(keys)


def _notice(view: View, event: e.Event, kind: str, message: str) -> Changed:
    view.noticed += 1
    view.notices[view.noticed] = NoticeView(
        number=view.noticed,
        kind=kind,
        code=getattr(event, "code", ""),
        message=message,
        source=event.source,
        ts=event.ts,
        plan_id=event.plan_id,
        agent_id=event.subagent_id,
        step_id=event.subagent_step_id,
    )
    view.notices.pop(view.noticed - MOST_NOTICES, None)
    return (("notices",),)


_HANDLERS: Final[tuple[tuple[_Handler, tuple[type[e.BaseEvent], ...]], ...]] = (
    (_entry_handler(AgentView.add_piece), (e.AssistantDeltaEvent, e.ReasoningDeltaEvent)),
    (_entry_handler(AgentView.add_user_message), (e.UserMessageEvent,)),
    (_answer, (e.AssistantEvent,)),
    (_entry_handler(AgentView.add_call), (e.ToolArgumentsEvent,)),
    (_entry_handler(lambda agent, event: agent.transcript.add_output(event)), (e.ToolStreamEvent,)),
    (_tool, (e.ToolQueuedEvent, e.ToolCallEvent, e.ToolResultEvent)),
    (_compact_started, (e.CompactStartEvent,)),
    (_compact_ended, (e.CompactEndEvent,)),
    (_entry_handler(AgentView.track_model_call), (e.ModelStartedEvent, e.ModelEndedEvent)),
    (_prompt, (e.PromptStartedEvent, e.PromptEndedEvent)),
    (_configured, (e.ConversationConfiguredEvent,)),
    (_new_conversation, (e.ConversationClearedEvent, e.ConversationRewoundEvent)),
    (_background, (e.BackgroundStartedEvent, e.BackgroundEndedEvent)),
    (_subagent_started, (e.SubAgentStartedEvent,)),
    (_subagent_finished, (e.SubAgentFinishedEvent,)),
    (_asked, (e.ApprovalRequestEvent, e.QuestionEvent)),
    (_request_settled, (e.ApprovalDecisionEvent, e.AnswerEvent, e.RequestWithdrawnEvent)),
    (_fact, get_args(e.Fact)),
    (_proposed, (e.PlanProposedEvent,)),
    (_surroundings, (e.PlanWaitingEvent, e.PlacementEvent, e.WorktreeEvent)),
    (_session, (e.SessionStartedEvent, e.SessionEndedEvent)),
    (_server, (e.ToolServerEvent,)),
    (_usage, (e.UsageEvent,)),
    (_trouble, (e.WarningEvent, e.ErrorEvent)),
    (lambda _view, _run, _event: (), (e.MemoryEntryEvent,)),
)
_APPLY: Final[dict[type[e.BaseEvent], _Handler]] = {kind: take for take, kinds in _HANDLERS for kind in kinds}
