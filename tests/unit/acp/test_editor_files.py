"""Files of an editor that does not answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from anyio import create_task_group, sleep_forever, to_thread

from vibe.acp import editor
from vibe.acp.editor import EditorFiles
from vibe.acp.transport import EditorAbilities
from vibe.acp.updates import SessionChannel
from vibe.core.tools.errors import ToolError


class SilentEditor:
    """An editor that takes requests and answers none."""

    session_id = "s"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.client = self

    async def read_text_file(self, _session_id: str, path: str) -> Any:
        self.asked.append(path)
        await sleep_forever()

    async def write_text_file(self, _session_id: str, path: str, _text: str) -> Any:
        self.asked.append(path)
        await sleep_forever()


def files(silent: SilentEditor, *, reads: bool = True) -> EditorFiles:
    return EditorFiles(cast("SessionChannel", silent), EditorAbilities(reads=reads, writes=True))


def read(given: EditorFiles, path: Path) -> bytes:
    with given.read(path, path.name) as file:
        return file.read()


async def test_a_read_or_write_that_is_not_answered_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editor, "ANSWER_SECONDS", 0.01)
    silent, path, new = SilentEditor(), tmp_path / "a.txt", tmp_path / "new.txt"
    path.write_text("one\n")

    with pytest.raises(ToolError, match=r"the editor is gone, or did not answer in 0\.01 s"):
        await to_thread.run_sync(read, files(silent), path)
    writer = files(silent, reads=False)
    with pytest.raises(ToolError, match="did not answer"):
        await to_thread.run_sync(lambda: writer.replace(path, "a.txt", b"two\n", previous=b"one\n"))
    await to_thread.run_sync(writer.create, new, "new.txt", b"new\n")

    assert (path.read_text(), new.read_text()) == ("one\n", "new\n")  # the editor finds the new one on disk


async def test_a_cancelled_read_ends_as_an_error_of_the_tool_in_its_thread(tmp_path: Path) -> None:
    silent, ends = SilentEditor(), list[BaseException]()
    (tmp_path / "a.txt").write_text("one\n")

    def attempt() -> None:
        try:
            read(files(silent), tmp_path / "a.txt")
        except BaseException as error:  # noqa: BLE001  what it is, is the question
            ends.append(error)

    async with create_task_group() as group:
        group.start_soon(to_thread.run_sync, attempt)
        while not silent.asked:
            await to_thread.run_sync(lambda: None)
        group.cancel_scope.cancel()

    assert [type(error) for error in ends] == [ToolError]
