"""The tables of a run are the same for the same journal, whether patched or read afresh at any moment."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import given, settings, strategies as st
from msgspec import structs

from ipc import events as e
from ipc.registry import Entry, RunInfo
from tests.fakes.stories import mixed, numbered, story, strays
from tests.unit.dashboard.pages import FakePage, shown
from vibe.app.watch.follower import Follower
from vibe.app.watch.runs import KnownRun
from vibe.dashboard.rows import TALK, RunTables
from vibe.view.plan_view import StepView
from vibe.view.view import apply, lose

SEEDS = st.integers(0, 2**32)
STEPS = ("a", "b", "new", TALK)


def entry(source: str = "run-1", plan_id: str | None = "plan") -> Entry:
    info = RunInfo(cwd="/work", title="title", plan_id=plan_id)
    return Entry(
        source=source, events="", replay="", control="", journal="/nowhere/journal.jsonl", pid=1, started=1.0, info=info
    )


class FedRun:
    """A run whose events a test supplies."""

    def __init__(self, *, live: bool = True) -> None:
        run = KnownRun(key="plan", entries=(entry(),), live=live)
        self.follower = Follower(run, home=Path("/nowhere"))
        self.follower.ready.set()
        self.tables = RunTables(self.follower)
        self.changed: set[tuple[str, ...]] = set()
        self.follower.take_changed = self._take

    def hears(self, events: Iterable[e.Event]) -> None:
        for event in events:
            self.changed.update(apply(self.follower.view, event))

    def loses(self, source: str) -> None:
        self.changed.update(lose(self.follower.view, source))

    def _take(self) -> set[tuple[str, ...]]:
        changed, self.changed = self.changed, set()
        return changed


def afresh(fed: FedRun) -> RunTables:
    """Return the tables of a server that knows only the view."""
    fresh = RunTables(fed.follower)
    fresh.update(0.0)
    for step_id in fed.tables.steps:
        fresh.open_step(step_id)
    return fresh


@settings(max_examples=120)
@given(seed=SEEDS, others=st.integers(0, 60))
def test_patched_at_random_cuts_equals_a_fresh_page(seed: int, others: int) -> None:
    random = Random(seed)
    events = numbered(mixed(story(random), strays(random, others), random))
    fed, page, heard, revision = FedRun(), FakePage(), 0, 0
    opened = {step_id: random.randrange(len(events)) for step_id in STEPS}
    at = 0
    while at < len(events):
        step = random.randrange(1, 9)
        fed.hears(events[at : at + step])
        at += step
        if random.random() < 0.1:
            fed.loses("run-1")
        fed.tables.update(float(at))
        revision += 1
        for step_id, when in opened.items():
            if when <= at and step_id not in fed.tables.steps:
                fed.tables.open_step(step_id)
        patches = [table.commit(revision) for table in fed.tables.tables]
        if heard == revision - 1 and random.random() < 0.7:
            page.take(patches[0])
        elif random.random() < 0.6:
            page.take(fed.tables.table.since(heard))
        else:
            continue  # it sleeps
        heard = revision
        assert page.tables["run"] == shown(fed.tables.table.rows)
    fresh = afresh(fed)
    assert shown(fed.tables.table.rows) == shown(fresh.table.rows)
    for step_id, table in fed.tables.steps.items():
        assert shown(table.rows) == shown(fresh.steps[step_id].rows), step_id


def plan(*ids: str, depends_on: tuple[str, ...] = ()) -> e.PlanStartedEvent:
    steps = tuple(e.StepOutline(id=name, title=name, mode="code", depends_on=depends_on) for name in ids)
    return e.PlanStartedEvent(source="run-1", seq=1, ts=1.0, plan_id="plan", goal="Tidy up", steps=steps)


def moved(step_id: str, seq: int, status: str = "in_progress", previous: str = "pending") -> e.PlanStepUpdateEvent:
    move = e.PlanStepUpdateEvent(step_id=step_id, title=step_id, status=status, previous=previous)
    return structs.replace(move, source="run-1", seq=seq, ts=float(seq), plan_id="plan")


def test_ids_of_any_kind_have_their_rows() -> None:
    ids = ("__proto__", "constructor", "a/b:c", 'q"u o', "x" * 200, "\u202e", "")
    fed, page = FedRun(), FakePage()
    fed.hears([plan(*ids), *(moved(name, number) for number, name in enumerate(ids, start=2))])
    fed.tables.update(1.0)
    page.take(fed.tables.table.commit(1))
    rows = page.tables["run"]
    assert [rows[f"step:{name}"]["status"] for name in ids] == ["in_progress"] * len(ids)
    assert list(rows["layout"]["boxes"]) == list(ids)


def test_a_row_says_what_blocks_a_step_until_that_is_mended() -> None:
    fed, page = FedRun(), FakePage()
    behind = (*plan("e", depends_on=("d",)).steps, *plan("d", depends_on=("c",)).steps)
    steps = (*plan("a", "b").steps, *behind, *plan("c", depends_on=("a", "b")).steps)
    fed.hears([structs.replace(plan(), steps=steps), moved("c", 2, "blocked"), moved("a", 3), moved("b", 4)])
    fed.tables.update(1.0)
    page.take(fed.tables.table.commit(1))
    assert "doing" not in page.tables["run"]["step:c"]

    fed.hears([moved("a", 5, "failed", "in_progress")])
    fed.tables.update(2.0)
    page.take(fed.tables.table.commit(2))
    assert [page.tables["run"][f"step:{name}"]["doing"] for name in "cde"] == ["blocked: a failed"] * 3

    fed.hears([moved("a", 6, "pending", "failed")])
    fed.tables.update(3.0)
    page.take(fed.tables.table.commit(3))
    assert [page.tables["run"][f"step:{name}"].get("doing") for name in "cde"] == [None] * 3


def test_a_row_says_why_in_words_and_keeps_the_code() -> None:
    fed, page = FedRun(live=False), FakePage()
    failed = e.PlanStepUpdateEvent(
        plan_id="plan",
        source="run-1",
        seq=3,
        step_id="a",
        title="a",
        status="failed",
        previous="in_progress",
        reason="timeout",
    )
    ended = e.PlanCompletedEvent(
        plan_id="plan", source="run-1", seq=4, status="failed", reason="timeout", counts={}, duration_s=1.0
    )
    fed.hears([plan("a"), moved("a", 2), failed, ended])
    fed.tables.update(1.0)
    page.take(fed.tables.table.commit(1))
    step, head = page.tables["run"]["step:a"], page.tables["run"]["head"]

    assert (step["reason"], step["why"]) == ("timeout", "out of time")
    assert (head["reason"], head["words"]) == ("timeout", "failed (out of time)")


def test_an_answer_is_told_once() -> None:
    fed, page = FedRun(), FakePage()
    common: dict[str, Any] = {
        "plan_id": "plan",
        "source": "run-1",
        "request_id": "request-1",
        "subagent_id": "agent",
    }
    asked = e.ApprovalRequestEvent(**common, seq=2, ts=5.0, tool_call_id="1", tool="bash", arguments={}, rule="ask")
    given = e.ApprovalDecisionEvent(**common, seq=3, ts=6.0, decision="allow", by="page")
    warned = e.WarningEvent(plan_id="plan", source="run-1", seq=4, ts=7.0, code="slow", message="it is slow")
    fed.hears([plan("a"), asked, given, warned])
    fed.tables.update(1.0)
    page.take(fed.tables.table.commit(1))
    rows = page.tables["run"]

    assert rows["answered:request-1"]["answer"] == "allow"
    assert [row["text"] for key, row in rows.items() if key.startswith("note:")] == ["it is slow"]


def test_a_step_that_vanishes_and_comes_back_is_as_new() -> None:
    fed, page = FedRun(), FakePage()
    fed.hears([plan("a", "b"), moved("b", 2)])
    fed.tables.update(1.0)
    page.take(fed.tables.table.commit(1))
    operation = {"op": "remove_step", "id": "a"}
    step = {"id": "a", "title": "Again", "mode": "code"}
    gone = e.PlanRevisedEvent(operations=(operation,), reason="r")
    back = e.PlanRevisedEvent(operations=({"op": "add_step", "step": step},), reason="r")
    for number, event in enumerate((gone, back), start=3):
        fed.hears([structs.replace(event, source="run-1", seq=number, ts=float(number), plan_id="plan")])
        fed.tables.update(float(number))
        page.take(fed.tables.table.commit(number))
        assert ("step:a" in page.tables["run"]) == (number == 4)
    assert page.tables["run"] == shown(afresh(fed).table.rows)
    assert page.tables["run"]["step:a"]["title"] == "Again"


def test_a_list_is_one_box_and_its_row_counts_how_its_steps_stand() -> None:
    def told(seq: int, event: e.Event) -> e.Event:
        return structs.replace(event, source="run-1", seq=seq, ts=float(seq), plan_id="plan")

    def counted(seq: int) -> dict[str, int]:
        fed.tables.update(float(seq))
        page.take(fed.tables.table.commit(seq))
        assert page.tables["run"] == shown(afresh(fed).table.rows)
        return page.tables["run"]["step:fix"].get("items", {})

    ids = [f"fix-{number}" for number in range(4)]
    made = tuple(e.ItemOutline(id=name, key=name, title=f"Fix {name}") for name in ids)
    fed, page = FedRun(), FakePage()
    fed.hears([plan("fix", "sum")])
    assert counted(1) == {}

    fed.hears([told(2, e.PlanUnfoldedEvent(step_id="fix", children=made, items="digest")), moved(ids[0], 3)])
    assert counted(3) == {"in_progress": 1, "pending": 3}
    assert list(page.tables["run"]["layout"]["boxes"]) == ["fix", "sum"]
    assert page.tables["run"]["step:fix-2"]["order"] == {"pattern": "fix"}
    assert page.tables["run"]["head"]["total"] == 6

    decision = e.PlanDecisionEvent(decision_id="d", step_id=ids[1], kind="", question="?", options=("a", "b"))
    fed.hears([moved(ids[0], 4, "failed", "in_progress"), moved(ids[1], 5), moved(ids[2], 6), told(7, decision)])
    assert counted(7) == {"failed": 1, "in_progress": 1, "needs_decision": 1, "pending": 1}
    gone = e.PlanRevisedEvent(operations=({"op": "remove_step", "id": ids[3]},), reason="r")
    fed.hears([told(8, gone), moved(ids[2], 9, "completed", "in_progress")])
    assert counted(9) == {"failed": 1, "completed": 1, "needs_decision": 1, "skipped": 1}


def test_what_flickers_in_many_steps_is_told_later_and_a_status_at_once() -> None:
    ids = [f"s{number}" for number in range(90)]
    fed, page = FedRun(), FakePage()
    fed.hears([plan(*ids), *(moved(name, number) for number, name in enumerate(ids, start=2))])
    fed.tables.update(1.0)
    page.take(fed.tables.table.commit(1))
    step = fed.follower.view.plans["plan"].steps["s1"]

    def does(what: str, now: float) -> str:
        step.set_activity(what)
        fed.changed.add(step.key)
        fed.tables.update(now)
        page.take(fed.tables.table.commit(int(now * 100)))
        return str(page.tables["run"]["step:s1"]["doing"])

    assert does("reads", 1.1) == "starting"
    fed.tables.update(1.7)  # nothing new, so the waiting patch is sent
    page.take(fed.tables.table.commit(170))
    assert page.tables["run"]["step:s1"]["doing"] == "reads"
    fed.hears([moved("s1", 200, "completed", "in_progress")])
    fed.tables.update(1.71)
    page.take(fed.tables.table.commit(171))
    assert page.tables["run"]["step:s1"]["status"] == "completed"


def test_rows_are_json_and_hold_copies() -> None:
    fed = FedRun()
    fed.hears([plan("a")])
    fed.tables.update(1.0)
    before = json.dumps(fed.tables.table.rows)
    fed.hears([moved("a", 2)])
    step: StepView = fed.follower.view.plans["plan"].steps["a"]
    step.files["new"] = None
    assert json.dumps(fed.tables.table.rows) == before
