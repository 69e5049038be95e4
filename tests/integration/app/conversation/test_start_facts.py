"""The facts on the start screen of a real conversation: seat, folder and unfinished plans."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anyio import to_thread

from planner.plan.status import PlanStatus
from planner.store.folder import PlanSnapshot, RunSettings
from planner.store.store import PlanStore
from tests.integration.app.conversation.conftest import Rig
from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.opening import AgentChange
from vibe.app.conversation.runtime import Runtime
from vibe.core.tools.permissions import ApprovalMode
from vibe.front.start_facts import agent_facts, priced_facts, project_facts
from vibe.front.start_screen import AgentFacts, GitFacts, ProjectFacts

PLAN = b'{"version": 1, "goal": "Build it", "steps": [{"id": "a", "title": "A", "mode": "run", "command": "true"}]}'


def left(home: Path, plan_id: str, workspace: Path, status: PlanStatus, updated: float) -> None:
    """Write a plan as a run leaves it, with one of three steps done."""
    given = RunSettings(plan_id=plan_id, goal=f"Goal of {plan_id}", workspace=str(workspace), created=1.0)
    store = PlanStore.create(home, given, PLAN)
    store.close()
    counts = {"completed": 1, "pending": 2}
    snapshot = PlanSnapshot(plan_id=plan_id, status=status, counts=counts, updated=updated)
    (home / "plans" / plan_id / "state.json").write_bytes(msgspec.json.encode(snapshot))


async def seen(rig: Rig, **opening: Any) -> tuple[AgentFacts, ProjectFacts]:
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(**opening), rig.seat)
        found = await facts_of(conversation, rig)
        await conversation.aclose()
    return found


async def facts_of(conversation: Conversation, rig: Rig) -> tuple[AgentFacts, ProjectFacts]:
    agent = await to_thread.run_sync(agent_facts, conversation)
    return agent, await to_thread.run_sync(project_facts, conversation, rig.host.home)


async def test_model_mode_tools_and_git_are_told(rig: Rig) -> None:
    (rig.folder / "a.txt").write_text("other\n")
    (rig.folder / "test_it.py").touch()
    agent, project = await seen(rig, approvals=ApprovalMode.ASK, trust=True)

    assert (agent.model.name, agent.model.prices, agent.model.has_key) == ("first", (1.0, 2.0), True)
    assert (agent.mode, agent.is_unbound) == ("asks before it edits or runs commands", False)
    assert agent.tools > 5
    assert (agent.skills, agent.servers) == (0, 0)
    assert agent.sandbox is not None
    assert (project.git.changed, project.tests, project.is_empty) == (2, "test_it.py", False)
    assert project.git.branch
    assert (list(project.docs), project.unread, list(project.left)) == ([], "", [])


@pytest.mark.parametrize(
    ("opening", "mode"),
    [
        ({"approvals": ApprovalMode.ALL}, "AUTO-APPROVES EVERYTHING"),
        ({"approvals": ApprovalMode.EDITS}, "edits files unasked, asks before it runs commands"),
        ({"approvals": None, "agent": "accept-edits"}, "edits files unasked, asks before it runs commands"),
        ({"approvals": None, "agent": "plan"}, "reads only, changes nothing"),
        ({"approvals": ApprovalMode.ALL, "observe": True}, "reads only, changes nothing"),
    ],
)
async def test_what_is_done_unasked_is_told(rig: Rig, opening: dict[str, Any], mode: str) -> None:
    agent, _ = await seen(rig, **opening)

    assert agent.mode == mode
    assert agent.is_unbound is (mode == "AUTO-APPROVES EVERYTHING")


async def test_after_a_change_of_the_agent_they_are_other(rig: Rig) -> None:
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(approvals=None), rig.seat)
        await conversation.configure(AgentChange(agent="auto-approve", model="second"))
        agent, _ = await facts_of(conversation, rig)
        priced = await to_thread.run_sync(priced_facts, conversation, agent)
        await conversation.aclose()

    assert (agent.is_unbound, agent.model.name) == (True, "second")
    assert priced.model.name == "second"


@pytest.mark.parametrize(
    ("made", "docs", "unread"),
    [(True, ["AGENTS.md"], ""), (False, [], "AGENTS.md")],
    ids=["trusted", "not trusted"],
)
async def test_instructions_are_told_as_they_were_read(rig: Rig, made: bool, docs: list[str], unread: str) -> None:  # noqa: FBT001  a case
    (rig.folder / "AGENTS.md").write_text("Be short.")
    _, project = await seen(rig, trust=made)

    assert (list(project.docs), project.unread) == (docs, unread)


async def test_a_folder_without_repository_files_and_tests(rig: Rig, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    (bare / "tests").mkdir(parents=True)
    _, project = await seen(rig, workdir=bare)
    (bare / "tests").rmdir()
    _, empty = await seen(rig, workdir=bare)

    assert project.git == GitFacts(is_repository=False)
    assert (project.tests, project.is_empty) == ("", False)
    assert empty.is_empty


async def test_plans_of_this_folder_that_can_go_on_are_told_the_newest_first(rig: Rig) -> None:
    home, here = rig.host.home, rig.folder

    def write() -> None:
        left(home, "one", here, PlanStatus.PAUSED, 5.0)
        left(home, "done", here, PlanStatus.COMPLETED, 6.0)
        left(home, "other", here.parent, PlanStatus.PAUSED, 7.0)
        left(home, "two", here, PlanStatus.PAUSED, 8.0)
        for age, name in enumerate(("one", "done", "other", "two")):
            os.utime(home / "plans" / name / "run.json", (age, age))

    await to_thread.run_sync(write)
    _, project = await seen(rig)

    told = [(plan.plan_id, plan.goal, *plan.progress, plan.updated) for plan in project.left]
    assert told == [("two", "Goal of two", 1, 3, 8.0), ("one", "Goal of one", 1, 3, 5.0)]
