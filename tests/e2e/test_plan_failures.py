"""Steps that failed or were cut off, and the decision, answer and resume that follow.

Covers ``vibe.app.plan``.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.conftest import VibeCommand, command_step
from tests.fakes.waiting import until
from tests.integration.core.session.repository import git as run_git, repository

WritePlan = Callable[..., str]

DEPLOY = "echo deploy >> effects; touch begun; while [ ! -e go ]; do sleep 0.02; done"


def effects(vibe: VibeCommand) -> int:
    """Return how often the step's effect happened."""
    path = vibe.workdir / "effects"
    return len(path.read_text().splitlines()) if path.exists() else 0


def asking_plan(write_plan: WritePlan) -> str:
    return write_plan(
        command_step("bad", "echo x >> tries; test -e mended", on_failure="ask"),
        command_step("after", "touch after", depends_on=["bad"]),
        command_step("other", "touch other"),
    )


def test_a_failed_step_that_asks_pauses_the_plan_where_nobody_is_there(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    ended = vibe("plan", "run", "--output", "json", asking_plan(write_plan))

    record = ended.document
    assert (ended.code, record["outcome"], record["reason"]) == (5, "blocked", "decision")
    steps = {step["id"]: step for step in record["steps"]}
    assert {step_id: step["status"] for step_id, step in steps.items()} == {
        "bad": "needs_decision",
        "after": "blocked",
        "other": "completed",
    }
    assert (steps["bad"]["attempts"], steps["bad"]["reason"]) == (1, "exit_code")
    status = vibe("plan", "status", "--output", "json", vibe.plan_ids()[0]).document
    assert {step["id"]: step["status"] for step in status["steps"]} == {
        "bad": "needs_decision",
        "after": "blocked",
        "other": "completed",
    }
    assert "failed:bad:1" in vibe("plan", "status", vibe.plan_ids()[0]).out


@pytest.mark.parametrize(
    ("answer", "code", "status", "tries"),
    [("retry", 0, "completed", 2), ("skip", 0, "skipped", 1), ("stop", 1, "failed", 1)],
)
def test_the_answer_to_a_failure_is_carried_out_by_the_resume(
    vibe: VibeCommand, write_plan: WritePlan, answer: str, code: int, status: str, tries: int
) -> None:
    vibe("plan", "run", asking_plan(write_plan))
    plan_id = vibe.plan_ids()[0]
    (vibe.workdir / "mended").touch()

    decided = vibe("plan", "decide", plan_id, "failed:bad:1", answer)
    ended = vibe("plan", "resume", "--output", "json", plan_id)

    assert (decided.code, ended.code) == (0, code), decided.err + ended.err
    assert ended.document["steps"][0]["status"] == status
    assert len((vibe.workdir / "tries").read_text().splitlines()) == tries
    assert (vibe.workdir / "after").exists() == (answer != "stop")


def test_a_plan_that_has_ended_asks_for_no_decision_that_it_would_refuse(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    decision = {"id": "q", "question": "Q?", "options": [{"id": "y", "label": "Y"}, {"id": "n", "label": "N"}]}
    steps = [command_step("a", "exit 1"), command_step("b", "true", decision="q")]
    assert vibe("plan", "run", "--fail-fast", write_plan(*steps, decisions=[decision])).code == 1

    assert vibe("plan", "decide", "latest", "q", "y").code == 2
    assert "decide with" not in vibe("plan", "status", "latest").out + vibe("plan", "show", "latest").out
    assert vibe("plan", "status", "latest", "--output", "json").document["open_decisions"] == []
    assert vibe("plan", "retry", "latest", "a").code == 0
    assert "decide with" in vibe("plan", "status", "latest").out
    assert vibe("plan", "decide", "latest", "q", "y").code == 0


def test_an_answer_that_makes_no_sense_is_refused_in_one_sentence(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe("plan", "run", asking_plan(write_plan))
    plan_id = vibe.plan_ids()[0]

    again = vibe("plan", "decide", plan_id, "failed:bad:1", "again")
    unknown = vibe("plan", "decide", plan_id, "failed:bad:2", "retry")

    assert (again.code, unknown.code) == (2, 2)
    assert "retry, skip, stop" in again.err
    assert "open decisions: failed:bad:1" in unknown.err


def test_what_was_killed_in_the_middle_of_a_side_effect_is_not_done_again_by_itself(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    plan = write_plan(
        command_step("deploy", DEPLOY, side_effects=True), command_step("tell", "touch told", depends_on=["deploy"])
    )
    process = vibe.start("plan", "run", plan)
    until((vibe.workdir / "begun").exists)
    process.kill()
    process.communicate()
    plan_id = vibe.plan_ids()[0]
    (vibe.workdir / "go").touch()

    asked = vibe("plan", "resume", "--output", "json", plan_id)
    assert (asked.code, asked.document["reason"], effects(vibe)) == (5, "decision", 1)
    assert vibe("plan", "decide", plan_id, "interrupted:deploy:1", "again").code == 0
    ended = vibe("plan", "resume", "--output", "json", plan_id)

    assert (ended.code, effects(vibe)) == (0, 2)
    assert (vibe.workdir / "told").exists()


def test_a_pause_that_cuts_a_side_effect_off_asks_and_skip_goes_on_without_it(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    plan = write_plan(
        command_step("deploy", DEPLOY, side_effects=True), command_step("tell", "touch told", depends_on=["deploy"])
    )
    process = vibe.start("plan", "run", "--output", "streaming", plan)
    assert process.stdout is not None
    until((vibe.workdir / "begun").exists)
    process.send_signal(signal.SIGINT)
    while b'"code":"pausing"' not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    plan_id = vibe.plan_ids()[0]

    assert vibe("plan", "decide", plan_id, "interrupted:deploy:1", "skip").code == 0
    ended = vibe("plan", "resume", "--output", "json", plan_id)

    assert (ended.code, effects(vibe)) == (0, 1)
    assert [step["status"] for step in ended.document["steps"]] == ["skipped", "completed"]
    assert Path(vibe.workdir / "told").exists()


def test_the_summary_counts_all_attempts_at_a_step(vibe: VibeCommand, write_plan: WritePlan) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 234}
    vibe.replay({"agents": {"a": {"turns": [{"text": "done", "usage": usage}]}}})
    step = {"id": "a", "title": "A", "mode": "research", "model": ["replay", "replay"], "max_repairs": 0}

    ended = vibe("plan", "run", write_plan({**step, "verify": ["test -e once || { touch once; false; }"]}))

    assert ended.code == 0, ended.err + ended.out
    row = next(line for line in ended.out.splitlines() if line.startswith("✓ a"))
    assert "2,468 tok" in row
    assert "try 2" in row


def test_a_resume_on_a_branch_without_the_commit_that_was_left_says_so(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    vibe.workdir.rmdir()
    repository(vibe.workdir, {"a.txt": "old\n"})
    git = partial(run_git, cwd=vibe.workdir)
    decision = {"id": "go", "question": "Go?", "options": [{"id": "yes", "label": "Yes"}, {"id": "no", "label": "No"}]}
    plan = write_plan(
        command_step("first", "echo done > first.txt"),
        command_step("second", "true", depends_on=["first"], decision="go"),
        decisions=[decision],
    )
    git("add", "-A")
    git("commit", "-qm", "the plan")
    assert vibe("plan", "run", plan).code == 5
    git("add", "-A")
    git("commit", "-qm", "the work of the first step")

    told = vibe("plan", "resume", "latest")
    assert (told.code, "is not in what is checked out" in told.err + told.out) == (5, False)
    git("checkout", "-q", "-b", "other", "HEAD~2")
    told = vibe("plan", "resume", "latest", "--decide", "go=yes")
    assert told.code == 0, told.err
    assert "is not in what is checked out now: the work of its finished steps may be missing" in told.out + told.err
