"""The calls of one answer: decided, run in the right order, and each answered."""

from __future__ import annotations

import json
import logging
import threading
from asyncio import CancelledError  # noqa: TID251  a tool may raise it
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import anyio
import msgspec
import pytest

from ipc.events import (
    ApprovalDecisionEvent,
    ApprovalRequestEvent,
    Event,
    RequestWithdrawnEvent,
    ToolCallEvent,
    ToolResultEvent,
    ToolStreamEvent,
    WarningEvent,
)
from tests.fakes.tools import ExecutorRig, Peek, Save, ScriptedApprover, Traffic, call, passing_tools
from vibe.core.messages import Denial, ToolCall
from vibe.core.tools import base, gate
from vibe.core.tools.gate import ALL_EDITS, Approvals
from vibe.core.tools.outputs import RESULT_BYTES
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import ApprovalAnswer, CallOutlook
from vibe.system.errors import VibeError

YES, NO = ApprovalAnswer(allow=True), ApprovalAnswer(allow=False, reason="not today")
FOR_THE_SESSION = ApprovalAnswer(allow=True, scope="session")


async def rig(root: Path, *classes: type[base.BaseTool[Any, Any, Any, Any]], **options: Any) -> ExecutorRig:
    """Build the executor in a thread, since finding tools reads the disk."""
    return await anyio.to_thread.run_sync(lambda: ExecutorRig(root, *classes, **options))


def tags(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


# --- order ----------------------------------------------------------------------------------------------------


async def test_read_only_calls_run_side_by_side_and_answer_in_call_order(tmp_path: Path) -> None:
    traffic = Traffic()
    rigged = await rig(tmp_path, *passing_tools(traffic))
    calls = [call(name, "look", name=name, held=True) for name in "abc"]
    async with anyio.create_task_group() as group:
        group.start_soon(rigged.executor.run_all, calls, rigged.record)
        for name in "abc":
            await traffic.arrival(name).wait()
        assert traffic.running == 3
        traffic.gate("c").set()
        traffic.gate("b").set()
        while traffic.running > 1:
            await anyio.lowlevel.checkpoint()
        assert not rigged.recorded
        traffic.gate("a").set()
    assert [message.tool_call_id for message in rigged.recorded] == ["a", "b", "c"]
    assert traffic.log[-1] == "-a"


async def test_writers_run_one_after_the_other_in_call_order(tmp_path: Path) -> None:
    traffic = Traffic()
    rigged = await rig(tmp_path, *passing_tools(traffic))
    batch = await rigged.executor.run_all([call(n, "change", name=n) for n in "abcd"], rigged.record)
    assert traffic.log == ["+a", "-a", "+b", "-b", "+c", "-c", "+d", "-d"]
    assert traffic.most == 1
    assert batch.files_changed == ("a", "b", "c", "d")


async def test_a_writer_waits_for_the_readers_before_it_and_holds_those_after(tmp_path: Path) -> None:
    traffic = Traffic()
    rigged = await rig(tmp_path, *passing_tools(traffic))
    calls = [
        call("r1", "look", name="r1", held=True),
        call("r2", "look", name="r2"),
        call("w", "change", name="w", held=True),
        call("r3", "look", name="r3"),
    ]
    async with anyio.create_task_group() as group:
        group.start_soon(rigged.executor.run_all, calls, rigged.record)
        await traffic.arrival("r1").wait()
        await traffic.arrival("r2").wait()
        assert "+w" not in traffic.log
        traffic.gate("r1").set()
        await traffic.arrival("w").wait()
        assert traffic.running == 1
        traffic.gate("w").set()
    assert traffic.log.index("-r1") < traffic.log.index("+w")
    assert traffic.log[-3:] == ["-w", "+r3", "-r3"]


async def test_no_more_than_eight_run_at_once(tmp_path: Path) -> None:
    traffic = Traffic()
    rigged = await rig(tmp_path, *passing_tools(traffic))
    names = [f"n{index}" for index in range(12)]
    async with anyio.create_task_group() as group:
        calls = [call(name, "look", name=name, held=True) for name in names]
        group.start_soon(rigged.executor.run_all, calls, rigged.record)
        await traffic.arrival("n7").wait()
        for name in names:
            traffic.gate(name).set()
    assert traffic.most == 8
    assert len(rigged.recorded) == 12


async def test_each_message_is_recorded_before_the_next_writer_starts(tmp_path: Path) -> None:
    traffic = Traffic()
    rigged = await rig(tmp_path, *passing_tools(traffic))
    calls = [call("a", "change", name="a"), call("b", "change", name="b", held=True)]
    async with anyio.create_task_group() as group:
        group.start_soon(rigged.executor.run_all, calls, rigged.record)
        await traffic.arrival("b").wait()
        assert [message.tool_call_id for message in rigged.recorded] == ["a"]
        traffic.gate("b").set()


# --- failures become results ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"name": "a"', ("look: arguments: is not valid JSON", "line 1 column 13 (character 12)", '"properties"')),
        ("{'name': 1}", ("not valid JSON", "line 1 column 2")),
        ("[1]", ("arguments: is an array, not an object", '"properties"')),
        ('"name"', ("is a string, not an object",)),
        ("null", ("is null, not an object",)),
        ("7", ("is a number, not an object",)),
        ('{"name": NaN}', ("NaN is not a JSON number",)),
        ('{"name": "\\ud800"}', ("surrogate",)),
        ('{"name": ' + "1" * 5000 + "}", ("not valid JSON",)),
        ("[" * 100_000, ("not valid JSON",)),
        ('{"name": ' + "[" * 101 + "]" * 101 + "}", ("nested more than 100 levels deep",)),
        ("", ("arguments.name: field required",)),
        ("{}", ("arguments.name: field required",)),
        ('{"name": "a", "held": "perhaps"}', ("arguments.held: input should be a valid boolean",)),
        ('{"name": "a", "nmae": 1}', ("arguments.nmae: extra inputs are not permitted",)),
    ],
)
async def test_arguments_that_do_not_fit_come_back_with_the_place(
    tmp_path: Path, arguments: str, expected: tuple[str, ...]
) -> None:
    traffic = Traffic()
    rigged = await rig(tmp_path, *passing_tools(traffic))
    batch = await rigged.executor.run_all([ToolCall("c", "look", arguments)], rigged.record)
    (message,) = batch.messages
    assert message.status == "error"
    assert all(text in message.content for text in expected)
    assert not traffic.log
    assert rigged.recorded == [message]


async def test_arguments_that_are_no_object_are_announced_as_they_came(tmp_path: Path) -> None:
    rigged = await rig(tmp_path, *passing_tools(Traffic()))
    await rigged.executor.run_all([ToolCall("c", "look", "{bad")], rigged.record)
    announced = rigged.sink.events[0]
    assert isinstance(announced, ToolCallEvent)
    assert (announced.arguments, announced.raw) == ({}, "{bad")


async def test_an_unknown_tool_is_answered_with_the_closest_names(tmp_path: Path) -> None:
    rigged = await rig(tmp_path, *passing_tools(Traffic()))
    batch = await rigged.executor.run_all([call("c", "lok"), call("d", "look", name="d")], rigged.record)
    assert batch.messages[0].status == "error"
    assert "unknown tool 'lok'; did you mean 'look'" in batch.messages[0].content
    assert batch.messages[1].status == "ok"


async def test_a_tool_error_is_the_result_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rigged = await rig(tmp_path, *passing_tools(Traffic()))
    calls = [call("a", "look", name="a", fail="tool"), call("b", "look", name="b"), call("c", "change", name="c")]
    batch = await rigged.executor.run_all(calls, rigged.record)
    assert [(m.status, m.content) for m in batch.messages] == [
        ("error", "a could not"),
        ("ok", "b done"),
        ("ok", "c done"),
    ]
    assert not caplog.records


async def test_a_tool_that_breaks_is_a_result_and_is_logged_in_full(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rigged = await rig(tmp_path, *passing_tools(Traffic()))
    calls = [call("a", "change", name="a", fail="badly"), call("b", "change", name="b")]
    with caplog.at_level(logging.ERROR):
        batch = await rigged.executor.run_all(calls, rigged.record)
    assert batch.messages[0].content == "change failed: RuntimeError: a broke"
    assert batch.messages[1].status == "ok"
    assert caplog.records[0].exc_info


async def test_a_tool_that_breaks_outside_its_run_is_a_result_too(tmp_path: Path) -> None:
    class Clumsy(Save):
        def summarize(self, args: Any) -> str:
            raise RuntimeError(f"no summary of {args.path}")

    rigged = await rig(tmp_path, Clumsy)
    batch = await rigged.executor.run_all([call("c", "clumsy", path="x")], rigged.record)
    assert "clumsy failed: RuntimeError: no summary of x" in batch.messages[0].content


class OwnEnd(KeyboardInterrupt):
    """An end of the run, as a tool may raise it."""


ENDS: dict[str, BaseException] = {
    "interrupt": OwnEnd("mine"),
    "exit": SystemExit(3),
    "generator": GeneratorExit(),
    "base": BaseException("bare"),
    "group": BaseExceptionGroup("two", [KeyboardInterrupt(), ValueError()]),
    "cancelled group": BaseExceptionGroup("one", [CancelledError()]),
    "cancellation": CancelledError(),
}


@pytest.mark.parametrize("tool", [Save, Peek])
@pytest.mark.parametrize("end", ENDS)
async def test_an_end_that_a_tool_raises_itself_fails_its_call_and_not_the_run(
    tmp_path: Path, end: str, tool: type[base.BaseTool[Any, Any, Any, Any]]
) -> None:
    class Fatal(tool):
        async def run(self, *_: Any, **__: Any) -> Any:
            raise ENDS[end]

    (tmp_path / "x").touch()
    rigged = await rig(tmp_path, Fatal, Save, approvals=Approvals(ApprovalMode.ALL))
    calls = [call("a", "fatal", path="x"), call("b", "save", path="y")]
    batch = await rigged.executor.run_all(calls, rigged.record)
    assert [message.status for message in batch.messages] == ["error", "ok"]
    words = {"exit": "it broke off by itself: SystemExit: 3", "group": "it broke off by itself: KeyboardInterrupt"}
    assert batch.messages[0].content.startswith(f"fatal failed: {words.get(end, '')}")
    assert not batch.messages[0].content.endswith(": ")


@pytest.mark.parametrize("method", ["summarize", "format_result", "images", "denials", "files_changed", "diff"])
async def test_what_a_tool_says_about_a_call_or_its_result_fails_the_call_if_it_is_of_another_kind(
    tmp_path: Path, method: str
) -> None:
    def says(_self: Save, _about: object) -> list[int]:
        return [3]

    odd = type("Odd", (Save,), {method: says})
    rigged = await rig(tmp_path, odd, approvals=Approvals(ApprovalMode.ALL))
    batch = await rigged.executor.run_all([call("a", "odd", path="x")], rigged.record)
    assert batch.messages[0].status == "error"
    assert batch.messages[0].content.startswith("odd failed: ")


async def test_a_summary_that_breaks_only_the_second_time_fails_its_call(tmp_path: Path) -> None:
    class Twice(Save):
        said = 0

        def summarize(self, args: Any) -> str:
            self.said += 1
            return {1: args.path}[self.said]

    rigged = await rig(tmp_path, Twice, Save)
    batch = await rigged.executor.run_all([call("a", "save", path="x"), call("b", "twice", path="y")], rigged.record)
    assert batch.messages[1].content == "twice failed: KeyError: 2"


async def test_a_call_by_another_vocabulary_keeps_the_name_it_was_made_by(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    rigged = await rig(tmp_path)
    batch = await rigged.executor.run_all([call("c", "read", path="a.txt")], rigged.record)
    assert "hello" in batch.messages[0].content
    assert batch.messages[0].name == "read"
    assert isinstance(rigged.sink.events[0], ToolCallEvent)
    assert rigged.sink.events[0].tool == "read_file"


# --- results --------------------------------------------------------------------------------------------------


def loud(text: str) -> type[base.BaseTool[Any, Any, Any, Any]]:
    """Return a tool with a fixed result."""

    class Say(Peek):
        def assess(self, args: Any, workspace: Any) -> base.Assessment:  # noqa: ARG002  a tool without paths
            return base.Assessment()

        async def run(self, args: Any, ctx: base.InvokeContext) -> Any:  # noqa: ARG002  the shape of a tool
            yield base.ToolStreamLine(tool_name="say", message="speaking", tool_call_id=ctx.tool_call_id)
            yield base.TextResult(text=text)

    return Say


@pytest.mark.parametrize("letter", ["x", "é", "😀"])
async def test_a_long_result_is_cut_and_kept_whole_in_a_file_the_agent_may_read(tmp_path: Path, letter: str) -> None:
    root, outputs = tmp_path / "work", tmp_path / "session" / "outputs"
    root.mkdir()
    text = "HEAD" + letter * 100_000 + "TAIL"
    rigged = await rig(root, loud(text), Peek, output_dir=outputs)
    batch = await rigged.executor.run_all([call("c/../1", "say", path="-")], rigged.record)
    content = batch.messages[0].content
    assert len(content.encode()) <= RESULT_BYTES
    assert content.startswith("HEAD")
    assert content.endswith("TAIL")
    (kept,) = outputs.iterdir()
    assert f"the whole is in {kept}" in content
    assert kept.read_text(encoding="utf-8") == text
    again = await rigged.executor.run_all([call("d", "peek", path=str(kept))], rigged.record)
    assert again.messages[0].status == "ok"


async def test_a_result_that_just_fits_is_left_alone(tmp_path: Path) -> None:
    rigged = await rig(tmp_path, loud("x" * RESULT_BYTES), output_dir=tmp_path / "outputs")
    batch = await rigged.executor.run_all([call("c", "say", path="-")], rigged.record)
    assert batch.messages[0].content == "x" * RESULT_BYTES
    assert not (tmp_path / "outputs").exists()


async def test_a_result_that_can_not_be_kept_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for output_dir, expected in ((None, "the whole was not kept"), (tmp_path / "file" / "x", "could not be kept")):
        rigged = await rig(tmp_path, loud("x" * 70_000), output_dir=output_dir)
        batch = await rigged.executor.run_all([call("c", "say", path="-")], rigged.record)
        assert expected in batch.messages[0].content


async def test_text_that_no_wire_takes_is_made_to_fit(tmp_path: Path) -> None:
    rigged = await rig(tmp_path, loud("half \ud83d pair"))
    batch = await rigged.executor.run_all([call("c", "say", path="-")], rigged.record)
    assert batch.messages[0].content == "half ? pair"
    assert msgspec.json.encode(batch.messages[0])


async def test_a_call_is_announced_streamed_and_closed(tmp_path: Path) -> None:
    rigged = await rig(tmp_path, loud("said"))
    began = perf_counter()
    await rigged.executor.run_all([call("c", "say", path="-")], rigged.record)
    took = perf_counter() - began
    announced, streamed, closed = rigged.sink.events
    assert isinstance(announced, ToolCallEvent)
    assert (announced.tool_call_id, announced.tool, announced.summary) == ("c", "say", "say -")
    assert isinstance(streamed, ToolStreamEvent)
    assert (streamed.tool_call_id, streamed.text) == ("c", "speaking")
    assert isinstance(closed, ToolResultEvent)
    assert (closed.status, closed.content) == ("ok", "said")
    assert 0 < closed.duration_s < took


# --- permission -----------------------------------------------------------------------------------------------


async def test_without_anybody_to_ask_a_question_is_a_denial_at_once(tmp_path: Path) -> None:
    rigged = await rig(tmp_path, Save)
    batch = await rigged.executor.run_all([call("c", "save", path="a.txt")], rigged.record)
    assert batch.denied == (
        Denial("save", "save a.txt", "save needs your approval, and no one can approve in this run", "headless"),
    )
    assert batch.messages[0].status == "denied"
    _, asked, decision, ended = rigged.sink.events
    assert isinstance(asked, ApprovalRequestEvent)
    assert isinstance(decision, ApprovalDecisionEvent)
    assert isinstance(ended, ToolResultEvent)
    assert (decision.request_id, decision.decision, decision.by) == (asked.request_id, "deny", "nobody")
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("table", [{"permission": "never"}, {"denylist": ["*.txt"]}, {"denylist": ["docs"]}])
async def test_mode_all_does_not_move_a_rule(tmp_path: Path, table: dict[str, Any]) -> None:
    approvals = Approvals(ApprovalMode.ALL, ScriptedApprover([YES]))
    rigged = await rig(tmp_path, Save, approvals=approvals, tables={"save": table})
    batch = await rigged.executor.run_all([call("c", "save", path="docs/../docs/a.txt")], rigged.record)
    assert [denial.by for denial in batch.denied] == ["rule"]
    assert tags(rigged.sink.events) == ["ToolCallEvent", "ToolResultEvent"]


@pytest.mark.parametrize("path", ["./deny.txt", "x/../deny.txt", "link", "DENY.txt", "{root}/deny.txt"])
async def test_a_denied_path_is_denied_however_it_is_written(tmp_path: Path, path: str) -> None:
    (tmp_path / "link").symlink_to("deny.txt")
    tables = {"save": {"denylist": ["deny.txt"]}}
    rigged = await rig(tmp_path, Save, approvals=Approvals(ApprovalMode.ALL), tables=tables)
    written = path.format(root=tmp_path)
    batch = await rigged.executor.run_all([call("c", "save", path=written)], rigged.record)
    assert [denial.by for denial in batch.denied] == ["rule"]


async def test_an_allowed_path_allows_nothing_behind_a_link(tmp_path: Path) -> None:
    root, outside = tmp_path / "work", tmp_path / "outside"
    (root / "ok").mkdir(parents=True)
    outside.mkdir()
    (root / "ok" / "link").symlink_to(outside)
    rigged = await rig(root, Save, tables={"save": {"allowlist": ["ok/*"]}})
    calls = [call("a", "save", path="ok/a.txt", text="hi"), call("b", "save", path="ok/link/b.txt")]
    batch = await rigged.executor.run_all(calls, rigged.record)
    assert [message.status for message in batch.messages] == ["ok", "denied"]
    assert (root / "ok" / "a.txt").read_text() == "hi"
    assert not list(outside.iterdir())


async def test_an_allow_list_must_cover_every_path_of_a_call(tmp_path: Path) -> None:
    class Move(Save):
        def assess(self, args: Any, workspace: Any) -> base.Assessment:  # noqa: ARG002  the shape of a tool
            paths = tuple(base.PathAccess(path=path, write=True) for path in args.path.split())
            return base.Assessment(paths=paths, reason=f"{len(paths)} paths")

        async def run(self, args: Any, ctx: base.InvokeContext) -> base.TextResult:
            return base.TextResult(text=f"{ctx.tool_call_id} {args.path}")

    rigged = await rig(tmp_path, Move, tables={"move": {"allowlist": ["ok/**", "fine"]}})
    calls = [call("a", "move", path="ok/a fine/b"), call("b", "move", path="ok/a other/b")]
    batch = await rigged.executor.run_all(calls, rigged.record)
    assert [message.status for message in batch.messages] == ["ok", "denied"]
    assert "move needs your approval (2 paths)" in batch.denied[0].reason


async def test_a_yes_runs_the_call_and_both_sides_are_announced(tmp_path: Path) -> None:
    approver = ScriptedApprover([YES])
    rigged = await rig(tmp_path, Save, approvals=Approvals(approver=approver))
    batch = await rigged.executor.run_all([call("c", "save", path="a.txt", text="hi")], rigged.record)
    assert batch.messages[0].content == "saved a.txt"
    _, asked, answered, _ = rigged.sink.events
    assert isinstance(asked, ApprovalRequestEvent)
    assert isinstance(answered, ApprovalDecisionEvent)
    assert asked.request_id == answered.request_id == approver.asked[0].request_id
    assert (asked.tool, asked.rule, asked.arguments) == ("save", "permission", {"path": "a.txt", "text": "hi"})
    assert (answered.decision, answered.scope) == ("allow", "once")
    assert (asked.summary, asked.cwd, asked.confined) == ("save a.txt", str(tmp_path), None)
    assert asked.covers == (f"save: write {tmp_path}/a.txt",)


async def test_a_no_is_told_to_the_model_in_the_persons_words(tmp_path: Path) -> None:
    rigged = await rig(tmp_path, Save, approvals=Approvals(approver=ScriptedApprover([NO])))
    batch = await rigged.executor.run_all([call("c", "save", path="a.txt")], rigged.record)
    assert batch.messages[0].content.startswith("Denied: not today.")
    assert batch.denied[0].by == "user"


class Ponder(Save):
    """A tool whose rules wait until the test lets them go on."""

    turns: ClassVar[threading.Event]
    loop_thread: ClassVar[int]
    over: ClassVar[threading.Event]

    def assess(self, args: Any, workspace: Any) -> base.Assessment:
        assert threading.get_ident() != self.loop_thread
        self.turns.set()
        self.over.wait(10)
        return super().assess(args, workspace)


async def test_a_call_that_takes_long_to_judge_holds_nobody_and_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "JUDGING_SECONDS", 0.05)
    Ponder.turns, Ponder.over, Ponder.loop_thread = threading.Event(), threading.Event(), threading.get_ident()
    rigged = await rig(tmp_path, Ponder, approvals=Approvals(ApprovalMode.ALL))
    try:
        [message] = (
            await rigged.executor.run_all([call("1", "ponder", path="a.txt", text="x")], rigged.record)
        ).messages
    finally:
        Ponder.over.set()
    assert Ponder.turns.is_set()
    assert message.status == "denied"
    assert "could not be judged within 0.05 s" in message.content


async def test_nothing_is_shown_of_a_file_that_could_not_be_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Showing(Ponder):
        def outlook(self, args: Any, workspace: Any, *, sandboxed: bool) -> CallOutlook:  # noqa: ARG002  a tool's shape
            return CallOutlook(diff="-KEY=hunter2")

    monkeypatch.setattr(gate, "JUDGING_SECONDS", 0.05)
    Ponder.turns, Ponder.over, Ponder.loop_thread = threading.Event(), threading.Event(), threading.get_ident()
    approver = ScriptedApprover([NO])
    rigged = await rig(tmp_path, Showing, approvals=Approvals(approver=approver))
    try:
        await rigged.executor.run_all([call("1", "showing", path=".env", text="x")], rigged.record)
    finally:
        Ponder.over.set()
    assert (approver.asked[0].rule, approver.asked[0].diff, approver.asked[0].covers) == ("each_time", "", ())


async def test_a_call_is_judged_once(tmp_path: Path) -> None:
    judged: list[str] = []

    class Counted(Save):
        def assess(self, args: Any, workspace: Any) -> base.Assessment:
            judged.append(args.path)
            return super().assess(args, workspace)

    approver = ScriptedApprover([YES, NO])
    rigged = await rig(tmp_path, Counted, approvals=Approvals(approver=approver))
    calls = [call("1", "counted", path="a.txt"), call("2", "counted", path="b.txt")]
    await rigged.executor.run_all(calls, rigged.record)
    assert judged == ["a.txt", "b.txt"]


@pytest.mark.parametrize(
    ("edits", "path", "passes"), [(True, "a.txt", True), (False, "a.txt", False), (True, "../a.txt", False)]
)
async def test_who_approves_all_edits_approves_those_of_every_tool_that_only_edits(
    tmp_path: Path, edits: object, path: str, passes: object
) -> None:
    class MyWriter(Save):
        edits_files = bool(edits)

    (tmp_path / "work").mkdir()
    rigged = await rig(tmp_path / "work", MyWriter, approvals=Approvals(ApprovalMode.EDITS))
    batch = await rigged.executor.run_all([call("1", "my_writer", path=path, text="x")], rigged.record)
    assert (batch.messages[0].status == "ok") is passes
    approver = ScriptedApprover([NO])
    rigged = await rig(tmp_path / "work", MyWriter, approvals=Approvals(approver=approver))
    await rigged.executor.run_all([call("1", "my_writer", path=path, text="x")], rigged.record)
    assert approver.asked[0].edits is passes


async def test_once_is_asked_again_and_for_the_session_is_not(tmp_path: Path) -> None:
    approver = ScriptedApprover([YES, FOR_THE_SESSION, NO])
    rigged = await rig(tmp_path, Save, approvals=Approvals(approver=approver))
    calls = [call(str(n), "save", path="a.txt", text=str(n)) for n in range(4)]
    batch = await rigged.executor.run_all([*calls, call("x", "save", path="b.txt")], rigged.record)
    assert [message.status for message in batch.messages] == ["ok", "ok", "ok", "ok", "denied"]
    assert len(approver.asked) == 3


ALWAYS = ApprovalAnswer(allow=True, scope="always")


async def test_always_is_written_down_and_asked_no_more(tmp_path: Path) -> None:
    kept: list[str] = []
    approvals = Approvals(approver=ScriptedApprover([ALWAYS]), keep=kept.extend)
    rigged = await rig(tmp_path, Save, approvals=approvals)
    calls = [call(str(n), "save", path="a.txt", text=str(n)) for n in range(2)]
    batch = await rigged.executor.run_all(calls, rigged.record)
    assert [message.status for message in batch.messages] == ["ok", "ok"]
    assert kept == [f"save: write {tmp_path / 'a.txt'}"]


async def test_an_always_that_cannot_be_written_down_holds_for_the_run_and_is_said(tmp_path: Path) -> None:
    def refuse(_keys: Sequence[str]) -> None:
        raise VibeError("the disk is full")

    rigged = await rig(tmp_path, Save, approvals=Approvals(approver=ScriptedApprover([ALWAYS]), keep=refuse))
    calls = [call(str(n), "save", path="a.txt", text=str(n)) for n in range(2)]
    batch = await rigged.executor.run_all(calls, rigged.record)
    assert [message.status for message in batch.messages] == ["ok", "ok"]
    warnings = [event.message for event in rigged.sink.events if isinstance(event, WarningEvent)]
    assert warnings == ["this approval is valid for this run only: the disk is full"]


async def test_a_lasting_yes_reaches_the_whole_tree_and_no_rule_is_moved_by_it(tmp_path: Path) -> None:
    approver = ScriptedApprover([FOR_THE_SESSION])
    approvals = Approvals(approver=approver)
    parent = await rig(tmp_path, Save, approvals=approvals)
    child = await rig(tmp_path, Save, approvals=approvals.at_least(ApprovalMode.ASK))
    strict = await rig(tmp_path, Save, approvals=approvals, tables={"save": {"denylist": ["a.txt"]}})
    statuses = [
        (await one.executor.run_all([call("c", "save", path="a.txt")], one.record)).messages[0].status
        for one in (parent, child, strict)
    ]
    assert statuses == ["ok", "ok", "denied"]


async def test_a_yes_to_all_edits_reaches_the_whole_tree() -> None:
    approvals = Approvals()
    accepted = approvals.at_least(ApprovalMode.ASK)

    accepted.remember([ALL_EDITS])

    assert (approvals.mode, accepted.mode) == (ApprovalMode.EDITS, ApprovalMode.EDITS)
    assert Approvals().at_least(ApprovalMode.EDITS).mode is ApprovalMode.EDITS
    assert Approvals(ApprovalMode.ALL).at_least(ApprovalMode.EDITS).mode is ApprovalMode.ALL


async def test_one_question_is_open_at_a_time(tmp_path: Path) -> None:
    approver = ScriptedApprover([YES] * 3)
    for name in "abc":
        (tmp_path / name).write_text(name)
    tables = {"peek": {"permission": "ask"}}
    rigged = await rig(tmp_path, Peek, approvals=Approvals(approver=approver), tables=tables)
    batch = await rigged.executor.run_all([call(n, "peek", path=n) for n in "abc"], rigged.record)
    assert [message.content for message in batch.messages] == ["a", "b", "c"]
    assert approver.most == 1


async def test_a_question_already_answered_for_the_session_is_not_asked_by_those_in_the_queue(tmp_path: Path) -> None:
    approver = ScriptedApprover([FOR_THE_SESSION])
    (tmp_path / "a").write_text("a")
    tables = {"peek": {"permission": "ask"}}
    rigged = await rig(tmp_path, Peek, approvals=Approvals(approver=approver), tables=tables)
    batch = await rigged.executor.run_all([call(n, "peek", path="a") for n in "123"], rigged.record)
    assert [message.status for message in batch.messages] == ["ok"] * 3
    assert len(approver.asked) == 1


async def test_a_yes_to_a_path_outside_reaches_that_path_and_no_other(tmp_path: Path) -> None:
    root, outside = tmp_path / "work", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "a").write_text("from outside")
    approver = ScriptedApprover([YES, NO])
    rigged = await rig(root, Peek, approvals=Approvals(approver=approver))
    batch = await rigged.executor.run_all([call(n, "peek", path=f"../outside/{n}") for n in "ab"], rigged.record)
    assert [message.status for message in batch.messages] == ["ok", "denied"]
    assert [request.rule for request in approver.asked] == ["outside", "outside"]
    assert batch.messages[0].content == "from outside"


async def test_a_path_that_was_not_claimed_is_a_hard_denial(tmp_path: Path) -> None:
    rigged = await rig(tmp_path, Save, approvals=Approvals(ApprovalMode.ALL), writes=("docs/**",))
    (tmp_path / "docs").mkdir()
    calls = [call("a", "save", path="docs/a.md"), call("b", "save", path="src.py")]
    batch = await rigged.executor.run_all(calls, rigged.record)
    assert [message.status for message in batch.messages] == ["ok", "denied"]
    assert "may write (docs/**)" in batch.denied[0].reason


async def test_a_secret_file_is_asked_about_even_where_reading_is_free(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1")
    (tmp_path / "innocent").symlink_to(".env")
    rigged = await rig(tmp_path, Peek)
    batch = await rigged.executor.run_all([call(n, "peek", path=n) for n in (".env", "innocent")], rigged.record)
    assert [denial.by for denial in batch.denied] == ["headless", "headless"]
    assert all(".env may hold secrets" in denial.reason for denial in batch.denied)


async def test_a_path_that_leads_nowhere_is_an_error_and_no_denial(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    rigged = await rig(tmp_path, Peek)
    batch = await rigged.executor.run_all([call("c", "peek", path="loop")], rigged.record)
    assert batch.messages[0].status == "error"
    assert "circle of symbolic links" in batch.messages[0].content


async def test_a_denial_repeats_no_secret(tmp_path: Path) -> None:
    environ = {"DEPLOY_TOKEN": "hunter2hunter2", "HOME": "/home/somebody"}
    rigged = await rig(tmp_path, Save, environ=environ)
    secret = "hunter2hunter2"  # noqa: S105  made up
    paths = [f"t-{secret}", "https://u:pa55word@host/x", "password=opensesame", "ghp_abcdefghijklmnop1234"]
    batch = await rigged.executor.run_all([call(p, "save", path=p) for p in paths], rigged.record)
    said = json.dumps([[d.summary, d.reason] for d in batch.denied]) + "".join(m.content for m in batch.messages)
    assert len(batch.denied) == 4
    for leak in (secret, "pa55word", "opensesame", "abcdefghijklmnop"):
        assert leak not in said
    assert "[redacted]" in said


@pytest.mark.parametrize("target", [".git/hooks", ".env", "other"])
async def test_a_path_that_leads_elsewhere_once_it_was_approved_is_not_written(tmp_path: Path, target: str) -> None:
    (tmp_path / ".git" / "hooks").mkdir(parents=True)

    class Swapper(ScriptedApprover):
        async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
            answer = await super().approve(request)
            link = tmp_path / ("docs" if target == ".git/hooks" else "docs/note")
            await anyio.Path(link).symlink_to(tmp_path / target)
            return answer

    docs = tmp_path / "docs"
    if target != ".git/hooks":
        docs.mkdir()
    rigged = await rig(tmp_path, approvals=Approvals(approver=Swapper([ApprovalAnswer(allow=True)])))
    batch = await rigged.executor.run_all([call("1", "write_file", path="docs/note", content="x")], rigged.record)
    assert batch.messages[0].status == "error"
    assert "by now, and the call was allowed for another" in batch.messages[0].content
    assert [path async for path in anyio.Path(tmp_path).rglob("*") if await path.is_file()] == []


async def test_an_approver_that_breaks_lets_nothing_pass(tmp_path: Path) -> None:
    class Broken(ScriptedApprover):
        async def approve(self, request: Any) -> ApprovalAnswer:
            raise RuntimeError(f"screen gone before {request.tool}")

    rigged = await rig(tmp_path, Save, approvals=Approvals(approver=Broken()))
    batch = await rigged.executor.run_all([call("c", "save", path="a")], rigged.record)
    assert batch.messages[0].status == "error"
    assert not (tmp_path / "a").exists()
    assert rigged.sink.events[2].decision == "deny"  # type: ignore[union-attr]


# --- cancellation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["look", "change"])
async def test_a_cancellation_answers_every_call_before_it_goes_on(tmp_path: Path, tool: str) -> None:
    traffic = Traffic()
    rigged = await rig(tmp_path, *passing_tools(traffic))
    calls = [
        call("done", "change", name="done"),
        call("held", tool, name="held", held=True),
        call("later", "change", name="later"),
        call("last", "look", name="last"),
    ]
    async with anyio.create_task_group() as group:
        group.start_soon(rigged.executor.run_all, calls, rigged.record)
        await traffic.arrival("held").wait()
        group.cancel_scope.cancel()
    assert [(m.tool_call_id, m.status) for m in rigged.recorded] == [
        ("done", "ok"),
        ("held", "cancelled"),
        ("later", "cancelled"),
        ("last", "cancelled"),
    ]
    assert "before it started" in rigged.recorded[2].content
    assert traffic.log == ["+done", "-done", "+held"]
    assert traffic.running == 0
    started = [event.tool_call_id for event in rigged.sink.events if isinstance(event, ToolCallEvent)]
    ended = [event.tool_call_id for event in rigged.sink.events if isinstance(event, ToolResultEvent)]
    assert started == ended == ["done", "held"]


async def test_a_reader_that_ended_keeps_its_result_when_its_neighbour_is_cancelled(tmp_path: Path) -> None:
    traffic = Traffic()
    rigged = await rig(tmp_path, *passing_tools(traffic))
    calls = [call("slow", "look", name="slow", held=True), call("fast", "look", name="fast")]
    async with anyio.create_task_group() as group:
        group.start_soon(rigged.executor.run_all, calls, rigged.record)
        await traffic.arrival("slow").wait()
        while "ToolResultEvent" not in tags(rigged.sink.events):
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert [(m.tool_call_id, m.status) for m in rigged.recorded] == [("slow", "cancelled"), ("fast", "ok")]


async def test_a_question_is_withdrawn_when_the_call_is_cancelled(tmp_path: Path) -> None:
    approver = ScriptedApprover()
    rigged = await rig(tmp_path, Save, approvals=Approvals(approver=approver))
    async with anyio.create_task_group() as group:
        group.start_soon(rigged.executor.run_all, [call("c", "save", path="a")], rigged.record)
        while not approver.open:
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert rigged.recorded[0].status == "cancelled"
    withdrawn = rigged.sink.events[2]
    assert isinstance(withdrawn, RequestWithdrawnEvent)
    assert (withdrawn.kind, withdrawn.reason) == ("approval", "the call was aborted")


async def test_a_record_that_fails_ends_the_batch_with_its_own_error(tmp_path: Path) -> None:
    rigged = await rig(tmp_path, *passing_tools(Traffic()))

    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    for tool in ("look", "change"):
        with pytest.raises(OSError, match="No space left"):
            await rigged.executor.run_all([call("a", tool, name="a"), call("b", tool, name="b")], full)
