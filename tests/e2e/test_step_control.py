"""One step of a plan, controlled from another terminal: cancelled, skipped, repeated and steered, with kills in
between.

Covers ``vibe.app.plan``, ``planner.run``.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand, command_step
from tests.e2e.test_plan_control import WAITS, ended, refused, started, statuses
from tests.fakes.waiting import until, written

WritePlan = Callable[..., str]

FLAKY = "test -e fixed && echo fixed >> log"
LASTING = "echo $$ > pid; touch started; exec sleep 600"


def both_run(vibe: VibeCommand, write_plan: WritePlan, *more: dict[str, Any]) -> tuple[subprocess.Popen[bytes], str]:
    """Start a plan in which ``long`` would run for ever, and ``slow`` until ``go`` exists, and wait until both run."""
    run, plan_id = started(vibe, write_plan(command_step("slow", WAITS), command_step("long", LASTING), *more))
    until(lambda: written(vibe.workdir / "pid"))
    return run, plan_id


def test_a_running_step_is_cancelled_with_its_processes_and_the_others_go_on(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    after = command_step("after", "true", depends_on=["long"])
    clean = command_step("clean", "echo clean >> log", depends_on=[{"step": "long", "on": "failed"}])
    run, plan_id = both_run(vibe, write_plan, after, clean)
    shell = int((vibe.workdir / "pid").read_text())

    cancelled = vibe("plan", "cancel", plan_id, "long")
    again = vibe("plan", "cancel", plan_id, "long")
    until(lambda: not Path(f"/proc/{shell}").exists())
    until(lambda: written(vibe.workdir / "log"))
    (vibe.workdir / "go").touch()
    code, record = ended(run)

    assert (cancelled.code, cancelled.out) == (0, f"plan {plan_id}: step 'long' is cancelled\n")
    assert again.code == 0
    assert (code, record["outcome"], record["reason"]) == (1, "failed", "cancelled")
    assert {step["id"]: step["status"] for step in record["steps"]} == {
        "slow": "completed",
        "long": "cancelled",
        "after": "blocked",
        "clean": "completed",
    }
    assert record["result"] == "step 'long' was cancelled: the step was stopped by a command"
    assert refused(vibe("plan", "cancel", plan_id, "slow"), 2, "step 'slow': it is completed")
    assert refused(vibe("plan", "skip", plan_id, "lnog"), 2, "'lnog'", "long")

    skipped = vibe("plan", "skip", plan_id, "long")
    assert (skipped.code, "step 'long' is skipped" in skipped.out) == (0, True)
    assert vibe("plan", "resume", plan_id).code == 0
    assert statuses(vibe, plan_id)["after"] == "completed"


def test_a_step_is_skipped_and_what_waits_for_it_runs(vibe: VibeCommand, write_plan: WritePlan) -> None:
    run, plan_id = both_run(vibe, write_plan, command_step("after", "echo after >> log", depends_on=["long"]))

    assert vibe("plan", "skip", plan_id, "long").code == 0
    until(lambda: written(vibe.workdir / "log"))
    (vibe.workdir / "go").touch()
    code, record = ended(run)

    assert (code, record["outcome"]) == (0, "completed")
    assert sorted((vibe.workdir / "log").read_text().split()) == ["after", "ran"]


def test_a_failed_step_is_done_again_by_the_run_that_goes_on(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(
        command_step("slow", WAITS),
        command_step("flaky", FLAKY),
        command_step("after", "echo after >> log", depends_on=["flaky"]),
    )
    run, plan_id = started(vibe, plan)
    until(lambda: statuses(vibe, plan_id)["flaky"] == "failed")
    (vibe.workdir / "fixed").touch()

    retried = vibe("plan", "retry", plan_id, "flaky", "--output", "json")
    until(lambda: statuses(vibe, plan_id)["after"] == "completed")
    (vibe.workdir / "go").touch()
    code, record = ended(run)

    assert retried.document["message"] == "step 'flaky' runs again"
    assert (code, [step["attempts"] for step in record["steps"]]) == (0, [1, 2, 1])
    assert (vibe.workdir / "log").read_text() == "fixed\nafter\nran\n"


@pytest.mark.parametrize(("act", "status", "log"), [("cancel", "cancelled", ""), ("skip", "skipped", "after\n")])
def test_what_was_asked_of_a_step_holds_if_the_run_is_killed_before_it_is_done(
    vibe: VibeCommand, write_plan: WritePlan, act: str, status: str, log: str
) -> None:
    stubborn = "trap '' TERM; touch started pid; while :; do sleep 0.05; done"
    run, plan_id = started(
        vibe,
        write_plan(
            command_step("long", stubborn, side_effects=True),
            command_step("after", "echo after >> log", depends_on=["long"]),
        ),
    )
    journal = vibe.home / "plans" / plan_id / "journal.jsonl"
    assert vibe("plan", act, plan_id, "long").code == 0
    run.kill()
    run.wait()
    facts = [line for line in journal.read_text().splitlines() if line]
    cut = next(number for number, line in enumerate(facts) if json.loads(line)["type"] == "plan.act")
    journal.write_text("\n".join(facts[: cut + 1]) + "\n")

    vibe("plan", "resume", plan_id)

    assert statuses(vibe, plan_id)["long"] == status
    assert ((vibe.workdir / "log").read_text() if log else "") == log


# --- steering -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["local", "process"])
def test_the_agent_of_a_running_step_is_told_something_before_its_next_turn(
    vibe: VibeCommand, write_plan: WritePlan, executor: str
) -> None:
    waits = {"tool_calls": [{"name": "bash", "arguments": {"command": WAITS}}]}
    vibe.replay({"agents": {"talk": {"turns": [waits, {"text": "done"}, {"text": "done so"}]}}})
    talk = {"id": "talk", "title": "Talk", "mode": "test"}
    plan = write_plan(talk, command_step("later", "true", depends_on=["talk"]))
    run, plan_id = started(vibe, plan, "--auto-approve", "--executor", executor)

    told = vibe("plan", "steer", plan_id, "talk", "Use", "the other parser")
    nobody = vibe("plan", "steer", plan_id, "later", "Hurry")
    (vibe.workdir / "go").touch()
    code, record = ended(run)

    assert (told.code, told.out) == (0, f"plan {plan_id}: the agent of step 'talk' reads it before its next turn\n")
    assert refused(nobody, 2, "it is a command")
    assert (code, record["outcome"]) == (0, "completed")
    messages = (vibe.home / "plans" / plan_id / "steps" / "talk" / "messages.jsonl").read_text().splitlines()
    said = [json.loads(line).get("content") for line in messages]
    assert said.index("Use the other parser") == len(said) - 2
    assert refused(vibe("plan", "steer", plan_id, "talk", "More"), 2, "it is completed", "--message")
