from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from msgspec.structs import replace

from ipc.events import UsageEvent
from ipc.sink import MemorySink
from subagents.agent.budget import Limits
from subagents.executor import StepResult
from subagents.remote.frames import RemoteSettings
from subagents.worktree.executor import WorktreeExecutor
from tests.fakes.cluster import Cluster, RemoteRun, cluster
from tests.fakes.step_links import Person, shared_of_a_run, until
from tests.integration.subagents.worktree.rig import FILES, Rig, worktree_task
from vibe.core.messages import Outcome


class Stopping:
    """A stop signal that a test sets."""

    requested = False


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path).create(FILES)


def script(folder: Path, turns: int, **slow: float) -> Path:
    """Script an agent that writes a file in each turn. ``slow`` gives the seconds to wait before a turn."""

    def turn(number: int) -> dict[str, Any]:
        call = {"name": "bash", "arguments": {"command": f"echo {number} >> log; echo {number} > f{number}"}}
        return {"tool_calls": [call], "delay_seconds": slow.get(f"t{number}", 0.01)}

    path = folder / "replay.json"
    path.write_text(
        json.dumps({"version": 1, "agents": {"*": {"turns": [*map(turn, range(1, turns + 1)), {"text": "done"}]}}})
    )
    return path


def at_work(made: Cluster, name: str) -> int | None:
    """Return the number of the worker on which an attempt has written a file."""
    return next((n for n in range(len(made.workers)) if [*made.folder(n).glob(f"work/*/{name}")]), None)


def agent_run(rig: Rig, path: Path, **settings: Any) -> RemoteRun:
    return RemoteRun(rig, replay=path, agents=1, settings=RemoteSettings(**settings))


async def test_an_agent_goes_on_from_its_last_turn_after_a_pause_and_after_its_worker_was_killed(
    rig: Rig, tmp_path: Path
) -> None:
    run = agent_run(rig, script(tmp_path, 12, t3=0.7, t9=1.5))
    task = worktree_task("s", prompt="Go.", max_turns=20)
    results: list[StepResult] = []
    stop, first = Stopping(), 0
    with cluster(tmp_path, 1, 1) as made:

        async def until_written(name: str, group: TaskGroup, executor: WorktreeExecutor) -> int:
            group.start_soon(work, executor)
            await until(lambda: len(results) == 2 or at_work(made, name) is not None)
            found = at_work(made, name)
            assert found is not None, results
            return found

        async def work(executor: WorktreeExecutor) -> None:
            results.append(await executor.run(task, stop))

        async with run.executor(made.scheduler.address) as (executor, _), anyio.create_task_group() as group:
            first = await until_written("f2", group, executor)
            stop.requested = True
        assert (results[0].outcome, results[0].files_changed) == (Outcome.INTERRUPTED, ())
        stop.requested = False
        made.workers[first].end()
        assert made.add(slots=1).address
        async with run.executor(made.scheduler.address) as (executor, _), anyio.create_task_group() as group:
            second = await until_written("f8", group, executor)
            await anyio.sleep(0.5)  # in the middle of the ninth call
            made.workers[second].end()

    assert results[1].outcome is Outcome.COMPLETED, results[1].detail
    assert rig.read("log").split() == [str(number) for number in range(1, 13)]
    assert [rig.read(f"f{number}") for number in range(1, 13)] == [f"{number}\n" for number in range(1, 13)]
    assert isinstance(run.services.sink, MemorySink)
    told = [event for event in run.services.sink.events if isinstance(event, UsageEvent)]
    assert len(told) == 13
    assert run.services.account.usage.calls == 14, "one call is paid twice"
    assert results[1].usage.calls == 14
    assert rig.leftovers() == []


async def test_an_answer_is_kept_and_counted_if_the_worker_dies_while_the_agent_acts_on_it(
    rig: Rig, tmp_path: Path
) -> None:
    path = tmp_path / "replay.json"
    call = {"name": "bash", "arguments": {"command": "echo 1 > f1; sleep 5"}}
    turns = [{"text": "I try.", "tool_calls": [call]}, {"text": "done"}]
    path.write_text(json.dumps({"version": 1, "agents": {"*": {"turns": turns}}}))
    run, results = agent_run(rig, path), list[StepResult]()

    async def work(executor: WorktreeExecutor) -> None:
        results.append(await executor.run(worktree_task("s", prompt="Go.", max_turns=20), Stopping()))

    with cluster(tmp_path, 1) as made:
        async with run.executor(made.scheduler.address) as (executor, _), anyio.create_task_group() as group:
            group.start_soon(work, executor)
            await until(lambda: at_work(made, "f1") is not None)
            made.workers[0].end()
            assert made.add(slots=1).address

    assert (results[0].outcome, results[0].lost) == (Outcome.COMPLETED, 1), results[0].detail
    assert run.services.account.usage.calls == results[0].usage.calls == 3, "the model tries again what was cut off"
    conversation = (rig.home / "steps" / "s" / "messages.jsonl").read_text()
    assert conversation.count("I try.") == 2
    assert "interrupted" in conversation, "the agent learns that its call was cut off"


async def test_what_was_said_to_an_agent_whose_worker_is_lost_reaches_the_one_that_goes_on(
    rig: Rig, tmp_path: Path
) -> None:
    run = agent_run(rig, script(tmp_path, 3, t2=2.0))
    steering, said, results = run.services.steering, list[bool](), list[StepResult]()

    async def work(executor: WorktreeExecutor) -> None:
        with steering.attempt("s"):
            results.append(await executor.run(worktree_task("s", prompt="Go.", max_turns=20), Stopping()))

    with cluster(tmp_path, 1) as made:
        async with run.executor(made.scheduler.address) as (executor, _), anyio.create_task_group() as group:
            group.start_soon(work, executor)
            await until(lambda: at_work(made, "f1") is not None)
            said.append(await steering.tell("s", "Mind the gap."))
            made.workers[0].end()
            await until(lambda: not steering.at_work)
            said.append(await steering.tell("s", "And the door."))
            assert made.add(slots=1).address

    assert said == [True, True]
    assert (results[0].outcome, results[0].lost) == (Outcome.COMPLETED, 1), results[0].detail
    conversation = "".join(path.read_text() for path in (rig.home / "steps" / "s").glob("messages*.jsonl"))
    assert [conversation.count(text) for text in ("Mind the gap.", "And the door.")] == [1, 1]


async def test_what_is_cancelled_is_gone_within_a_second(rig: Rig, tmp_path: Path) -> None:
    command = f"setsid sleep 600 & echo $! > {tmp_path}/pids; echo $$ >> {tmp_path}/pids; sleep 600"
    began = 0.0
    with cluster(tmp_path, 1) as made:
        async with RemoteRun(rig).executor(made.scheduler.address) as (executor, _):
            async with anyio.create_task_group() as group:
                group.start_soon(executor.run, worktree_task("s", command=command), Stopping())
                await until(lambda: (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == 2)
                group.cancel_scope.cancel()
                began = time.monotonic()
            assert time.monotonic() - began < 2.0
            pids = (tmp_path / "pids").read_text().split()
            await until(lambda: not any(Path("/proc", pid).exists() for pid in pids))
            assert time.monotonic() - began < 4.0
            await until(lambda: at_work(made, "a.txt") is None)
            again = await executor.run(worktree_task("t", command="echo x > t.txt"), Stopping())

    assert again.outcome is Outcome.COMPLETED
    assert rig.read("t.txt") == "x\n"


QUESTION = {"question": "Which?", "options": [{"label": "this"}, {"label": "that"}]}


async def test_an_agent_asks_and_is_told_at_the_run_and_two_never_exceed_its_budget_from_machines_without_its_files(
    rig: Rig, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    usage = {"prompt_tokens": 400, "completion_tokens": 100}
    calls = [
        {"name": "ask_user_question", "arguments": {"questions": [QUESTION]}},
        {"name": "write_file", "arguments": {"path": "made.txt", "content": "made"}},
    ]
    asks = [
        *({"tool_calls": [call], "delay_seconds": 0.2} for call in calls),
        {"text": "done"},
        {"text": "done"},
    ]  # after a late message it answers once more
    looks = [{"name": "grep", "arguments": {"pattern": f"x{number}"}} for number in range(30)]
    spends = [{"tool_calls": [look], "usage": usage} for look in looks]
    path = tmp_path / "replay.json"
    agents = {"asks": {"turns": asks}, "spends*": {"turns": spends}}
    path.write_text(json.dumps({"version": 1, "agents": agents}))
    person = Person()
    person.may_answer.set()
    run = agent_run(rig, path)
    run.attended, run.agents, run.limits = True, 3, Limits(max_tokens=20_000)
    run.services = replace(shared_of_a_run(person=person, limits=run.limits), user_input=person.reply)
    results: dict[str, StepResult] = {}
    with cluster(tmp_path_factory.mktemp("away")) as made:
        for _ in range(2):
            made.add(slots=1, hides=tmp_path)
        assert all(worker.address for worker in made.workers)
        async with run.executor(made.scheduler.address) as (executor, _), anyio.create_task_group() as group:

            async def work(step_id: str) -> None:
                task = worktree_task(step_id, prompt="Go.", max_turns=40, max_tokens=50_000)
                results[step_id] = await executor.run(task, Stopping())

            group.start_soon(work, "asks")
            await until(lambda: results or person.asked)
            assert await run.services.steering.tell("asks", "Mind the gap.")
            await until(lambda: "asks" in results)
            for step_id in ("spends1", "spends2"):
                group.start_soon(work, step_id)

    assert results["asks"].outcome is Outcome.COMPLETED, results["asks"].detail
    assert rig.read("made.txt") == "made"
    conversation = (rig.step_folder("asks") / "messages.jsonl").read_text()
    assert "Mind the gap." in conversation
    assert "this" in conversation
    ends = [(results[one].outcome, results[one].reason) for one in ("spends1", "spends2")]
    assert set(ends) == {(Outcome.LIMIT, "budget")}
    assert run.services.account.usage.total_tokens <= 20_000
    assert rig.leftovers() == []
