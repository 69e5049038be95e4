from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from ipc.sink import MemorySink
from tests.fakes.editor import DistantFiles, EditorFiles
from tests.fakes.engine import BUILTIN_TOOLS
from tests.fakes.tools import ScriptedApprover, call
from tests.unit.core.tools.builtins.calling import Caller, make
from vibe.app.conversation.mentions import with_mentioned_files
from vibe.core.messages import ToolMessage
from vibe.core.tools.base import BaseTool, InvokeContext
from vibe.core.tools.builtins.read_file import ReadFile
from vibe.core.tools.builtins.search_replace import SearchReplace
from vibe.core.tools.builtins.write_file import WriteFile
from vibe.core.tools.errors import PathError, ToolError
from vibe.core.tools.executor import ToolExecutor
from vibe.core.tools.gate import Approvals
from vibe.core.tools.ports import ApprovalAnswer
from vibe.core.tools.workspace import Workspace

SAVED = "one\ntwo\n"
TYPED = "one\ntwo\nthree, not saved\n"


@pytest.fixture
def editor() -> EditorFiles:
    return EditorFiles()


@pytest.fixture
def caller(tmp_path: Path, editor: EditorFiles) -> Caller:
    return Caller(root=tmp_path, files=editor)


@pytest.fixture
def typed(caller: Caller, editor: EditorFiles) -> Path:
    """Return a file that the user has open, with one line more than on disk."""
    path = caller.root / "a.txt"
    path.write_text(SAVED, encoding="utf-8")
    editor.buffers[path] = TYPED
    return path


def saved(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def edit(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE"


async def test_a_read_returns_what_is_not_saved(caller: Caller, typed: Path) -> None:
    tool = make(ReadFile)
    assert (await caller.call(tool, path=typed.name)).content == TYPED
    window = await caller.call(tool, path=typed.name, offset=2, limit=1)
    assert (window.content, window.total_lines) == ("three, not saved\n", 3)


async def test_an_edit_keeps_what_is_not_saved_and_saves_it(caller: Caller, typed: Path, editor: EditorFiles) -> None:
    result = await caller.call(make(SearchReplace), file_path=typed.name, content=edit("two", "TWO"))

    assert editor.buffers[typed] == saved(typed) == "one\nTWO\nthree, not saved\n"
    assert "-two\n+TWO\n three, not saved" in result.change.text


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (SearchReplace, {"file_path": "a.txt", "content": edit("two", "TWO")}),
        (WriteFile, {"path": "a.txt", "content": "new\n", "overwrite": True}),
        (WriteFile, {"path": "a.txt", "content": "end\n", "append": True}),
    ],
)
async def test_what_is_typed_between_reading_and_writing_is_not_lost(
    caller: Caller,
    typed: Path,
    editor: EditorFiles,
    tool: type[BaseTool[Any, Any, Any, Any]],
    arguments: dict[str, Any],
) -> None:
    await caller.call(make(ReadFile), path="a.txt")
    editor.types_next = lambda: editor.buffers.update({typed: "typed meanwhile\n"})

    with pytest.raises(PathError, match=r"'a.txt' has changed meanwhile; read it again"):
        await caller.call(make(tool), **arguments)
    assert (editor.buffers[typed], saved(typed)) == ("typed meanwhile\n", SAVED)


async def test_only_a_buffer_that_was_read_as_it_is_now_is_replaced(
    caller: Caller, typed: Path, editor: EditorFiles
) -> None:
    writing = {"path": "a.txt", "content": "all new\n", "overwrite": True}
    await caller.call(make(ReadFile), path="a.txt")
    editor.buffers[typed] += "four\n"

    with pytest.raises(PathError, match="was not read in its current version"):
        await caller.call(make(WriteFile), **writing)
    assert editor.buffers[typed] == TYPED + "four\n"

    await caller.call(make(ReadFile), path="a.txt")
    result = await caller.call(make(WriteFile), **writing)
    assert editor.buffers[typed] == saved(typed) == "all new\n"
    assert "-four" in result.change.text


async def test_a_buffer_that_was_never_saved_is_a_file_like_others(caller: Caller, editor: EditorFiles) -> None:
    path = caller.root / "new" / "b.txt"
    editor.buffers[path] = "draft\n"

    with pytest.raises(PathError, match=r"'new/b.txt' exists; edit it with search_replace"):
        await caller.call(make(WriteFile), path="new/b.txt", content="mine\n")
    await caller.call(make(WriteFile), path="new/b.txt", content="more\n", append=True)
    await caller.call(make(SearchReplace, create_backup=True), file_path="new/b.txt", content=edit("draft", "done"))

    assert editor.buffers[path] == saved(path) == "done\nmore\n"
    assert (caller.root / "new" / "b.txt.bak").read_text() == "draft\nmore\n"


async def test_what_the_editor_has_no_text_of_is_the_disks(caller: Caller, editor: EditorFiles) -> None:
    (caller.root / "b.txt").write_bytes(b"caf\xe9\n")

    assert (await caller.call(make(ReadFile), path="b.txt")).encoding == "cp1252"
    await caller.call(make(SearchReplace), file_path="b.txt", content=edit("café", "thé"))
    assert (caller.root / "b.txt").read_bytes() == b"th\xe9\n"
    await caller.call(make(WriteFile), path="deep/c.txt", content="c\n")
    assert (caller.root / "deep" / "c.txt").read_text() == "c\n"
    with pytest.raises(PathError, match=r"'a.text' does not exist; did you mean 'b.txt'"):
        await caller.call(make(ReadFile), path="a.text")
    assert not editor.buffers


async def test_the_editor_is_asked_for_resolved_paths_inside_only(
    caller: Caller, typed: Path, editor: EditorFiles
) -> None:
    outside = caller.root.parent / "outside.txt"
    editor.buffers[outside] = "not for agents\n"
    (caller.root / "link.txt").symlink_to(typed.name)
    (caller.root / "way-out.txt").symlink_to(outside)

    assert (await caller.call(make(ReadFile), path="link.txt")).content == TYPED
    assert editor.asked == [typed]
    for path in ("way-out.txt", "../outside.txt"):
        with pytest.raises(PathError, match="leads outside the workspace"):
            await caller.call(make(ReadFile), path=path)
        with pytest.raises(PathError, match="leads outside the workspace"):
            await caller.call(make(SearchReplace), file_path=path, content=edit("not", "all"))
    assert (editor.asked, editor.buffers[outside]) == ([typed], "not for agents\n")


async def test_who_is_asked_sees_the_edit_of_the_buffer(caller: Caller, typed: Path, editor: EditorFiles) -> None:
    person = ScriptedApprover([ApprovalAnswer(allow=True), ApprovalAnswer(allow=True)])
    executor = ToolExecutor(
        tools=BUILTIN_TOOLS.filtered(None),
        context=InvokeContext(workspace=Workspace(root=caller.root, files=editor)),
        approvals=Approvals(approver=person),
        sink=MemorySink(),
    )
    calls = (
        call("1", "search_replace", file_path="a.txt", content=edit("three, not saved", "three")),
        call("2", "read_file", path="a.txt"),
        call("3", "write_file", path="a.txt", content="four\n", overwrite=True),
    )
    messages: list[ToolMessage] = []
    await executor.run_all(calls, messages.append)

    assert [message.status for message in messages] == ["ok"] * 3
    assert person.asked[0].diff.endswith("-three, not saved\n+three")
    assert "-three\n" in person.asked[1].diff
    assert editor.buffers[typed] == "four\n"


async def test_an_editor_that_answers_later_is_waited_for(tmp_path: Path) -> None:
    served: list[str] = []

    async def answer() -> None:
        await anyio.lowlevel.checkpoint()
        served.append("on the loop")

    editor = DistantFiles(answer)
    editor.buffers[tmp_path / "a.txt"] = TYPED
    result = await Caller(root=tmp_path, files=editor).call(make(ReadFile), path="a.txt")
    assert (result.content, served) == (TYPED, ["on the loop"])


async def test_a_call_whose_editor_never_answers_can_be_cancelled(tmp_path: Path) -> None:
    asked = anyio.Event()

    async def answer() -> None:
        asked.set()
        await anyio.sleep_forever()

    caller = Caller(root=tmp_path, files=DistantFiles(answer))
    async with anyio.create_task_group() as group:

        async def read() -> None:
            await caller.call(make(ReadFile), path="a.txt")
            pytest.fail("it was answered")

        group.start_soon(read)
        await asked.wait()
        group.cancel_scope.cancel()


async def test_an_editor_that_is_gone_is_an_error_the_model_can_read(tmp_path: Path) -> None:
    async def answer() -> None:
        await anyio.lowlevel.checkpoint()
        raise ToolError("the editor is gone: nothing was read; go on without this file")

    with pytest.raises(ToolError, match="the editor is gone"):
        await Caller(root=tmp_path, files=DistantFiles(answer)).call(make(ReadFile), path="a.txt")


async def test_a_file_mentioned_in_a_prompt_is_shown_as_it_is_in_the_editor(caller: Caller, typed: Path) -> None:
    workspace = caller.context().workspace
    told = await anyio.to_thread.run_sync(with_mentioned_files, f"Look at @{typed.name}", workspace)
    assert TYPED in told
