"""The program of a step's process, started by a run in this process: approvals, questions, budget, MCP tools."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from msgspec import structs

from ipc.events import (
    ApprovalDecisionEvent,
    ApprovalRequestEvent,
    Event,
    SubAgentFinishedEvent,
    ToolResultEvent,
    ToolServerEvent,
)
from ipc.sink import MemorySink
from planner.plan.loader import load_plan
from planner.plan.status import PlanStatus
from planner.store.folder import ApprovalSetting, PlanRunOptions
from subagents.process.protocol import Hello, encode
from tests.fakes.mcp_peers import FAULTY, left_over
from tests.fakes.step_links import Person
from vibe.app.engine.host import Host
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.run import PlanRun, open_plan


def configure(home: Path, script: dict[str, Any], more: str = "") -> None:
    path = home / "script.json"
    path.write_text(json.dumps({"version": 1, "agents": script}))
    (home / "config.toml").write_text(
        f'active_model = "replay"\n[[providers]]\nname = "replay"\nbackend = "scripted"\nscript = "{path}"\n'
        f'[[models]]\nname = "replay"\nprovider = "replay"\n{more}'
    )


def agent_step(step_id: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": step_id,
        "title": f"Step {step_id}",
        "mode": "code",
        "prompt": "Go.",
        "writes": [f"{step_id}/*"],
        **fields,
    }


async def run(tmp_path: Path, steps: Sequence[dict[str, Any]], audience: Audience, **settings: Any) -> PlanRun:
    """Run a plan of some steps, each in a process of its own."""
    work = tmp_path / "work"
    work.mkdir()
    document = {"version": 1, "goal": "Try it", "steps": list(steps)}
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    options = PlanRunOptions(workdir=work, plan_folder=work, executor="process", **settings)
    loaded = load_plan(json.dumps(document).encode(), where="plan.json")
    with anyio.fail_after(180):
        return await (await open_plan(loaded, options, Host(home=tmp_path / "home", environ=environ), audience)).run()


def of_kind(events: Sequence[Event], kind: type[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def test_the_program_loads_nothing_that_plans() -> None:
    script = "import sys, vibe.app.plan.child_main; print(sorted({name.partition('.')[0] for name in sys.modules}))"

    loaded = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True).stdout

    assert "'subagents'" in loaded
    assert not any(f"'{name}'" in loaded for name in ("planner", "networkx", "rich", "httpx2", "mcp", "tomlkit"))


def test_the_program_leaves_a_run_of_another_version_with_a_sentence() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(encode(structs.replace(Hello.own(()), version=99)))
        argv = [sys.executable, "-P", "-m", "vibe.app.plan.child_main", str(theirs.fileno()), str(os.getpid())]
        ended = subprocess.run(argv, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True, check=False)

    assert (ended.returncode, ended.stderr.count("\n")) == (3, 1)
    assert "of different versions" in ended.stderr


async def test_a_person_is_asked_through_the_run_one_step_at_a_time_and_a_lasting_yes_holds_for_all(
    tmp_path: Path, vibe_home: Path
) -> None:
    call = {"tool_calls": [{"name": "bash", "arguments": {"command": "python3 -c 'print(6 * 7)'"}}]}
    configure(vibe_home, {"*": {"turns": [call, {"text": "done"}]}})
    person, seen = Person("session"), MemorySink()
    person.may_answer.set()

    ended = await run(
        tmp_path,
        [agent_step("a", mode="test"), agent_step("b", mode="test")],
        Audience(listeners=[seen], approver=person),
    )

    assert ended.status is PlanStatus.COMPLETED, ended.record
    assert (len(person.asked), person.most) == (1, 1)
    (asked,), (answered,) = of_kind(seen.events, ApprovalRequestEvent), of_kind(seen.events, ApprovalDecisionEvent)
    assert asked.subagent_step_id == answered.subagent_step_id
    assert (asked.request_id, answered.decision) == (answered.request_id, "allow")
    assert asked.plan_id
    assert asked.session_id


async def test_subagents_are_started_in_the_steps_process_and_counted_over_all_steps(
    tmp_path: Path, vibe_home: Path
) -> None:
    order = {"tool_calls": [{"name": "task", "arguments": {"task": "Look around.", "agent": "explore"}}]}
    script = {"explore": {"turns": [{"text": "nothing"}]}, "*": {"turns": [order, order, {"text": "done"}]}}
    configure(vibe_home, script, more="[subagents]\nmax_spawned = 3\n")
    seen = MemorySink()
    steps = [agent_step(step_id, allowed_tools=["task"]) for step_id in ("a", "b")]

    ended = await run(tmp_path, steps, Audience(listeners=[seen]), approvals=ApprovalSetting.AUTO)

    assert ended.status is PlanStatus.COMPLETED, ended.record
    finished = of_kind(seen.events, SubAgentFinishedEvent)
    assert len(finished) == 2 + 3


async def test_a_steps_process_has_servers_of_its_own_and_takes_them_with_it(tmp_path: Path, vibe_home: Path) -> None:
    call = {"tool_calls": [{"name": "pen_echo", "arguments": {"text": "hi"}}]}
    server = json.dumps([*FAULTY, "none", str(tmp_path)])
    table = f'[[mcp_servers]]\nname = "pen"\ntransport = "stdio"\ncommand = {server}\nstartup_timeout_sec = 30.0\n'
    configure(vibe_home, {"a": {"turns": [call, {"text": "done"}]}}, more=table)
    seen = MemorySink()
    step = agent_step("a", allowed_tools=["pen_echo"])

    ended = await run(tmp_path, [step], Audience(listeners=[seen]), approvals=ApprovalSetting.AUTO)

    assert ended.status is PlanStatus.COMPLETED, ended.record
    (result,) = of_kind(seen.events, ToolResultEvent)
    assert (result.status, result.content) == ("ok", "Echo: hi")
    servers = of_kind(seen.events, ToolServerEvent)
    assert [event.status for event in servers] in (["starting", "ready"], ["ready"]), "the run has announced it"
    assert left_over(str(tmp_path)) == []


def test_a_process_of_a_step_reads_none_of_our_sources_while_it_starts() -> None:
    read = "print(*(name for name in linecache.cache if name.endswith('.py') and 'site-packages' not in name))"
    starts = f"import linecache; import vibe.app.plan.child_main; {read}"

    assert subprocess.check_output([sys.executable, "-c", starts], text=True).strip() == ""
