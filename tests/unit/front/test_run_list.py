"""The list of runs as lines: its groups, figures and answers, in little room, whatever runs call themselves."""

from __future__ import annotations

from typing import Any

import pytest

from ipc import events as e
from ipc.commands import AnswerQuestion, Approve, Decide
from vibe.front.cells import cells_of, text_of
from vibe.front.run_list import answer_of, bar, grouped, head_line, list_lines, options_of, request_line, run_line
from vibe.view.agent_view import RequestView

NOW = 1_800_000_000.0
ROW: dict[str, Any] = {
    "title": "Give textkit slugify(), shorten() and titlecase()",
    "live": True,
    "status": "active",
    "started_at": NOW - 40.0,
    "counts": {"completed": 10, "in_progress": 2, "failed": 1, "pending": 1},
    "total": 14,
    "done": 10,
    "checks": [4, 1, 6],
    "tokens": 113_000,
    "cost_usd": 0.13,
}
EVIL = "a\x1b[31mred\x00 \u202eeman\nnext <b>&amp;"


def line(cols: int, **changes: Any) -> str:
    shown = run_line(ROW | changes, NOW, cols)
    assert cells_of(shown) == cols
    return text_of(shown)


def test_figures_give_way_one_after_the_other_before_the_goal_does() -> None:
    assert line(120).endswith("██████████▓▓█░  10/14  4✓ 1✗  113k  $0.13  40 s")
    seen = [
        [
            name
            for name, text in (("cost", "$0.13"), ("tokens", "113k"), ("checks", "4✓"), ("bar", "▓"))
            if text in line(cols)
        ]
        for cols in (100, 92, 84, 76, 60)
    ]
    assert seen == sorted(seen, key=len, reverse=True), "none comes back in less room"
    assert seen[0] == ["cost", "tokens", "checks", "bar"]
    assert seen[-1] == []
    assert "Give textkit slugify(), shorten() a" in line(60)


def test_a_run_that_ended_says_how_and_when() -> None:
    text = line(100, live=False, status="lost", ended_at=NOW - 7_200.0)
    assert "lost" in text
    assert text.endswith("10/14  2 h")
    assert "paused (Ctrl-C)" in line(100, live=False, status="paused", reason="SIGINT")


def test_a_bar_has_a_cell_for_each_status_that_occurs_and_is_never_longer() -> None:
    many = {"completed": 5_000, "in_progress": 1, "failed": 1, "skipped": 1, "cancelled": 1}
    text = text_of(bar({"counts": many, "total": 5_004}, 14))
    assert len(text) == 14
    assert text_of(bar({"counts": {"failed": 1}, "total": 100}, 14)) == "█" + "░" * 13
    assert text_of(bar({}, 14)) == "░" * 14


@pytest.mark.parametrize("cols", [40, 80, 200])
def test_whatever_a_run_says_of_itself_is_one_line_of_text(cols: int) -> None:
    request = {"kind": "approval", "run": EVIL, "step": EVIL, "command": EVIL * 50, "summary": EVIL, "covers": [EVIL]}
    question = {"kind": "question", "run": EVIL, "summary": EVIL, "questions": [{"options": [{"label": EVIL}]}]}
    lines = [line(cols, title=EVIL * 1_000), *(text_of(request_line(each, cols)) for each in (request, question))]
    lines += list_lines({EVIL: ROW | {"title": EVIL}}, {EVIL: request}, NOW, cols, 5)
    for text in lines:
        assert text.isprintable(), text
        assert "\u202e" not in text


def test_runs_are_grouped_and_found_by_their_words() -> None:
    rows = {"one": ROW | {"requests": 2}, "two": ROW, "three": {"title": "Old", "folder": "/srv/api"}}
    assert grouped(rows) == {"Waiting for you": ["one"], "Running": ["two"], "Earlier": ["three"]}
    assert grouped(rows, "API old") == {"Earlier": ["three"]}
    assert grouped(rows, "tw") == {"Running": ["two"]}
    assert grouped(rows, "nothing") == {}
    assert text_of(head_line(rows.values(), 2, NOW, 60)).split(" · ")[:2] == [" vibe", "2 waiting"]


def test_unknown_prices_and_no_tokens_leave_no_gap() -> None:
    assert line(120, cost_usd=None, tokens=0, checks=[]).endswith("10/14  40 s")


def asked(event: e.ApprovalRequestEvent | e.QuestionEvent | e.PlanDecisionEvent) -> RequestView:
    return RequestView(id="r", kind="", event=event, agent_id=None, plan_id=None, key=("requests", "r"))


def test_a_key_stands_for_the_answer_that_is_shown_beside_it() -> None:
    call = e.ApprovalRequestEvent(request_id="r", tool_call_id="1", tool="bash", arguments={}, rule="ask")
    approval = asked(call)
    assert [key for key, _ in options_of({"kind": "approval"})] == ["y", "n"]
    assert [key for key, _ in options_of({"kind": "approval", "covers": ["x"]})] == ["y", "s", "a", "n"]
    assert answer_of(approval, "1", "me") == Approve(request_id="r", allow=True, by="me")
    assert answer_of(approval, "2", "me") is None, "nothing would be covered"
    decision = asked(e.PlanDecisionEvent(decision_id="d", question="?", options=("a", "b")))
    assert answer_of(decision, "2", "me") == Decide(decision_id="d", selections=("b",), by="me")
    assert answer_of(decision, "3", "me") is None
    questions = ({"question": "?", "options": [{"label": "Yes"}, {"label": "No"}]},)
    question = asked(e.QuestionEvent(request_id="r", questions=questions))
    assert answer_of(question, "2", "me") == AnswerQuestion(request_id="r", answers=(("No",),), by="me")
    assert answer_of(asked(e.QuestionEvent(request_id="r", questions=questions * 2)), "1", "me") is None


def test_what_takes_several_answers_or_words_has_no_keys() -> None:
    several = {"options": [{"label": "a"}], "multi_select": True}
    assert options_of({"kind": "question", "questions": [several]}) == []
    assert options_of({"kind": "question", "questions": [{"options": []}]}) == []
    assert options_of({"kind": "decision", "options": ["a", "b"], "multi_select": True}) == []
    event = e.QuestionEvent(request_id="r", questions=({"question": "?", **several},))
    assert answer_of(asked(event), "1", "me") is None
