"""Questions to the person at the editor: permissions, and questions of the agent.

Covers ``vibe.acp``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.acp.acp_scene import Scene, begun, edit, tool
from tests.e2e.conftest import leftovers
from tests.fakes.waiting import until


def test_an_edit_is_shown_as_a_diff_and_made_when_allowed(scene: Scene, workdir: Path) -> None:
    (workdir / "notes.txt").write_text("first\nsecond\n")
    scene.script(tool("read_file", path="notes.txt"), edit("second", "third"), {"text": "done"})
    scene.editor.answers.append("allow_once")
    session = scene.editing.new(workdir)

    assert scene.editing.ask(session, "go").stop_reason == "end_turn"

    _, asked, options = scene.editor.asked[-1]
    calls = scene.editor.calls(session)
    diff = calls[asked.tool_call_id]["content"][0]
    assert asked.content[-1].type == "diff"
    assert [one.kind for one in options][:2] == ["allow_once", "allow_always"]
    assert options[-1].kind == "reject_once"
    assert (diff["path"], diff["old_text"], diff["new_text"]) == (
        str(workdir / "notes.txt"),
        "first\nsecond\n",
        "first\nthird\n",
    )
    assert [call["kind"] for call in calls.values()] == ["read", "edit"]
    assert [call["status"] for call in calls.values()] == ["completed"] * 2
    assert (workdir / "notes.txt").read_text() == "first\nthird\n"


def test_what_is_refused_is_not_done(scene: Scene, workdir: Path) -> None:
    scene.script(tool("write_file", path="new.txt", content="hello\n"), {"text": "then not"})
    scene.editor.answers.append("reject_once")
    session = scene.editing.new(workdir)

    assert scene.editing.ask(session, "go").stop_reason == "end_turn"

    _, asked, _ = scene.editor.asked[-1]
    assert (asked.content[-1].new_text, asked.content[-1].old_text) == ("hello\n", None)
    assert scene.editor.calls(session)[asked.tool_call_id]["status"] == "failed"
    assert scene.editor.text(session) == "then not"
    assert not (workdir / "new.txt").exists()


def test_a_yes_for_the_session_is_asked_for_once(scene: Scene, workdir: Path) -> None:
    writes = [tool("write_file", path=f"{name}.txt", content=name) for name in "abc"]
    scene.script(*writes, {"text": "done"})
    scene.editor.answers.append("edits")
    session = scene.editing.new(workdir)
    asked_before = len(scene.editor.asked)

    scene.editing.ask(session, "go")

    assert len(scene.editor.asked) == asked_before + 1
    assert [(workdir / f"{name}.txt").read_text() for name in "abc"] == ["a", "b", "c"]


def stopped_while_asked(scene: Scene, workdir: Path, *, before: bool) -> None:
    """Let the editor stop a turn, and answer the open question ``before`` that or after it."""
    scene.script(tool("write_file", path="new.txt", content="hello\n"), {"text": "still here"})
    session = scene.editing.new(workdir)
    asked_before = len(scene.editor.asked)
    turn = scene.editing.asking(session, "go")
    until(lambda: len(scene.editor.asked) > asked_before)

    if before:
        scene.editing.portal.call(scene.editor.give_up)
        scene.editing.cancel(session)
    else:
        scene.editing.cancel(session)
    assert turn.result(90).stop_reason == "cancelled"
    if not before:
        scene.editing.portal.call(scene.editor.give_up)

    assert not (workdir / "new.txt").exists()
    assert scene.editing.ask(session, "and now?").stop_reason == "end_turn"
    assert scene.editor.text(session) == "still here"


def test_a_turn_is_cancelled_and_then_its_question_answered(scene: Scene, workdir: Path) -> None:
    stopped_while_asked(scene, workdir, before=False)


def test_a_question_is_given_up_and_then_its_turn_cancelled(scene: Scene, workdir: Path) -> None:
    stopped_while_asked(scene, workdir, before=True)


def test_a_question_of_the_agent_is_answered_by_choosing(scene: Scene, workdir: Path) -> None:
    question = {
        "question": "Which one?",
        "header": "Pick",
        "options": [{"label": "left"}, {"label": "right", "description": "the other"}],
    }
    scene.script(tool("ask_user_question", questions=[question]), {"text": "thanks"})
    scene.editor.answers.append("pick:1")
    session = scene.editing.new(workdir)

    assert scene.editing.ask(session, "go").stop_reason == "end_turn"

    _, asked, options = scene.editor.asked[-1]
    result = next(iter(scene.editor.calls(session).values()))
    assert asked.title == "Which one?"
    assert [one.name for one in options] == ["left", "right", "None of these"]
    assert "right" in result["content"][0]["content"]["text"]


def test_the_first_prompt_asks_whether_the_folder_is_trusted_and_has_what_lies_there(
    alone: Scene, workdir: Path
) -> None:
    (workdir / "AGENTS.md").write_text("Answer in verse.\n")
    commands = workdir / ".vibe" / "commands"
    commands.mkdir(parents=True)
    (commands / "rhyme.md").write_text("Find a rhyme.\n")
    (workdir / ".vibe" / "config.toml").write_text('sandbox.mode = "off"\n')
    alone.script({"text": "first"}, {"text": "second"})
    session = alone.editing.new(workdir)
    assert not alone.editor.asked
    alone.editor.answers.append("pick:0")

    alone.editing.ask(session, "go")
    alone.editing.ask(session, "on")

    [(_, asked, options)] = alone.editor.asked
    file = workdir / ".vibe" / "config.toml"
    taken = f'the sandbox is off ({file}:1: sandbox.mode = "off")'
    assert asked.title == f"This project brings .vibe, AGENTS.md. With its settings, {taken}. Load them?"
    assert [one.name for one in options][-2:] == ["no", "None of these"]
    assert "allow_once" not in {one.kind for one in options}  # some editors give that answer by themselves
    trusted = (alone.vibe.home / "trusted_folders.toml").read_text()
    assert str(workdir) in trusted
    offered = [one.name for one in alone.editor.of("available_commands_update", session)[-1].available_commands]
    assert "rhyme" in offered


@pytest.mark.parametrize(("answer", "is_kept"), [("pick:1", True), ("no", False)])
def test_what_is_not_trusted_is_not_loaded_and_is_asked_about_once_a_session(
    alone: Scene, workdir: Path, answer: str, *, is_kept: bool
) -> None:
    (workdir / "AGENTS.md").write_text("Answer in verse.\n")
    alone.script({"text": "first"}, {"text": "second"})
    session = alone.editing.new(workdir)
    alone.editor.answers.append(answer)

    assert [alone.editing.ask(session, prompt).stop_reason for prompt in ("go", "on")] == ["end_turn"] * 2

    assert len(alone.editor.asked) == 1
    assert (alone.vibe.home / "trusted_folders.toml").exists() is is_kept
    again = alone.editing.new(workdir)
    alone.editor.answers.extend(() if is_kept else ("no",))
    alone.editing.ask(again, "go")
    assert len(alone.editor.asked) == 1 + (not is_kept)


COLOURS: dict[str, Any] = {
    "question": "Which colours?",
    "options": [{"label": "red"}, {"label": "green"}, {"label": "blue"}],
    "multi_select": True,
}


SIZE: dict[str, Any] = {"question": "Which size?", "options": [{"label": "S"}, {"label": "L", "description": "large"}]}


FILLED: dict[str, tuple[dict[str, Any] | None, list[str]]] = {
    "chosen": ({"answer0": ["red", "blue"], "answer1": "L"}, ["→ red, blue", "→ L"]),
    "in own words": (
        {"answer0": ["red"], "other0": "teal", "other1": " XL "},
        ["→ teal (own words)", "→ XL (own words)"],
    ),
    "declined": (None, []),
    "half": ({"answer1": "L"}, []),
    "not offered": ({"answer0": ["pink"], "answer1": 7}, []),
}


@pytest.fixture(scope="module", name="formed")
def formed_scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    yield from begun(tmp_path_factory.mktemp("formed"), forms=True)


@pytest.mark.parametrize(("given", "told"), FILLED.values(), ids=FILLED)
def test_questions_of_the_agent_are_one_form_where_the_editor_has_forms(
    formed: Scene, workdir: Path, given: dict[str, Any] | None, told: list[str]
) -> None:
    formed.script(tool("ask_user_question", questions=[COLOURS, SIZE]), {"text": "thanks"})
    formed.editor.forms.append(given)
    session = formed.editing.new(workdir)

    assert formed.editing.ask(session, "go").stop_reason == "end_turn"

    message, form = formed.editor.asked[-1]
    text = json.dumps(next(iter(formed.editor.calls(session).values()))["content"], ensure_ascii=False)
    assert message == "Which colours?\nWhich size?"
    assert list(form.requested_schema.properties) == ["answer0", "other0", "answer1", "other1"]
    assert [one for one in told if one not in text] == []
    assert told or "→" not in text


def test_a_turn_is_cancelled_right_after_a_yes(bare: Scene, workdir: Path) -> None:
    bare.script(tool("bash", command="echo $$ > pid; exec sleep 600"), {"text": "still here"})
    bare.editor.answers.append("allow_once")
    session = bare.editing.new(workdir)
    asked_before = len(bare.editor.asked)
    turn = bare.editing.asking(session, "go")
    until(lambda: len(bare.editor.asked) > asked_before)

    bare.editing.cancel(session)

    assert turn.result(90).stop_reason == "cancelled"
    until(lambda: not leftovers(workdir))
    assert bare.editing.ask(session, "and now?").stop_reason == "end_turn"
