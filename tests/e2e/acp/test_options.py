"""Settings of a session that the editor shows.

Covers ``vibe.acp``.
"""

from __future__ import annotations

from pathlib import Path

from tests.e2e.acp.acp_scene import Scene, refusal, tool


def test_mode_model_thinking_and_approvals_are_settings(scene: Scene, workdir: Path) -> None:
    scene.script(tool("write_file", path="new.txt", content="hello\n"), {"text": "done"})
    conn = scene.editing.conn
    opened = scene.editing.do(conn.new_session, cwd=str(workdir), mcp_servers=[])
    session = opened.session_id
    asked_before = len(scene.editor.asked)

    scene.editing.do(conn.set_session_mode, session_id=session, mode_id="auto-approve")
    told = scene.editing.do(conn.set_config_option, session_id=session, config_id="thinking", value="low")
    scene.editing.ask(session, "go")

    options = {one.id: one.current_value for one in told.config_options}
    assert opened.modes.current_mode_id == "default"
    modes = [mode.id for mode in opened.modes.available_modes]
    assert modes[:4] == ["default", "plan", "accept-edits", "auto-approve"]
    assert "explore" not in modes
    assert options == {"mode": "auto-approve", "model": "replay", "thinking": "low", "approvals": "all"}
    assert scene.editor.of("current_mode_update", session)[0].current_mode_id == "auto-approve"
    assert len(scene.editor.asked) == asked_before
    assert (workdir / "new.txt").exists()
    assert "there is no setting 'size'" in refusal(
        scene.editing.do, conn.set_config_option, session_id=session, config_id="size", value="low"
    )
    assert "mode can't be 'nobody'" in refusal(
        scene.editing.do, conn.set_session_mode, session_id=session, mode_id="nobody"
    )
