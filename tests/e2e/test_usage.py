"""Usage of conversations and plans, from the records that are kept.

Covers ``vibe.app.inspect``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand, command_step

WritePlan = Callable[..., str]
ANSWER = {"usage": {"prompt_tokens": 1_000_000, "completion_tokens": 1_000_000, "cached_tokens": 500_000}}


@pytest.fixture
def priced(vibe: VibeCommand) -> VibeCommand:
    """Configure two models with one script.

    Each answer takes a million tokens in and out, and those of ``free`` have no price.
    """
    vibe.home.mkdir()
    script = {"version": 1, "agents": {"*": {"turns": [{"text": "a", **ANSWER}, {"text": "b", **ANSWER}] * 4}}}
    (vibe.home / "script.json").write_text(json.dumps(script))
    vibe.configure(
        'active_model = "paid"\n[[providers]]\nname = "p"\nbackend = "scripted"\nscript = "script.json"\n'
        '[[models]]\nname = "paid"\nprovider = "p"\ninput_price = 1.0\noutput_price = 2.0\n'
        '[[models]]\nname = "free"\nprovider = "p"\n'
    )
    return vibe


def used(vibe: VibeCommand, *words: str) -> dict[str, Any]:
    return vibe("usage", "--output", "json", *words).document


def say(vibe: VibeCommand, *words: str) -> str:
    return vibe("--output", "json", *words, "-p", "go").document["session_id"]


def figures(calls: int, cost: float | None) -> dict[str, Any]:
    million = 1_000_000 * calls
    tokens = {"prompt_tokens": million, "completion_tokens": million, "cached_tokens": million // 2}
    return {"calls": calls, **tokens, "cost_usd": cost}


def test_conversations_and_plans_are_added_up(priced: VibeCommand, write_plan: WritePlan) -> None:
    say(priced)
    step = {"id": "a", "title": "A", "mode": "research", "prompt": "go"}
    assert priced("plan", "run", write_plan(step, command_step("b", "true"))).code == 0
    [plan] = priced.plan_ids()

    by_model, by_plan = used(priced), used(priced, "--by", "plan")

    assert by_model == {"total": figures(2, 6.0), "rows": [{"model": "paid", **figures(2, 6.0)}], "notes": []}
    assert by_plan["rows"] == [{"plan": None, **figures(1, 3.0)}, {"plan": plan, **figures(1, 3.0)}]
    assert used(priced, "--by", "project")["rows"] == [{"project": str(priced.workdir), **figures(2, 6.0)}]
    assert used(priced, "--by", "day")["rows"] == [{"day": time.strftime("%Y-%m-%d"), **figures(2, 6.0)}]
    text = priced("usage")
    assert text.out.splitlines() == [
        "paid   2 calls  2,000,000 in (1,000,000 cached), 2,000,000 out  $6.0000",
        "total  2 calls  2,000,000 in (1,000,000 cached), 2,000,000 out  $6.0000",
    ]
    assert text.err == ""


def test_what_writing_a_plan_took_is_counted(priced: VibeCommand) -> None:
    assert priced("plan", "new", "mend it").code == 4  # no plan, but its cost
    spent = used(priced)["total"]["calls"]
    assert spent
    assert used(priced)["rows"] == [{"model": "paid", **figures(spent, 3.0 * spent)}]
    assert used(priced, "--by", "project")["rows"] == [{"project": str(priced.workdir), **figures(spent, 3.0 * spent)}]
    with (priced.home / "logs" / "planning.jsonl").open("a") as log:
        log.write('{"at":17')
    assert used(priced)["total"] == figures(spent, 3.0 * spent)


def test_an_unknown_cost_is_null_and_said(priced: VibeCommand) -> None:
    say(priced)
    say(priced, "--model", "free")

    found = used(priced)

    assert found["total"]["cost_usd"] is None
    assert {row["model"]: row["cost_usd"] for row in found["rows"]} == {"paid": 3.0, "free": None}
    assert found["notes"] == ["cost unknown: no price is known for some calls (1 at most)"]
    assert "cost unknown" in priced("usage").out
    assert priced("usage").err.startswith("cost unknown: no price is known for some calls (1 at most)")


def test_what_a_session_was_forked_from_is_counted_once(priced: VibeCommand) -> None:
    session = say(priced)
    fork = priced("session", "fork", session).out.strip()
    assert used(priced)["total"] == figures(1, 3.0)
    say(priced, "--resume", fork)
    assert used(priced)["total"] == figures(2, 6.0)


def test_a_summary_costs_what_it_took(priced: VibeCommand) -> None:
    session = say(priced)
    transcript = priced.home / "logs" / "session" / session / "messages.jsonl"
    usage = {"prompt_tokens": 2_000_000, "completion_tokens": 2_000_000, "cached_tokens": 1_000_000, "calls": 2}
    summary: dict[str, Any] = {"role": "checkpoint", "messages": [], "usage": usage, "cost_usd": 6.0, "turns": 1}
    with transcript.open("a") as file:
        file.write(json.dumps(summary) + "\n")

    assert used(priced)["total"] == figures(2, 6.0)


def test_a_conversation_that_is_torn_in_its_middle_is_told(priced: VibeCommand) -> None:
    whole, torn = say(priced), say(priced)
    path = priced.home / "logs" / "session" / torn / "messages.jsonl"
    path.write_bytes(b"nonsense\n" + path.read_bytes())

    found = used(priced)

    assert found["total"] == figures(1, 3.0), whole
    assert any(f"{path}: line 1 is not a message" in note for note in found["notes"])


def test_what_is_older_is_left_out(priced: VibeCommand) -> None:
    old, _ = say(priced), say(priced)
    long_ago = time.time() - 10 * 86_400
    os.utime(priced.home / "logs" / "session" / old / "messages.jsonl", (long_ago, long_ago))

    assert used(priced, "--days", "9")["total"] == figures(1, 3.0)
    assert used(priced, "--days", "11")["total"] == figures(2, 6.0)
    assert len(used(priced, "--by", "day")["rows"]) == 2


def test_an_attempt_that_was_killed_counts_by_its_conversation(priced: VibeCommand, write_plan: WritePlan) -> None:
    assert priced("plan", "run", write_plan({"id": "a", "title": "A", "mode": "research"})).code == 0
    journal = next((priced.home / "plans").glob("*/journal.jsonl"))
    lines = journal.read_bytes().splitlines(keepends=True)
    ended = next(number for number, line in enumerate(lines) if b'"plan.attempt"' in line)
    journal.write_bytes(b"".join(lines[:ended]))

    assert used(priced)["total"] == figures(1, 3.0)


def test_records_that_are_broken_are_told(priced: VibeCommand) -> None:
    session = say(priced)
    with (priced.home / "logs" / "session" / session / "messages.jsonl").open("a") as file:
        file.write('{"role":"assis')
    broken = priced.home / "plans" / "abc-20260101"
    broken.mkdir(parents=True)
    (broken / "journal.jsonl").write_text("nonsense\nnonsense\n")

    found = used(priced)

    assert found["total"] == figures(1, 3.0)
    assert any(str(broken) in note for note in found["notes"])


def test_nothing_used_is_no_error(vibe: VibeCommand) -> None:
    ended = vibe("usage", "--days", "7")
    assert (ended.code, ended.out) == (0, "nothing was used in the last 7 days, as far as is kept\n")
    assert used(vibe) == {"total": figures(0, 0.0), "rows": [], "notes": []}
    assert vibe("usage", "--by", "colour").code == 2
    assert vibe("usage", "--days", "0").code == 2
