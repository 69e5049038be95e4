"""PlanView: a plan as an observer sees it, over all the runs that worked on it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from hashlib import blake2b
from typing import Any, cast

from msgspec import Struct, field

from ipc import events as e
from planner.plan.status import StepStatus
from planner.state.evolve import FactInvalidError, evolve
from planner.state.state import REUSED_REASON, State, StepState
from vibe.system.failing_lines import failing_line
from vibe.view.agent_view import CHECK, AgentView, Key, Totals

ORDINALS = ("1st", "2nd", "3rd", "4th")
FINAL = frozenset({"completed", "failed", "skipped", "cancelled"})
RUNNING = "in_progress"
MOST_FILES = 1_000
MOST_SPANS, MOST_CHANGES, MOST_TOLD, MOST_SAMPLES = 64, 200, 32, 240
"""Kept of a step's times, its changes of status and what it was told, and of what a plan had spent by when."""
_NUMBER_OR_PATH = re.compile(r"\S*/\S*|0x[0-9a-f]+|\d+")


class SpanView(Struct, kw_only=True, eq=False):
    """A time in a step, on the clock of its plan (seconds); ``end`` None: it goes on.

    ``kind``: ``work``, ``ask`` (it waits for a person), ``merge`` (of changes that conflict), or ``check``, which lies
    within one of the others and is ``ok`` or not (None: it was stopped).
    """

    kind: str
    start: float
    end: float | None = None
    ok: bool | None = None


MOST_FAILURES = 16
"""The times that are kept of a check's failures."""


class CheckView(Struct, kw_only=True, eq=False):
    """A check of a step. ``status``: ``none``, ``running``, ``passed``, ``failed`` or ``cancelled``.

    ``runs`` counts how often it ran, ``failures`` how often it failed, ``same_failure`` how often in a row with the
    same output but for numbers and paths. ``why`` is what it printed when it failed last, in a line; ``ended_at`` and
    ``failed_at``, the last 16 times that it failed, are in unix seconds.
    """

    command: str
    status: str = "none"
    runs: int = 0
    failures: int = 0
    same_failure: int = 0
    exit_code: int | None = None
    seconds: float = 0.0
    ended_at: float | None = None
    why: str = ""
    digest: str = ""
    failed_at: list[float] = field(default_factory=list[float])

    def end(self, event: e.ToolResultEvent) -> None:
        """A run of it ended."""
        failed = event.status == "error"
        self.status = "failed" if failed else "passed" if event.status == "ok" else "cancelled"
        self.seconds, self.ended_at = event.duration_s, event.ts
        self.exit_code = event.display.exit_code if isinstance(event.display, e.CommandDisplay) else None
        if failed:
            digest = blake2b(
                _NUMBER_OR_PATH.sub("", event.content).encode("utf-8", "replace"), digest_size=8
            ).hexdigest()
            self.same_failure = self.same_failure + 1 if digest == self.digest else 1
            self.failures, self.digest = self.failures + 1, digest
            self.why = failing_line(event.content)
            self.failed_at = [*self.failed_at, event.ts][-MOST_FAILURES:]
        elif self.status == "passed":
            self.same_failure, self.digest = 0, ""


class ChecksView(Struct, frozen=True):
    """Checks, counted: those that passed when they ran last, those that failed, and all there are.

    ``same_failure`` is the most times in a row that one of them failed with the same output.
    """

    passed: int = 0
    failed: int = 0
    all: int = 0
    same_failure: int = 0


NO_CHECKS = ChecksView()


class AttemptView(Struct, frozen=True):
    """An attempt that has ended, after ``seconds`` in all, at ``ended_at`` (unix seconds)."""

    number: int
    outcome: str
    seconds: float
    ended_at: float


class StatusChange(Struct, frozen=True):
    """A step became ``status``, in this ``attempt``, at ``ts`` (unix seconds)."""

    ts: float
    status: str
    attempt: int


class SampleView(Struct, frozen=True):
    """The tokens and dollars that a plan had spent at ``ts`` (unix seconds)."""

    ts: float
    tokens: int
    cost_usd: float | None


class StepView(Struct, kw_only=True, eq=False):  # noqa: PLR0904  what the plan has of it, and what its agents do
    """One step: ``state`` as the plan has it, and beside it what its agents do. Nothing here is safe to print as it is.

    ``agents`` are all that worked on it, in the order they began; ``current`` is the one that did so last. ``spent`` is
    of all attempts that this view knows, ``budget_used`` of the present agent and those it started. ``replanning``: it
    failed, and a better plan is looked for. ``waits`` says what it waits for though it could start. ``depth`` is
    the number of steps before it on the longest path to it. ``spans`` are its times, ``history`` its changes of status,
    ``told`` what people said to its agents; of many, the newest. ``items`` are the steps for the items of its list.
    Other times are in unix seconds.
    """

    key: Key
    state: StepState
    depth: int = 0
    started_at: float | None = None
    duration_s: float | None = None
    spans: list[SpanView] = field(default_factory=list[SpanView])
    checks: dict[str, CheckView] = field(default_factory=dict[str, CheckView])
    history: list[StatusChange] = field(default_factory=list[StatusChange])
    activity: str = ""
    agents: dict[str, AgentView] = field(default_factory=dict[str, AgentView])
    current: AgentView | None = None
    spent: Totals = field(default_factory=Totals)
    turns: int = 0
    budget_used: int = 0
    max_tokens: int | None = None
    replanning: bool = False
    waits: e.PlanWaitingEvent | None = None
    work: e.WorkDone | None = None
    files: dict[str, None] = field(default_factory=dict[str, None])
    added: int = 0
    removed: int = 0
    worktree: e.WorktreeEvent | None = None
    place: e.PlacementEvent | None = None
    told: list[e.PlanToldEvent] = field(default_factory=list[e.PlanToldEvent])
    items: list[StepView] = field(default_factory=list["StepView"])

    @property
    def pattern(self) -> str:
        """The step of whose list it does one item; blank: none."""
        return "" if self.order is None else self.order.pattern

    @property
    def id(self) -> str:
        """Its id."""
        return self.state.outline.id

    @property
    def title(self) -> str:
        """Its title."""
        return self.state.outline.title

    @property
    def mode(self) -> str:
        """Its mode."""
        return self.state.outline.mode

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The steps it comes after."""
        return self.state.outline.depends_on

    @property
    def status(self) -> str:
        """Its status."""
        return self.state.status.value

    @property
    def attempt(self) -> int:
        """The attempt that runs, has ended or comes next."""
        return self.state.attempt

    @property
    def reason(self) -> str:
        """The reason of its status."""
        if self.state.reason == CHECK and self.failing:
            return f"check failed: {self.failing}"
        return ": ".join(filter(None, (self.state.reason, self.state.detail)))

    @property
    def why(self) -> str:
        """The same for people: of a command, the sentence on its exit code alone."""
        return self.reason.removeprefix("exit_code: ")

    @property
    def failing(self) -> str:
        """The output of a check that failed, in a line; blank: none did."""
        return next((check.why for check in self.checks.values() if check.status == "failed"), "")

    @property
    def order(self) -> e.WorkOrder | None:
        """Its task and bounds; None: a version that did not tell them announced it."""
        return self.state.outline.order

    @property
    def rung(self) -> str:
        """The model of its attempt, where it has several: ``large, 2nd of 2``; blank: it has not."""
        models = () if self.order is None else self.order.models
        place = min(self.attempt, len(models))
        return f"{models[place - 1]}, {ORDINALS[place - 1]} of {len(models)}" if models else ""

    @property
    def workspace(self) -> str:
        """``shared``, or ``worktree``."""
        return self.state.outline.workspace

    @property
    def tolerated(self) -> bool:
        """It failed or was cancelled, and the plan goes on as if it had completed."""
        return self.state.tolerated

    @property
    def attempts(self) -> list[AttemptView]:
        """Its attempts that have ended."""
        ended = self.state.attempts
        return [AttemptView(each.number, each.result.outcome, each.seconds, each.ended_at) for each in ended]

    @property
    def reused_from(self) -> str | None:
        """The plan whose result stands for it."""
        return self.state.reused_from

    @property
    def stopping(self) -> tuple[str, str] | None:
        """The status that it is to have once its attempt has ended, and who wants that; None: nobody does."""
        stopping = self.state.stopping
        return None if stopping is None else (stopping.status, stopping.by)

    @property
    def reused(self) -> bool:
        """Another plan did it."""
        return self.state.reason == REUSED_REASON

    @property
    def merges(self) -> bool:
        """Its changes are merged at its end."""
        return self.state.outline.workspace == "worktree"

    @property
    def summary(self) -> str:
        """The words of its agent on what it did."""
        return "" if self.work is None else self.work.summary

    @property
    def worker(self) -> str:
        """The machine of its attempt, if that is or was on another."""
        return self.place.worker if self.place is not None and self.place.status == "placed" else ""

    @property
    def is_asking(self) -> bool:
        """One of its agents waits for a person."""
        return any(agent.requests for agent in self.agents.values())

    @property
    def fixed(self) -> int:
        """The number of times that checks failed which pass now; 0 for a step that is not completed."""
        return sum(check.failures for check in self.checks.values()) if self.status == "completed" else 0

    def worked(self, now: float) -> float:
        """Seconds it worked up to ``now`` (seconds of its plan's clock), without those it waited for a person."""
        times = (span for span in self.spans if span.kind not in {"check", "ask"})
        return sum(max(0.0, (now if span.end is None else span.end) - span.start) for span in times)

    def doing(self) -> str:
        """Return what goes on in it: a request to a person first, then a running tool, then the model."""
        asking = next((agent for agent in reversed(self.agents.values()) if agent.requests), None)
        if asking is not None:
            return asking.doing()
        busy = self.current
        if busy is None or not busy.open_calls:
            calling = next((agent for agent in reversed(self.agents.values()) if agent.open_calls), None)
            busy = calling or busy
        return (busy.doing() if busy is not None else "") or self.activity

    def turn(self, kind: str, at: float) -> None:
        """It works, asks or merges from then on (seconds of its plan's clock); blank: nothing goes on in it."""
        now = next((span for span in reversed(self.spans) if span.end is None and span.kind != "check"), None)
        if now is not None and now.kind == kind:
            return
        for span in self.spans:
            if span.end is None and (span is now or not kind):
                span.end = at
        if kind:
            self._add_span(SpanView(kind=kind, start=at))

    def check(self, event: e.ToolCallEvent | e.ToolResultEvent, command: str, at: float) -> bool:
        """A check of it begins or ends, ``at`` on its plan's clock; returns True if it passes that failed before."""
        check = self.checks.setdefault(command, CheckView(command=command))
        if isinstance(event, e.ToolCallEvent):
            check.status, check.runs = "running", check.runs + 1
            self._add_span(SpanView(kind="check", start=at))
            return False
        was_failing = check.same_failure > 0
        check.end(event)
        span = next((span for span in reversed(self.spans) if span.kind == "check" and span.end is None), None)
        if span is not None:
            span.end, span.ok = at, {"passed": True, "failed": False}.get(check.status)
        return was_failing and check.status == "passed"

    def _add_span(self, span: SpanView) -> None:
        self.spans.append(span)
        if len(self.spans) > MOST_SPANS:  # it began when it began
            self.spans[1].start = self.spans.pop(0).start

    def move(self, event: e.PlanStepUpdateEvent, at: float) -> list[Key]:
        """It changed status, ``at`` on its plan's clock; returns the keys of what that changed in its agents."""
        keys = [key for agent in self.agents.values() for key in agent.rest()]
        self.turn({RUNNING: "work", "needs_decision": "ask"}.get(event.status, ""), at)
        self.history.append(StatusChange(event.ts, event.status, event.attempt))
        del self.history[:-MOST_CHANGES]
        for check in self.checks.values():
            check.status = "cancelled" if check.status == "running" else check.status
        self.activity, self.current = "", None
        self.replanning, self.waits = False, None
        if event.work is not None:
            self.work = event.work
            self.changed(event.work.files_changed)
        if event.status == RUNNING:
            self.started_at, self.duration_s, self.activity = event.ts, None, "starting"
        elif event.duration_s is not None:
            self.duration_s = event.duration_s
        elif self.started_at is not None and self.duration_s is None:
            self.duration_s = max(0.0, event.ts - self.started_at)
        return keys

    def proof(self) -> ChecksView:
        """Return its checks, counted."""
        known = self.checks.values()
        order = self.state.outline.order
        planned = {*self.checks, *(() if order is None else order.verify)}
        return ChecksView(
            passed=sum(check.status == "passed" for check in known),
            failed=sum(check.status == "failed" for check in known),
            all=len(planned),
            same_failure=max((check.same_failure for check in known), default=0),
        )

    def changed(self, files: tuple[str, ...], written: Sequence[e.WrittenFile] = ()) -> None:
        """Files were changed in it; of those ``written`` the lines are counted."""
        if files and len(self.files) < MOST_FILES:
            self.files.update(dict.fromkeys(files))
        self.added += sum(file.added for file in written)
        self.removed += sum(file.removed for file in written)

    def seen(self, agent: AgentView) -> None:
        """An agent of its does something."""
        if self.current is not agent:
            self.current = agent
            self.agents[agent.id] = agent

    def does(self, activity: str) -> None:
        """Something goes on in it that no agent does."""
        self.activity, self.current = activity, None

    def agent_started(self, agent: AgentView) -> None:
        """Its own agent took it, with a budget of its own."""
        self.max_tokens, self.budget_used, self.turns = agent.max_tokens, 0, 0
        self.replanning = self.status != RUNNING

    def agent_finished(self, agent: AgentView, tokens: int) -> None:
        """Its own agent is done; the step may not be."""
        self.budget_used, self.replanning = tokens, False
        agent.does("merging" if self.merges else "answered")


class PlanView(Struct, kw_only=True, eq=False):  # noqa: PLR0904  what its facts say, and its times
    """A plan: ``state`` by its facts, and its steps in plan order.

    ``running`` and ``failed`` are in the order in which they became so; for those in ``replanning`` a better plan is
    looked for. ``spent`` is what this view saw; ``tokens_before`` were spent where it did not look. ``max_tokens`` is
    what all of it may use (None: no limit). ``started_at`` is when a run took it up last, ``ended_at`` when that let it
    go, in unix seconds; ``source`` is that run, ``sources`` are all that worked on it. ``team`` is every agent that
    did. ``progress_at`` is when a step was done, a check passed after it had failed or a file was changed last.
    ``waited_s`` counts the seconds in which it waited for a person. ``checks`` sums up those of all steps.
    """

    key: Key
    state: State = field(default_factory=State)
    source: str = ""
    goal: str = ""
    steps: dict[str, StepView] = field(default_factory=dict[str, StepView])
    running: dict[str, StepView] = field(default_factory=dict[str, StepView])
    failed: dict[str, StepView] = field(default_factory=dict[str, StepView])
    replanning: dict[str, StepView] = field(default_factory=dict[str, StepView])
    spent: Totals = field(default_factory=Totals)
    tokens_before: int = 0
    max_tokens: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    team: dict[str, AgentView] = field(default_factory=dict[str, AgentView])
    proposal: e.PlanProposedEvent | None = None
    sources: dict[str, None] = field(default_factory=dict[str, None])
    progress_at: float | None = None
    waited_s: float = 0.0
    waits_since: float | None = None
    samples: list[SampleView] = field(default_factory=list[SampleView])
    checks: ChecksView = NO_CHECKS
    proofs: dict[str, ChecksView] = field(default_factory=dict[str, ChecksView])
    """By step; so that a change costs what changed."""
    stuck: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def id(self) -> str:
        """Its id."""
        return self.state.plan_id

    @property
    def status(self) -> str:
        """Its status."""
        return self.state.status.value

    @property
    def reason(self) -> str:
        """The reason of its status."""
        return self.state.reason or ""

    @property
    def outcome(self) -> str | None:
        """The outcome of the run that ended so; None: it goes on, or did not say."""
        return None if self.state.outcome is None else self.state.outcome.value

    @property
    def counts(self) -> dict[str, int]:
        """Steps per status."""
        return self.state.counted()

    @property
    def decisions(self) -> dict[str, e.PlanDecisionEvent]:
        """The open decisions, by id."""
        return self.state.open

    @property
    def total(self) -> int:
        """The number of its steps."""
        return len(self.state.steps)

    @property
    def done(self) -> int:
        """The number of completed steps; failed and skipped ones don't count."""
        return self.state.counts[StepStatus.COMPLETED]

    @property
    def tokens(self) -> int:
        """Tokens spent on it, as far as is known."""
        return self.spent.tokens + self.tokens_before

    def listed(self, chosen: str = "") -> list[StepView]:
        """Its steps, each list of items as one; that of the chosen step open: failed ones, those at work, the rest."""
        named = self.steps.get(chosen)
        opened = "" if named is None else named.pattern or named.id
        shown: list[StepView] = []
        for step in self.steps.values():
            if not step.pattern:
                shown += (step, *(sorted(step.items, key=_urgency) if step.id == opened else ()))
        return shown

    def elapsed(self, now: float) -> float:
        """Seconds from its start to its end, or to ``now`` (unix seconds) while it goes on."""
        if self.started_at is None:
            return 0.0
        return max(0.0, (now if self.ended_at is None else self.ended_at) - self.started_at)

    def clock(self, now: float) -> float:
        """Seconds that processes had it until ``now`` (unix seconds): its own clock, which pauses do not count in."""
        runs = self.started_at is not None and self.ended_at is None
        return self.state.active_seconds + (max(0.0, now - self.state.updated) if runs else 0.0)

    def let_go(self, now: float) -> list[Key]:
        """No process works on it from ``now`` on (unix seconds); returns the keys of what that changed."""
        at = self.clock(now)
        for step in self.running.values():
            step.turn("", at)
        self.waits(now, for_a_person=False)
        self.ended_at = now
        return [self.key, *(step.key for step in self.running.values())]

    def waits(self, now: float, *, for_a_person: bool) -> None:
        """Someone is waited for from ``now`` on (unix seconds), or no more."""
        if for_a_person:
            self.waits_since = self.waits_since or now
        elif self.waits_since is not None:
            self.waited_s += max(0.0, now - self.waits_since)
            self.waits_since = None

    def spend(self, event: e.UsageEvent) -> None:
        """A model call for it was settled."""
        self.spent.add(event)
        self.samples.append(SampleView(event.ts, self.tokens, self.spent.cost_usd))
        if len(self.samples) > MOST_SAMPLES:
            del self.samples[1:-1:2]

    def take(self, fact: e.Fact) -> list[Key] | None:
        """Take a fact in, and return the keys of what it changed; None if a later version wrote it."""
        try:
            evolve(self.state, fact)
        except FactInvalidError:
            return None
        match fact:
            case e.PlanStepUpdateEvent():
                return self._move(fact)
            case e.PlanStartedEvent() | e.PlanResumedEvent():
                return self._begin(fact)
            case e.PlanRevisedEvent() | e.PlanEditedEvent() | e.PlanResetEvent() | e.PlanUnfoldedEvent():
                return self._lay_out()
            case e.PlanPausedEvent() | e.PlanCompletedEvent():
                return self.let_go(fact.ts)
            case e.PlanToldEvent(step_id=step_id) if step_id in self.state.steps:
                step = self._known(step_id)
                known = [
                    one for one in step.told if (one.ts, one.text) != (fact.ts, fact.text)
                ]  # told by an earlier run
                step.told = [*known, fact][-MOST_TOLD:]
                return [self.key, step.key]
            case (
                e.PlanAttemptEvent()
                | e.PlanReusedEvent()
                | e.PlanDecisionEvent()
                | e.PlanRetryEvent()
                | e.PlanActEvent()
            ):
                return self._about(fact.step_id)
            case _:
                return [self.key]

    def prove(self, step: StepView) -> bool:
        """Count the checks of a step anew; returns whether they stand otherwise."""
        is_list = step.id in self.state.unfolded  # its checks are those of the steps that were made of it
        before, now = self.proofs.get(step.id, NO_CHECKS), NO_CHECKS if is_list else step.proof()
        if now == before:
            return False
        self.proofs[step.id] = now
        if now.same_failure:
            self.stuck[step.id] = now.same_failure
        else:
            self.stuck.pop(step.id, None)
        self.checks = ChecksView(
            passed=self.checks.passed + now.passed - before.passed,
            failed=self.checks.failed + now.failed - before.failed,
            all=self.checks.all + now.all - before.all,
            same_failure=max(self.stuck.values(), default=0),
        )
        return True

    def sort(self, step: StepView) -> None:
        """Have a step among those it belongs to now."""
        for shown, belongs in (
            (self.running, step.status == RUNNING),
            (self.failed, step.status == "failed"),
            (self.replanning, step.replanning),
        ):
            if belongs:
                shown.setdefault(step.id, step)
            else:
                shown.pop(step.id, None)

    def _begin(self, event: e.PlanStartedEvent | e.PlanResumedEvent) -> list[Key]:
        self.source, self.goal, self.max_tokens = event.source, event.goal, event.max_tokens
        self.started_at, self.ended_at = event.ts, None
        self.sources[event.source] = None
        self.waits(event.ts, for_a_person=False)
        for step in self.steps.values():  # what a process that died left open
            step.turn("", self.state.active_seconds)
        if isinstance(event, e.PlanResumedEvent):
            self.tokens_before = max(0, event.tokens - self.spent.tokens)
        return self._lay_out()

    def _about(self, step_id: str | None) -> list[Key]:
        """Return the keys of the plan and, if a fact is about one, its step."""
        if step_id is None or step_id not in self.state.steps:
            return [self.key]
        step = self._known(step_id)
        self.sort(step)
        return [self.key, step.key]

    def _known(self, step_id: str) -> StepView:
        step = self.steps.get(step_id)
        if step is None:  # of a plan whose beginning was missed
            key = (*self.key, "steps", step_id)
            step = self.steps[step_id] = StepView(key=key, state=self.state.steps[step_id])
        return step

    def _move(self, event: e.PlanStepUpdateEvent) -> list[Key]:
        step = self._known(event.step_id)
        keys = step.move(event, self.clock(event.ts))
        self.sort(step)
        if event.status in FINAL:
            self.progress_at = event.ts
        return [self.key, step.key, *keys]

    def _lay_out(self) -> list[Key]:
        """Have a view of each step the plan has now."""
        parents = {step_id: step.outline.depends_on for step_id, step in self.state.steps.items()}
        deep = depths(parents)
        known, self.steps = self.steps, {}
        for step_id, state in self.state.steps.items():
            step = known.get(step_id)
            if step is None or step.state is not state:
                step = StepView(key=(*self.key, "steps", step_id), state=state)
            step.depth = deep[step_id]
            self.steps[step_id] = step
        for step in self.steps.values():
            step.items.clear()
        for step in self.steps.values():
            if step.pattern in self.steps:
                self.steps[step.pattern].items.append(step)
        self.checks = NO_CHECKS
        self.proofs.clear()
        self.stuck.clear()
        for step in self.steps.values():
            self.prove(step)
        self.running = {step.id: step for step in self.steps.values() if step.status == RUNNING}
        self.failed = {step.id: step for step in self.steps.values() if step.status == "failed"}
        self.replanning = {step.id: step for step in self.steps.values() if step.replanning}
        return [self.key, (*self.key, "steps")]


def _urgency(step: StepView) -> int:
    return 0 if step.status == "failed" else 1 if step.status in {RUNNING, "needs_decision"} else 2


def called(step: StepView, plan: PlanView) -> str:
    """The name of a step for people: its id; of one for an item of a list, whose id says nothing, the title."""
    whole = plan.steps.get(step.pattern)
    return step.id if whole is None or step.title == whole.title else step.title


def depths(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the number of steps on the longest path to each step, by those it comes after; in a circle, some of it."""
    known = {step_id: [parent for parent in above if parent in parents] for step_id, above in parents.items()}
    try:
        order = list(TopologicalSorter(known).static_order())
    except CycleError:  # not a plan of ours
        order = list(known)
    found: dict[str, int] = {}
    for step_id in order:
        found[step_id] = max((found.get(parent, -1) + 1 for parent in known[step_id]), default=0)
    return found


def decision_text(event: e.PlanDecisionEvent) -> str:
    """Return a decision that was taken, in a line."""
    return f"decision {event.decision_id} → {labelled(event, event.selections)}"


def labelled(decision: e.PlanDecisionEvent, options: Sequence[str]) -> str:
    """Return the labels of some options of a decision, as far as they have any."""
    labels = dict(zip(decision.options, decision.labels, strict=False))
    return ", ".join(labels.get(each, each) for each in options)


def revision_text(operations: Sequence[Mapping[str, Any]], reason: str) -> str:
    """A revision in a line: why, and which steps it is about."""
    verbs = {"add_step": "added", "remove_step": "removed", "update_step": "changed"}
    said: dict[str, dict[str, None]] = {}
    for operation in operations:
        verb = verbs.get(str(operation.get("op")), "reordered")
        step = operation.get("step")
        named = cast("Mapping[str, Any]", step).get("id") if isinstance(step, Mapping) else operation.get("id", step)
        said.setdefault(verb, {})[str(named)] = None
    parts = [f"{verb} {', '.join(names)}" for verb, names in said.items()]
    return f"the plan was revised{f' ({reason})' if reason else ''}: {'; '.join(parts)}"
