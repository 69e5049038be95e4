"""Plans whose agents work in processes of their own, and what happens when those or the run are killed.

Covers ``subagents.process``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import EXAMPLES, VibeCommand, command_step, leftovers
from tests.fakes.waiting import until

WritePlan = Callable[..., str]

EXECUTES = True  # they find the processes of steps by their arguments
IN_PROCESSES = ("plan", "run", "--executor", "process", "--auto-approve", "--output", "json")

PIECES = "tool.stream"
"""The number of these events varies, since it depends on how much output could be read at once."""
CRASHING_TOOL = """
import os
import time
from pathlib import Path

from vibe.core.tools.base import BaseTool, BaseToolConfig


class Crash(BaseTool[BaseToolConfig]):
    \"\"\"Ends its process the first time.\"\"\"

    async def run(self, folder: str) -> str:
        mark = Path(folder) / "crashed"
        if not mark.exists():
            mark.touch()
            os.abort()
        return "not this time"


class Freeze(BaseTool[BaseToolConfig]):
    \"\"\"Holds up everything in its process.\"\"\"

    async def run(self) -> str:
        time.sleep(600)
        return "woken"
"""


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": tool, "arguments": arguments}]}


def slow(step_id: str) -> dict[str, Any]:
    """Script an agent whose command waits for a file, and leaves a process in a session of its own."""
    wait = f"touch started-{step_id}; while [ ! -e go ]; do sleep 0.05; done"
    command = f"echo ran >> log-{step_id}; (setsid sleep 600 &); {wait}"
    return {"turns": [call("bash", command=command), {"text": f"{step_id} is done"}]}


def agent_step(step_id: str, **fields: Any) -> dict[str, Any]:
    return {"id": step_id, "title": f"Step {step_id}", "mode": "test", "prompt": "Go.", "writes": [], **fields}


def add_tools(vibe: VibeCommand) -> None:
    (vibe.home / "tools").mkdir(parents=True)
    (vibe.home / "tools" / "faulty.py").write_text(CRASHING_TOOL)


def step_processes(vibe: VibeCommand) -> set[int]:
    """Return the processes of steps in this home, including idle ones that wait for a step."""
    found: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            ours = b"vibe.app.plan.child_main" in (folder / "cmdline").read_bytes()
            if ours and f"VIBE_HOME={vibe.home}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.add(int(folder.name))
        except OSError:
            continue
    return found


def process_of(vibe: VibeCommand, step_id: str) -> int:
    """Return the step process below which a step's command runs."""
    for shell in Path("/proc").glob("[0-9]*"):
        try:
            is_it = f"log-{step_id}".encode() in (shell / "cmdline").read_bytes()
        except OSError:
            continue
        pid = int(shell.name)
        while is_it and pid > 1:
            if pid in step_processes(vibe):
                return pid
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    raise AssertionError(f"no process does {step_id}")


def started(
    vibe: VibeCommand, plan: str, *step_ids: str, words: tuple[str, ...] = IN_PROCESSES
) -> subprocess.Popen[bytes]:
    """Start a run, and wait until it is in the middle of the slow commands of some steps."""
    process = vibe.start(*words, plan)
    until(lambda: process.poll() is not None or all((vibe.workdir / f"started-{one}").exists() for one in step_ids))
    assert process.poll() is None, process.communicate()
    return process


def steps_of(out: bytes | str) -> dict[str, dict[str, Any]]:
    return {step["id"]: step for step in json.loads(out)["steps"]}


def test_the_quickstart_comes_to_the_same_in_processes(vibe: VibeCommand, tmp_path: Path) -> None:
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder)
    script = folder / "quickstart" / "replay.yaml"
    script.write_text(re.sub(r"delay_seconds: [0-9.]+", "delay_seconds: 0.02", script.read_text()))
    words = ("plan", "run", "--approve", "edits", "--output", "streaming", str(folder / "quickstart.json"))

    here, there = vibe(*words, "--executor", "local"), vibe(*words, "--executor", "process")

    assert (here.code, there.code) == (0, 0), there.err
    record, other = here.lines[-1], there.lines[-1]
    told = ("id", "status", "attempts", "files_changed", "usage")
    assert [[step[key] for key in told] for step in other["steps"]] == [
        [step[key] for key in told] for step in record["steps"]
    ]
    assert other["usage"] == record["usage"]
    kinds = [
        Counter((one["type"], one.get("subagent_step_id")) for one in lines if one["type"] != PIECES)
        for lines in (here.lines, there.lines)
    ]
    assert kinds[0] == kinds[1], "every event arrives, and once"
    numbers = [line["seq"] for line in there.lines if line.get("seq")]
    assert numbers == list(range(1, len(numbers) + 1))
    assert step_processes(vibe) == set()


@pytest.mark.parametrize("executor", ["local", "process"])
def test_what_a_neighbour_claimed_may_change_under_a_steps_checks(
    vibe: VibeCommand, write_plan: WritePlan, executor: str
) -> None:
    vibe.replay({"agents": {"worker": slow("worker")}})
    (vibe.workdir / "check.sh").write_text("exit 0\n")
    owner = "while [ ! -e started-worker ]; do sleep 0.02; done; echo 'exit 0 # newer' > check.sh; touch go"
    plan = write_plan(
        agent_step("worker", verify=["sh check.sh"]), command_step("owner", owner, writes=["check.sh", "go"])
    )

    ended = vibe("plan", "run", "--executor", executor, "--auto-approve", "--output", "json", plan)

    assert ended.code == 0, ended.out + ended.err
    assert {name: step["status"] for name, step in steps_of(ended.out).items()} == {
        "worker": "completed",
        "owner": "completed",
    }
    assert "newer" in (vibe.workdir / "check.sh").read_text()


def test_killing_a_steps_process_fails_the_step_and_not_the_plan(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.replay({"agents": {"victim": slow("victim"), "other": slow("other")}})
    plan = write_plan(
        agent_step("victim"), agent_step("other"), command_step("after", "echo fine", depends_on=["other"])
    )
    process = started(vibe, plan, "victim", "other")
    victim = process_of(vibe, "victim")

    os.kill(victim, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{victim}").exists())
    (vibe.workdir / "go").touch()
    out, _ = process.communicate(timeout=120)

    steps = steps_of(out)
    assert (steps["victim"]["status"], steps["victim"]["reason"]) == ("failed", "crashed")
    assert "killed by SIGKILL" in steps["victim"]["detail"]
    assert (steps["other"]["status"], steps["after"]["status"]) == ("completed", "completed")
    assert steps["victim"]["usage"]["calls"] == 1, "what it had used is known"
    until(lambda: not leftovers(vibe.workdir))


def test_a_tool_that_crashes_its_process_takes_one_attempt_with_it(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.replay({
        "agents": {
            "fragile": {"turns": [call("crash", folder=str(vibe.workdir)), {"text": "done"}]},
            "other": {"turns": [{"text": "fine"}]},
        }
    })
    add_tools(vibe)
    fragile = agent_step("fragile", retries=1, allowed_tools=["crash"])

    ended = vibe(*IN_PROCESSES, write_plan(fragile, agent_step("other")))

    steps = steps_of(ended.out)
    assert (ended.code, steps["fragile"]["status"], steps["fragile"]["attempts"]) == (0, "completed", 2)


def test_a_frozen_process_is_ended_for_being_idle(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.replay({"agents": {"frozen": {"turns": [call("freeze")]}, "other": {"turns": [{"text": "fine"}]}}})
    add_tools(vibe)
    plan = write_plan(agent_step("frozen", idle_seconds=2, allowed_tools=["freeze"]), agent_step("other"))

    steps = steps_of(vibe(*IN_PROCESSES, plan).out)

    assert (steps["frozen"]["status"], steps["frozen"]["reason"]) == ("failed", "idle")
    assert steps["other"]["status"] == "completed"
    assert step_processes(vibe) == set()


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_an_executor_that_is_not_there_is_refused_before_anything_is_written(
    vibe: VibeCommand, write_plan: WritePlan, more: list[str]
) -> None:
    ended = vibe("plan", "run", "--executor", "moon", *more, write_plan(agent_step("s")))

    sentence = "--executor 'moon': no such executor; choose from local, process, dask"
    assert (ended.code, ended.err) == (2, f"vibe: {sentence}\n")
    assert vibe.plan_ids() == []


def test_a_run_whose_executor_is_gone_is_resumed_with_another(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.replay({"agents": {"s": {"turns": [{"text": "done"}]}}})
    vibe("plan", "run", write_plan({"id": "d", "title": "D", "mode": "run", "command": "true", "decision": "go"}, decisions=[
        {"id": "go", "question": "Go?", "options": [{"id": "y", "label": "Yes"}, {"id": "n", "label": "No"}]}
    ]))  # fmt: skip
    settings = vibe.home / "plans" / vibe.plan_ids()[0] / "run.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "executor": "moon"}))

    refused = vibe("plan", "resume", "latest", "--decide", "go=y")
    resumed = vibe("plan", "resume", "latest", "--decide", "go=y", "--executor", "local")

    assert (refused.code, resumed.code) == (2, 0)
    assert "choose from local, process, dask" in refused.err


def test_nothing_outlives_a_run_that_is_killed_and_a_resume_goes_on_in_processes(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    vibe.replay({"agents": {"s": slow("s")}})
    process = started(vibe, write_plan(agent_step("s"), budget={"max_tokens": 100_000}), "s")
    assert step_processes(vibe)

    process.kill()
    process.wait()

    until(lambda: not step_processes(vibe))
    until(lambda: not [one for one in leftovers(vibe.workdir) if "while" in one])
    (vibe.workdir / "go").touch()
    record = vibe("plan", "resume", vibe.plan_ids()[0], "--output", "json").document
    assert record["outcome"] == "completed"
    transcript = (vibe.home / "plans" / vibe.plan_ids()[0] / "steps" / "s" / "messages.jsonl").read_text()
    assert "This call was interrupted" in transcript, "the conversation of the killed process is gone on with"
    settings = json.loads((vibe.home / "plans" / vibe.plan_ids()[0] / "run.json").read_text())
    assert settings["executor"] == "process"


@pytest.mark.parametrize("interrupts", [1, 2])
def test_an_interrupt_pauses_and_a_resume_goes_on(vibe: VibeCommand, write_plan: WritePlan, interrupts: int) -> None:
    first, last = slow("s")["turns"]
    # A turn ends soon, but the step does not.
    more = [call("bash", command=f"echo {number}") for number in range(40)]
    vibe.replay({"agents": {"s": {"turns": [first, *more, last]}}})
    process = started(vibe, write_plan(agent_step("s", max_turns=60, max_tokens=1_000_000)), "s")

    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert b"pausing" in process.stderr.readline()
    if interrupts == 2:
        process.send_signal(signal.SIGINT)
    else:
        (vibe.workdir / "go").touch()
    out, err = process.communicate(timeout=120)

    assert process.returncode == 130, err
    assert (json.loads(out)["outcome"], step_processes(vibe)) == ("interrupted", set())
    until(lambda: not leftovers(vibe.workdir))
    (vibe.workdir / "go").touch()
    record = vibe("plan", "resume", vibe.plan_ids()[0], "--output", "json").document
    assert record["outcome"] == "completed"
    assert (vibe.workdir / "log-s").read_text() == "ran\n" * interrupts, (
        "the second one cut the call, which is made again"
    )


def test_a_plan_in_processes_ends_in_good_time_when_told_to(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.replay({"agents": {"s": slow("s")}})
    process = started(vibe, write_plan(agent_step("s")), "s")

    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)

    assert (process.returncode, json.loads(out)["outcome"]) == (143, "interrupted"), err
    assert step_processes(vibe) == set()
    until(lambda: not leftovers(vibe.workdir))


def test_the_plans_budget_holds_over_all_processes(vibe: VibeCommand, write_plan: WritePlan) -> None:
    usage = {"prompt_tokens": 900, "completion_tokens": 50}
    turns = [{**call("bash", command=f"echo {number}"), "usage": usage} for number in range(5)]
    vibe.replay({"agents": {"*": {"turns": [*turns, {"text": "done"}]}}})
    steps = [agent_step(f"s{number}") for number in range(4)]
    plan = write_plan(*steps, budget={"max_tokens": 4_000})

    tight = vibe(*IN_PROCESSES, plan)

    assert (tight.code, tight.document["outcome"]) == (4, "limit")
    assert tight.document["usage"]["prompt_tokens"] < 4_000 + 4 * 950
    assert {step.get("reason") for step in tight.document["steps"]} == {"budget"}


def test_what_nobody_is_there_to_approve_is_denied_in_a_process_too(vibe: VibeCommand, write_plan: WritePlan) -> None:
    turns = [call("bash", command="touch a.txt"), {"text": "done"}]
    vibe.replay({"agents": {"s": {"turns": turns}}})
    plan = write_plan(agent_step("s", mode="code", writes=["a.txt"]))

    ended = vibe("plan", "run", "--executor", "process", "--output", "json", plan)

    assert (ended.code, ended.document["steps"][0]["reason"]) == (5, "blocked")
    assert not (vibe.workdir / "a.txt").exists()
