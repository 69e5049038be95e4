"""Covers ``vibe.acp``."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.conftest import VIBE, VibeCommand, leftovers
from tests.fakes.mcp_peers import PEN, http_server
from tests.fakes.ports import free_port
from tests.fakes.waiting import until
from vibe.core.session.folder import SessionFolder, lock_session

if TYPE_CHECKING:
    from tests.fakes.acp_client import Editing, ScriptedEditor

pytestmark = pytest.mark.xdist_group("acp")

VIBE_ACP = VIBE.with_name("vibe-acp")


@dataclass
class Scene:
    """An editor with its agent for the tests of this module; what the model says is read again by every session."""

    vibe: VibeCommand
    editing: Editing

    @property
    def editor(self) -> ScriptedEditor:
        return self.editing.editor

    def script(self, *turns: dict[str, Any], **agents: list[dict[str, Any]]) -> None:
        played = {"main": {"turns": list(turns)}, **{name: {"turns": given} for name, given in agents.items()}}
        self.vibe.replay({"agents": played})


def begun(folder: Path, **can: bool) -> Iterator[Scene]:
    from tests.fakes.acp_client import editing  # noqa: PLC0415  its library is slow to load, and few tests need it

    (folder / "work").mkdir()
    vibe = VibeCommand(home=folder / "home", workdir=folder / "work", environ={"TMPDIR": str(folder)})
    vibe.home.mkdir()
    with editing([str(VIBE_ACP)], vibe.variables(), vibe.workdir, **can) as edited:
        yield Scene(vibe, edited)


@pytest.fixture(scope="module", name="shared")
def shared_scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    yield from begun(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def scene(shared: Scene) -> Iterator[Scene]:
    """An editor that has files and terminals."""
    yield shared
    assert not shared.editor.answers


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """The same in a process of its own."""
    yield from begun(tmp_path_factory.mktemp("alone"))


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def refusal(work: Callable[..., Any], *args: Any, **more: Any) -> str:
    from acp import RequestError  # noqa: PLC0415  as above

    with pytest.raises(RequestError) as caught:
        work(*args, **more)
    return f"{caught.value.code} {caught.value}"


# --- initialize ---


def test_initialize_is_answered_before_the_library_is_loaded(vibe: VibeCommand) -> None:
    started = time.monotonic()
    process = subprocess.Popen(
        [str(VIBE_ACP)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=vibe.variables(), cwd=vibe.workdir
    )
    assert process.stdin is not None
    assert process.stdout is not None
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
    process.stdin.write(b"no json\n" + json.dumps(hello).encode() + b"\n")
    process.stdin.flush()
    refused, answer = (json.loads(process.stdout.readline()) for _ in range(2))
    loaded = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8")
    took = time.monotonic() - started
    process.stdin.close()

    assert refused["error"]["code"] == -32700
    assert answer["result"]["agentInfo"]["name"] == "vibe"
    assert "pydantic_core" not in loaded
    assert took < 60
    assert process.wait(30) == 0
    process.stdout.close()


def test_initialize_tells_what_the_agent_can_do(scene: Scene) -> None:
    told = scene.editing.introduction

    assert told.protocol_version == 1
    assert told.agent_capabilities.load_session
    assert told.agent_capabilities.prompt_capabilities.image
    assert [method.id for method in told.auth_methods] == ["setup"]


def test_it_is_not_for_people() -> None:
    version = subprocess.run([str(VIBE_ACP), "--version"], capture_output=True, text=True, check=True)
    wrong = subprocess.run([str(VIBE_ACP), "--nonsense"], capture_output=True, text=True, check=False)

    assert version.stdout.startswith("vibe-acp ")
    assert (wrong.returncode, "--nonsense" in wrong.stderr) == (2, True)


# --- a prompt ---


def test_a_prompt_is_answered_as_the_words_come(scene: Scene, workdir: Path) -> None:
    scene.script({"text": "It is done. " * 30, "delay_seconds": 0.5, "chunk_size": 20})
    session = scene.editing.new(workdir)

    ended = scene.editing.ask(session, "go")

    assert ended.stop_reason == "end_turn"
    assert ended.usage.output_tokens > 0
    assert scene.editor.text(session) == "It is done. " * 30
    assert len(scene.editor.of("agent_message_chunk", session)) > 1
    assert [one.title for one in scene.editor.of("session_info_update", session)] == ["go"]


def test_sessions_run_side_by_side_also_in_one_folder(scene: Scene, workdir: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    scene.script({"text": "one and only", "delay_seconds": 0.5, "chunk_size": 20})
    sessions = [scene.editing.new(folder) for folder in (workdir, workdir, other)]

    turns = [scene.editing.asking(session, f"prompt {number}") for number, session in enumerate(sessions)]

    assert [turn.result(60).stop_reason for turn in turns] == ["end_turn"] * 3
    assert [scene.editor.text(session) for session in sessions] == ["one and only"] * 3


def test_a_second_prompt_is_told_to_the_agent_at_work_and_a_command_has_to_wait(scene: Scene, workdir: Path) -> None:
    gate = workdir / "gate"
    scene.script(tool("bash", command="until test -e gate; do sleep 0.1; done"), {"text": "both done"})
    scene.editor.answers.append("allow_once")
    session = scene.editing.new(workdir)
    first = scene.editing.asking(session, "go")
    until(lambda: scene.editor.calls(session))

    said = refusal(scene.editing.ask, session, "/status")
    second = scene.editing.asking(session, "and this")
    gate.touch()

    assert "is not answered yet" in said
    assert [first.result(90).stop_reason, second.result(90).stop_reason] == ["end_turn"] * 2
    assert "both done" in scene.editor.text(session)


def test_half_a_surrogate_in_a_prompt_is_a_question_mark(scene: Scene, workdir: Path) -> None:
    scene.script({"text": "read"})
    session = scene.editing.new(workdir)
    assert scene.editing.ask(session, "half \ud83d of it").stop_reason == "end_turn"


@pytest.mark.parametrize("code", [None, -32002, -32603, -32000, 404], ids=str)
def test_a_new_file_is_made_whatever_the_editor_says_of_one_that_is_missing(
    scene: Scene, workdir: Path, code: int | None
) -> None:
    from acp import RequestError  # noqa: PLC0415  as above

    scene.script(tool("write_file", path="w.txt", content="hello\n"), {"text": "done"})
    scene.editor.answers.append("allow_once")
    scene.editor.missing = "" if code is None else RequestError(code, "ENOENT or something")
    session = scene.editing.new(workdir)
    scene.editing.ask(session, "go")
    assert (workdir / "w.txt").read_text() == "hello\n"


def test_a_session_goes_on_after_a_cancel(scene: Scene, workdir: Path) -> None:
    scene.script({"text": "never " * 100, "delay_seconds": 60, "chunk_size": 6}, {"text": "still here"})
    session = scene.editing.new(workdir)
    turn = scene.editing.asking(session, "go")
    scene.editing.cancel(session)
    assert turn.result(90).stop_reason == "cancelled"

    turn = scene.editing.asking(session, "go")
    until(lambda: scene.editor.text(session))
    scene.editing.cancel(session)
    assert turn.result(90).stop_reason == "cancelled"  # what it says takes a minute
    scene.editing.cancel(session)

    assert scene.editing.ask(session, "and now?").stop_reason == "end_turn"
    assert scene.editor.text(session).endswith("still here")


# --- bad input ---


def test_bad_requests_are_answered_with_a_sentence(scene: Scene, workdir: Path) -> None:
    conn = scene.editing.conn
    scene.script({"text": "done"})
    session = scene.editing.new(workdir)

    assert "is relative" in refusal(scene.editing.do, conn.new_session, cwd="src", mcp_servers=[])
    assert "is no folder" in refusal(scene.editing.do, conn.new_session, cwd="/nowhere/at/all", mcp_servers=[])
    assert "no open session 'nobody'" in refusal(scene.editing.ask, "nobody", "go")
    assert "prompt is empty" in refusal(scene.editing.ask, session, "  ")
    assert scene.editing.ask(session, "go").stop_reason == "end_turn"


def test_a_model_that_fails_is_told_and_asked_again(scene: Scene, workdir: Path) -> None:
    scene.script({"text": "", "fault": {"error": "request", "status": 400, "times": 1}}, {"text": "back"})
    session = scene.editing.new(workdir)

    said = refusal(scene.editing.ask, session, "go")

    assert said.startswith("-32603 failed: ")
    assert "400" in said


# --- permissions ---


def edit(old: str, new: str, path: str = "notes.txt") -> dict[str, Any]:
    blocks = f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE"
    return tool("search_replace", file_path=path, content=blocks)


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
    """The editor stops the turn, and answers the open question ``before`` or after that."""
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


# --- todo lists, subagents, plans ---


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


# --- sessions ---


def test_a_session_is_loaded_in_a_new_process(alone: Scene, workdir: Path) -> None:
    alone.script(tool("bash", command="true"), {"text": "first answer"})
    first = alone.editing.new(workdir)
    alone.editing.ask(first, "first prompt")
    alone.editing.hang_up()

    from tests.fakes.acp_client import editing  # noqa: PLC0415  as above

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


def test_an_editor_without_a_key_is_told_how_to_get_one(alone: Scene, workdir: Path) -> None:
    conn = alone.editing.conn

    refused = refusal(alone.editing.new, workdir)
    unset = refusal(alone.editing.do, conn.authenticate, method_id="setup")
    alone.script({"text": "fine"})

    assert refused.startswith("-32000 no API key for provider")
    assert "vibe setup" in unset
    assert "no way 'nonsense'" in refusal(alone.editing.do, conn.authenticate, method_id="nonsense")
    alone.editing.do(conn.authenticate, method_id="setup")
    assert alone.editing.ask(alone.editing.new(workdir), "go").stop_reason == "end_turn"


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


# --- the editor's files ---


def test_text_that_is_not_saved_is_read_and_edited_without_loss(scene: Scene, workdir: Path) -> None:
    notes = workdir / "notes.txt"
    notes.write_text("first\nsecond\n")
    scene.editor.buffers[str(notes)] = "first\nsecond\ntyped\n"
    scene.script(tool("read_file", path="notes.txt"), edit("typed", "changed"), {"text": "done"})
    scene.editor.answers.append("allow_once")
    session = scene.editing.new(workdir)

    assert scene.editing.ask(session, "go").stop_reason == "end_turn"

    read = next(call for call in scene.editor.calls(session).values() if call["kind"] == "read")
    assert "typed" in read["content"][0]["content"]["text"]
    assert scene.editor.buffers[str(notes)] == "first\nsecond\nchanged\n"
    assert notes.read_text() == "first\nsecond\nchanged\n"


def test_what_is_typed_while_the_agent_edits_is_not_lost(scene: Scene, workdir: Path) -> None:
    notes = workdir / "notes.txt"
    notes.write_text("first\nsecond\n")

    def type_more() -> str:
        scene.editor.buffers[str(notes)] = "first\nsecond\nmy own\n"
        return "allow_once"

    scene.script(tool("read_file", path="notes.txt"), edit("second", "third"), {"text": "done"})
    scene.editor.answers.append(type_more)
    session = scene.editing.new(workdir)

    scene.editing.ask(session, "go")

    assert "my own" in scene.editor.buffers[str(notes)]
    assert next(call["status"] for call in scene.editor.calls(session).values()) == "completed"


def test_a_file_in_another_encoding_is_left_to_the_disk_unless_it_has_changes_that_are_not_saved(
    scene: Scene, workdir: Path
) -> None:
    old = workdir / "old.txt"
    old.write_bytes("Gr\xfc\xdfe\nan alle\n".encode("latin-1"))
    scene.editor.buffers[str(old)] = "Gr\xfc\xdfe\nan alle\n"

    def type_more() -> str:
        scene.editor.buffers[str(old)] = "Gr\xfc\xdfe\nan dich\nmy own\n"
        return "allow_once"

    read = tool("read_file", path="old.txt")
    scene.script(
        read, edit("an alle", "an dich", "old.txt"), read, edit("an dich", "an uns", "old.txt"), {"text": "done"}
    )
    scene.editor.answers.extend(["allow_once", type_more])
    asked = len(scene.editor.files_asked)
    session = scene.editing.new(workdir)

    scene.editing.ask(session, "go")

    calls = list(scene.editor.calls(session).values())
    assert [call["status"] for call in calls] == ["completed", "completed", "completed", "failed"]
    assert "not saved" in calls[-1]["content"][0]["content"]["text"]
    assert old.read_bytes() == "Gr\xfc\xdfe\nan dich\n".encode("latin-1")
    assert not [one for one in scene.editor.files_asked[asked:] if one.startswith("write")]


@pytest.mark.parametrize("ends", ["\r\n", "\n"], ids=["as saved", "as editors work with them"])
def test_the_ends_of_lines_and_of_the_file_stay_as_they_are(scene: Scene, workdir: Path, ends: str) -> None:
    notes = workdir / "notes.txt"
    notes.write_bytes(b"first\r\nsecond")
    scene.editor.buffers[str(notes)] = f"first{ends}second{ends}typed"
    scene.script(tool("read_file", path="notes.txt"), edit("second\ntyped", "2\n3"), {"text": "done"})
    scene.editor.answers.append("allow_once")
    session = scene.editing.new(workdir)

    scene.editing.ask(session, "go")

    assert scene.editor.buffers[str(notes)] == f"first{ends}2{ends}3"


def test_a_new_file_is_saved_and_known_to_the_editor(scene: Scene, workdir: Path) -> None:
    scene.script(tool("write_file", path="sub/new.txt", content="hello\n"), {"text": "done"})
    scene.editor.answers.append("allow_once")
    session = scene.editing.new(workdir)

    scene.editing.ask(session, "go")

    assert (workdir / "sub/new.txt").read_text() == "hello\n"
    assert scene.editor.buffers[str(workdir / "sub/new.txt")] == "hello\n"


# --- the editor's terminals ---


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


@pytest.fixture
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """An editor without files and terminals."""
    yield from begun(tmp_path_factory.mktemp("bare"), files=False, terminal=False)


def test_an_editor_that_is_killed_leaves_nothing_running(bare: Scene, workdir: Path) -> None:
    bare.script(tool("bash", command="echo $$ > pid; exec sleep 600"), {"text": "never"})
    bare.editor.answers.append("allow_once")
    session = bare.editing.new(workdir)
    bare.editing.asking(session, "go")
    until((workdir / "pid").is_file)

    bare.editing.hang_up()

    until(lambda: bare.editing.process.returncode is not None)
    until(lambda: not leftovers(workdir))
    saved = bare.vibe.process("session", "list", "--output", "json").document
    assert session in json.dumps(saved)


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


def test_an_editor_may_have_neither_files_nor_terminals(bare: Scene, workdir: Path) -> None:
    (workdir / "notes.txt").write_text("first\nsecond\n")
    bare.script(
        tool("read_file", path="notes.txt"),
        edit("second", "third"),
        tool("bash", command="touch ran"),
        {"text": "done"},
    )
    bare.editor.answers.extend(["allow_once"] * 2)
    session = bare.editing.new(workdir)

    assert bare.editing.ask(session, "go").stop_reason == "end_turn"

    assert (workdir / "notes.txt").read_text() == "first\nthird\n"
    assert (workdir / "ran").exists()
    assert {one for one in bare.editor.watch.seen if not one.startswith("session/")} == set()


# --- prompts of more than words ---

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def test_pictures_and_embedded_context_reach_the_conversation(scene: Scene, workdir: Path) -> None:
    from acp import embedded_text_resource, image_block, resource_block, resource_link_block  # noqa: PLC0415  as above

    (workdir / "linked.txt").write_text("linked words\n")
    (workdir / "long.txt").write_text("".join(f"row {number}\n" for number in range(1, 10)))
    scene.script({"text": "seen"})
    session = scene.editing.new(workdir)

    ended = scene.editing.ask(
        session,
        "Look at ",
        resource_link_block("linked.txt", (workdir / "linked.txt").as_uri()),
        " and ",
        resource_link_block("long.txt", (workdir / "long.txt").as_uri() + "#L3-4"),
        resource_block(embedded_text_resource((workdir / "open.py").as_uri(), "embedded words")),
        image_block(DOT, "image/png"),
    )

    saved = "".join(path.read_text() for path in (scene.vibe.home / "logs/session").rglob(f"*{session}*/*.jsonl"))
    assert ended.stop_reason == "end_turn"
    assert "linked words" in saved
    assert "embedded words" in saved
    assert [f"row {number}" in saved for number in (2, 3, 4, 5)] == [False, True, True, False]
    assert DOT in saved
    assert "no base64" in refusal(scene.editing.ask, session, image_block("?", "image/png"))


def test_servers_that_the_editor_brings_are_used(scene: Scene, workdir: Path) -> None:
    import sys  # noqa: PLC0415  here alone

    from acp.schema import McpServerStdio  # noqa: PLC0415  as above

    program = str(Path(__file__).parents[1] / "fakes" / "mcp_server.py")
    scene.script(tool("brought_echo", text="hello"), {"text": "done"})
    scene.editor.answers.append("allow_once")
    server = McpServerStdio(name="brought", command=sys.executable, args=[program, "stdio"], env=[])
    session = scene.editing.new(workdir, mcp_servers=[server])

    scene.editing.ask(session, "go")

    call = next(iter(scene.editor.calls(session).values()))
    offered = [one.name for one in scene.editor.of("available_commands_update", session)[-1].available_commands]
    assert [name for name in offered if name.startswith("brought:")]
    assert call["status"] == "completed"
    assert "hello" in json.dumps(call["content"])


def test_a_server_that_the_editor_brings_may_be_one_over_http(scene: Scene, workdir: Path) -> None:
    from acp.schema import HttpHeader, HttpMcpServer  # noqa: PLC0415  as above

    scene.script(tool("brought_echo", text="hello"), {"text": "done"})
    scene.editor.answers.append("allow_once")
    port = free_port()
    with http_server(*PEN, "http", str(port), port=port) as url:
        headers = [HttpHeader(name="X-Of", value="the editor")]
        server = HttpMcpServer(type="http", name="brought", url=url, headers=headers)
        session = scene.editing.new(workdir, mcp_servers=[server])
        scene.editing.ask(session, "go")
        scene.editing.do(scene.editing.conn.close_session, session_id=session)

    call = next(iter(scene.editor.calls(session).values()))
    assert call["status"] == "completed"
    assert "Echo: hello" in json.dumps(call["content"])


# --- slash commands and plans ---


def test_slash_commands_are_offered_and_carried_out(scene: Scene, workdir: Path) -> None:
    scene.script({"text": "one"})
    session = scene.editing.new(workdir)
    until(lambda: scene.editor.of("available_commands_update", session))

    offered = {one.name: one for one in scene.editor.of("available_commands_update", session)[0].available_commands}
    status = scene.editing.ask(session, "/status")
    scene.editing.ask(session, "/rename A better title")
    wrong = scene.editing.ask(session, "/approvals nonsense")

    assert offered["plan"].input.root.hint.startswith("GOAL")
    assert "exit" not in offered
    assert [status.stop_reason, wrong.stop_reason] == ["end_turn"] * 2
    assert "replay" in scene.editor.text(session)
    assert "/approvals nonsense" in scene.editor.text(session)


NOISY = """
from vibe.core.tools.base import BaseTool, BaseToolConfig
from typing import ClassVar
import atexit, ctypes, os, subprocess, sys, warnings

print("noise as it is loaded", end="")

class Noisy(BaseTool[BaseToolConfig]):
    "Prints."
    description: ClassVar[str] = "Prints."

    async def run(self, count: int) -> str:
        print("noise on standard output")
        sys.__stdout__.write("more noise" * count)
        sys.stderr.write("more than a pipe holds" * count)
        os.write(1, b"and more")
        subprocess.run(["echo", "noise of a child"])
        ctypes.CDLL(None).printf(b"what a library prints at the very end")
        atexit.register(print, "last words", flush=True)
        warnings.warn("a warning")
        return "printed"
"""


def test_every_message_is_logged_where_that_is_wanted(vibe: VibeCommand) -> None:
    vibe.environ["VIBE_ACP_LOGGING_ENABLED"] = "1"
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}})
    vibe.run([str(VIBE_ACP)], stdin=f"{line}\n")
    log = (vibe.home / "logs" / "vibe.log").read_text()
    assert "received" in log
    assert "sent" in log
    assert "agentCapabilities" in log


def test_nothing_but_the_protocol_is_on_standard_output(vibe: VibeCommand) -> None:
    tools = vibe.home / "tools"
    tools.mkdir(parents=True)
    (tools / "noisy.py").write_text(NOISY)
    vibe.replay({"agents": {"main": {"turns": [tool("noisy", count=10_000), {"text": "done"}]}}})
    vibe.configure("auto_approve = true\n" + (vibe.home / "config.toml").read_text())
    pipe = subprocess.PIPE  # that of standard error is not read
    process = subprocess.Popen(
        [str(VIBE_ACP)], stdin=pipe, stdout=pipe, stderr=pipe, env=vibe.variables(), cwd=vibe.workdir
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    answers: dict[int, Any] = {}
    heard: list[Any] = []

    def ask(number: int, method: str, **params: Any) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        while number not in answers:
            heard.append(json.loads(process.stdout.readline()))
            answers.update({one["id"]: one["result"] for one in heard if "method" not in one})
        return answers[number]

    ask(0, "initialize", protocolVersion=1)
    session = ask(1, "session/new", cwd=str(vibe.workdir), mcpServers=[])["sessionId"]
    ended = ask(2, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
    process.stdin.close()
    rest = process.stdout.read()
    process.wait(30)
    process.stdout.close()
    process.stderr.close()

    results = [one["params"]["update"] for one in heard if one.get("method") == "session/update"]
    assert ended["stopReason"] == "end_turn"
    assert [one["status"] for one in results if one["sessionUpdate"] == "tool_call_update"] == ["completed"]
    assert rest == b""


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
