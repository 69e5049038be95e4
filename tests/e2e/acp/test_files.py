"""Files that the agent reads and writes through the editor.

Covers ``vibe.acp``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.acp.acp_scene import Scene, edit, tool


@pytest.mark.parametrize("code", [None, -32002, -32603, -32000, 404], ids=str)
def test_a_new_file_is_made_whatever_the_editor_says_of_one_that_is_missing(
    scene: Scene, workdir: Path, code: int | None
) -> None:
    from acp import RequestError  # noqa: PLC0415  slow to load, and few tests need it

    scene.script(tool("write_file", path="w.txt", content="hello\n"), {"text": "done"})
    scene.editor.answers.append("allow_once")
    scene.editor.missing = "" if code is None else RequestError(code, "ENOENT or something")
    session = scene.editing.new(workdir)
    scene.editing.ask(session, "go")
    assert (workdir / "w.txt").read_text() == "hello\n"


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
