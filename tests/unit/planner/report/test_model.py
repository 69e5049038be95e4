"""A plan's report: from its records to figures, and from figures to Markdown, HTML and JSON."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from msgspec import structs

from ipc.events import Fact, PlanLeftEvent
from planner.plan.dag import Dag
from planner.plan.loader import LoadedPlan
from planner.plan.model import Plan, PlanStatus, StepStatus
from planner.report.build import ReportSources
from planner.report.ci import report_junit
from planner.report.html import report_html
from planner.report.markdown import report_markdown
from planner.report.model import PlanReport
from planner.state.decide import preview_next_run
from planner.state.decisions import step_decision
from planner.state.evolve import fold
from planner.state.schedule import align_steps
from planner.store.folder import RunSettings
from subagents.executor import StepResult
from tests.unit.planner.facts import began, decision, ended, finished, moved, paused, reused, revised, took_up
from tests.unit.planner.scripted_run import choice, make_plan, step
from vibe.core.messages import Denial, Outcome, Spending, Usage

HOSTILE = "<script>alert(1)</script> \u202egnp.exe\x1b]0;title\x07\x00 & \"quoted\" 'too' ](javascript:x) | `"
"""Text that a model or a tool might print: markup, direction and control characters, ends of Markdown constructs."""

DONE = StepResult(
    outcome=Outcome.COMPLETED, summary="all well", usage=Usage(900, 100, 0, 2), cost_usd=0.01, duration_s=2.0, turns=2
)


def started(at: float, step_id: str, attempt: int = 1) -> Fact:
    return began(step_id, attempt, at)


def done(at: float, step_id: str, result: StepResult = DONE, attempt: int = 1, *, retry: bool = False) -> list[Fact]:
    status = {Outcome.COMPLETED: StepStatus.COMPLETED, Outcome.INTERRUPTED: StepStatus.PENDING}.get(
        result.outcome, StepStatus.PENDING if retry else StepStatus.FAILED
    )
    left = "retrying" if retry else None
    tolerated = result.reason == "blocked"
    return [
        ended(step_id, result, attempt, at, left=left),
        moved(step_id, status, attempt=attempt + retry, at=at, tolerated=tolerated, reason=result.reason),
    ]


def loaded(plan: Plan) -> LoadedPlan:
    return LoadedPlan(plan=plan, dag=Dag.build(plan.steps), source_bytes=b"", where="test")


def report_of(
    plan: Plan,
    facts: Sequence[Fact],
    *,
    pid: int | None = None,
    revisions: Sequence[tuple[str, Spending]] = (),
    **settings: Any,
) -> PlanReport:
    state = fold(facts)
    if pid is None:
        preview_next_run(state, loaded(plan))
    else:
        align_steps(state, plan)
    return ReportSources(
        plan_id="p1",
        plan=plan,
        settings=RunSettings(workspace="/w", created=100.0, **settings),
        facts=facts,
        state=state,
        spent=state.spent(),
        revisions=revisions,
        pid=pid,
    ).report()


class Page(HTMLParser):
    """The tags of a page, and what it loads from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                self.links.append(value or "")
            if name in {"src", "srcset", "data", "action", "xlink:href"} or name.startswith("on"):
                self.loaded.append(f"{tag} {name}={value}")


def test_times_and_figures_are_those_of_the_records() -> None:
    plan = make_plan([step("a"), step("b", "a")])
    records = [took_up(100), started(101, "a"), *done(103.5, "a"), started(104, "b"), *done(104.5, "b"),
               finished(at=105, outcome="completed")]  # fmt: skip
    report = report_of(plan, records)
    a, b = report.steps

    assert (report.status, report.outcome, report.active_seconds, report.counts) == (
        "completed",
        "completed",
        5.0,
        {"completed": 2},
    )
    assert (a.duration_s, b.duration_s) == (2.5, 0.5)
    assert (b.spans[0].start, b.spans[0].end, b.spans[0].ended) == (4.0, 4.5, "completed")
    assert (report.spent.total_tokens, report.spent.calls, report.spent.cost_usd) == (2000, 4, 0.02)


def test_the_time_between_two_processes_is_left_out_and_the_break_is_told() -> None:
    plan = make_plan([step("a")])
    records = [took_up(100), started(101, "a"), took_up(9000, plan, again=True), started(9001, "a"), *done(9003, "a")]
    report = report_of(plan, records)

    assert (report.active_seconds, report.breaks) == (4.0, (1.0,))
    assert [(span.start, span.end, span.ended) for span in report.steps[0].spans] == [
        (1.0, 1.0, "cut"),
        (2.0, 4.0, "completed"),
    ]


def test_the_time_a_plan_took_is_told_although_the_clock_was_set_back_meanwhile() -> None:
    plan = make_plan([step("a")])
    records = [took_up(100), started(101, "a"), *done(103.5, "a"), finished(at=105, outcome="completed")]

    report = report_of(plan, [*records, PlanLeftEvent(ts=50.0, commit="c0ffee")])

    assert "| Active time | 5.0 s |" in report_markdown(report, loaded(plan))


def test_an_unknown_price_is_unknown_in_the_sum() -> None:
    plan = make_plan([step("a"), step("b")])
    unknown = msgspec.structs.replace(DONE, cost_usd=None)
    report = report_of(plan, [took_up(1), started(1, "a"), started(1, "b"), *done(2, "a"), *done(3, "b", unknown)])

    assert report.spent.cost_usd is None
    assert "price unknown" in report_markdown(report, loaded(plan))


def test_an_attempt_that_called_no_model_cost_nothing() -> None:
    plan = make_plan([step("a", mode="run", command="true")])
    ran = StepResult(outcome=Outcome.COMPLETED, summary="said")
    report = report_of(plan, [took_up(1), started(1, "a"), *done(2, "a", ran)])

    assert (ran.cost_usd, report.steps[0].attempts[0].spent.cost_usd) == (None, 0.0)


def test_attempts_are_listed_with_what_each_came_to() -> None:
    failed = StepResult(
        outcome=Outcome.FAILED, reason="verify", detail="`make` exited with 2 after 0 repairs", duration_s=1.0
    )
    plan = make_plan([step("a", verify=["ls", "make", "true"], retries=1)])
    records = [
        took_up(1),
        started(1, "a"),
        *done(2, "a", failed, retry=True),
        started(3, "a", 2),
        *done(4, "a", failed, 2),
    ]
    line = report_of(plan, records).steps[0]

    assert [(each.number, each.outcome, each.duration_s) for each in line.attempts] == [
        (1, "failed", 1.0),
        (2, "failed", 1.0),
    ]
    assert [(check.command, check.result) for check in line.checks] == [
        ("ls", "passed"),
        ("make", "failed"),
        ("true", "unknown"),
    ]


def test_checks_that_a_blocked_step_never_came_to_have_no_result() -> None:
    plan = make_plan([step("a", verify=["make"])])
    blocked = msgspec.structs.replace(DONE, outcome=Outcome.BLOCKED, reason="blocked")
    report = report_of(plan, [took_up(1), started(1, "a"), *done(2, "a", blocked)])

    assert "- check without a result: make" in report_markdown(report, loaded(plan))
    assert ">without a result: <code>make</code>" in report_html(report, loaded(plan))


def test_the_title_of_a_list_says_each() -> None:
    plan = make_plan([step("a", title="Fix ${item.path}", for_each=[{"path": "x.py"}])])
    report = report_of(plan, [took_up(1)])
    markdown, page = report_markdown(report, loaded(plan)), report_html(report, loaded(plan))

    assert report.steps[0].title == "Fix each path"
    assert (markdown.count("Fix each path"), "item" in markdown) == (2, False)
    assert (page.count("Fix each path"), "${item" in page) == (3, False)


def test_a_running_an_interrupted_and_a_paused_plan_say_which_they_are() -> None:
    plan = make_plan([step("a"), step("b", "a")])
    records = [took_up(1), started(2, "a")]
    running, left = report_of(plan, records, pid=42), report_of(plan, records)
    stopped = report_of(plan, [*records, paused("SIGINT", at=3)])

    assert (running.status, running.outcome, running.steps[0].status) == ("active", None, "in_progress")
    assert (left.status, left.outcome, left.steps[0].detail) == (
        "interrupted",
        "interrupted",
        "its run broke off while it was at work; resume to continue",
    )
    assert (stopped.status, stopped.outcome) == ("paused", "interrupted")
    assert "running in process 42" in report_markdown(running, loaded(plan))
    assert "vibe plan resume p1" in report_html(left, loaded(plan))


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.LIMIT])
def test_what_a_run_came_to_is_told_until_the_plan_is_changed_or_taken_up_again(outcome: Outcome) -> None:
    records = [took_up(1), started(2, "a"), paused("provider", at=4, outcome=outcome)]
    plan = make_plan([step("a"), step("b")])

    assert report_of(plan, records).outcome == outcome.value
    later = [*records, took_up(5, plan, again=True), paused("user", at=6)]
    assert report_of(plan, later).outcome == "interrupted"


def test_people_read_why_in_words_and_programs_read_codes() -> None:
    plan = make_plan([step("a"), step("b", "a"), step("c", "b")])
    bad = StepResult(outcome=Outcome.LIMIT, reason="timeout")
    failed = [*done(3, "a", bad, retry=True), started(4, "a", 2), *done(5, "a", bad, attempt=2)]
    held = [moved(each, StepStatus.BLOCKED, at=1) for each in ("b", "c")]
    report = report_of(
        plan, [took_up(1), *held, started(2, "a"), *failed, finished(PlanStatus.FAILED, reason="timeout", at=6)]
    )
    page, text = report_html(report, loaded(plan)), report_markdown(report, loaded(plan))
    junit = report_junit(report, str)

    assert "**failed (out of time)**" in text
    assert "failed (out of time)" in page
    assert "| 1 | at a limit | out of time |" in text
    assert "<dd>out of time</dd>" in page
    assert not re.search("timeout|: limit after", page + text)
    assert [each.detail for each in report.steps[1:]] == ["waits for a (failed)", "waits for b (blocked)"]
    assert "waits for a (failed)" in page
    assert "| Why | waits for a (failed) |" in text
    assert '<skipped message="waits for a (failed)" />' in junit
    assert (report.reason, report.steps[0].reason, report.steps[0].attempts[0].outcome) == (*["timeout"] * 2, "limit")


def test_the_output_of_a_failed_command_is_shown_once() -> None:
    plan = make_plan([step("a", mode="run", command="make")])
    bad = StepResult(outcome=Outcome.FAILED, reason="exit_code", detail="it failed", summary="boom", printed="boom")
    report = report_of(plan, [took_up(1), started(2, "a"), *done(3, "a", bad)])

    assert report_html(report, loaded(plan)).count("boom") == 1
    assert report_markdown(report, loaded(plan)).count("boom") == 1


def test_decisions_revisions_denials_and_tolerated_failures_are_told() -> None:
    plan = make_plan([step("a", decision="which", on_failure="continue"), step("b")], [choice("which", "x", "y")])
    denied = StepResult(
        outcome=Outcome.FAILED,
        reason="blocked",
        denied=(
            Denial("bash", "rm -rf /", "nobody there to ask", "headless"),
            Denial("write_file", "write_file a.txt (2 bytes)", "nobody there to ask", "headless"),
        ),
    )
    about_a = step_decision(plan.steps[0], 1, "failed")
    records = [
        took_up(1),
        decision("which", at=1),
        decision("which", "y", by="user", at=2),
        started(3, "a"),
        *done(4, "a", denied),
        structs.replace(about_a, selections=("stop",), by="user"),
        revised(
            {"op": "add_step", "step": {"id": "b", "title": "B", "mode": "docs"}}, at=5, by="replan", reason="more"
        ),
    ]
    report = report_of(plan, records)

    assert [(each.id, each.selections, each.by) for each in report.decisions] == [
        ("which", ("y",), "user"),
        ("failed:a:1", ("Mark it failed: what depends on its success does not run",), "user"),
    ]
    assert report.revisions[0].by == "replan"
    assert "b" in report.revisions[0].operations[0]
    assert [(each.step_id, each.summary) for each in report.denied] == [
        ("a", "rm -rf /"),
        ("a", "write_file a.txt (2 bytes)"),
    ]
    assert "continued because on_failure is" in report.warnings[0]
    for text in (report_markdown(report, loaded(plan)), html.unescape(report_html(report, loaded(plan)))):
        for said in ("bash rm ", "replan", "nobody there to ask", "Mark it failed"):
            assert said in text
        assert "write_file write" not in text.replace("\\", "")


def test_what_revisions_took_out_of_the_plan_is_listed_as_it_was() -> None:
    plan = make_plan([step("b")])
    before = make_plan([step("a", title="First | one"), step("b"), step("c")])
    removed = ({"op": "remove_step", "id": step_id} for step_id in "ac")
    again = {"op": "add_step", "step": {"id": "c", "title": "Once more", "mode": "docs"}}
    refused = StepResult(outcome=Outcome.FAILED, reason="verify", usage=Usage(100, 20, 0, 1), cost_usd=0.5)
    records = [
        took_up(1, before),
        *(started(2, "a"), ended("a", refused, left="revising"), moved("a", StepStatus.PENDING)),
        revised(*removed, at=6, by="replan", step_id="a"),
        revised(again, at=7, by="user"),
        revised({"op": "remove_step", "id": "c"}, at=8, by="user"),
    ]
    gone = fold(records).removed_for_good()

    assert [(each.id, each.step.outline.title, each.status, each.step.begun, each.by, each.at) for each in gone] == [
        ("a", "First | one", "failed", 1, "replan", 6),
        ("c", "Once more", "pending", 0, "user", 8),
    ]
    report = report_of(plan, records)
    assert [each.id for each in report.removed_steps] == ["a", "c"]
    for text in (report_markdown(report, loaded(plan)), report_html(report, loaded(plan))):
        assert "No longer part of the plan" in text
        assert "failed after 1 attempt, removed by replan" in text


def test_what_removed_steps_and_mending_took_explains_the_total() -> None:
    plan = make_plan([step("b")])
    records = [
        took_up(1),
        *(started(2, "a"), *done(3, "a", retry=True)),
        *(started(4, "a", 2), *done(5, "a", attempt=2)),
        revised({"op": "remove_step", "id": "a"}, at=6, by="replan", step_id="a"),
        *(started(7, "b"), *done(8, "b")),
    ]
    revision = Spending(Usage(400, 50, 0, 1), 0.5)
    report = report_of(plan, records, revisions=[("a", revision)])

    assert [(each.what, each.step_id, each.attempts, each.spent.total_tokens) for each in report.other_spending] == [
        ("removed", "a", 2, 2000),
        ("mending", "a", 1, 450),
    ]
    rows = [*report.steps, *report.other_spending]
    assert report.spent.total_tokens == sum(row.spent.total_tokens for row in rows) == 3450
    assert report.spent.cost_usd == pytest.approx(sum(row.spent.cost_usd or 0 for row in rows))
    for text in (report_markdown(report, loaded(plan)), report_html(report, loaded(plan))):
        assert "a: begun 2 times, then removed by a revision" in text
        assert "a: failed, replanned 1 time" in text
        assert "450 tokens in 1 call" in text


def test_a_step_taken_over_says_from_where_and_cost_nothing() -> None:
    plan = make_plan([step("a"), step("b", "a")])
    taken = StepResult(outcome=Outcome.COMPLETED, summary="done before", cost_usd=0.0)
    records = [
        reused("a", "older", taken),
        took_up(1, plan),
        started(2, "b"),
        *done(3, "b"),
    ]
    report = report_of(plan, records, reused_from="older")

    assert (report.steps[0].reused_from, report.steps[0].attempts, report.steps[0].duration_s) == ("older", (), None)
    assert report.spent.calls == 2
    assert "2 completed (1 reused)" in report_markdown(report, loaded(plan))
    assert "is-completed is-reused" in report_html(report, loaded(plan))


def test_budgets_show_what_was_used_of_them() -> None:
    plan = make_plan([step("a")]).model_copy(update={"budget": {"max_tokens": 4000}})
    plan = Plan.model_validate(plan.model_dump(warnings=False))
    report = report_of(plan, [took_up(1), started(2, "a"), *done(3, "a")])

    assert [(limit.unit, limit.used, limit.most) for limit in report.limits] == [("tokens", 1000, 4000)]
    assert "width:25.0%" in report_html(report, loaded(plan))


def hostile_report() -> tuple[PlanReport, Plan]:
    plan = make_plan(
        [step("a", title=HOSTILE.replace("\x00", "").strip(), command=HOSTILE, mode="run", verify=[HOSTILE])],
        [choice("which", question=HOSTILE, options=[{"id": each, "label": HOSTILE} for each in ("x", "y")])],
    ).model_copy(update={"goal": HOSTILE})
    bad = StepResult(
        outcome=Outcome.FAILED,
        reason="exit_code",
        detail=HOSTILE,
        summary=f"{HOSTILE}\n```\n{HOSTILE}",
        output={"key": HOSTILE},
        files_changed=(HOSTILE,),
        denied=(Denial(HOSTILE, HOSTILE, HOSTILE, HOSTILE),),
    )
    records = [
        took_up(1),
        decision("which", "x", by=HOSTILE, at=1),
        started(1, "a"),
        *done(2, "a", bad),
    ]
    return report_of(plan, records, origin=HOSTILE, model=HOSTILE), plan


def test_nothing_a_plan_or_a_model_says_becomes_markup_in_html() -> None:
    report, plan = hostile_report()
    text = report_html(report, loaded(plan))
    page = Page(text)

    assert {"script", "img", "iframe", "link", "object"}.isdisjoint(page.tags)
    assert page.loaded == []
    assert page.links == ["#step-a"]
    assert "step-a" in page.ids
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_the_page_is_one_file_that_loads_nothing() -> None:
    report, plan = hostile_report()
    text = report_html(report, loaded(plan))

    assert "default-src 'none'" in text
    assert re.findall(r"https?://[^\s\"'<]+", text) == ["http://www.w3.org/2000/svg"]
    assert "@import" not in text
    assert "url(" not in text.replace("url(#vibe-arrow)", "")


def test_nothing_a_plan_or_a_model_says_becomes_markup_in_markdown() -> None:
    report, plan = hostile_report()
    text = report_markdown(report, loaded(plan))
    outside = re.sub(r"(?ms)^(`{3,})\w*$.*?^\1$", "", text)

    assert not re.search(r"(?<!\\)<script|(?<!\\)\]\(", outside)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)
    rows = [line for line in outside.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} <= {3, 5, 8}
    assert "````text" in text


def test_the_json_report_is_the_same_report() -> None:
    report, _ = hostile_report()
    document = json.loads(msgspec.json.encode(report))

    assert (document["type"], document["schema_version"]) == ("plan_report", 1)
    assert document["steps"][0]["output"] == {"key": HOSTILE}


@pytest.mark.parametrize("size", [3000])
def test_a_large_plan_has_a_page_without_a_drawing(size: int) -> None:
    plan = make_plan([step(f"s{n}") for n in range(size)])
    records = [took_up(0)]
    for n in range(size):
        records += [started(n, f"s{n}"), *done(n + 1, f"s{n}")]
    text = report_html(report_of(plan, records), loaded(plan))

    assert "3,000 steps; a drawing shows at most 2,000" in text
    assert "The first 1,000 of 3,000 steps that ran." in text
