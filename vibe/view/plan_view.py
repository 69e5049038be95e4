"""PlanView: a plan as an observer sees it, across all the runs that worked on it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set as AbstractSet
from contextlib import suppress
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
"""The most that is kept: of a step its spans, its changes of status and what it was told; of a plan its samples of
spending."""
_NUMBER_OR_PATH = re.compile(r"\S*/\S*|0x[0-9a-f]+|\d+")


class SpanView(Struct, kw_only=True, eq=False):
    """A span of time within a step, on its plan's clock (seconds). ``end`` is None while it lasts.

    ``kind`` is ``work``, ``ask`` (it waits for a person), ``merge`` (of conflicting changes) or ``check``. A check lies
    within one of the others. It is ``ok`` or not; None means that it was stopped.
    """

    kind: str
    start: float
    end: float | None = None
    ok: bool | None = None


MOST_FAILURES = 16
"""The most times kept at which a check failed."""


class CheckView(Struct, kw_only=True, eq=False):
    """A check of a step. ``status`` is ``none``, ``running``, ``passed``, ``failed`` or ``cancelled``.

    ``runs`` counts how often it ran and ``failures`` how often it failed. ``same_failure`` counts how often in a row it
    failed with the same output, apart from numbers and paths. ``why`` is one line of what it printed when it last
    failed. ``ended_at`` and ``failed_at``, the last 16 times that it failed, are in unix seconds.
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
        """Note that a run of the check ended."""
        failed = event.status == "error"
        self.status = "failed" if failed else "passed" if event.status == "ok" else "cancelled"
        self.seconds, self.ended_at = event.duration_s, event.ts
        self.exit_code = event.display.exit_code if isinstance(event.display, e.CommandDisplay) else None
        if failed:
            essence = _NUMBER_OR_PATH.sub("", event.content).encode("utf-8", "replace")
            digest = blake2b(essence, digest_size=8).hexdigest()
            self.same_failure = self.same_failure + 1 if digest == self.digest else 1
            self.failures, self.digest = self.failures + 1, digest
            self.why = failing_line(event.content)
            self.failed_at = [*self.failed_at, event.ts][-MOST_FAILURES:]
        elif self.status == "passed":
            self.same_failure, self.digest = 0, ""


class ChecksView(Struct, frozen=True):
    """Counts of checks: those that passed when they last ran, those that failed, and all there are.

    ``same_failure`` is the most times in a row that one of them failed with the same output.
    """

    passed: int = 0
    failed: int = 0
    all: int = 0
    same_failure: int = 0


NO_CHECKS = ChecksView()


class StatusChange(Struct, frozen=True):
    """A change of a step to ``status``, in this ``attempt``, at ``ts`` (unix seconds)."""

    ts: float
    status: str
    attempt: int


class SampleView(Struct, frozen=True):
    """The tokens and dollars that a plan had spent by ``ts`` (unix seconds)."""

    ts: float
    tokens: int
    cost_usd: float | None


class StepView(Struct, kw_only=True, eq=False):  # noqa: PLR0904  properties of its state, and updates by its agents
    """One step: its ``state`` in the plan, and what its agents do. Nothing here is safe to print unescaped.

    ``agents`` are all that worked on it, in the order they began, and ``current`` is the one that was last active.
    ``spent`` covers all attempts that this view knows of, ``budget_used`` the present agent and those it started.
    ``replanning`` means that it failed and a better plan is being looked for. ``waits`` says what it waits for although
    it could start. ``depth`` is the number of steps before it on the longest path to it. ``spans`` are its times,
    ``history`` its changes of status and ``told`` what people said to its agents; the newest of each are kept.
    ``left_out_s`` corrects the seconds of work in ``spans`` by those that are not in it any more.
    ``items`` are the steps for the items of its list. All other times are in unix seconds.
    """

    key: Key
    state: StepState
    depth: int = 0
    started_at: float | None = None
    duration_s: float | None = None
    spans: list[SpanView] = field(default_factory=list[SpanView])
    left_out_s: float = 0.0
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
        """The id of the step whose list this one does an item of; empty if it does none."""
        return "" if self.order is None else self.order.pattern

    @property
    def id(self) -> str:
        """The id."""
        return self.state.outline.id

    @property
    def title(self) -> str:
        """The title."""
        return self.state.outline.title

    @property
    def mode(self) -> str:
        """The mode."""
        return self.state.outline.mode

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The ids of the steps it depends on."""
        return self.state.outline.depends_on

    @property
    def status(self) -> str:
        """The status."""
        return self.state.status.value

    @property
    def attempt(self) -> int:
        """The number of the attempt that runs, has ended or comes next."""
        return self.state.attempt

    @property
    def reason(self) -> str:
        """The reason for its status; of a failed command, only the sentence about its exit code."""
        if self.state.reason == CHECK and self.failing:
            return f"check failed: {self.failing}"
        return ": ".join(filter(None, (self.state.reason, self.state.detail))).removeprefix("exit_code: ")

    @property
    def failing(self) -> str:
        """One line of the output of a check that failed; empty if none did."""
        return next((check.why for check in self.checks.values() if check.status == "failed"), "")

    @property
    def order(self) -> e.WorkOrder | None:
        """Its task and limits; None if the plan was announced by a version that left them out."""
        return self.state.outline.order

    @property
    def model(self) -> str:
        """The model of its attempt, if it names several: ``large, 2nd of 2``; empty if it does not."""
        models = () if self.order is None else self.order.models
        place = min(self.attempt, len(models))
        return f"{models[place - 1]}, {ORDINALS[place - 1]} of {len(models)}" if models else ""

    @property
    def reused(self) -> bool:
        """True if its result was reused from another plan."""
        return self.state.reason == REUSED_REASON

    @property
    def merges(self) -> bool:
        """True if its changes are merged at its end."""
        return self.state.outline.workspace == "worktree"

    @property
    def summary(self) -> str:
        """The words of its agent on what it did."""
        return "" if self.work is None else self.work.summary

    @property
    def worker(self) -> str:
        """The machine of its attempt, if that ran or runs on another one."""
        return self.place.worker if self.place is not None and self.place.status == "placed" else ""

    @property
    def is_asking(self) -> bool:
        """True while one of its agents waits for a person."""
        return any(agent.waits_for_you for agent in self.agents.values())

    @property
    def fixed(self) -> int:
        """The number of failures of checks that pass now; 0 unless the step is completed."""
        return sum(check.failures for check in self.checks.values()) if self.status == "completed" else 0

    def worked(self, now: float) -> float:
        """Return the seconds it worked, up to ``now`` on its plan's clock, without those it waited for a person."""
        times = (span for span in self.spans if span.kind not in {"check", "ask"})
        return self.left_out_s + sum(max(0.0, (now if span.end is None else span.end) - span.start) for span in times)

    def doing(self) -> str:
        """Return what happens in it: a request to a person first, then a running tool, then the model."""
        team = [*reversed(self.agents.values())]
        busy = next((agent for agent in team if agent.waits_for_you), self.current)
        if busy is None or not (busy.open_calls or busy.requests):
            busy = next((agent for agent in team if agent.open_calls), busy)
        return (busy.doing() if busy is not None else "") or self.activity

    def enter(self, kind: str, at: float) -> None:
        """Begin a span of a kind, at a time on its plan's clock (seconds). A blank kind only ends what is open."""
        now = next((span for span in reversed(self.spans) if span.end is None and span.kind != "check"), None)
        if now is not None and now.kind == kind:
            return
        for span in self.spans:
            if span.end is None and (span is now or not kind):
                span.end = at
        if kind:
            self._add_span(SpanView(kind=kind, start=at))

    def update_check(self, event: e.ToolCallEvent | e.ToolResultEvent, command: str, at: float) -> bool:
        """Note that a check begins or ends, ``at`` on its plan's clock.

        Returns True if the check passes after it had failed.
        """
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
        if len(self.spans) > MOST_SPANS:  # the start of the oldest passes to the next but one, so that no bar has a gap
            worked = self.worked(span.start)
            oldest = next(place for place, each in enumerate(self.spans) if each.end is not None)
            self.spans[oldest + 1].start = self.spans.pop(oldest).start
            self.left_out_s += worked - self.worked(span.start)

    def update_status(self, event: e.PlanStepUpdateEvent, at: float) -> list[Key]:
        """Apply a change of its status, ``at`` on its plan's clock; return the keys of its agents that this changed."""
        keys = [key for agent in self.agents.values() for key in agent.rest()]
        self.enter({RUNNING: "work", "needs_decision": "ask"}.get(event.status, ""), at)
        self.history.append(StatusChange(event.ts, event.status, event.attempt))
        del self.history[:-MOST_CHANGES]
        for check in self.checks.values():
            check.status = "cancelled" if check.status == "running" else check.status
        self.activity, self.current = "", None
        self.replanning, self.waits = False, None
        if event.work is not None:
            self.work = event.work
            self.add_files(event.work.files_changed)
        if event.status == RUNNING:
            self.started_at, self.duration_s, self.activity = event.ts, None, "starting"
        elif event.duration_s is not None:
            self.duration_s = event.duration_s
        elif self.started_at is not None and self.duration_s is None:
            self.duration_s = max(0.0, event.ts - self.started_at)
        return keys

    def count_checks(self) -> ChecksView:
        """Return the counts of its checks."""
        known = self.checks.values()
        planned = {*self.checks, *(() if self.order is None else self.order.verify)}
        return ChecksView(
            passed=sum(check.status == "passed" for check in known),
            failed=sum(check.status == "failed" for check in known),
            all=len(planned),
            same_failure=max((check.same_failure for check in known), default=0),
        )

    def add_files(self, files: tuple[str, ...], written: Sequence[e.WrittenFile] = ()) -> None:
        """Add files that were changed in it, and the line counts of those in ``written``."""
        if files and len(self.files) < MOST_FILES:
            self.files.update(dict.fromkeys(files))
        self.added += sum(file.added for file in written)
        self.removed += sum(file.removed for file in written)

    def set_activity(self, activity: str) -> None:
        """Set what happens in it that no agent does, in words."""
        self.activity, self.current = activity, None

    def agent_started(self, agent: AgentView) -> None:
        """Note that its own agent has started, with a budget of its own."""
        self.max_tokens, self.budget_used, self.turns = agent.max_tokens, 0, 0
        self.replanning = self.status != RUNNING

    def agent_finished(self, agent: AgentView, tokens: int) -> None:
        """Note that its own agent has finished, although the step may not have."""
        self.budget_used, self.replanning = tokens, False
        agent.set_activity("merging" if self.merges else "answered")


class PlanView(Struct, kw_only=True, eq=False):  # noqa: PLR0904  properties of its state, and updates of its times
    """A plan: its ``state`` according to its facts, and its steps in plan order.

    ``running`` and ``failed`` are in the order in which the steps became so. For the steps in ``replanning`` a better
    plan is being looked for. ``spent`` is what this view saw, and ``tokens_before`` what was spent before it looked.
    ``max_tokens`` limits all of it (None: no limit). ``started_at`` is when a run last took it up and ``ended_at`` when
    that run let it go, in unix seconds. ``source`` is that run, and ``sources`` are all that worked on it. ``team`` is
    every agent that did. ``progress_at`` is when a step was last done, a file changed, or a check passed after it had
    failed. ``waited_s`` counts the seconds in which it waited for a person. ``checks`` sums up the checks of all steps.
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
    checks_by_step: dict[str, ChecksView] = field(default_factory=dict[str, ChecksView])
    """The counts of checks by step, so that an update costs only as much as it changes."""
    same_failures: dict[str, int] = field(default_factory=dict[str, int])
    """How often in a row a check failed with the same output, by step, as far as one did."""

    @property
    def id(self) -> str:
        """The id."""
        return self.state.plan_id

    @property
    def status(self) -> str:
        """The status."""
        return self.state.status.value

    @property
    def reason(self) -> str:
        """The reason for its status."""
        return self.state.reason or ""

    @property
    def outcome(self) -> str | None:
        """The outcome of the run that ended it; None while it goes on, or if the run named none."""
        return None if self.state.outcome is None else self.state.outcome.value

    @property
    def counts(self) -> dict[str, int]:
        """The number of steps per status."""
        return self.state.counted()

    @property
    def total(self) -> int:
        """The number of its steps."""
        return len(self.state.steps)

    @property
    def done(self) -> int:
        """The number of completed steps. Failed and skipped ones don't count."""
        return self.state.counts[StepStatus.COMPLETED]

    @property
    def tokens(self) -> int:
        """The tokens spent on it, as far as is known."""
        return self.spent.tokens + self.tokens_before

    def listed(self, chosen: str = "") -> list[StepView]:
        """Return its steps with each list of items as one step, except the list that the chosen step belongs to.

        The items of that list follow it: failed ones first, then those at work, then the rest.
        """
        named = self.steps.get(chosen)
        opened = "" if named is None else named.pattern or named.id
        shown: list[StepView] = []
        for step in self.steps.values():
            if not step.pattern:
                shown += (step, *(sorted(step.items, key=_urgency) if step.id == opened else ()))
        return shown

    def elapsed(self, now: float) -> float:
        """Return the seconds from its start to its end, or to ``now`` (unix seconds) while it goes on."""
        if self.started_at is None:
            return 0.0
        return max(0.0, (now if self.ended_at is None else self.ended_at) - self.started_at)

    def clock(self, now: float) -> float:
        """Return the seconds that processes worked on it up to ``now`` (unix seconds).

        On this clock, pauses don't count.
        """
        runs = self.started_at is not None and self.ended_at is None
        return self.state.active_seconds + (max(0.0, now - self.state.updated) if runs else 0.0)

    def release(self, now: float) -> list[Key]:
        """Note that no process works on it from ``now`` on (unix seconds); return the keys of what that changed."""
        at = self.clock(now)
        for step in self.running.values():
            step.enter("", at)
            step.history.append(StatusChange(now, "pending", step.attempt))
        self.set_wait(now, for_a_person=False)
        self.ended_at = now
        return [self.key, *(step.key for step in self.running.values())]

    def set_wait(self, now: float, *, for_a_person: bool) -> None:
        """Note that it waits for a person from ``now`` on (unix seconds), or no longer does."""
        if for_a_person:
            self.waits_since = self.waits_since or now
        elif self.waits_since is not None:
            self.waited_s += max(0.0, now - self.waits_since)
            self.waits_since = None

    def spend(self, event: e.UsageEvent) -> None:
        """Add a settled model call."""
        self.spent.add(event)
        self.samples.append(SampleView(event.ts, self.tokens, self.spent.cost_usd))
        if len(self.samples) > MOST_SAMPLES:
            del self.samples[1:-1:2]

    def take(self, fact: e.Fact) -> list[Key] | None:
        """Apply a fact and return the keys of what it changed; None if a later version of vibe wrote it."""
        try:
            evolve(self.state, fact)
        except FactInvalidError:
            return None
        match fact:
            case e.PlanStepUpdateEvent():
                return self._update_status(fact)
            case e.PlanStartedEvent() | e.PlanResumedEvent():
                return self._begin(fact)
            case e.PlanRevisedEvent() | e.PlanEditedEvent() | e.PlanResetEvent() | e.PlanUnfoldedEvent():
                return self._rebuild_steps()
            case e.PlanPausedEvent() | e.PlanCompletedEvent():
                return self.release(fact.ts)
            case e.PlanToldEvent(step_id=step_id) if step_id in self.state.steps:
                step = self._step(step_id)
                # The same fact may have been announced by an earlier run.
                known = [one for one in step.told if (one.ts, one.text) != (fact.ts, fact.text)]
                step.told = [*known, fact][-MOST_TOLD:]
                return [self.key, step.key]
            case _:
                return self._touch(getattr(fact, "step_id", None))

    def recount_checks(self, step: StepView) -> bool:
        """Count the checks of a step again; return whether the counts changed."""
        is_list = step.id in self.state.unfolded  # its checks are counted with the steps of its items
        before, now = self.checks_by_step.get(step.id, NO_CHECKS), NO_CHECKS if is_list else step.count_checks()
        if now == before:
            return False
        self.checks_by_step[step.id] = now
        if now.same_failure:
            self.same_failures[step.id] = now.same_failure
        else:
            self.same_failures.pop(step.id, None)
        self.checks = ChecksView(
            passed=self.checks.passed + now.passed - before.passed,
            failed=self.checks.failed + now.failed - before.failed,
            all=self.checks.all + now.all - before.all,
            same_failure=max(self.same_failures.values(), default=0),
        )
        return True

    def regroup(self, step: StepView) -> None:
        """Put a step into the groups it belongs to now, and take it out of the others."""
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
        self.set_wait(event.ts, for_a_person=False)
        for step in self.steps.values():  # a process that died may have left spans open
            step.enter("", self.state.active_seconds)
        if isinstance(event, e.PlanResumedEvent):
            self.tokens_before = max(0, event.tokens - self.spent.tokens)
        return self._rebuild_steps()

    def _touch(self, step_id: str | None) -> list[Key]:
        """Return the keys of the plan and, if the fact is about one, of the step."""
        if step_id is None or step_id not in self.state.steps:
            return [self.key]
        step = self._step(step_id)
        self.regroup(step)
        return [self.key, step.key]

    def _step(self, step_id: str) -> StepView:
        step = self.steps.get(step_id)
        if step is None:  # the beginning of the plan was missed
            key = (*self.key, "steps", step_id)
            step = self.steps[step_id] = StepView(key=key, state=self.state.steps[step_id])
        return step

    def _update_status(self, event: e.PlanStepUpdateEvent) -> list[Key]:
        step = self._step(event.step_id)
        keys = step.update_status(event, self.clock(event.ts))
        self.regroup(step)
        if event.status in FINAL:
            self.progress_at = event.ts
        return [self.key, step.key, *keys]

    def below(self, step_ids: AbstractSet[str]) -> dict[str, StepView]:
        """Return the steps that depend on some, directly or through others."""
        found: dict[str, StepView] = {}
        for step in sorted(self.steps.values(), key=lambda step: step.depth) if step_ids else ():
            if not (step_ids.isdisjoint(step.depends_on) and found.keys().isdisjoint(step.depends_on)):
                found[step.id] = step
        return found

    def _rebuild_steps(self) -> list[Key]:
        """Bring the views of the steps in line with the steps that the plan has now."""
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
        self.checks_by_step.clear()
        self.same_failures.clear()
        self.running, self.failed, self.replanning = {}, {}, {}
        for step in self.steps.values():
            self.recount_checks(step)
            self.regroup(step)
        return [self.key, (*self.key, "steps")]


def _urgency(step: StepView) -> int:
    return 0 if step.status == "failed" else 1 if step.status in {RUNNING, "needs_decision"} else 2


def step_name(step: StepView, plan: PlanView) -> str:
    """Return the name of a step for people: its id, or its title for an item of a list, whose id says nothing."""
    whole = plan.steps.get(step.pattern)
    return step.id if whole is None or step.title == whole.title else step.title


def depths(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the number of steps on the longest path to each step, given the steps that each depends on.

    If they form a cycle, which a plan that our loader accepts does not have, all numbers are 0.
    """
    known = {step_id: [parent for parent in above if parent in parents] for step_id, above in parents.items()}
    found = dict.fromkeys(known, 0)
    with suppress(CycleError):
        for step_id in TopologicalSorter(known).static_order():
            found[step_id] = max((found[parent] + 1 for parent in known[step_id]), default=0)
    return found


def labelled(decision: e.PlanDecisionEvent, options: Sequence[str]) -> str:
    """Return the labels of some options of a decision, or the options themselves where they have none."""
    labels = dict(zip(decision.options, decision.labels, strict=False))
    return ", ".join(labels.get(each, each) for each in options)


def revision_text(operations: Sequence[Mapping[str, Any]], reason: str) -> str:
    """Return one line about a revision: why it was made, and which steps it is about."""
    verbs = {"add_step": "added", "remove_step": "removed", "update_step": "changed"}
    steps_by_verb: dict[str, dict[str, None]] = {}
    for operation in operations:
        verb = verbs.get(str(operation.get("op")), "reordered")
        step = operation.get("step")
        named = cast("Mapping[str, Any]", step).get("id") if isinstance(step, Mapping) else operation.get("id", step)
        steps_by_verb.setdefault(verb, {})[str(named)] = None
    parts = [f"{verb} {', '.join(names)}" for verb, names in steps_by_verb.items()]
    return f"the plan was revised{f' ({reason})' if reason else ''}: {'; '.join(parts)}"
