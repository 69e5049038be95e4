"""Diffs of edits, in questions and in results: as `diff -u` makes them, in bounded time and length."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from hypothesis import given, strategies as st

from ipc.events import ApprovalRequestEvent, ToolResultEvent
from tests.fakes.tools import ExecutorRig, ScriptedApprover, call
from vibe.core.tools.edits import file_diff
from vibe.core.tools.gate import Approvals
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import ApprovalAnswer

BEFORE = "".join(f"line {number}\n" for number in range(1, 41))
EDIT = "<<<<<<< SEARCH\nline 20\n=======\nline twenty\n>>>>>>> REPLACE\n"
UNENDED = "\\ No newline at end of file"
DIFF = "\n".join((
    "--- a.txt", "+++ a.txt", "@@ -17,7 +17,7 @@",
    " line 17", " line 18", " line 19", "-line 20", "+line twenty", " line 21", " line 22", " line 23",
))  # fmt: skip


def test_it_is_the_diff_that_everybody_knows() -> None:
    assert file_diff("a.txt", BEFORE, BEFORE.replace("line 20\n", "line twenty\n")).text == DIFF
    assert file_diff("a.txt", BEFORE, BEFORE).text == ""
    assert file_diff("a.txt", "one\n", None).text == "--- a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one"


@pytest.mark.parametrize(
    ("before", "after", "shown", "counts"),
    [
        ("one\n", "one\ntwo\n", ["@@ -1 +1,2 @@", " one", "+two"], (1, 0)),
        ("one\n", "two\n", ["@@ -1 +1 @@", "-one", "+two"], (1, 1)),
        ("one\n", "", ["@@ -1 +0,0 @@", "-one"], (0, 1)),
        ("", "one\n\n", ["@@ -0,0 +1,2 @@", "+one", "+"], (2, 0)),
        ("one", "one\n", ["@@ -1 +1 @@", "-one", UNENDED, "+one"], (1, 1)),
        ("one\ntwo\n", "one\ntwo", ["@@ -1,2 +1,2 @@", " one", "-two", "+two", UNENDED], (1, 1)),
        ("one\ntwo", "1\ntwo", ["@@ -1,2 +1,2 @@", "-one", "+1", " two", UNENDED], (1, 1)),
    ],
)
def test_lines_are_those_that_a_person_counts(
    before: str, after: str, shown: list[str], counts: tuple[int, int]
) -> None:
    diff = file_diff("a", before, after)
    assert diff.text.splitlines()[2:] == shown
    assert (diff.added, diff.removed) == counts


lines = st.lists(st.sampled_from("abc"), max_size=12).map(lambda words: "".join(f"{word}\n" for word in words))


@given(before=lines, after=lines)
def test_patch_makes_of_the_one_text_the_other(before: str, after: str) -> None:
    diff = file_diff("a", before, after).text
    assert bool(diff) == (before != after)
    assert patched(before, diff) == after


def patched(text: str, diff: str) -> str:
    """Apply a diff to a text as a patch program would, by the line numbers in the heads of hunks."""
    old, new, at = text.split("\n"), list[str](), 0
    for line in diff.splitlines()[2:]:
        if line.startswith("@@"):
            start, _, count = line.split(" ")[1][1:].partition(",")
            first = int(start) - (0 if count == "0" else 1)
            new += old[at:first]
            at = first
        elif line.startswith("+"):
            new.append(line[1:])
        else:
            assert old[at] == line[1:]
            new += [] if line.startswith("-") else [line[1:]]
            at += 1
    return "\n".join(new + old[at:])


def test_neither_its_time_nor_its_length_grows_with_the_file() -> None:
    before = "".join(f"{number}\n" for number in range(200_000))
    began = time.monotonic()
    assert file_diff("a", before, before.replace("150000\n", "x\n")).text.count("\n") == 10
    assert file_diff("a", before, "".join(f"{number}\n" for number in range(400_000, 200_000, -1))).text == ""
    assert time.monotonic() - began < 5
    long = file_diff("a", "", "".join(f"{number}\n" for number in range(5_000))).text
    assert long.splitlines()[-1] == "… 4603 more lines"
    assert len(file_diff("a", "", "x" * 1_000_000).text) < 100


async def rig(root: Path, approvals: Approvals) -> ExecutorRig:
    return await to_thread.run_sync(lambda: ExecutorRig(root, approvals=approvals))


async def ask(root: Path, tool: str, **arguments: Any) -> tuple[ExecutorRig, str]:
    """Make a call that needs approval and gets it, and return the diff in the request."""
    approver = ScriptedApprover([ApprovalAnswer(allow=True)])
    rigged = await rig(root, Approvals(approver=approver))
    if arguments.get("overwrite"):
        await rigged.executor.run_all([call("0", "read_file", path=arguments["path"])], rigged.record)
    await rigged.executor.run_all([call("1", tool, **arguments)], rigged.record)
    (asked,) = approver.asked
    (announced,) = [event for event in rigged.sink.events if isinstance(event, ApprovalRequestEvent)]
    assert announced.diff == asked.diff
    return rigged, asked.diff


def result_diff(rigged: ExecutorRig) -> str:
    *_, last = [event for event in rigged.sink.events if isinstance(event, ToolResultEvent)]
    assert last.status == "ok"
    return last.diff


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_replace", {"file_path": "a.txt", "content": EDIT}),
        ("search_replace", {"file_path": "a.txt", "old_string": "line 20", "new_string": "line twenty"}),
        ("write_file", {"path": "a.txt", "content": BEFORE.replace("line 20\n", "line twenty\n"), "overwrite": True}),
    ],
)
async def test_who_is_asked_about_an_edit_sees_what_it_changes_and_so_does_who_follows(
    tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    (tmp_path / "a.txt").write_text(BEFORE)
    rigged, shown = await ask(tmp_path, tool, **arguments)
    assert shown == DIFF
    assert result_diff(rigged) == DIFF
    assert DIFF not in rigged.recorded[-1].content


async def test_what_is_appended_is_shown_where_it_comes_to_stand(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo")
    rigged, shown = await ask(tmp_path, "write_file", path="a.txt", content="three\n", append=True)
    assert shown.splitlines()[2:] == ["@@ -1,2 +1,2 @@", " one", "-two", UNENDED, "+twothree"]
    assert result_diff(rigged) == shown


async def test_a_new_file_is_all_new(tmp_path: Path) -> None:
    rigged, shown = await ask(tmp_path, "write_file", path="new.txt", content="one\n")
    assert shown == ""
    assert result_diff(rigged) == "--- /dev/null\n+++ new.txt\n@@ -0,0 +1 @@\n+one"


async def test_nobody_is_asked_about_an_edit_that_does_not_fit(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("other\n")
    rigged = await rig(tmp_path, Approvals(approver=ScriptedApprover([])))
    await rigged.executor.run_all([call("1", "search_replace", file_path="a.txt", content=EDIT)], rigged.record)
    assert not any(isinstance(event, ApprovalRequestEvent) for event in rigged.sink.events)
    assert "block 1 does not fit" in rigged.recorded[-1].content


async def test_nothing_around_an_edit_of_a_file_that_may_hold_secrets_is_shown(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=abc\nMODE=a\n")
    rigged, shown = await ask(tmp_path, "search_replace", file_path=".env", old_string="MODE=a", new_string="MODE=b")
    assert shown == result_diff(rigged) == ""


async def test_secrets_in_a_diff_are_masked(tmp_path: Path) -> None:
    key = "ghp_" + "aB3d" * 9
    (tmp_path / "a.py").write_text(f"TOKEN = '{key}'\nmode = 1\n")
    rigged = await rig(tmp_path, Approvals(ApprovalMode.ALL))
    edit = call("1", "search_replace", file_path="a.py", old_string="mode = 1", new_string="mode = 2")
    await rigged.executor.run_all([edit], rigged.record)
    assert "+mode = 2" in result_diff(rigged)
    assert key not in result_diff(rigged)
