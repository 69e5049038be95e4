"""The card of a plan: its content while the plan runs and after its end, and that it always fits."""

from __future__ import annotations

import re
from time import process_time
from typing import Any

import pytest
from msgspec import structs
from rich.cells import cell_len

from ipc import events as e
from ipc.events import Event, StepOutline
from vibe.front.cells import text_of
from vibe.front.plan_card import SCALES, bar, card, drafted, planning_card, record
from vibe.view.figures import clock
from vibe.view.plan_view import PlanView, SpanView, StepView
from vibe.view.view import View, apply, lose

WHO: dict[str, Any] = {"subagent_id": "agent", "subagent_step_id": "slugify", "ts": 1085.0}


def outline(step_id: str, title: str, mode: str, *above: str, status: str = "pending") -> StepOutline:
    return StepOutline(id=step_id, title=title, mode=mode, depends_on=above, status=status)


def moved(step_id: str, status: str, previous: str = "pending", **fields: Any) -> e.PlanStepUpdateEvent:
    return e.PlanStepUpdateEvent(step_id=step_id, title="T", status=status, previous=previous, **fields)


def quickstart(*events: Event) -> View:
    view = View()
    steps = (
        outline("survey", "Learn how textkit is built", "research"),
        outline("design", "Decide on the two functions", "design", "survey"),
        outline("slugify", "Write slugify()", "code", "design"),
        outline("shorten", "Write shorten()", "code", "design"),
        outline("test", "Run all tests", "test", "slugify", "shorten"),
    )
    begun: tuple[Event, ...] = (
        e.PlanStartedEvent(goal="Give textkit two functions.", steps=steps, ts=1000.0),
        moved("survey", "in_progress", ts=1000.0),
        moved("survey", "completed", "in_progress", ts=1004.25),
        moved("design", "in_progress", ts=1005.0),
        moved("design", "completed", "in_progress", ts=1080.0),
        moved("slugify", "in_progress", ts=1080.0),
        e.SubAgentStartedEvent(title="", mode="code", model="m", tools=(), max_tokens=50_000, max_turns=9, **WHO),
        e.UsageEvent(model="m", prompt_tokens=40_000, completion_tokens=1_000, cost_usd=0.12, **WHO),
        e.ToolCallEvent(tool_call_id="1", tool="bash", arguments={}, summary="bash pytest -q", **WHO),
    )
    for event in (*begun, *events):
        apply(view, event)
    return view


def plan_of(view: View) -> PlanView:
    return view.plan or PlanView(key=())


def lines_of(view: View, now: float = 1092.0, width: int = 80, height: int = 23) -> list[str]:
    return [text_of(line) for line in card(plan_of(view), now, width, height)]


def row_of(view: View, step_id: str, **where: Any) -> str:
    return next(line for line in lines_of(view, **where) if f" {step_id} " in line[:24])


def checked(check_id: str, ts: float, status: str, content: str = "") -> tuple[Event, Event]:
    about: dict[str, Any] = {"subagent_step_id": "slugify", "tool_call_id": check_id, "tool": "command"}
    arguments = {"command": "make test", "purpose": "verify"}
    return (
        e.ToolCallEvent(arguments=arguments, ts=ts - 1, **about),
        e.ToolResultEvent(status=status, content=content, duration_s=1.0, ts=ts, **about),
    )


def test_a_run_on_80_columns() -> None:
    assert lines_of(quickstart()) == [
        "▸ Give textkit two functions.                       2/5 · 1:32 · 41k tok · $0.12",
        "          0         1:00      2:00",
        "✓ survey  ━                        4.2 s   Learn how textkit is built",
        "✓ design   ━━━━━━━━━━━━━━━          1:15   Decide on the two functions",
        "⠦ slugify                 ━╸        12 s   bash pytest -q",
        "· shorten                                  queued",
        "· test                                     after slugify, shorten",
    ]


def test_a_step_on_another_machine_says_where_and_that_it_was_lost() -> None:
    waits = e.PlanWaitingEvent(step_id="slugify", waits_for="worker")
    placed = e.PlacementEvent(status="placed", worker="build2:41671", **WHO)
    lost = e.PlacementEvent(status="lost", worker="build2:41671", detail="it is gone", **WHO)

    assert "waits for a worker" in "\n".join(lines_of(quickstart(waits)))
    assert "build2:41671: bash" in "\n".join(lines_of(quickstart(waits, placed)))
    assert "lost with build2:41671, begins" in "\n".join(lines_of(quickstart(placed, lost)))


def test_a_wide_one_has_titles_as_well() -> None:
    row = row_of(quickstart(), "slugify", width=140)
    assert "Write slugify()" in row
    assert row.endswith("12 s   bash pytest -q")


def test_a_failure_says_why_and_a_skipped_step_too() -> None:
    view = quickstart(
        moved("slugify", "failed", "in_progress", reason="verify", detail="2 tests failed", ts=1100.0),
        moved("shorten", "cancelled", reason="fail_fast"),
        moved("test", "skipped", reason="slugify failed"),
    )
    assert row_of(view, "slugify").startswith("✗ slugify ")
    assert row_of(view, "slugify").endswith("verify: 2 tests failed")
    assert row_of(view, "shorten") == "⊘ shorten                                  fail_fast"
    assert row_of(view, "test").endswith("slugify failed")


def test_a_step_behind_a_failed_one_is_blocked_by_it() -> None:
    view = quickstart(
        moved("slugify", "failed", "in_progress"), moved("shorten", "completed"), moved("test", "blocked")
    )
    assert row_of(view, "test").endswith("blocked: slugify failed")


def test_it_is_not_blocked_by_a_failure_that_it_is_there_for_or_that_is_tolerated() -> None:
    view = quickstart(moved("slugify", "failed", "in_progress"), moved("shorten", "in_progress"))
    steps = view.plans[plan_of(view).id].steps
    test = steps["test"].state
    test.outline = structs.replace(test.outline, order=e.WorkOrder(on={"slugify": "failed"}))
    assert row_of(view, "test").endswith("after shorten")
    test.outline = structs.replace(test.outline, order=e.WorkOrder())
    assert row_of(view, "test").endswith("blocked: slugify failed")
    steps["slugify"].state.tolerated = True
    assert row_of(view, "test").endswith("after shorten")


def test_it_is_blocked_though_other_steps_before_it_still_run() -> None:
    view = quickstart(moved("slugify", "failed", "in_progress"), moved("shorten", "in_progress"))
    assert row_of(view, "test").endswith("blocked: slugify failed")


def test_what_it_asks_stands_in_the_row_and_its_bar_shows_the_wait() -> None:
    asked = e.ApprovalRequestEvent(
        request_id="r",
        tool_call_id="1",
        tool="bash",
        arguments={},
        rule="ask",
        preview=e.CommandDisplay(command="make all"),
        **WHO,
    )
    view = quickstart(asked)
    row = row_of(view, "slugify")
    assert row.startswith("? slugify ")
    assert "╍" in row
    assert row.endswith("  7 s   run: make all")

    apply(view, e.ApprovalDecisionEvent(request_id="r", decision="allow", by="user", ts=1090.0))
    row = row_of(view, "slugify")
    assert row.startswith("⠦ slugify ")
    assert row.endswith("  7 s   bash pytest -q"), "the wait for a person is no work"


def test_an_open_decision_is_asked_in_the_rows_of_the_steps_that_wait_for_it() -> None:
    order = e.WorkOrder(decision="db")
    step = structs.replace(outline("shorten", "Write shorten()", "code"), order=order)
    view = View()
    for event in (
        e.PlanStartedEvent(goal="g", steps=(step,), ts=1000.0),
        e.PlanDecisionEvent(decision_id="db", question="Which one?", options=("sqlite", "postgres"), ts=1000.0),
        moved("shorten", "needs_decision", ts=1000.0),
    ):
        apply(view, event)
    row = row_of(view, "shorten", now=1008.0)
    assert row.startswith("? shorten ")
    assert row.endswith("8 s   Which one?")


def test_a_check_that_failed_is_marked_where_it_did_and_its_repair_is_a_fact() -> None:
    view = quickstart(
        e.ToolResultEvent(tool_call_id="1", tool="bash", status="ok", content="", **WHO),
        *checked("c1", 1090.0, "error", "AssertionError: 9.9 != 9.0"),
    )
    row = row_of(view, "slugify", now=1092.0)
    assert "✗" in row
    assert row.endswith("fixing it: AssertionError: 9.9 != 9.0")

    for event in (*checked("c2", 1094.0, "ok"), moved("slugify", "completed", "in_progress", ts=1095.0)):
        apply(view, event)
    row = row_of(view, "slugify", now=1096.0)
    assert row.startswith("✓ slugify ")
    assert "✗" in row
    assert row.endswith("fixed itself, 2 tries")

    apply(view, e.PlanCompletedEvent(status="completed", counts={}, duration_s=96.0, ts=1096.0))
    assert [text_of(line) for line in record(plan_of(view), 100)] == [
        "  slugify  its check failed once (AssertionError: 9.9 != 9.0); the same agent fixed it",
        "  Plan completed · 1:36",
    ]


def test_a_step_whose_check_fails_to_the_end_tells_what_it_said() -> None:
    view = quickstart(
        *checked("c1", 1090.0, "error", "9.9 != 9.0"),
        moved("slugify", "failed", "in_progress", reason="verify", detail="`make` exited with 1", ts=1095.0),
    )
    assert row_of(view, "slugify", now=1096.0).endswith("check failed: 9.9 != 9.0")


def test_the_record_tells_of_decisions_and_files_and_how_long_it_took() -> None:
    written = e.DiffDisplay(files=(e.WrittenFile(path="a.py", added=3, removed=1),))
    view = quickstart(
        e.PlanDecisionEvent(decision_id="db", question="?", options=("a", "b"), labels=("A", "B"), ts=1086.0),
        e.PlanDecisionEvent(
            decision_id="db",
            question="?",
            options=("a", "b"),
            labels=("A", "B"),
            selections=("b",),
            by="user",
            ts=1087.0,
        ),
        e.ToolResultEvent(
            tool_call_id="1", tool="bash", status="ok", content="", files_changed=("a.py",), display=written, **WHO
        ),
        moved("shorten", "in_progress", ts=1087.0),
        moved("slugify", "completed", "in_progress", ts=1190.0),
        moved("shorten", "completed", "in_progress", ts=1190.0),
        e.PlanCompletedEvent(status="completed", counts={}, duration_s=190.0, ts=1190.0),
    )
    assert [text_of(line) for line in record(plan_of(view), 100, "/rewind")] == [
        "  db  B, as you decided",
        "  Plan completed · 3:10 side by side; 4:52 in a row",
        "  1 file changed +3 −1   /rewind",  # noqa: RUF001
    ]


@pytest.mark.parametrize(("kind", "told"), [("code", "  /review"), ("test", "  Plan completed · 0.5 s")])
def test_the_way_back_is_told_only_of_what_is_recorded(kind: str, told: str) -> None:
    view = View()
    for event in (
        e.PlanStartedEvent(goal="g", steps=(outline("one", "One", kind),), ts=1.0),
        moved("one", "in_progress", ts=1.0),
        moved("one", "completed", "in_progress", ts=1.5),
        e.PlanCompletedEvent(status="completed", counts={}, duration_s=0.5, ts=1.5),
    ):
        apply(view, event)
    assert text_of(record(plan_of(view), 100, "/review")[-1]) == told


def test_the_way_back_has_a_row_of_its_own_where_it_does_not_fit() -> None:
    view, hints = quickstart(), "/review · undo: vibe plan rewind abcdef-20261130 STEP"
    done = e.WorkDone(files_changed=("a.py", "b.py"))
    apply(view, moved("slugify", "completed", "in_progress", ts=1090.0, work=done))
    *_, changed, back = (text_of(line).rstrip() for line in record(plan_of(view), 60, hints))
    assert changed.startswith("  2 files changed")
    assert back == f"  {hints}"
    assert text_of(record(plan_of(view), 100, hints)[-1]).rstrip() == f"{changed}   {hints}"


def test_the_record_of_a_plan_whose_process_died_says_so_and_how_it_goes_on() -> None:
    view = quickstart()
    lose(view, "")
    assert not any("queued" in line for line in lines_of(view))
    assert (
        text_of(record(plan_of(view), 100)[-1]).strip() == "Plan interrupted · 1:20 · continue with: vibe plan resume"
    )


def test_who_waits_for_files_that_nobody_declared_says_so() -> None:
    waits = e.PlanWaitingEvent(step_id="shorten", waits_for="files", step_ids=("slugify",))
    view = quickstart(waits)
    assert row_of(view, "shorten").rstrip().endswith("waits for slugify (same file)")
    anything = outline("slugify", "Write slugify()", "code", "design")
    view.plans[plan_of(view).id].steps["slugify"].state.outline = structs.replace(anything, order=e.WorkOrder())
    assert row_of(view, "shorten").rstrip().endswith("waits for slugify (no `writes`)")


@pytest.mark.parametrize("width", range(1, 40))
def test_a_failed_check_has_a_place_however_narrow_the_window_is(width: int) -> None:
    view = quickstart(*checked("c1", 1090.0, "error", "9.9 != 9.0"))
    lines = card(plan_of(view), 1092.0, width, 23)
    assert {sum(cell_len(text) for text, _ in line) for line in lines} == {width}


def test_who_waits_to_ask_waits_for_the_person_and_is_said_neither_to_work_nor_to_be_silent() -> None:
    who: dict[str, Any] = {**WHO, "ts": 1100.0}
    ended = e.ToolResultEvent(tool_call_id="1", tool="bash", status="ok", content="", **who)
    which = "ask_user_question Which?"
    asks = e.ToolCallEvent(tool_call_id="q", tool="ask_user_question", arguments={}, summary=which, **who)
    calls = e.ToolCallEvent(tool_call_id="c", tool="bash", arguments={}, summary="bash ls", **who)
    waits = e.ToolQueuedEvent(tool_call_id="c", tool="bash", summary="bash ls", waits_for="request", **who)
    for events, words in (((asks,), "will ask: Which?"), ((calls, waits), "will ask: bash ls")):
        view = quickstart(ended, *events)
        row = row_of(view, "slugify", now=1120.0)
        assert row.startswith("? ")
        assert re.search("╍ .* 20 s ", row)
        assert row.endswith(words)
        worked = plan_of(view).steps["slugify"].worked(plan_of(view).clock(1100.0))
        assert plan_of(view).steps["slugify"].worked(plan_of(view).clock(1120.0)) == worked


def test_what_has_sent_nothing_for_long_says_so() -> None:
    assert row_of(quickstart(), "slugify", now=1094.0).endswith("bash pytest -q")
    assert row_of(quickstart(), "slugify", now=1097.0).endswith("nothing for 12 s")


def test_a_pause_is_no_time_of_the_plan_and_bars_go_on_behind_it() -> None:
    view = quickstart(e.PlanPausedEvent(reason="signal", ts=1090.0))
    assert lines_of(view, now=99_999.0)[0].endswith("2/5 · 1:30 · 41k tok · $0.12")
    steps = tuple(step.state.outline for step in plan_of(view).steps.values())
    apply(view, e.PlanResumedEvent(goal="Give textkit two functions.", steps=steps, done=2, tokens=41_000, ts=5000.0))
    apply(view, moved("slugify", "in_progress", ts=5000.0))
    apply(view, moved("slugify", "completed", "in_progress", ts=5010.0))

    spans = [(span.start, span.end) for span in plan_of(view).steps["slugify"].spans]
    assert spans == [(80.0, 90.0), (90.0, 100.0)]


def test_an_unknown_price_is_never_shown_as_a_number() -> None:
    unknown = e.UsageEvent(model="m", prompt_tokens=1, completion_tokens=1, **WHO)
    assert "$" not in lines_of(quickstart(unknown))[0]
    assert "$" not in lines_of(View())[0]


def test_another_attempt_is_said() -> None:
    view = quickstart(moved("shorten", "in_progress", attempt=2, ts=1090.0))
    assert row_of(view, "shorten").endswith("try 2: starting")


def test_nothing_a_tool_said_can_move_the_cursor() -> None:
    evil = "\x1b[2J\x1b]0;owned\x07\r\n\u202eevil\x9b2J"
    view = quickstart(
        e.ToolStreamEvent(tool_call_id="1", tool="bash", text=evil, **WHO),
        moved("shorten", "failed", "in_progress", reason=evil),
        e.PlanDecisionEvent(decision_id=evil, question=evil, options=(evil,), selections=(evil,), by=evil),
        moved("test", "needs_decision"),
    )
    plan_of(view).goal = evil
    for name, fields in (("survey", {"title": evil}), ("test", {"id": evil})):
        step = plan_of(view).state.steps[name]
        step.outline = structs.replace(step.outline, **fields)
    for width in (40, 80, 140):
        drawn = "".join(map(text_of, [*card(plan_of(view), 1092.0, width, 23), *record(plan_of(view), width)]))
        assert "evil" in drawn
        assert not [char for char in drawn if char < " " or "\x7f" <= char < "\xa0" or char == "\u202e"]


def big_plan(count: int, running: int = 0, failed: int = 0, done: int = 0) -> View:
    view = View()
    titles = (
        "漢字の長い題名をもつ手順です" * 4,
        "A step with a title that is rather long for one line",
        "Café 👩‍👩‍👧 " * 9,
    )
    apply(
        view,
        e.PlanStartedEvent(
            goal="ゴール " * 60,
            steps=tuple(outline(f"s{n}", f"{n} {titles[n % 3]}", "code") for n in range(count)),
            ts=1000.0,
        ),
    )
    for n in range(done):
        apply(view, moved(f"s{n}", "completed", duration_s=1.0))
    for n in range(done, done + failed):
        apply(view, moved(f"s{n}", "failed", reason="why " * 90))
    for n in range(done + failed, done + failed + running):
        apply(view, moved(f"s{n}", "in_progress", ts=1000.0))
        call = e.ToolCallEvent(
            tool_call_id="1", tool="bash", arguments={}, summary="命令 " * 90, subagent_step_id=f"s{n}"
        )
        apply(view, call)
    return view


@pytest.mark.parametrize(
    ("width", "height"), [(200, 59), (120, 50), (80, 23), (60, 10), (40, 8), (20, 5), (10, 3), (3, 2), (1, 1)]
)
@pytest.mark.parametrize(
    ("count", "running", "failed", "done"), [(3, 1, 1, 1), (20, 4, 0, 8), (60, 40, 10, 5), (2_000, 4, 300, 900)]
)
def test_it_fits_every_terminal(width: int, height: int, count: int, running: int, failed: int, done: int) -> None:
    view = big_plan(count, running, failed, done)
    lines = card(plan_of(view), 1010.0, width, height)
    assert 0 < len(lines) <= height
    assert {sum(cell_len(text) for text, _ in line) for line in lines} == {width}
    assert all(cell_len(text_of(line)) <= width for line in record(plan_of(view), width))


@pytest.mark.parametrize(("running", "failed", "done"), [(0, 0, 0), (1, 0, 3), (4, 2, 11), (12, 3, 10), (30, 0, 0)])
@pytest.mark.parametrize("height", [8, 12, 21, 32])
def test_of_30_steps_all_that_run_and_have_failed_have_rows_and_none_is_uncounted(
    height: int, running: int, failed: int, done: int
) -> None:
    lines = lines_of(big_plan(30, running, failed, done), height=height)[2:]
    folded = [line.split() for line in lines if line.startswith("▸")]
    assert len(lines) - len(folded) + sum(int(words[1]) for words in folded) == 30
    if running + failed <= height - 4:
        assert sum(line[0] in "✗⠹⠼⠇⠋⠙⠸⠴⠦⠧⠏" for line in lines) == running + failed


def test_the_rows_of_a_plan_stay_where_they_are_while_it_runs() -> None:
    view = big_plan(30, running=4, failed=0, done=10)
    before = len(lines_of(view, height=16))
    for number in range(10, 14):
        apply(view, moved(f"s{number}", "completed", "in_progress", ts=1020.0))
    assert len(lines_of(view, height=16)) == before


def test_hundreds_of_steps_have_a_row_for_each_group_and_for_those_that_need_someone() -> None:
    steps = tuple(
        structs.replace(outline(f"s{n}", "T", "code"), order=e.WorkOrder(tags=("models" if n < 48 else "handlers",)))
        for n in range(144)
    )
    view = View()
    apply(view, e.PlanStartedEvent(goal="Go.", steps=steps, ts=1000.0))
    for n in range(48):
        apply(view, moved(f"s{n}", "completed"))
    apply(view, moved("s50", "failed", reason="exit 1"))
    for n in range(60, 70):
        apply(view, moved(f"s{n}", "in_progress", ts=1000.0))

    lines = lines_of(view, now=1004.0, height=12)

    assert lines[1].startswith("✓ models ")
    assert lines[1].endswith("  48/48")
    assert lines[2].startswith("✗ handlers ")
    assert lines[2].endswith("  0/96  1 failed")
    assert lines[4].startswith("✗ s50 ")
    assert lines[-1] == "  … 4 more at work"


def test_of_more_groups_than_rows_those_at_work_are_shown_before_those_that_are_done_or_later() -> None:
    steps = tuple(
        structs.replace(outline(f"s{n}", "T", "code"), order=e.WorkOrder(tags=(f"group{n // 10}",))) for n in range(100)
    )
    view = View()
    apply(view, e.PlanStartedEvent(goal="Go.", steps=steps, ts=1000.0))
    for n in range(60):
        apply(view, moved(f"s{n}", "completed"))
    apply(view, moved("s65", "in_progress", ts=1000.0))
    apply(view, moved("s95", "in_progress", ts=1000.0))

    lines = lines_of(view, now=1004.0, height=8)

    assert [line[2:8] for line in lines[1:4]] == ["group6", "group7", "group9"]
    assert lines[4].strip() == "… 7 more groups"


@pytest.mark.parametrize(
    ("seconds", "span", "drawn"),
    [
        ((0, 5), 10, "━━━━━     "),
        ((0, 0.1), 10, "━         "),
        ((9.99, 10), 10, "         ━"),
        ((3, None), 10, "   ━━╸    "),
    ],
)
def test_a_bar_is_where_its_times_are(seconds: tuple[float, float | None], span: float, drawn: str) -> None:
    step = StepView(key=(), state=plan_of(quickstart()).state.steps["survey"])
    step.spans = [SpanView(kind="work", start=seconds[0], end=seconds[1])]
    assert "".join(text for text, _ in bar(step, 6.0, span, 10)) == drawn


def test_the_scale_only_steps_up() -> None:
    rulers = [lines_of(quickstart(), now=1000.0 + seconds)[1] for seconds in range(80, 7200, 10)]
    assert len({*rulers}) <= len(SCALES)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("height", [23, 4])
def test_no_name_and_no_title_runs_into_the_bar_beside_it(width: int, height: int) -> None:
    title = "Write what turns the words of a title into a name for its page"
    begun = e.PlanStartedEvent(
        goal="g", steps=tuple(outline(f"a-step-with-a-long-name-{n}", title, "code") for n in range(4)), ts=1000.0
    )
    run = [moved(step.id, "in_progress", ts=1000.0) for step in begun.steps]
    view = View()
    for event in (begun, *run):
        apply(view, event)
    rows = [line for line in lines_of(view, width=width, height=height) if "━" in line]
    assert rows
    assert [row for row in rows if not re.search(r" ━", row)] == []


@pytest.mark.parametrize("width", [60, 66, 72, 80, 100, 120, 200])
def test_the_labels_of_the_time_scale_stand_apart_and_at_whole_numbers(width: int) -> None:
    for scale in [scale for scale in SCALES if scale >= 90]:
        ruler = lines_of(quickstart(), now=1000.0 + scale, width=width)[1]
        labels = re.findall(r"\S+(?: [sh]\b)?", ruler)
        assert labels[0] == "0"
        assert labels[-1] == clock(scale)
        seconds = [scale * number / (len(labels) - 1) for number in range(1, len(labels))]
        assert labels[1:] == [clock(each) for each in seconds]
        assert all(each == int(each) for each in seconds)


def drawing_seconds(steps: int) -> float:
    """Return the least processor time for drawing a card of ``steps`` steps."""
    view = big_plan(steps, running=8, failed=20, done=steps // 2)
    rounds: list[float] = []
    for _ in range(6):
        begun = process_time()
        card(plan_of(view), 1010.0, 80, 23)
        rounds.append(process_time() - begun)
    return min(rounds)


def test_a_card_of_10_000_steps_takes_ten_times_as_long_as_one_of_1_000() -> None:
    assert drawing_seconds(10_000) < 20 * drawing_seconds(1_000)


def test_what_was_taken_over_and_what_is_left_out_say_so() -> None:
    view = View()
    steps = (
        StepOutline(id="a", title="Done before", mode="code", status="completed", reason="reused"),
        StepOutline(id="b", title="Not asked for", mode="code", status="skipped", reason="only"),
        StepOutline(id="c", title="To do", mode="code", depends_on=("a",)),
    )
    apply(view, e.PlanStartedEvent(goal="Again.", steps=steps, ts=1000.0, note="1 of 3 steps reused"))

    assert row_of(view, "a", now=1000.0).startswith("↻ a ")
    assert row_of(view, "a", now=1000.0).endswith("from an earlier plan")
    assert row_of(view, "b", now=1000.0).endswith("left out")
    assert [notice.message for notice in view.notices.values()] == ["1 of 3 steps reused"]


def test_a_step_for_which_a_better_plan_is_looked_for_shows_it_and_the_revision_changes_the_rows() -> None:
    planner: dict[str, Any] = {"subagent_id": "planner", "subagent_step_id": "slugify", "ts": 1090.0}
    view = quickstart(
        moved("slugify", "pending", "in_progress", reason="verify", ts=1090.0),
        e.SubAgentStartedEvent(title="Mend", mode="design", model="m", tools=(), max_tokens=9, max_turns=9, **planner),
    )
    assert row_of(view, "slugify").endswith("revising the plan › waiting for m")  # noqa: RUF001  a mark

    operations = (
        {"op": "add_step", "step": {"id": "plan-b", "title": "Another way", "mode": "code", "depends_on": ["design"]}},
        {"op": "add_edge", "step": "test", "depends_on": {"step": "plan-b", "on": "completed"}},
        {"op": "remove_edge", "step": "test", "depends_on": "slugify"},
        {"op": "update_step", "id": "shorten", "changes": {"title": "Write shorten() first"}},
        {"op": "remove_step", "id": "slugify"},
    )
    apply(view, e.SubAgentFinishedEvent(outcome="completed", reason=None, tokens=5, turns=1, duration_s=1.0, **planner))
    apply(view, e.PlanRevisedEvent(operations=operations, reason="it can't be done so"))

    rows = [line.split()[1] for line in lines_of(view)[2:]]
    assert rows == ["survey", "design", "shorten", "test", "plan-b"]
    assert "Write shorten() first" in row_of(view, "shorten", width=140)
    assert row_of(view, "test").endswith("after shorten, plan-b")
    assert list(view.notices.values())[-1].message == (
        "the plan was revised (it can't be done so): added plan-b; reordered test; changed shorten; removed slugify"
    )


@pytest.mark.parametrize(("purpose", "shown"), [("step", "$ make all"), ("verify", "check make all")])
def test_the_hosts_own_commands_look_as_in_a_shell(purpose: str, shown: str) -> None:
    call = e.ToolCallEvent(
        tool_call_id="9", tool="command", arguments={"command": "make all", "purpose": purpose}, summary="x", **WHO
    )

    assert plan_of(quickstart(call)).steps["slugify"].doing().startswith(shown)


# --- expectations


def expecting(**seconds: float) -> e.PlanExpectation:
    steps = {name: e.Expectation(seconds=each, cost_usd=0.05) for name, each in seconds.items()}
    return e.PlanExpectation(seconds=200.0, tokens=9_000, cost_usd=0.24, at_once=2, steps=steps)


def test_what_is_to_come_has_a_place_and_the_head_tells_how_long_it_takes() -> None:
    view = quickstart()
    plan_of(view).state.expected = expecting(survey=4, design=70, slugify=30, shorten=20, test=40)
    assert lines_of(view, width=140)[0].endswith("2/5 · 1:32 · 41k tok · $0.12 · ~1:18 left")
    assert lines_of(view, width=140, now=1112.0)[0].endswith("~1:00 left"), "it takes longer than was expected"
    assert "┄" in row_of(view, "test", width=140)
    assert row_of(view, "test", width=140).index("┄") > row_of(view, "shorten", width=140).index("┄")


@pytest.mark.parametrize("is_tolerated", [False, True])
def test_what_comes_after_a_failed_step_has_no_place_unless_the_plan_goes_on(*, is_tolerated: bool) -> None:
    view = quickstart(moved("slugify", "failed", ts=1090.0, tolerated=is_tolerated))
    plan_of(view).state.expected = expecting(survey=4, design=70, slugify=30, shorten=20, test=40)
    assert ("┄" in row_of(view, "test", width=140)) is is_tolerated
    assert "┄" in row_of(view, "shorten", width=140)


def test_who_fixed_a_failed_check_is_said_however_long_its_output_is() -> None:
    failure = checked("1", 1091.0, "error", f"FAIL: test_{'x' * 200}")
    view = quickstart(*failure, *checked("2", 1095.0, "ok"), moved("slugify", "completed", ts=1096.0))
    lines = [text_of(line) for line in record(plan_of(view), 80)]
    assert any(line.endswith("…); the same agent fixed it") for line in lines)


def test_nothing_is_told_of_what_is_to_come_if_a_step_is_not_known() -> None:
    view = quickstart()
    plan_of(view).state.expected = expecting(survey=4, design=70, slugify=30, shorten=20)
    assert "left" not in lines_of(view)[0]
    assert "┄" not in "".join(lines_of(view))


def test_an_estimate_that_was_exceeded_is_no_promise_that_it_is_almost_done() -> None:
    view = quickstart(moved("shorten", "completed", ts=1090.0), moved("test", "completed", ts=1090.0))
    plan_of(view).state.expected = expecting(survey=4, design=70, slugify=10, shorten=20, test=40)
    assert "left" not in lines_of(view)[0]


def test_a_plan_of_many_steps_is_looked_ahead_quickly() -> None:
    names = [f"s{number}" for number in range(300)]
    steps = tuple(outline(name, name, "code", *names[max(0, at - 3) : at]) for at, name in enumerate(names))
    view = View()
    expected = structs.replace(expecting(**dict.fromkeys(names, 10.0)), at_once=8)
    apply(view, e.PlanStartedEvent(goal="g", steps=steps, ts=1000.0, expected=expected))
    best = min(_timed(view) for _ in range(5))
    assert best < 0.02, "a card is drawn eight times a second"


def _timed(view: View) -> float:
    began = process_time()
    card(plan_of(view), 1001.0, 120, 20)
    return process_time() - began


def test_the_record_tells_what_a_plan_cost_against_what_was_estimated() -> None:
    view = quickstart(
        moved("slugify", "completed", "in_progress", ts=1100.0),
        moved("shorten", "completed", ts=1100.0),
        moved("test", "completed", ts=1100.0),
        e.PlanCompletedEvent(status="completed", counts={}, duration_s=100.0, ts=1100.0),
    )
    plan = plan_of(view)
    assert "estimated" not in text_of(record(plan, 120)[-1])
    plan.state.expected = expecting(survey=4)
    assert text_of(record(plan, 120)[-1]).endswith(" · 50 % cheaper than estimated")


# --- planning

PLANNER: dict[str, Any] = {"session_id": "planner", "source": "planner"}
HALF = '{"value": {"steps": [{"id": "survey", "title": "Look", "mode": "research"}, {"id": "fix", "title": "Fix to'


def looked(tool: str, ts: float, content: str = "one\ntwo", status: str = "ok", **arguments: str) -> tuple[Event, ...]:
    call: dict[str, Any] = {"tool_call_id": f"{tool}{ts}", "tool": tool, "ts": ts, **PLANNER}
    called = e.ToolCallEvent(arguments=arguments, summary=" ".join((tool, *arguments.values())), **call)
    return called, e.ToolResultEvent(status=status, content=content, duration_s=0.1, **call)


def planning(*events: Event) -> View:
    view = View()
    begun: tuple[Event, ...] = (
        e.PromptStartedEvent(prompt_id="p", ts=1000.0, **PLANNER),
        *looked("read_file", 1001.0, path="shop/cart.py"),
        *looked("read_file", 1002.0, path="shop/cart.py"),
        *looked("grep", 1003.0, pattern="def total"),
        *looked("read_file", 1004.0, path="shop/report.py"),
        e.UsageEvent(model="m", prompt_tokens=16_000, completion_tokens=1_000, cost_usd=0.04, **PLANNER),
    )
    for event in (*begun, *events):
        apply(view, event)
    return view


def planning_lines(view: View, now: float = 1023.0, width: int = 80, rows: int = 20, hint: str = "") -> list[str]:
    agent = view.agents["planner"]
    assert agent.turn is not None
    return [text_of(line) for line in planning_card(agent, agent.turn, now, width, rows, hint)]


def written(text: str, ts: float) -> Event:
    return e.ToolArgumentsEvent(message_id="m", index=0, tool="hand_in_plan", text=text, ts=ts, **PLANNER)


def test_a_planner_is_watched_a_row_a_kind_of_call() -> None:
    lines = planning_lines(planning())
    assert [line.split("   ")[0] for line in lines] == [
        "▸ Planning  reads, changes nothing",
        "✓ read",
        "✓ searched  def total  2 hits",
    ]
    assert "✓ read      shop/cart.py  shop/report.py  " in lines[1]
    assert [line.split("  ")[-1].strip() for line in lines] == ["23 s · 17k tok · $0.04", "2 files", "0.1 s"]


def test_its_steps_are_there_as_they_are_written() -> None:
    view = planning(written(HALF[:40], 1014.0), written(HALF[40:], 1016.0))
    writing, *steps = planning_lines(view)[3:]
    assert writing.startswith("⠼ writing   2 steps so far  ")
    assert writing.endswith("  9 s · 13 tok/s")
    assert steps == ["    ◇ survey  Look", "    · fix     Fix to▏"]
    assert planning_lines(view, rows=5)[-1].endswith("Fix to▏"), "the newest step has a row"


def test_a_draft_is_read_as_far_as_it_came_whatever_is_in_it() -> None:
    assert [step.id for step in drafted(HALF)] == ["survey", "fix"]
    assert (
        drafted("") == drafted("no plan") == drafted('{"value": {"steps": 3}}') == drafted('{"steps": [1, {"id"') == []
    )
    (step,) = drafted('{"steps": [{"id": 1, "depends_on": [{"step": "a", "on": "failed"}, "b"]}]}')
    assert (step.id, step.depends_on) == ("1", ("a", "b"))


def test_a_long_draft_is_kept_from_its_beginning() -> None:
    steps = ", ".join(f'{{"id": "s{number}", "title": "{"t" * 300}"}}' for number in range(100))
    view = planning(written(f'{{"value": {{"steps": [{steps}', 1010.0))
    assert "100 steps so far" in planning_lines(view)[3]


def test_what_a_planner_is_refused_is_told_and_what_fits_no_more_goes_at_the_left() -> None:
    many = [event for number in range(9) for event in looked("list_dir", 1010.0 + number, path=f"folder{number}")]
    refused = looked("hand_in_plan", 1020.0, "hand_in_plan: not accepted: the plan: steps[2].check: wrong", "error")
    lines = planning_lines(planning(*many, *refused))
    assert lines[3].startswith("✓ listed    … folder")
    assert "folder8" in lines[3]
    assert lines[4] == "✗ refused   steps[2].check: wrong"


def ended(outcome: str, detail: str = "") -> Event:
    usage = e.UsageSum(prompt_tokens=20_000, completion_tokens=1_000, calls=2)
    return e.PromptEndedEvent(
        prompt_id="p", outcome=outcome, detail=detail, usage=usage, cost_usd=0.05, duration_s=41.0, ts=1041.0, **PLANNER
    )


def test_how_planning_ended_is_a_row() -> None:
    (line,) = planning_lines(planning(ended("completed")))
    assert line == f"✓ Planned  read 2 files, searched once{'41 s · 21k tok · $0.05':>42}"
    assert planning_lines(planning(ended("interrupted")))[0].startswith("⊘ stopped planning  read 2 files")


def test_why_there_is_no_plan_is_told_in_full_with_the_keys() -> None:
    view = planning(ended("failed", "the plan: steps[2].check: must be a list"))
    (line,) = planning_lines(view, width=100, hint="r try again · o open")
    assert line.startswith("✗ no plan: steps[2].check: must be a list   r try again · o open  ")
    assert line.endswith("  41 s · 21k tok · $0.05")
    lines = planning_lines(planning(ended("failed", "the provider has no room now, " * 5)), hint="o open")
    assert lines[-1].endswith("   o open")
    assert " ".join(" ".join(lines).split()).count("no room now") == 5


def listed(*statuses: str) -> View:
    """Return a plan with a list of items in these statuses, named by their positions."""
    view = View()
    steps = (outline("find", "Find", "research"), outline("fix", "Fix ${item}", "code", "find"))
    made = tuple(e.ItemOutline(id=f"fix-{n}", key=str(n), title=f"Fix {n}") for n in range(len(statuses)))
    begun: tuple[Event, ...] = (
        e.PlanStartedEvent(goal="Mend all.", steps=steps, ts=1000.0),
        moved("find", "in_progress", ts=1000.0),
        moved("find", "completed", "in_progress", ts=1010.0),
        e.PlanUnfoldedEvent(step_id="fix", children=made, items="0", ts=1011.0),
    )
    for event in begun:
        apply(view, event)
    for one, status in zip(made, statuses, strict=True):
        for now in ("in_progress", status)[: 1 + (status != "in_progress")] if status != "pending" else ():
            apply(view, moved(one.id, now, "in_progress" if now == status != "in_progress" else "pending", ts=1020.0))
    return view


def test_a_list_is_one_line() -> None:
    view = listed(*["completed"] * 34, "failed", "failed", *["in_progress"] * 8, *["pending"] * 76)
    lines = lines_of(view)
    assert len(lines) == 4
    assert "34/120  2 failed  8 running" in lines[3]
    assert lines[3].split()[1] == "fix"


def test_the_title_of_a_list_has_no_placeholder() -> None:
    assert " Fix each item " in row_of(listed("pending"), "fix", width=140)


def test_a_list_that_is_chosen_is_open_with_what_failed_first() -> None:
    view = listed("completed", "in_progress", "failed", "pending")
    shown = [text_of(line) for line in card(plan_of(view), 1092.0, 80, 20, chosen="fix")]
    assert [line[2:7].rstrip() for line in shown[2:]] == [
        *("find", "fix", "Fix 2"),
        *("Fix 1", "Fix 0", "Fix 3"),
    ]
    again = [text_of(line) for line in card(plan_of(view), 1092.0, 80, 20, chosen="fix-3")]
    assert len(again) == len(shown)


def test_a_step_with_several_models_says_which_is_at_work() -> None:
    view = quickstart()
    step = plan_of(view).steps["slugify"]
    order = e.WorkOrder(model="small", models=("small", "large"))
    step.state.outline = structs.replace(step.state.outline, order=order)
    assert "small, 1st of 2: " in row_of(view, "slugify", width=140)
    step.state.attempt = 2
    assert "large, 2nd of 2: " in row_of(view, "slugify", width=140)


def test_what_is_left_of_a_list_counts_each_item_as_the_list_was_expected() -> None:
    view = listed("completed", "in_progress", "pending", "pending")
    each = e.Expectation(seconds=10.0, tokens=0, cost_usd=None)
    known = {"find": each, "fix": each}
    plan_of(view).state.expected = e.PlanExpectation(seconds=20.0, tokens=0, cost_usd=None, at_once=1, steps=known)
    assert "~20 s left" in lines_of(view, now=1030.0, width=120)[0]


def test_a_step_for_an_item_is_called_by_its_title_unless_that_is_of_all() -> None:
    view = listed("completed", "in_progress")
    apply(view, e.SubAgentStartedEvent(
        title="", mode="code", model="m", tools=(), max_tokens=1, max_turns=1,
        subagent_id="a", subagent_step_id="fix-1", ts=1021.0,
    ))  # fmt: skip
    apply(view, e.ApprovalRequestEvent(
        request_id="r", tool_call_id="c", tool="bash", arguments={}, summary="bash make", rule="permission",
        subagent_id="a", subagent_step_id="fix-1", ts=1022.0,
    ))  # fmt: skip
    for width in (80, 120, 200):
        assert "Fix 1 asks: " in row_of(view, "fix", width=width)
        lines = [text_of(line) for line in card(plan_of(view), 1092.0, width, 20, chosen="fix")]
        assert not [line for line in lines if "fix-" in line or line.count("Fix 1") > 1 + ("asks" in line)]
    for step in plan_of(view).steps["fix"].items:
        step.state.outline = structs.replace(step.state.outline, title="Fix ${item}")
    assert "fix-1 asks: " in row_of(view, "fix", width=120)
