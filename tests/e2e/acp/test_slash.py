"""Slash commands in an editor.

Covers ``vibe.acp``.
"""

from __future__ import annotations

from pathlib import Path

from tests.e2e.acp.acp_scene import Scene, refusal
from tests.fakes.waiting import until


def test_slash_commands_are_offered_and_carried_out(scene: Scene, workdir: Path) -> None:
    scene.script({"text": "one"})
    session = scene.editing.new(workdir)
    until(lambda: scene.editor.of("available_commands_update", session))

    offered = {one.name: one for one in scene.editor.of("available_commands_update", session)[0].available_commands}
    status = scene.editing.ask(session, "/status")
    scene.editing.ask(session, "/rename A better title")
    wrong = scene.editing.ask(session, "/approvals nonsense")
    scene.editing.ask(session, "/exit")
    unknown = refusal(scene.editing.ask, session, "/statsu")

    assert offered["plan"].input.root.hint.startswith("GOAL")
    assert "exit" not in offered
    assert [status.stop_reason, wrong.stop_reason] == ["end_turn"] * 2
    assert "replay" in scene.editor.text(session)
    assert "/approvals nonsense" in scene.editor.text(session)
    assert "close the session in the editor" in scene.editor.text(session)
    assert "did you mean '/status'?" in unknown
