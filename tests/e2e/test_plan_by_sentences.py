"""Plans changed by a sentence: a proposal becomes its next version, and a begun plan gets operations after approval.

Covers ``vibe.app.plan``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ipc.events import PlanProposedEvent, SessionEndedEvent
from ipc.sink import MemorySink
from planner.plan.diagnostics import PlanInvalidError
from planner.plan.loader import read_plan_file
from tests.e2e.conftest import VibeCommand, command_step
from tests.e2e.test_config_keys import serve
from tests.e2e.test_plan_control import WAITS, ended, refused, started, statuses
from tests.e2e.test_plan_new import call, hand_in, on_terminal, planner
from tests.fakes.model_server import ModelServer, Reply, ServedCall
from vibe.app.engine.host import Host
from vibe.app.plan.author import PlanningRequest, planning
from vibe.core.messages import Outcome
from vibe.system.errors import UsageError

WritePlan = Callable[..., str]

FIRST = {"steps": [{"id": "write", "title": "Write it", "mode": "code", "writes": ["a.txt"]}]}
SECOND = {
    "steps": [
        {"id": "write", "title": "Write it well", "mode": "code", "writes": ["a.txt"]},
        {"id": "check", "title": "Check it", "mode": "run", "command": "test -e a.txt", "depends_on": ["write"]},
    ]
}
ADDED = command_step("more", "echo more >> log", depends_on=["b"])
ADD = {"op": "add_step", "step": ADDED}
CHANGE_RUNNING = {"op": "update_step", "id": "a", "changes": {"title": "Other"}}


def operations(*given: dict[str, Any], reason: str = "as asked") -> dict[str, Any]:
    return call("hand_in_revision", value={"operations": list(given), "reason": reason})


def handed_in(plan: dict[str, Any]) -> Reply:
    return Reply(tool_calls=(ServedCall(name="hand_in_plan", arguments=json.dumps({"value": plan})),))


# --- proposals ----------------------------------------------------------------------------------------------------


def test_a_proposal_is_changed_by_a_sentence_and_the_earlier_version_stays(vibe: VibeCommand) -> None:
    planner(vibe, hand_in(SECOND))
    before = {
        "version": 1,
        "goal": "Write a.txt",
        "steps": [{**FIRST["steps"][0], "model": "replay", "max_price": 2.5}],
        "budget": {"max_tokens": 500_000},
        "metadata": {"ticket": 7},
    }
    (vibe.workdir / "plan.json").write_text(json.dumps(before))

    made = vibe("plan", "new", "--from", "plan.json", "Check", "it, too", "-o", "next.json")

    assert made.code == 0, made.err
    plan = read_plan_file(vibe.workdir / "next.json").plan
    assert (plan.goal, [step.title for step in plan.steps]) == ("Write a.txt", ["Write it well", "Check it"])
    assert (plan.steps[0].model, plan.steps[0].max_price) == ("replay", 2.5)
    assert plan.budget is not None
    assert (plan.budget.max_tokens, plan.metadata) == (
        500_000,
        {"origin": "model", "ticket": 7, "model": "replay"},
    )
    assert json.loads((vibe.workdir / "plan.json").read_text()) == before


async def test_every_version_of_a_draft_is_kept_announced_and_paid_by_one_account(vibe: VibeCommand) -> None:
    told, own = MemorySink(), {"version": 1, "goal": "Another goal", "steps": [command_step("x", "true")]}
    host = Host(home=vibe.home, environ=vibe.variables(), owns_process=True)
    with ModelServer() as server:
        serve(vibe, server, model="input_price = 1.0\noutput_price = 3.0\n")
        server.enqueue(*map(handed_in, (FIRST, SECOND)), Reply(text="I will not."), Reply(text="No."))
        await draft_versions(vibe, server, host, told, own)


async def draft_versions(
    vibe: VibeCommand, server: ModelServer, host: Host, told: MemorySink, own: dict[str, Any]
) -> None:
    async with planning(PlanningRequest(subject="Write", workdir=vibe.workdir), host, [told]) as run:
        draft = run.draft("Write a.txt")
        with pytest.raises(UsageError, match="no plan yet: create it first"):
            await draft.revise("Check it")
        first = await draft.write()
        assert first is not None
        spent = run.context.account.usage.total_tokens
        second = await draft.revise("Check it, too")
        assert second is not None
        with pytest.raises(UsageError, match="no change requested"):
            await draft.revise("  ")
        with pytest.raises(PlanInvalidError):
            await draft.replace('{"version": 1}')
        assert await draft.revise("Sing") is None
        assert draft.acted is not None
        assert (draft.acted.outcome, draft.loaded) == (Outcome.FAILED, second.loaded)
        third = await draft.replace(json.dumps(own))
        assert spent == 18
        assert run.context.account.usage.total_tokens == 4 * spent

    asked = [str(received.body["messages"]) for received in server.requests]
    assert "Write it" not in asked[0]
    assert "Write it" in asked[1]
    assert "Check it, too" in asked[1]
    assert [version.number for version in draft.versions] == [1, 2, 3]
    assert (draft.loaded, draft.goal, draft.last.estimate.steps) == (third.loaded, "Another goal", 1)
    proposed = [event for event in told.events if isinstance(event, PlanProposedEvent)]
    assert [(event.draft, event.goal, len(event.steps)) for event in proposed] == [
        (1, "Write a.txt", 1),
        (2, "Write a.txt", 2),
        (3, "Another goal", 1),
    ]
    assert [one.command for one in proposed[1].commands] == ["test -e a.txt"]
    check_bounds(proposed[1])
    assert isinstance(told.events[-1], SessionEndedEvent)


def check_bounds(event: PlanProposedEvent) -> None:
    assert event.estimate is not None
    assert (event.estimate.max_tokens, event.estimate.worst_price) == (1_000_000, 3.0)
    assert not any("1,000,000 tokens" in note for note in event.estimate.notes)


# --- plans that have begun ----------------------------------------------------------------------------------------


def begun(vibe: VibeCommand, write_plan: WritePlan) -> tuple[Any, str]:
    """Start a plan, and wait until its first step runs."""
    return started(vibe, write_plan(command_step("a", WAITS), command_step("b", "echo b >> log", depends_on=["a"])))


def test_a_running_plan_is_changed_by_a_sentence(vibe: VibeCommand, write_plan: WritePlan) -> None:
    planner(vibe, operations(ADD, CHANGE_RUNNING), operations(ADD))
    run, plan_id = begun(vibe, write_plan)

    changed = vibe("plan", "edit", plan_id, "--ask", "Say more at the end", "--yes")
    (vibe.workdir / "go").touch()
    code, record = ended(run)

    assert changed.code == 0, changed.err
    assert changed.out.splitlines() == [
        f"plan {plan_id}: 1 change made",
        "  add step more (run) after b: Step more",
        "It would run:",
        "  more: echo more >> log",
        "because: as asked",
    ]
    assert (code, record["outcome"]) == (0, "completed")
    assert (vibe.workdir / "log").read_text() == "ran\nb\nmore\n"
    assert "Say more at the end" in vibe("plan", "report", plan_id).out


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 5)])
def test_a_change_is_shown_and_waits_for_a_yes(
    vibe: VibeCommand, write_plan: WritePlan, answer: str, code: int
) -> None:
    planner(vibe, operations(ADD))
    vibe("plan", "run", write_plan(command_step("a", "true"), command_step("b", "false", depends_on=["a"])))
    plan_id = vibe.plan_ids()[0]

    with on_terminal(vibe, "plan", "edit", plan_id, "--ask", "Say more at the end") as (terminal, process):
        terminal.wait_for("add step more (run) after b")
        terminal.wait_for("Apply this change? [y/N]")
        terminal.type(f"{answer}\n")
        assert process.wait(120) == code, terminal.sent()

    assert ("more" in statuses(vibe, plan_id)) == (answer == "y")


def test_nothing_is_asked_of_a_model_where_nobody_can_say_yes(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe("plan", "run", write_plan(command_step("a", "false")))
    plan_id = vibe.plan_ids()[0]

    assert refused(vibe("plan", "edit", plan_id, "--ask", "More"), 2, "--yes", "terminal")
    assert refused(vibe("plan", "edit", plan_id, "--ask", "More", "--max-tokens", "5"), 2, "limits")
    assert refused(vibe("plan", "edit", plan_id, "--yes", "--max-tokens", "5"), 2, "--ask")


def test_what_a_planner_finds_no_change_for_stays_as_it_is(vibe: VibeCommand, write_plan: WritePlan) -> None:
    planner(vibe, operations(reason="it does that already"))
    vibe("plan", "run", write_plan(command_step("a", "false")))
    plan_id = vibe.plan_ids()[0]
    journal = Path(vibe.home / "plans" / plan_id / "journal.jsonl").read_bytes()

    said = vibe("plan", "edit", plan_id, "--ask", "Run a", "--yes")

    assert (said.code, "nothing to change: it does that already" in said.out) == (0, True)
    assert Path(vibe.home / "plans" / plan_id / "journal.jsonl").read_bytes() == journal


def test_a_planner_that_hands_nothing_in_is_told_with_its_exit_code(vibe: VibeCommand, write_plan: WritePlan) -> None:
    planner(vibe, {"text": "No."}, {"text": "Still no."})
    vibe("plan", "run", write_plan(command_step("a", "false")))

    said = vibe("plan", "edit", vibe.plan_ids()[0], "--ask", "Run b", "--yes")

    assert (said.code, said.out) == (1, "")
    assert "vibe: no change: " in said.err


def test_a_plan_that_has_ended_is_not_changed_by_a_sentence(vibe: VibeCommand, write_plan: WritePlan) -> None:
    planner(vibe, operations(ADD))
    vibe("plan", "run", write_plan(command_step("a", "true")))

    assert refused(vibe("plan", "edit", vibe.plan_ids()[0], "--ask", "More", "--yes"), 2, "has ended (completed)")
