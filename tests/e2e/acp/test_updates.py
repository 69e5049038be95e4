"""Updates about the work that an editor receives: things to do, and plans.

Covers ``vibe.acp``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.acp.acp_scene import Scene, tool
from tests.e2e.conftest import leftovers
from tests.fakes.waiting import until


def test_a_list_of_things_to_do_is_the_plan(scene: Scene, workdir: Path) -> None:
    todos = [
        {"id": "1", "content": "look", "status": "completed"},
        {"id": "2", "content": "leap", "status": "in_progress", "priority": "high"},
    ]
    scene.script(tool("todo", action="write", todos=todos), {"text": "done"})
    session = scene.editing.new(workdir)

    scene.editing.ask(session, "go")

    entries = scene.editor.of("plan", session)[-1].entries
    assert [(one.content, one.status, one.priority) for one in entries] == [
        ("look", "completed", "medium"),
        ("leap", "in_progress", "high"),
    ]


def test_a_plan_is_written_accepted_and_run_as_the_plan_of_the_editor(scene: Scene, workdir: Path) -> None:
    plan = {
        "version": 1,
        "goal": "Two files",
        "steps": [
            {"id": "a", "title": "First file", "mode": "run", "command": "touch a"},
            {"id": "b", "title": "Second file", "mode": "run", "command": "touch b", "depends_on": ["a"]},
        ],
    }
    (workdir / "plan.json").write_text(json.dumps(plan))
    scene.script({"text": "fine"})
    scene.editor.answers.append("pick:run")
    session = scene.editing.new(workdir)

    ended = scene.editing.ask(session, "/plan load plan.json")

    entries = [[(one.content, one.status) for one in update.entries] for update in scene.editor.of("plan", session)]
    assert ended.stop_reason == "end_turn"
    assert "Run this plan: Two files" in scene.editor.asked[-1][1].title
    assert "First file" in scene.editor.text(session)
    assert [("First file", "in_progress"), ("Second file", "pending")] in entries
    assert entries[-1] == [("First file", "completed"), ("Second file", "completed")]
    assert (workdir / "b").exists()


def planned(*steps: dict[str, Any]) -> list[dict[str, Any]]:
    return [tool("hand_in_plan", value={"steps": list(steps)})]


def test_a_plan_for_a_goal_is_changed_by_the_next_prompt_and_asks_where_a_step_fails(
    scene: Scene, workdir: Path
) -> None:
    def mend() -> str:
        (workdir / "mended").touch()
        return "pick:retry"

    made = {"id": "a", "title": "First file", "mode": "run", "command": "touch a"}
    failing = {"id": "b", "title": "Second try", "mode": "run", "command": "test -e mended", "on_failure": "ask"}
    scene.script({"text": "fine"}, planner=planned(made))
    session = scene.editing.new(workdir)

    scene.editor.answers.append("pick:change")
    left_open = scene.editing.ask(session, "/plan Make a file")
    status = scene.editing.ask(session, "/status")
    assert [left_open.stop_reason, status.stop_reason] == ["end_turn"] * 2
    assert "next prompt" in scene.editor.text(session)
    assert not (workdir / "a").exists()

    scene.script({"text": "fine"}, planner=planned(made, failing))
    scene.editor.answers.extend(["pick:run", mend])
    ended = scene.editing.ask(session, "Try something, too.")

    (*_, run_it), (*_, decided) = [
        (asked.title, [option.name for option in options]) for _, asked, options in scene.editor.asked[-2:]
    ]
    assert ended.stop_reason == "end_turn"
    assert run_it[0] == "Run it"
    assert run_it[-1] == "Drop it"
    assert decided[-1] == "Not now"
    assert "Second try" in scene.editor.asked[-1][1].title
    last = scene.editor.of("plan", session)[-1].entries
    assert [(one.content, one.status) for one in last] == [("First file", "completed"), ("Second try", "completed")]
    assert scene.editing.ask(session, "and now?").stop_reason == "end_turn"
    assert scene.editor.text(session).endswith("fine")


def test_a_turn_that_is_stopped_pauses_its_plan(scene: Scene, workdir: Path) -> None:
    plan = {
        "version": 1,
        "goal": "Wait",
        "steps": [{"id": "a", "title": "Long", "mode": "run", "command": "echo $$ > pid; exec sleep 600"}],
    }
    (workdir / "plan.json").write_text(json.dumps(plan))
    scene.script({"text": "fine"})
    scene.editor.answers.append("pick:run")
    session = scene.editing.new(workdir)
    turn = scene.editing.asking(session, "/plan load plan.json")
    until((workdir / "pid").is_file)

    scene.editing.cancel(session)

    assert turn.result(60).stop_reason == "cancelled"
    until(lambda: not leftovers(workdir))
    assert scene.editing.ask(session, "go on").stop_reason == "end_turn"


MADE = {"id": "make", "title": "Make it", "mode": "run", "command": "touch made.txt"}
SLOW = {"id": "wait", "title": "Wait", "mode": "run", "command": "touch begun; exec sleep 600"}


def proposed(*steps: dict[str, Any]) -> dict[str, Any]:
    return tool("propose_plan", goal="Make a file", steps=list(steps))


def test_a_plan_that_the_agent_proposes_is_asked_about_and_runs_in_its_turn(scene: Scene, workdir: Path) -> None:
    scene.script(proposed(MADE), {"text": "It runs."}, {"text": "Anything else?"})
    session = scene.editing.new(workdir)
    scene.editor.answers.append("pick:run")

    ended = scene.editing.ask(session, "make a file")
    went_on = scene.editing.ask(session, "well?")

    assert [ended.stop_reason, went_on.stop_reason] == ["end_turn"] * 2
    assert "Run this plan: Make a file" in scene.editor.asked[-1][1].title
    assert (workdir / "made.txt").exists()
    assert scene.editor.of("plan", session)[-1].entries[0].status == "completed"
    assert "Anything else?" in scene.editor.text(session)


def test_the_change_of_a_proposal_is_the_next_prompt_of_its_agent(scene: Scene, workdir: Path) -> None:
    scene.script(proposed(MADE), {"text": "What then?"}, {"text": "As you say."})
    session = scene.editing.new(workdir)
    scene.editor.answers.append("pick:change")

    scene.editing.ask(session, "make a file")
    scene.editing.ask(session, "call it otherwise")

    assert "As you say." in scene.editor.text(session)
    assert not (workdir / "made.txt").exists()


def test_a_turn_that_is_stopped_pauses_the_plan_that_its_agent_proposed(scene: Scene, workdir: Path) -> None:
    scene.script(proposed(SLOW), {"text": "It runs, slowly.", "delay_seconds": 600})
    session = scene.editing.new(workdir)
    scene.editor.answers.append("pick:run")
    turn = scene.editing.asking(session, "make a file")
    until((workdir / "begun").exists)

    scene.editing.cancel(session)

    assert turn.result(60).stop_reason == "cancelled"
    until(lambda: not leftovers(workdir))
    assert scene.editing.ask(session, "/status").stop_reason == "end_turn"
