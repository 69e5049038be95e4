"""Many conversations and a plan in one process: stopped, resumed, and asked before writing in each other's folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from ipc.events import ApprovalRequestEvent, AssistantDeltaEvent, WarningEvent
from planner.store.folder import PlanRunOptions
from tests.fakes.model_server import Received, Reply, ServedCall
from tests.integration.app.conversation.conftest import Rig
from vibe.app.conversation.runtime import Runtime
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.run import open_plan
from vibe.core.messages import AssistantMessage, Outcome
from vibe.core.session.folder import read_meta
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import ApprovalAnswer

REPOSITORY = Path(__file__).parents[4]
PROGRAM = Path(__file__).parent / "many_at_once.py"
PLAN = {
    "version": 1,
    "goal": "two steps",
    "steps": [
        {"id": "first", "title": "First", "mode": "run", "command": "echo once >> first.txt"},
        {
            "id": "second",
            "title": "Second",
            "mode": "run",
            "command": "until test -e go; do sleep 0.05; done",
            "depends_on": ["first"],
        },
    ],
}


def talk(request: Received) -> Reply:
    """Answer greetings. Asked to talk for ever, begin an answer and then stay silent."""
    last = str(request.body["messages"][-1]["content"])
    return Reply(text="I never end", silent_after=4) if last.startswith("talk for ever") else Reply(text=f"you: {last}")


def run_until_stopped(rig: Rig, elsewhere: Path) -> tuple[int, dict[str, str], str]:
    words = [sys.executable, str(PROGRAM), str(rig.host.home), str(rig.folder), str(elsewhere)]
    environ = {**rig.host.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first == "at work\n", process.communicate()
        os.kill(process.pid, signal.SIGTERM)
        out, err = process.communicate(timeout=120)
    return process.returncode, json.loads(out), err


async def test_one_signal_pauses_the_plan_and_saves_every_conversation_and_nothing_is_missing(
    rig: Rig, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (rig.folder / "plan.json").write_text(json.dumps(PLAN))
    rig.server.responder = talk

    code, ids, err = await to_thread.run_sync(run_until_stopped, rig, elsewhere)

    assert (code, err) == (143, "")
    (rig.folder / "go").touch()
    async with Runtime(rig.host) as runtime:
        for name, folder in (("a", rig.folder), ("b", rig.folder), ("c", elsewhere)):
            conversation = await runtime.open_conversation(rig.opening(workdir=folder, resume=ids[name]))
            said = [message.content.strip() for message in conversation.messages]
            assert said[:3] == [f"hello from {name}", f"you: hello from {name}", f"talk for ever, {name}"]
            assert said[3].startswith("I never")
            assert [m.interrupted for m in conversation.messages if isinstance(m, AssistantMessage)] == [False, True]
            assert (await conversation.send("still there?")).acted.text.strip() == "you: still there?"
        options = PlanRunOptions(workdir=rig.folder, plan_folder=rig.folder)
        plan = await open_plan(ids["plan"], options, runtime.host, Audience())
        ended = await plan.run()
    assert ended.record.outcome is Outcome.COMPLETED
    assert (rig.folder / "first.txt").read_text() == "once\n"


class Person:
    """Gives every question the same answer, and keeps the questions."""

    def __init__(self, answer: ApprovalAnswer) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequestEvent] = []

    async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        self.asked.append(request)
        return self.answer


def write(path: str) -> ServedCall:
    return ServedCall(name="write_file", arguments=json.dumps({"path": path, "content": "x"}), id=path)


async def test_a_conversation_is_asked_once_before_it_writes_where_another_does(rig: Rig) -> None:
    def answer(request: Received) -> Reply:
        last: dict[str, Any] = request.body["messages"][-1]
        if last["role"] == "tool":
            return Reply(text=str(last["content"])[:40])
        if last["content"] == "hold":
            return Reply(text="holding on", silent_after=3)
        return Reply(tool_calls=(write(str(last["content"])),))

    rig.server.responder = answer
    person = Person(ApprovalAnswer(allow=True, scope="once"))
    no = Person(ApprovalAnswer(allow=False, reason="not now"))
    async with Runtime(rig.host) as runtime:
        first = await runtime.open_conversation(rig.opening(), rig.seat)
        second = await runtime.open_conversation(rig.opening(approvals=ApprovalMode.EDITS), rig.seat_of(person))
        third = await runtime.open_conversation(rig.opening(approvals=ApprovalMode.EDITS), rig.seat_of(no))
        await second.send("alone.txt")
        assert person.asked == []
        async with anyio.create_task_group() as group:
            group.start_soon(first.send, "hold")
            await rig.until(lambda: first.is_busy)
            await second.send("beside.txt")
            await second.send("again.txt")
            await third.send("refused.txt")
            first.interrupt()

    name = f"conversation {first.session_id[:8]}"
    assert [(request.rule, request.reason) for request in person.asked] == [
        ("workspace", f"{name} is writing in this folder too")
    ]
    assert len(no.asked) == 1
    assert sorted(path.name for path in rig.folder.glob("*.txt")) == ["a.txt", "again.txt", "alone.txt", "beside.txt"]


async def test_a_provider_is_asked_no_more_at_once_than_it_takes_by_all_conversations_together(rig: Rig) -> None:
    config = rig.host.home / "config.toml"
    config.write_text(config.read_text().replace('backend = "generic"', 'backend = "generic"\nmax_concurrency = 1'))
    rig.server.responder = talk
    async with Runtime(rig.host) as runtime, anyio.create_task_group() as group:
        first = await runtime.open_conversation(rig.opening(), rig.seat)
        second = await runtime.open_conversation(rig.opening(), rig.seat)
        group.start_soon(first.send, "talk for ever")
        await rig.until(lambda: any(isinstance(event, AssistantDeltaEvent) for event in rig.events.events))
        group.start_soon(second.send, "hello")
        await rig.until(
            lambda: any(isinstance(event, WarningEvent) and event.code == "model.wait" for event in rig.events.events)
        )
        assert len(rig.server.requests) == 1
        first.interrupt()
        await rig.until(lambda: not second.is_busy and len(rig.server.requests) == 2)


async def test_a_conversation_that_is_closed_at_work_was_interrupted(rig: Rig) -> None:
    rig.server.responder = talk
    async with Runtime(rig.host) as runtime, anyio.create_task_group() as group:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        group.start_soon(conversation.send, "talk for ever")
        await rig.until(lambda: any(isinstance(event, AssistantDeltaEvent) for event in rig.events.events))
        await conversation.aclose()
        meta = await to_thread.run_sync(read_meta, conversation.session.folder.path)
        assert meta.outcome == "interrupted"
