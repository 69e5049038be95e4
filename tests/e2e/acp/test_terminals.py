"""Commands in terminals of the editor.

Covers ``vibe.acp``.
"""

from __future__ import annotations

from pathlib import Path

from tests.e2e.acp.acp_scene import Scene, tool
from tests.e2e.conftest import leftovers
from tests.fakes.waiting import until


def test_a_command_that_was_approved_runs_in_a_terminal(scene: Scene, workdir: Path) -> None:
    scene.script(tool("bash", command="echo out; echo $EDITOR_SECRET; exit 3"), {"text": "done"})
    scene.editor.answers.append("allow_once")
    session = scene.editing.new(workdir)

    assert scene.editing.ask(session, "go").stop_reason == "end_turn"

    terminal_id, terminal = list(scene.editor.terminals.items())[-1]
    call = next(iter(scene.editor.calls(session).values()))
    assert call["content"] == [{"type": "terminal", "terminal_id": terminal_id, "field_meta": None}]
    assert terminal.output.decode().split() == ["out"]
    assert terminal.is_released
    assert terminal.order["cwd"] == str(workdir)
    assert "PATH=" not in str(terminal.order)
    assert "echo $EDITOR_SECRET" in str(terminal.order["args"])
    launcher = Path(terminal.order["args"][2])
    assert not launcher.exists()


def test_an_editor_may_tell_of_the_end_only_to_who_waits_for_it(scene: Scene, workdir: Path) -> None:
    scene.script(tool("bash", command="echo out; echo $EDITOR_SECRET; exit 3", timeout=20), {"text": "done"})
    scene.editor.answers.append("allow_once")
    scene.editor.output_has_status = False
    session = scene.editing.new(workdir)

    scene.editing.ask(session, "go")

    scene.editor.output_has_status = True
    terminal = list(scene.editor.terminals.values())[-1]
    assert (terminal.is_killed, terminal.is_released) == (False, True)


def test_an_end_without_an_exit_code_is_not_taken_for_one(scene: Scene, workdir: Path) -> None:
    scene.script(tool("bash", command="echo out; echo $EDITOR_SECRET"), {"text": "done"})
    scene.editor.answers.append("allow_once")
    scene.editor.names_exit_codes = False
    session = scene.editing.new(workdir)

    scene.editing.ask(session, "go")

    scene.editor.names_exit_codes = True
    call = next(iter(scene.editor.calls(session).values()))
    assert call["status"] == "failed"
    (transcript,) = scene.vibe.home.glob(f"logs/session/*{session[:8]}*/messages.jsonl")
    assert "it is unknown how the command ended" in transcript.read_text()


def test_an_exit_code_that_follows_an_end_without_one_is_taken(scene: Scene, workdir: Path) -> None:
    scene.script(tool("bash", command="echo out; echo $EDITOR_SECRET; exit 3"), {"text": "done"})
    scene.editor.answers.append("allow_once")
    scene.editor.first_says_nothing = True
    session = scene.editing.new(workdir)

    scene.editing.ask(session, "go")

    scene.editor.first_says_nothing = False
    (transcript,) = scene.vibe.home.glob(f"logs/session/*{session[:8]}*/messages.jsonl")
    assert "exit code 3" in transcript.read_text()
    assert not list(scene.editor.terminals.values())[-1].is_killed


def test_what_nobody_was_asked_about_runs_in_no_terminal(scene: Scene, workdir: Path) -> None:
    scene.script(tool("bash", command="ls"), {"text": "done"})
    session = scene.editing.new(workdir)
    before = len(scene.editor.terminals)

    scene.editing.ask(session, "go")

    assert len(scene.editor.terminals) == before
    assert [call["status"] for call in scene.editor.calls(session).values()] == ["completed"]


def test_a_command_in_a_terminal_is_stopped_with_its_turn(scene: Scene, workdir: Path) -> None:
    scene.script(tool("bash", command="echo $$ > pid; exec sleep 600"), {"text": "never"})
    scene.editor.answers.append("allow_once")
    session = scene.editing.new(workdir)
    before = len(scene.editor.terminals)
    turn = scene.editing.asking(session, "go")
    until((workdir / "pid").is_file)

    scene.editing.cancel(session)

    assert turn.result(60).stop_reason == "cancelled"
    assert len(scene.editor.terminals) == before + 1
    terminal = list(scene.editor.terminals.values())[-1]
    assert (terminal.is_killed, terminal.is_released) == (True, True)
    until(lambda: not leftovers(workdir))
