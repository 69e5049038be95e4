"""A few of the kills of ``tests.benchmarks.bench_kill``, on a smaller plan.

Covers ``planner.store``.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from signal import SIGHUP, SIGKILL, SIGTERM, Signals

import pytest

from tests.e2e.kill_lab import KILL, STOPS, Kind, Lab, Report, experiment, undisturbed

EXECUTES = True  # a process is killed while it starts, too
SIDE_BY_SIDE = 2
MORE = 4


@pytest.mark.timeout(900)  # dozens of processes, one after the other, on a machine that may be busy
@pytest.mark.parametrize(
    ("executor", "count", "signals"), [("local", 3, (KILL,)), ("process", 1, (KILL,)), ("local", 3, STOPS)]
)
def test_a_plan_killed_at_any_instant_ends_as_if_nothing_had_happened(
    executor: str, count: int, signals: Sequence[Sequence[Signals]]
) -> None:
    kind = Kind(executor=executor, steps=20)
    seed = random.randrange(10**6)
    wanted, seconds = undisturbed(kind)

    def one(number: int, within: float = seconds) -> Report:
        return experiment(kind, seed + number, wanted, within, signals=signals)

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        reports = list(pool.map(one, range(count)))
    for half in range(1, MORE + 1):
        if any(report.killed_at for report in reports):
            break
        reports.append(one(count + half, seconds / 2**half))  # the machine was busier before, so that kill was too late
    assert [report for report in reports if report.problems] == []
    assert any(report.killed_at for report in reports), "the kills came too late to prove anything"


def halfway(path: str) -> str:
    """Return a command that writes half a file and then waits for ever; only when it is repeated, it writes it all."""
    again = f".scratch/{path}"
    return (
        f"mkdir -p .scratch; echo half > {path}; test -e {again} || {{ touch {again}; sleep 600; }}; echo all > {path}"
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("executor", ["local", "process"])
@pytest.mark.parametrize("number", [SIGTERM, SIGHUP, SIGKILL])
def test_a_call_and_a_command_that_a_signal_cut_halfway_are_done_again(number: Signals, executor: str) -> None:
    steps = [
        {"id": "agent", "title": "Agent", "mode": "code"},
        {"id": "command", "title": "Command", "mode": "run", "command": halfway("command.txt")},
    ]
    call = {"name": "bash", "arguments": {"command": halfway("agent.txt"), "timeout": 600}}
    turns = [{"tool_calls": [call]}, {"text": "done"}]
    with Lab(Kind(executor=executor, steps=20)) as lab:
        lab.plan.write_text(json.dumps({"version": 1, "goal": "Both", "steps": steps}))
        (lab.root / "script.json").write_text(json.dumps({"version": 1, "agents": {"agent": {"turns": turns}}}))
        begun = [lab.workdir / ".scratch" / f"{step['id']}.txt" for step in steps]
        with lab.start("run", str(lab.plan)) as process:
            while not all(path.exists() for path in begun):
                assert process.poll() is None, lab.said()
                time.sleep(0.01)
            process.send_signal(number)
        assert lab.go_on() == 0, lab.said()
        written = {step["id"]: (lab.workdir / f"{step['id']}.txt").read_text() for step in steps}
        (conversation,) = (lab.home / "plans").rglob("messages*.jsonl")
        messages = [json.loads(line) for line in conversation.read_text().splitlines()]
        cut, repeated = (message for message in messages if message["role"] == "tool")
    assert written == {"agent": "all\n", "command": "all\n"}
    assert "heck before you repeat it" in cut["content"]
    assert repeated.get("status", "ok") == "ok"
