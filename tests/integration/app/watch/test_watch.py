"""Runs of this machine over real buses: found, followed into a view, and answered."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio import create_task_group, to_thread
from msgspec import structs

from ipc import events as e
from ipc.codec import encode_event
from ipc.commands import MAX_REQUEST_BYTES, Approve, Pause, Reply
from ipc.places import JOURNAL_NAME, PUBLISHER_NAME
from ipc.registry import Registry
from planner.store.folder import plans_folder
from tests.architecture.project import ROOT
from tests.fakes.runs import ASKED, STEPS, running
from vibe.app.watch import runs as runs_module
from vibe.app.watch.board import Board
from vibe.app.watch.commands import CommandOutcome, send, settled
from vibe.app.watch.follower import Follower
from vibe.app.watch.rows import request_row, run_row
from vibe.app.watch.runs import KnownRun, Runs

PATIENCE_S = 60


async def known(home: Path) -> tuple[KnownRun, ...]:
    return await to_thread.run_sync(Runs(home).look)


@asynccontextmanager
async def followed(home: Path) -> AsyncGenerator[Follower]:
    """Follow the only run there is, and stop following when the block ends."""
    (run,) = await known(home)
    follower = Follower(run, home=home)
    async with create_task_group() as tasks:
        tasks.start_soon(follower.follow)
        with anyio.fail_after(PATIENCE_S):
            await follower.ready.wait()
        yield follower
        tasks.cancel_scope.cancel()


async def seen(follower: Follower, key: tuple[str, ...]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while key not in follower.take_changed():  # noqa: ASYNC110  a screen looks at each tick, too
            await anyio.sleep(0.01)


async def whole(home: Path, run: KnownRun) -> Follower:
    """Follow a run to its end."""
    follower = Follower(run, home=home)
    with anyio.fail_after(PATIENCE_S):
        await follower.follow()
    return follower


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for ended runs every time."""
    monkeypatch.setattr(runs_module, "ENDED_EVERY_S", 0.0)


@pytest.mark.parametrize(("ends", "status"), [(True, "ended"), (False, "lost")])
async def test_a_conversation_of_which_only_the_events_are_left_has_its_title_and_its_end(
    vibe_home: Path, status: str, *, ends: bool
) -> None:
    events: list[e.Event] = [
        e.SessionStartedEvent(workspace="/w", model="m"),
        e.UserMessageEvent(text="Tidy up the attic.", message_index=0),
        e.UserMessageEvent(text="And the cellar.", message_index=2),
        *([e.SessionEndedEvent(outcome="completed", exit_code=0)] if ends else []),
    ]
    folder = vibe_home / "run" / "0123abcd"
    folder.mkdir(parents=True)
    stamped = (structs.replace(event, seq=seq, source="run-1", ts=float(seq)) for seq, event in enumerate(events, 1))
    (folder / JOURNAL_NAME).write_bytes(b"".join(encode_event(event) + b"\n" for event in stamped))
    (folder / PUBLISHER_NAME).write_bytes(b'{"source": "run-')

    (run,) = await known(vibe_home)

    row = run_row(run)
    assert (row["title"], row["status"], row.get("ended_at")) == ("Tidy up the attic.", status, 4.0 if ends else None)


async def test_a_live_run_is_found_followed_and_shown(vibe_home: Path) -> None:
    async with running(vibe_home) as run:
        run.begins()
        run.moves("a", "in_progress")
        async with followed(vibe_home) as follower:
            assert follower.view.plans["plan-1"].counts["in_progress"] == 1
            follower.take_changed()
            run.says(structs.replace(ASKED, subagent_id="agent", subagent_step_id="a"))
            await seen(follower, ("requests", "request-1"))
            row = run_row(follower.run, follower.view)
            assert (row["title"], row["live"], row["status"], row["total"]) == ("Tidy up", True, "active", 2)
            assert (row["requests"], row["counts"]) == (1, {"pending": 1, "in_progress": 1})
            assert "waited_s" not in row
            asked = request_row(follower.run, follower.view, follower.view.requests["request-1"])
            assert (asked["kind"], asked["run"], asked["step"], asked["command"]) == ("approval", "plan-1", "a", "make")
            assert asked["confined"] is False
            assert "edits" not in asked
            json.dumps([row, asked])


async def test_whoever_is_asked_about_a_new_file_sees_what_is_in_it(vibe_home: Path) -> None:
    written = e.DiffDisplay(files=(e.WrittenFile(path="a.py", added=1, created=True),))
    arguments = {"path": "a.py", "content": "print(1)\n"}
    async with running(vibe_home) as run:
        run.begins()
        async with followed(vibe_home) as follower:
            run.says(structs.replace(ASKED, tool="write_file", arguments=arguments, preview=written))
            await seen(follower, ("requests", "request-1"))
            asked = request_row(follower.run, follower.view, follower.view.requests["request-1"])
            assert asked["diff"].splitlines()[2:] == ["@@ -0,0 +1 @@", "+print(1)"]


async def test_nothing_is_found_where_nothing_ran(vibe_home: Path) -> None:
    assert await known(vibe_home) == ()


async def test_a_run_that_ended_is_found_and_read_to_its_end(vibe_home: Path) -> None:
    async with running(vibe_home) as run:
        run.begins()
        run.moves("a", "completed")
    (ended,) = await known(vibe_home)
    assert (ended.key, ended.live, ended.folder) == ("plan-1", False, "/work")
    follower = await whole(vibe_home, ended)
    assert follower.ready.is_set()
    assert (follower.view.plans["plan-1"].done, follower.problem) == (1, "")


async def test_what_ended_is_known_before_the_folders_are_looked_at_again(vibe_home: Path) -> None:
    runs = Runs(vibe_home)
    async with running(vibe_home):
        (live,) = await to_thread.run_sync(runs.look)
        assert live.live
    (ended,) = await to_thread.run_sync(runs.look)
    assert (ended.key, ended.live) == ("plan-1", False)


async def test_a_run_that_said_its_plan_since_and_ended_is_listed_once(vibe_home: Path) -> None:
    runs = Runs(vibe_home)
    async with running(vibe_home, plan_id="") as run:
        assert [found.key for found in await to_thread.run_sync(runs.look)] == ["one"]
        await to_thread.run_sync(run.bus.announce, structs.replace(run.entry.info, plan_id="plan-1"))
    assert [found.key for found in await to_thread.run_sync(runs.look)] == ["plan-1"]


async def test_a_run_is_listed_once_it_said_what_it_is(vibe_home: Path) -> None:
    runs = Runs(vibe_home)
    async with running(vibe_home) as run:
        said = run.entry.info
        await to_thread.run_sync(run.bus.announce, structs.replace(said, cwd="", title="", plan_id=None))
        assert await to_thread.run_sync(runs.look) == ()
        await to_thread.run_sync(run.bus.announce, said)
        assert [found.key for found in await to_thread.run_sync(runs.look)] == ["plan-1"]


async def test_a_resumed_plan_is_one_run_over_its_sources(vibe_home: Path) -> None:
    async with running(vibe_home) as run:
        run.begins()
        run.moves("a", "completed")
        async with followed(vibe_home) as follower, running(vibe_home, "two") as resumed:
            resumed.says(e.PlanResumedEvent(goal="Tidy up", steps=STEPS, done=1))
            resumed.moves("b", "in_progress")
            (both,) = await known(vibe_home)
            assert [entry.source for entry in both.entries] == ["one", "two"]
            follower.run = both
            async with create_task_group() as tasks:
                tasks.start_soon(follower.follow)
                await seen(follower, ("plans", "plan-1", "steps", "b"))
                tasks.cancel_scope.cancel()
            plan = follower.view.plans["plan-1"]
            assert (list(plan.sources), plan.source) == (["one", "two"], "two")


@pytest.mark.usefixtures("at_once")
async def test_a_board_goes_on_with_a_plan_that_is_resumed_after_its_end(vibe_home: Path) -> None:
    board = Board(vibe_home)
    async with create_task_group() as tasks:
        tasks.start_soon(board.keep)
        async with running(vibe_home) as run:
            run.begins()
            await until(lambda: (view := board.view_of("plan-1")) is not None and bool(view.plans))
            run.says(ASKED)
            await until(lambda: "request-1" in board.requests())
            assert board.take_changed()
            assert not board.take_changed(), "nothing has changed since"
            run.moves("a", "in_progress")
            await until(board.take_changed)
        await until(lambda: not board.runs[0].live)
        assert board.requests() == {}, "whoever asked is gone"
        async with running(vibe_home, "two") as resumed:
            resumed.says(e.PlanResumedEvent(goal="Tidy up", steps=STEPS, done=0))
            await until(lambda: board.runs[0].live)
            view = board.view_of("plan-1")
            assert view is not None
            await until(lambda: list(view.plans["plan-1"].sources) == ["one", "two"])
            assert board.rows()["plan-1"]["status"] == "active"
        tasks.cancel_scope.cancel()


async def until(holds: Callable[[], object]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not holds():  # noqa: ASYNC110  as a screen looks
            await anyio.sleep(0.01)


async def test_two_runs_of_one_plan_at_once_are_one_row(vibe_home: Path) -> None:
    async with running(vibe_home) as first, running(vibe_home, "two") as second:
        first.begins()
        second.says(e.WarningEvent(code="locked", message="another process runs the plan"))
        async with followed(vibe_home) as follower:
            assert follower.view.plans["plan-1"].total == 2
            assert [notice.code for notice in follower.view.notices.values()] == ["locked"]
            first.moves("a", "in_progress")
            await seen(follower, ("plans", "plan-1", "steps", "a"))


async def test_a_run_without_a_plan_is_a_conversation(vibe_home: Path) -> None:
    async with running(vibe_home, plan_id="") as run:
        run.says(
            e.SessionStartedEvent(workspace="/work", agent="default", model="m", version="1"),
            e.PromptStartedEvent(prompt_id="1"),
            e.UserMessageEvent(text="Rename it"),
        )
        async with followed(vibe_home) as follower:
            row = run_row(follower.run, follower.view)
            assert (follower.run.key, follower.run.is_plan) == ("one", False)
            assert (row["title"], row["status"], row["doing"]) == ("Rename it", "active", "waiting for m")


async def test_a_killed_run_is_lost(vibe_home: Path) -> None:
    words = [sys.executable, "-m", "tests.integration.ipc.processes", "publish", str(vibe_home), "one", "500", "50"]
    async with await anyio.open_process(words, cwd=ROOT, stderr=None) as process:
        assert process.stdout is not None
        await process.stdout.receive()
        async with followed(vibe_home) as follower:
            with anyio.fail_after(PATIENCE_S):
                while not follower.view.runs:  # noqa: ASYNC110  as a screen does
                    await anyio.sleep(0.01)
                os.kill(process.pid, signal.SIGKILL)
                while not follower.view.runs["one"].lost:  # noqa: ASYNC110  as a screen does
                    await anyio.sleep(0.01)
        await process.wait()
    (gone,) = await known(vibe_home)
    assert not gone.live
    assert run_row(gone)["status"] == "lost"
    outcome = await send(gone, Pause())
    assert (outcome.state, outcome.message) == ("ended", "run plan-one has ended: nothing was changed")


async def test_bad_journals_of_what_ended_hurt_nobody(vibe_home: Path) -> None:
    contents = {
        "torn": b'{"type":"user.message","seq":1,"source":"torn","ts":1,"text":"one"}\n{"type":"user.mess',
        "empty": b"",
        "later": b'{"type":"news","seq":1,"source":"later","ts":1}\n{"type":"user.message","seq":2,"source":"later",'
        b'"ts":1,"text":"two"}\n',
        "deleted": b"",
    }
    for number, (source, data) in enumerate(contents.items()):
        folder = vibe_home / "run" / f"{number:08x}"
        folder.mkdir(parents=True)
        (folder / JOURNAL_NAME).write_bytes(data)
        (folder / PUBLISHER_NAME).write_text(json.dumps(entry_of(source, folder / JOURNAL_NAME)))
    entries = await known(vibe_home)
    assert {run.key for run in entries} == set(contents)
    (vibe_home / "run" / f"{3:08x}" / JOURNAL_NAME).unlink()
    views = {run.key: await whole(vibe_home, run) for run in entries}
    said = {key: [a.transcript.entries["1"].text for a in each.view.agents.values()] for key, each in views.items()}
    assert said == {"torn": ["one"], "empty": [], "later": ["two"], "deleted": []}
    assert "no such file" in views["deleted"].problem
    for key, each in views.items():
        assert run_row(each.run, each.view)["status"] == "lost", key


def entry_of(source: str, journal: Path) -> dict[str, object]:
    sockets = {name: f"ipc://{journal.parent / name}.ipc" for name in ("events", "replay", "control")}
    info = {"cwd": "/work", "title": source}
    return {"source": source, **sockets, "journal": str(journal), "pid": 1, "started": 1.0, "info": info}


@pytest.mark.usefixtures("at_once")
def test_a_thousand_that_ended_are_read_once(vibe_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1_000):
        folder = vibe_home / "run" / f"{number:08x}"
        folder.mkdir(parents=True)
        (folder / JOURNAL_NAME).touch()
        (folder / PUBLISHER_NAME).write_text(json.dumps(entry_of(f"run-{number}", folder / JOURNAL_NAME)))
    runs = Runs(vibe_home)
    assert len(runs.look()) == 1_000
    monkeypatch.setattr(Registry, "ended", None)  # a call would fail
    assert len(runs.look()) == 1_000


async def test_a_plan_whose_events_are_gone_is_read_from_its_folder(vibe_home: Path) -> None:
    folder = plans_folder(vibe_home) / "old-plan"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"goal": "Old goal", "workspace": "/old", "created": 5.0}))
    fact = e.PlanStartedEvent(goal="Old goal", steps=STEPS, plan_id="old-plan", source="gone", seq=3, ts=5.0)
    done = e.PlanCompletedEvent(
        status="completed",
        counts={},
        duration_s=4.0,
        plan_id="old-plan",
        source="gone",
        seq=9,
        ts=9.0,
        outcome="completed",
    )
    (folder / "journal.jsonl").write_bytes(b"".join(e_line(each) for each in (fact, done)))
    (run,) = await known(vibe_home)
    assert (run.key, run.title, run.folder, run.entries) == ("old-plan", "Old goal", "/old", ())
    follower = await whole(vibe_home, run)
    assert run_row(run, follower.view)["total"] == 2


def e_line(event: e.Event) -> bytes:
    return encode_event(event) + b"\n"


async def test_an_answer_is_sent_and_who_was_first_is_told(vibe_home: Path) -> None:
    answer = Approve(request_id="request-1", allow=True, by="page")
    async with running(vibe_home) as run:
        (known_run,) = await known(vibe_home)
        assert await send(known_run, answer) == CommandOutcome(state="done", message="done")
        assert [type(command) for command in run.taken] == [Approve]
        told = {"by": "Ana", "answer": "denied"}
        run.reply = Reply(ok=False, message="already denied by Ana", reason="refused", data=told)
        late = await send(known_run, answer)
        assert (late.state, late.by, late.answer) == ("answered", "Ana", "denied")
        run.reply = Reply(ok=False, message="no request is open", reason="refused")
        assert (await send(known_run, answer)).state == "refused"
        run.begins()
        decided = e.ApprovalDecisionEvent(request_id="request-1", decision="allow", by="Ana")
        async with followed(vibe_home) as follower:
            run.says(ASKED)
            await seen(follower, ("requests", "request-1"))
            assert settled(follower.view, "request-1") is None
            run.says(decided)
            await seen(follower, ("answered",))
            first = settled(follower.view, "request-1")
            assert first is not None
            assert (first.state, first.by, first.answer) == ("answered", "Ana", "allow")
            run.says(ASKED, structs.replace(decided, decision="deny", by="timeout"))
            await seen(follower, ("answered",))
            late = settled(follower.view, "request-1")
            assert late is not None
            assert (late.state, late.message) == ("answered", "closed: nobody answered in time")
    assert (await send(known_run, answer)).state == "ended"


async def test_a_command_that_is_too_large_is_refused_before_it_is_sent(vibe_home: Path) -> None:
    async with running(vibe_home) as run:
        (known_run,) = await known(vibe_home)
        outcome = await send(known_run, Approve(request_id="r", allow=False, reason="x" * MAX_REQUEST_BYTES))
        assert (outcome.state, run.taken) == ("refused", [])


async def test_a_run_that_does_not_reply_is_late(vibe_home: Path) -> None:
    async with running(vibe_home):
        (known_run,) = await known(vibe_home)
        outcome = await send(known_run, Pause(), seconds=0.0)
        assert outcome.state == "late"
        assert "has not answered for 0 s" in outcome.message
