"""Turns the parts of a run's view into rows, which are small flat JSON objects, and keeps them in tables.

The tables follow the view as it changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from msgspec import to_builtins

from ipc.events import DiffDisplay, PlanProposedEvent, PlanStartedEvent
from planner.plan.status import StepStatus, reason_text
from vibe.app.watch.commands import given
from vibe.app.watch.follower import Follower
from vibe.app.watch.rows import TITLE_CHARACTERS, command_in, dollars, fields, moment, request_row, run_row, trim
from vibe.app.watch.runs import KnownRun
from vibe.dashboard.answers import RefusedError
from vibe.dashboard.drawing import layout_row
from vibe.dashboard.table import Row, RowTable
from vibe.front.event_text import bounds, forecast
from vibe.front.plan_card import held
from vibe.system.plain_text import counted
from vibe.view.agent_view import AgentView, CallView, EntryView, Key, RequestView
from vibe.view.plan_view import RUNNING, CheckView, PlanView, SampleView, StepView
from vibe.view.view import AnsweredView, NoticeView, View

MOST_FILES = 60
"""Maximum number of files in a step's row."""
MOST_SAMPLES = 60
"""Maximum number of samples of a run's spending over time."""
LINE_CHARACTERS = 160
"""Maximum length of a line about current activity."""
REASON_CHARACTERS = 400
TEXT_CHARACTERS = 4_000
"""Maximum length of a note or a summary."""
WRITTEN_CHARACTERS = 2_000
"""Length of the end shown of a call that is still being written."""
TOKENS, COST = "tokens", "cost_usd"
ASKING = StepStatus.NEEDS_DECISION.value
"""The status under which a list's items that wait for a person are counted, whatever the reason."""
STEP: Final = (
    *("title", "mode", "depends_on", "status", "attempt", "max_tokens", "turns", "added", "removed"),
    *("reused", "merges"),
)
WORKTREE: Final = ("status", "branch", "folder", "round", "detail", "base", "commit")
AGENT: Final = ("title", "model", "folder", "pid", "context_tokens", "context_limit", "turns", "outcome", "first")
"""Fields that rows take from the views unchanged."""


def head_row(listed: Mapping[str, Any], run: KnownRun, view: View, plan: PlanView | None) -> dict[str, Any]:
    """Return the row of an open run: its row in the list, and further fields."""
    proposal = None if plan is None or run.is_plan else plan.proposal
    begun = plan if proposal is None else None
    agent = view.main if begun is None else next(reversed(begun.team.values()), None)
    spent = view.spent if begun is None else begun.spent
    row = {
        **listed,
        "id": run.key,
        "kind": "plan" if run.is_plan else "conversation",
        "sources": [entry.source for entry in run.entries],
        "model": "" if agent is None else agent.model,
        "calls": spent.calls,
        "samples": [] if begun is None else samples_of(begun.samples),
    }
    if plan is not None and proposal is not None and listed["status"] != "active":
        row |= {"kind": "proposal", "title": proposal.goal[:TITLE_CHARACTERS]}
        words = f"{listed['status']} ({expected(proposal)})"
        row |= {"total": plan.total, "counts": {"pending": plan.total}, "words": words}
    return trim(row, "title")


def expected(proposal: PlanProposedEvent) -> str:
    """Describe a proposed plan: its version, its expected cost if known, and the limit it can't exceed."""
    amounts = (proposal.expected and forecast(proposal.expected), proposal.estimate and bounds(proposal.estimate))
    return ", ".join([f"version {proposal.draft}", *filter(None, amounts)])


def samples_of(samples: list[SampleView]) -> list[list[float | int | None]]:
    """Return time, tokens and dollars of at most ``MOST_SAMPLES`` samples, including the last one."""
    every = -(-len(samples) // MOST_SAMPLES) or 1
    return [[round(sample.ts, 1), sample.tokens, dollars(sample.cost_usd)] for sample in samples[::-every][::-1]]


def step_row(plan: PlanView, step: StepView, number: int, items: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Return the row of a step.

    ``number`` is its place in the plan. ``items`` counts, by status, the steps made for its list.
    """
    order = step.state.outline.order
    row = {
        "n": number,
        **fields(step, *STEP),
        "tolerated": step.state.tolerated,
        "reason": step.state.reason,
        "why": (step.state.detail or reason_text(step.state.reason))[:REASON_CHARACTERS],
        "doing": (step.doing() if step.status == RUNNING else held(step, plan))[:LINE_CHARACTERS],
        "asks": asks(plan, step),
        "items": {name: count for name, count in (items or {}).items() if count},
        "checks": [] if items else _checks(step),
        "history": [[round(change.ts, 2), change.status, change.attempt] for change in step.history],
        "waits": _waits(step),
        TOKENS: step.spent.tokens,
        COST: dollars(step.spent.cost_usd),
        "used": step.budget_used,
        "files": list(step.files)[:MOST_FILES],
        "worktree": _worktree(step),
        "worker": step.worker,
        "summary": step.summary[:TEXT_CHARACTERS],
        "order": {} if order is None else to_builtins(order),
        "agents": list(step.agents),
        "started_at": moment(step.started_at),
        "duration_s": moment(step.duration_s, 2),
    }
    return trim(row, "n")


def asks(plan: PlanView, step: StepView) -> bool:
    """Return whether a step waits for a person."""
    return step.is_asking or any(each.step_id == step.id for each in plan.state.open.values())


def pattern_of(plan: PlanView, step: StepView) -> StepView | None:
    """Return the step for whose list this step does an item, or None."""
    order = step.state.outline.order
    return None if order is None or not order.pattern else plan.steps.get(order.pattern)


def _checks(step: StepView) -> list[list[Any]]:
    order = step.state.outline.order
    planned = () if order is None else order.verify
    ran = [_check(check) for check in step.checks.values()]
    return [*ran, *([command, "none", 0, 0.0, 0, None, "", []] for command in planned if command not in step.checks)]


def _check(check: CheckView) -> list[Any]:
    failed = [moment(at) for at in check.failed_at]
    took, ended = round(check.seconds, 2), moment(check.ended_at)
    return [check.command, check.status, check.runs, took, check.same_failure, ended, check.why, failed]


def _waits(step: StepView) -> dict[str, Any]:
    if step.waits is None:
        return {}
    return {"for": step.waits.waits_for, "steps": list(step.waits.step_ids)[:MOST_FILES], "seconds": step.waits.seconds}


def _worktree(step: StepView) -> dict[str, Any]:
    tree = step.worktree
    if tree is None:
        return {}
    named = {name: names[:MOST_FILES] for name, names in fields(tree, "files", "left_out").items()}
    return trim(fields(tree, *WORKTREE) | named, "status")


def answered_row(answered: AnsweredView) -> dict[str, Any]:
    """Return the row of a settled request. ``by`` is blank if nobody answered."""
    request = RequestView(id=answered.id, kind=answered.kind, event=answered.asked, agent_id=None, plan_id=None, key=())
    row = {
        "kind": answered.kind,
        "step": answered.step_id,
        "summary": request.asked[:TEXT_CHARACTERS],
        "asked_at": moment(answered.asked.ts),
        "answered_at": moment(answered.answered.ts),
        "by": getattr(answered.answered, "by", ""),
        "answer": given(answered.answered),
    }
    return trim(row, "kind")


def note_row(notice: NoticeView) -> dict[str, Any]:
    """Return the row of a notice."""
    row = {"text": notice.message[:TEXT_CHARACTERS], "ts": moment(notice.ts), "step": notice.step_id}
    return trim(row | fields(notice, "kind", "code"), "kind")


def agent_row(agent: AgentView) -> dict[str, Any]:
    """Return the row of an agent of an open step."""
    row = {
        **fields(agent, *AGENT),
        TOKENS: agent.spent.tokens,
        COST: dollars(agent.spent.cost_usd),
        "doing": agent.doing()[:LINE_CHARACTERS],
        "parent": agent.parent_id,
    }
    return trim(row, "title")


def entry_row(entry: EntryView) -> dict[str, Any]:
    """Return the row of an entry of a transcript."""
    row = {"n": entry.number, "ts": moment(entry.ts), **fields(entry, "kind", "text", "name", "status", "cut", "by")}
    if isinstance(entry, CallView):
        row |= _call(entry)
    if entry.images:
        row["text"] = f"{entry.text}\n[{counted(entry.images, 'image')}]".lstrip()
    return trim(row, "n")


def _call(call: CallView) -> dict[str, Any]:
    written = call.display.files if isinstance(call.display, DiffDisplay) else ()
    return {
        **fields(call, "tool", "words", "diff", "exit_code"),
        "asks": call.will_ask,
        "command": command_in(call.arguments),
        "purpose": command_in(call.arguments, "purpose"),
        "written": call.written[-WRITTEN_CHARACTERS:],
        "files": [[file.path, file.added, file.removed, file.created] for file in written],
        "duration_s": moment(call.duration_s, 2),
        "output_files": list(getattr(call.display, "output_files", ())),
    }


MOST_BUSY = 60
"""With more running steps than this, rows in which only ``FLICKERS`` change are updated less often.

Each is updated about every ``running / STEPS_A_SECOND`` seconds.
"""
STEPS_A_SECOND = 150
FLICKERS = frozenset({"doing", TOKENS, COST, "used", "turns"})
"""Fields of a step's row that change all the time while it runs."""
MOST_STEPS = 16
"""Number of steps' tables kept although no page has them open."""
TALK = ""
"""The id for the table of agents that work on no step: those of a conversation."""


class RunTables:
    """The table of a run, and a table for each of its steps that a page has open."""

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.table = RowTable("run")
        self.steps: dict[str, RowTable] = {}
        self.board_row: Row = {}
        self._plan: PlanView | None = None
        self._run: KnownRun = follower.run
        self._postponed: set[Key] = set()
        self._updated_at: dict[str, float] = {}
        self._numbers: dict[str, int] = {}
        self._parents: dict[str, tuple[str, ...]] = {}
        self._firsts: dict[str, int] = {}
        self._items: dict[str, Counter[str]] = {}
        self._counted_as: dict[str, str] = {}
        self._spoiling: set[str] = set()

    @property
    def tables(self) -> tuple[RowTable, ...]:
        """The run's table and those of its steps."""
        return (self.table, *self.steps.values())

    def update(self, now: float) -> bool:
        """Bring the tables up to date with the view. Return whether anything changed.

        ``now`` is the time in seconds on a monotonic clock.
        """
        if not self.follower.ready.is_set():
            return False
        keys = self.follower.take_changed() | self._postponed
        view, run = self.follower.view, self.follower.run
        plan = self._plan_to_show(view.plans.get(run.key) or view.plan)
        is_new = plan is not self._plan or self.table.get("head") is None
        if not keys and not is_new and run == self._run:
            return False
        self._postponed = set()
        self._plan, self._run = plan, run
        self._put_steps(self._changed_steps(keys, is_new=is_new), now, is_new=is_new)
        if is_new or any(key[0] == "requests" for key in keys):
            self.table.replace("request:", {name: request_row(run, view, each) for name, each in view.requests.items()})
        if is_new or ("notices",) in keys:
            told = {answered.answered.ts for answered in view.answered}  # they have rows of their own
            notes = (note for note in view.notices.values() if note.ts not in told)
            self.table.replace("note:", {str(note.number): note_row(note) for note in notes})
        if is_new or ("answered",) in keys:
            self.table.replace("answered:", {answered.id: answered_row(answered) for answered in view.answered})
        for step_id, table in self.steps.items() if is_new else ():
            self._fill(table, step_id)
        self._put_open_steps(keys)
        self.board_row = run_row(run, view)
        self.table.put("head", head_row({**self.board_row, "problem": self.follower.problem}, run, view, plan))
        return True

    def _plan_to_show(self, plan: PlanView | None) -> PlanView | None:
        """Return the plan. A proposed one is shown as it would begin."""
        if plan is None or plan.proposal is None or plan.steps:
            return plan
        if self._plan is None or self._plan.proposal is not plan.proposal:
            begun = PlanView(key=plan.key, proposal=plan.proposal)
            begun.take(PlanStartedEvent(goal=plan.proposal.goal, steps=plan.proposal.steps))
            return begun
        return self._plan

    def step(self, step_id: str) -> StepView:
        """Return a step of the plan.

        Raises:
            RefusedError: the plan has no step with that id.
        """
        plan = self._plan
        step = None if plan is None else plan.steps.get(step_id)
        if step is None:
            raise RefusedError(404, "unknown", f"there is no step {step_id[:100]!r} in this run")
        return step

    def open_step(self, step_id: str) -> RowTable:
        """Return the table of a step, which is kept up to date from now on. The caller has to commit it."""
        table = self.steps.pop(step_id, None)
        if table is None:
            table = RowTable("step")
            self._fill(table, step_id)
        self.steps[step_id] = table
        return table

    def close_steps(self, open_now: Collection[str]) -> None:
        """Drop tables of steps that no page has open, the oldest first, beyond ``MOST_STEPS``.

        ``open_now`` are the epochs of the tables that pages have open.
        """
        unused = [step_id for step_id, table in self.steps.items() if table.epoch not in open_now]
        for step_id in unused[: max(0, len(self.steps) - MOST_STEPS)]:
            del self.steps[step_id]

    def _changed_steps(self, keys: set[Key], *, is_new: bool) -> Iterable[StepView]:
        """Return the changed steps. If steps were added or removed, lay out the plan anew and return all its steps."""
        plan = self._plan
        if plan is None:
            return ()
        inside = (*plan.key, "steps")
        names = {key[3]: None for key in keys if len(key) == 4 and key[:3] == inside}
        if is_new or inside in keys or not names.keys() <= self._numbers.keys():
            self._lay_out(plan)
            return plan.steps.values()
        return [step for name in names if (step := plan.steps.get(name)) is not None]

    def _lay_out(self, plan: PlanView) -> None:
        """Remove the rows of steps that the plan no longer has, and lay out the drawing."""
        self._numbers = {step_id: number for number, step_id in enumerate(plan.steps)}
        self.table.keep((f"step:{step_id}" for step_id in plan.steps), "step:")
        self._counted_as.clear()
        self._items = {
            step_id: Counter(skipped=sum(made.id not in plan.steps for made in unfolding.fact.children))
            for step_id, unfolding in plan.state.unfolded.items()
        }
        parents = {step.id: step.depends_on for step in plan.steps.values() if pattern_of(plan, step) is None}
        if parents != self._parents or self.table.get("layout") is None:
            self._parents = parents
            self.table.put("layout", layout_row(parents))

    def _put_steps(self, steps: Iterable[StepView], now: float, *, is_new: bool) -> None:
        plan = self._plan
        if plan is None:
            return
        busy = len(plan.running)
        for step in self._with_affected(plan, steps):
            row = step_row(plan, step, self._numbers[step.id], self._items.get(step.id))
            key = f"step:{step.id}"
            is_recent = busy > MOST_BUSY and now - self._updated_at.get(step.id, -now) < busy / STEPS_A_SECOND
            if is_recent and not is_new and _only_flickers(self.table.get(key), row):
                self._postponed.add(step.key)
                continue
            if busy > MOST_BUSY:
                self._updated_at[step.id] = now
            self.table.put(key, row)

    def _with_affected(self, plan: PlanView, steps: Iterable[StepView]) -> Iterable[StepView]:
        """Return the steps, and those that they block, or no longer do, or whose counts of list items they changed."""
        found = {step.id: step for step in steps}
        spoiling = {step.id for step in found.values() if step.state.spoils}
        if changed := (spoiling ^ self._spoiling) & found.keys():
            self._spoiling ^= changed
            found |= plan.below(changed)
        for step in [*found.values()]:
            pattern = pattern_of(plan, step)
            counts = None if pattern is None else self._items.get(pattern.id)
            status = ASKING if asks(plan, step) else step.status
            before = self._counted_as.get(step.id)
            if pattern is None or counts is None or status == before:
                continue
            counts.subtract([] if before is None else [before])
            counts[status] += 1
            self._counted_as[step.id] = status
            found[pattern.id] = pattern
        return found.values()

    def _fill(self, table: RowTable, step_id: str) -> None:
        """Fill a table with everything about the agents of a step."""
        rows: dict[str, Row] = {}
        for agent in (agent for agent in self.follower.view.agents.values() if self._step_of(agent) == step_id):
            rows[f"agent:{agent.id}"] = agent_row(agent)
            rows |= {f"entry:{agent.id}:{number}": entry_row(entry) for number, entry in agent.entries.items()}
        table.replace("", rows)

    def _step_of(self, agent: AgentView) -> str | None:
        """Return the step an agent works on, ``TALK`` if it works on none, or None if it belongs to another plan."""
        if agent.step_id is None:
            return TALK
        return agent.step_id if self._plan is not None and agent.plan_id == self._plan.id else None

    def _put_open_steps(self, keys: set[Key]) -> None:
        """Update the tables of open steps with the agents that changed."""
        for key in sorted(key for key in keys if key[0] == "agents"):
            agent = self.follower.view.agents.get(key[1])
            at = None if agent is None else self._step_of(agent)
            table = None if at is None else self.steps.get(at)
            if agent is None or table is None:
                continue
            table.put(f"agent:{agent.id}", agent_row(agent))
            if len(key) == 3:
                entries = {number: entry_row(entry) for number, entry in agent.entries.items()}
                table.replace(f"entry:{agent.id}:", entries)
            elif len(key) == 4:
                entry = agent.entries.get(key[3])
                table.put(f"entry:{agent.id}:{key[3]}", None if entry is None else entry_row(entry))
            for number in range(self._firsts.get(agent.id, agent.first), agent.first):  # no longer in the view
                table.put(f"entry:{agent.id}:{number}", None)
            self._firsts[agent.id] = agent.first


def _only_flickers(old: Row | None, row: Row) -> bool:
    """Return whether a row differs only in fields that flicker."""
    return old is not None and all(
        name in FLICKERS or old.get(name) == row.get(name) for name in old.keys() | row.keys()
    )
