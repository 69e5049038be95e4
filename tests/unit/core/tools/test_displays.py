"""Results and requests as data for a screen, and calls that wait for their turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from ipc.events import (
    ApprovalRequestEvent,
    BackgroundEndedEvent,
    BackgroundStartedEvent,
    CommandDisplay,
    DiffDisplay,
    Display,
    FilesDisplay,
    TodoDisplay,
    TodoEntry,
    ToolCallEvent,
    ToolQueuedEvent,
    ToolResultEvent,
    ToolStreamEvent,
    WrittenFile,
)
from ipc.sink import MemorySink
from tests.fakes.engine import BUILTIN_TOOLS
from tests.fakes.tools import ExecutorRig, Save, ScriptedApprover, Traffic, call, passing_tools
from vibe.core.messages import ToolMessage
from vibe.core.tools.background import BackgroundCommands, background_commands
from vibe.core.tools.base import InvokeContext
from vibe.core.tools.executor import ToolExecutor
from vibe.core.tools.gate import Approvals
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import ApprovalAnswer
from vibe.core.tools.workspace import Workspace

SECRET = "hunter2-hunter2-hunter2"  # noqa: S105  made up
YES = ApprovalAnswer(allow=True)


class Desk:
    """The built-in tools at work in a folder."""

    def __init__(self, root: Path, approvals: Approvals, background: BackgroundCommands | None = None) -> None:
        self.sink = MemorySink()
        self.executor = ToolExecutor(
            tools=BUILTIN_TOOLS.filtered(None),
            context=InvokeContext(
                workspace=Workspace(root=root),
                output_dir=root / "outputs",
                environ={"PATH": "/usr/bin:/bin", "SOME_TOKEN": SECRET},
                background=background,
            ),
            approvals=approvals,
            sink=self.sink,
        )

    async def result(self, tool: str, /, **arguments: Any) -> ToolResultEvent:
        """Make one call, and return the event of its end."""
        messages: list[ToolMessage] = []
        await self.executor.run_all([call("c", tool, **arguments)], messages.append)
        assert messages[0].status == "ok", messages[0].content
        ended = self.sink.events[-1]
        assert isinstance(ended, ToolResultEvent)
        return ended

    @property
    def asked(self) -> ApprovalRequestEvent:
        """Return the last request."""
        return [event for event in self.sink.events if isinstance(event, ApprovalRequestEvent)][-1]


@pytest.fixture
async def desk(tmp_path: Path) -> Desk:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "b.py").write_text("two = 2\n")
    approver = ScriptedApprover([YES] * 9)
    return await anyio.to_thread.run_sync(lambda: Desk(tmp_path, Approvals(approver=approver)))


@pytest.mark.parametrize(
    ("tool", "arguments", "display"),
    [
        (
            "write_file",
            {"path": "new.txt", "content": "1\n2\n"},
            DiffDisplay(files=(WrittenFile(path="new.txt", added=2, created=True),)),
        ),
        (
            "write_file",
            {"path": "a.txt", "content": "four\nfive\n", "append": True},
            DiffDisplay(files=(WrittenFile(path="a.txt", added=2),)),
        ),
        (
            "search_replace",
            {"file_path": "a.txt", "edits": [{"old_string": "two\n", "new_string": "2\n2.5\n"}]},
            DiffDisplay(files=(WrittenFile(path="a.txt", added=2, removed=1),)),
        ),
        (
            "todo",
            {"action": "write", "todos": [{"id": "1", "content": f"hide {SECRET}", "status": "in_progress"}]},
            TodoDisplay(items=(TodoEntry(id="1", content="hide [redacted]", status="in_progress"),)),
        ),
        ("grep", {"pattern": "two"}, FilesDisplay(paths=("a.txt", "src/b.py"), total=2)),
        ("glob", {"pattern": "*.py"}, FilesDisplay(paths=("src/b.py",), total=1)),
        ("read_file", {"path": "a.txt"}, None),
    ],
    ids=["create", "append", "edit", "todo", "grep", "glob", "text"],
)
async def test_a_result_is_data(desk: Desk, tool: str, arguments: dict[str, Any], display: Display | None) -> None:
    assert (await desk.result(tool, **arguments)).display == display


async def test_a_command_tells_its_exit_code_and_where_its_output_is(desk: Desk, tmp_path: Path) -> None:
    shown = (await desk.result("bash", command="seq 9000; exit 3")).display

    assert isinstance(shown, CommandDisplay)
    assert (shown.command, shown.exit_code, shown.timed_out, shown.handle) == ("seq 9000; exit 3", 3, False, "")
    assert shown.duration_s > 0
    (kept,) = shown.output_files
    assert Path(kept).parent == tmp_path / "outputs"


async def test_a_command_that_took_too_long_is_data_too(desk: Desk) -> None:
    messages: list[ToolMessage] = []
    await desk.executor.run_all([call("c", "bash", command="sleep 60; :", timeout=1)], messages.append)

    ended = desk.sink.events[-1]
    assert isinstance(ended, ToolResultEvent)
    assert (ended.status, ended.display) == (
        "error",
        CommandDisplay(command="sleep 60; :", exit_code=143, duration_s=shown_seconds(ended), timed_out=True),
    )


def shown_seconds(event: ToolResultEvent) -> float:
    assert isinstance(event.display, CommandDisplay)
    return event.display.duration_s


async def test_output_tells_its_stream(desk: Desk) -> None:
    await desk.result("bash", command="echo out; echo err >&2")

    streamed = [event for event in desk.sink.events if isinstance(event, ToolStreamEvent)]
    assert sorted((event.stream, event.text) for event in streamed) == [("stderr", "err\n"), ("stdout", "out\n")]


async def test_output_that_comes_too_fast_tells_how_much_is_not_shown(desk: Desk) -> None:
    await desk.result("bash", command="seq 1000000")

    streamed = [event for event in desk.sink.events if isinstance(event, ToolStreamEvent)]
    dropped = sum(event.dropped_bytes for event in streamed)
    assert dropped > 0
    assert dropped + sum(len(event.text) for event in streamed) == sum(len(f"{n}\n") for n in range(1, 1_000_001))


async def test_a_question_about_an_edit_shows_what_it_would_change(desk: Desk, tmp_path: Path) -> None:
    await desk.result("write_file", path="new.txt", content="1\n2\n")

    assert desk.asked.preview == DiffDisplay(files=(WrittenFile(path="new.txt", added=2, created=True),))
    assert (desk.asked.cwd, desk.asked.confined, desk.asked.edits) == (str(tmp_path), None, True)
    assert desk.asked.covers == (f"write_file: write {tmp_path}/new.txt",)


async def test_a_question_about_a_command_says_where_it_would_run_without_secrets(desk: Desk, tmp_path: Path) -> None:
    await desk.result("bash", command=f"touch {SECRET}")

    assert desk.asked.preview == CommandDisplay(command="touch [redacted]")
    assert (desk.asked.cwd, desk.asked.confined, desk.asked.edits) == (str(tmp_path), False, False)
    assert desk.asked.covers


async def test_nothing_is_shown_of_a_file_that_may_hold_secrets(desk: Desk, tmp_path: Path) -> None:
    await anyio.Path(tmp_path / ".env").write_text("KEY=1\n")

    await desk.result("write_file", path=".env", content="KEY=2\n", append=True)

    assert (desk.asked.preview, desk.asked.diff) == (None, "")


async def test_a_background_command_is_told_from_its_start_to_its_end(tmp_path: Path) -> None:
    async with background_commands() as background:
        approvals = Approvals(ApprovalMode.ALL)
        desk = await anyio.to_thread.run_sync(lambda: Desk(tmp_path, approvals, background))
        line = f"echo {SECRET}; exit 3"
        begun = await desk.result("bash", command=line, background=True)
        while not any(isinstance(event, BackgroundEndedEvent) for event in desk.sink.events):  # noqa: ASYNC110  events
            await anyio.sleep(0.01)
        looked_at = await desk.result("background", handle="bg1")

    hidden = "echo [redacted]; exit 3"
    assert begun.display == CommandDisplay(command=hidden, handle="bg1")
    started = next(event for event in desk.sink.events if isinstance(event, BackgroundStartedEvent))
    ended = next(event for event in desk.sink.events if isinstance(event, BackgroundEndedEvent))
    assert (started.handle, started.command, started.tool_call_id) == ("bg1", hidden, "c")
    assert (ended.status, ended.exit_code, ended.output) == ("exited", 3, "[redacted]\n")
    assert isinstance(looked_at.display, CommandDisplay)
    assert (looked_at.display.command, looked_at.display.exit_code, looked_at.display.handle) == (hidden, 3, "bg1")


def queued(sink: MemorySink) -> list[tuple[str, str]]:
    return [(event.tool_call_id, event.waits_for) for event in sink.events if isinstance(event, ToolQueuedEvent)]


async def test_calls_that_wait_for_others_of_their_answer_are_told(tmp_path: Path) -> None:
    rig = await anyio.to_thread.run_sync(lambda: ExecutorRig(tmp_path, *passing_tools(Traffic())))
    looks = [call(f"r{number}", "look", name=f"r{number}") for number in range(2)]
    changes = [call(name, "change", name=name) for name in ("w1", "w2")]

    await rig.executor.run_all([*looks, *changes], rig.record)
    assert queued(rig.sink) == [("w1", "calls"), ("w2", "calls")]
    assert isinstance(rig.sink.events[0], ToolQueuedEvent)

    rig.sink.events.clear()
    await rig.executor.run_all(changes, rig.record)
    assert queued(rig.sink) == [("w2", "calls")]
    begun = [event.tool_call_id for event in rig.sink.events if isinstance(event, ToolCallEvent)]
    assert begun == ["w1", "w2"]


async def test_a_call_that_waits_for_another_question_is_told(tmp_path: Path) -> None:
    approvals = Approvals(ApprovalMode.ASK, ScriptedApprover())
    rigs = [await anyio.to_thread.run_sync(lambda: ExecutorRig(tmp_path, Save, approvals=approvals)) for _ in "ab"]

    async with anyio.create_task_group() as group:
        for number, rig in enumerate(rigs):
            group.start_soon(rig.executor.run_all, [call(f"c{number}", "save", path="a.txt")], rig.record)
        while not any(queued(rig.sink) for rig in rigs):
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()

    waiting = [entry for rig in rigs for entry in queued(rig.sink)]
    assert waiting in ([("c0", "request")], [("c1", "request")])
