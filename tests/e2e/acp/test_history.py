"""Saved sessions: loaded, resumed, forked, closed and deleted.

Covers ``vibe.acp``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.e2e.acp.acp_scene import VIBE_ACP, Scene, refusal, tool
from tests.fakes.waiting import until
from vibe.core.session.folder import SessionFolder, lock_session


def test_a_session_is_loaded_in_a_new_process(alone: Scene, workdir: Path) -> None:
    alone.script(tool("bash", command="true"), {"text": "first answer"})
    first = alone.editing.new(workdir)
    alone.editing.ask(first, "first prompt")
    alone.editing.hang_up()

    from tests.fakes.acp_client import editing  # noqa: PLC0415  slow to load, and few tests need it

    alone.script(tool("bash", command="true"), {"text": "first answer"}, {"text": "second answer"})
    with editing([str(VIBE_ACP)], alone.vibe.variables(), alone.vibe.workdir) as later:
        listed = later.do(later.conn.list_sessions, cwd=str(workdir)).sessions
        later.do(later.conn.load_session, cwd=str(workdir), session_id=first, mcp_servers=[])
        kinds = [one.session_update for _, one in later.editor.updates]
        heard = later.editor.text(first, "user_message_chunk"), later.editor.text(first)
        calls = later.editor.calls(first)
        ended = later.ask(first, "second prompt")

        assert [(one.session_id, one.title) for one in listed] == [(first, "first prompt")]
        assert kinds[:2] == ["user_message_chunk", "tool_call"]
        assert heard == ("first prompt", "first answer")
        assert [call["status"] for call in calls.values()] == ["completed"]
        assert ended.stop_reason == "end_turn"
        assert later.editor.text(first).endswith("second answer")
        assert "no saved session 'nobody'" in refusal(
            later.do, later.conn.load_session, cwd=str(workdir), session_id="nobody", mcp_servers=[]
        )


def test_a_session_that_is_closed_ends_its_turn(scene: Scene, workdir: Path) -> None:
    scene.script({"text": "slowly " * 100, "delay_seconds": 60, "chunk_size": 7})
    session = scene.editing.new(workdir)
    turn = scene.editing.asking(session, "go")
    until(lambda: scene.editor.text(session))

    scene.editing.do(scene.editing.conn.close_session, session_id=session)

    assert turn.result(90).stop_reason == "cancelled"


def test_a_session_that_is_loaded_twice_at_once_is_open_once(scene: Scene, workdir: Path) -> None:
    scene.script({"text": "one"}, {"text": "two"})
    conn = scene.editing.conn
    session = scene.editing.new(workdir)
    scene.editing.ask(session, "first")
    scene.editing.do(conn.close_session, session_id=session)
    place: dict[str, Any] = {"session_id": session, "cwd": str(workdir), "mcp_servers": []}

    loading = [scene.editing.begin(conn.load_session, **place) for _ in range(2)]
    assert [one.result(60).modes.current_mode_id for one in loading] == ["default"] * 2

    assert scene.editing.ask(session, "second").stop_reason == "end_turn"


def test_a_session_that_was_cleared_keeps_its_id(scene: Scene, workdir: Path) -> None:
    scene.script({"text": "one"}, {"text": "two"})
    conn = scene.editing.conn
    session = scene.editing.new(workdir)
    scene.editing.ask(session, "first")
    scene.editing.ask(session, "/clear")
    scene.editing.ask(session, "second")
    scene.editing.do(conn.close_session, session_id=session)
    before = len(scene.editor.of("user_message_chunk", session))

    listed = scene.editing.do(conn.list_sessions, cwd=str(workdir)).sessions
    scene.editing.do(conn.load_session, session_id=session, cwd=str(workdir), mcp_servers=[])

    told = scene.editor.of("user_message_chunk", session)[before:]
    assert [one.session_id for one in listed] == [session]
    assert [one.content.text for one in told] == ["second"]


def test_a_session_is_resumed_forked_and_closed(scene: Scene, workdir: Path) -> None:
    scene.script({"text": "one"}, {"text": "two"})
    conn = scene.editing.conn
    session = scene.editing.new(workdir)
    scene.editing.ask(session, "first")

    fork = scene.editing.do(conn.fork_session, session_id=session, cwd=str(workdir), mcp_servers=[]).session_id
    scene.editing.ask(fork, "second")
    scene.editing.do(conn.close_session, session_id=session)
    refused = refusal(scene.editing.ask, session, "closed")
    scene.editing.do(conn.resume_session, session_id=session, cwd=str(workdir), mcp_servers=[])
    scene.editing.ask(session, "second, too")

    assert fork != session
    assert scene.editor.text(fork) == "two"
    assert "no open session" in refused
    assert scene.editor.text(session) == "onetwo"


def test_a_session_is_deleted_with_all_that_continues_it(scene: Scene, workdir: Path) -> None:
    def listed() -> list[str]:
        return [one.session_id for one in scene.editing.do(scene.editing.conn.list_sessions, cwd=str(workdir)).sessions]

    client: Any = scene.editing.conn

    def delete(session: str) -> Any:
        return scene.editing.do(client._conn.send_request, "session/delete", {"sessionId": session})

    scene.script({"text": "one"}, {"text": "two"})
    kept, closed, opened, silent = (scene.editing.new(workdir) for _ in range(4))
    for session in (kept, closed, opened):
        scene.editing.ask(session, "first")
    scene.editing.ask(opened, "/clear")
    scene.editing.ask(opened, "second")
    scene.editing.do(scene.editing.conn.close_session, session_id=closed)
    before = sorted(path.name for path in (scene.vibe.home / "logs" / "session").iterdir())

    held = lock_session(SessionFolder(scene.vibe.home / "logs" / "session" / closed))
    said = refusal(delete, closed)
    held.release()

    assert "in use" in said
    assert {kept, closed, opened} <= {*listed()}
    assert [delete(session) for session in (closed, opened, silent, closed, "never", "../..", "")] == [{}] * 7
    assert listed() == [kept]
    assert len(before) - len([*(scene.vibe.home / "logs" / "session").iterdir()]) >= 3
    assert "no open session" in refusal(scene.editing.ask, opened, "gone")
    assert "sessionId" in refusal(scene.editing.do, client._conn.send_request, "session/delete", {})


def test_a_session_that_an_open_one_goes_on_from_is_not_deleted(scene: Scene, workdir: Path) -> None:
    conn: Any = scene.editing.conn
    scene.script({"text": "one"})
    session = scene.editing.new(workdir)
    scene.editing.ask(session, "first")
    forked = scene.editing.do(conn.fork_session, session_id=session, cwd=str(workdir), mcp_servers=[]).session_id

    def delete() -> Any:
        return scene.editing.do(conn._conn.send_request, "session/delete", {"sessionId": session})

    said = refusal(delete)
    scene.editing.do(conn.set_session_mode, session_id=session, mode_id="plan")  # the session is still open
    scene.editing.do(conn.close_session, session_id=forked)

    assert f"session {session} is what session {forked} goes on from" in said
    assert delete() == {}


def test_a_page_that_there_can_not_be_is_refused_in_a_sentence(scene: Scene) -> None:
    for cursor in ("9" * 5_000, "-1", "٣"):
        assert "there is no page" in refusal(scene.editing.do, scene.editing.conn.list_sessions, cursor=cursor)
