"""The view alone: events per second, and the cost of its import over bare Python.

``python -m tests.benchmarks.bench_view [--json]`` exits with 1 if a figure is over its bound.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from ipc import events as e
from ipc.codec import decode_event, encode_event
from ipc.events import Event
from tests.fakes.plain_view import plain
from vibe.view.view import View, apply

EVENTS = 100_000
FOLD_BOUND_S = 0.5
IMPORT_BOUND_MS = 45.0
STEPS, TURNS, PIECES, CALLS = 500, 6, 20, 2
ROUNDS = 7
STARTS = 25


def told(count: int) -> list[Event]:
    """Return events of a plan of 500 steps: of every 200, some 120 are pieces of answers and 12 are calls."""
    ids = [f"s{number}" for number in range(STEPS)]
    outlines = [
        e.StepOutline(id=name, title=f"Step {name}", mode="code", depends_on=(ids[number - 1],) if number % 4 else ())
        for number, name in enumerate(ids)
    ]
    events: list[Event] = [e.PlanStartedEvent(goal="g", steps=tuple(outlines))]
    number = 0
    while len(events) < count:
        events += _step(ids[number % STEPS], f"agent-{number}")
        number += 1
    ours: dict[str, Any] = {"source": "run", "session_id": "run", "plan_id": "plan"}
    return [
        structs.replace(event, event_id=f"{seq:032x}", seq=seq, ts=1e9 + seq / 100, **ours)
        for seq, event in enumerate(events[:count], 1)
    ]


def _step(step_id: str, agent: str) -> list[Event]:
    who: dict[str, Any] = {"subagent_id": agent, "subagent_step_id": step_id}
    common: dict[str, Any] = {"step_id": step_id, "title": "t"}
    events: list[Event] = [
        e.PlanStepUpdateEvent(status="in_progress", previous="pending", **common),
        e.SubAgentStartedEvent(title="t", mode="code", model="m", tools=("bash",), max_tokens=9, max_turns=9, **who),
        e.UserMessageEvent(text="do it " * 300, **who),
    ]
    for turn in range(TURNS):
        events += _turn(f"{agent}-{turn}", who)
    return [
        *events,
        e.SubAgentFinishedEvent(outcome="completed", reason=None, tokens=6, turns=6, duration_s=1.0, **who),
        e.PlanStepUpdateEvent(status="completed", previous="in_progress", duration_s=1.0, **common),
    ]


def _turn(message: str, who: dict[str, Any]) -> list[Event]:
    words, line = "some words of it ", "a line of output\n"
    events: list[Event] = [e.ModelStartedEvent(message_id=message, model="m", context_tokens=1_000, **who)]
    events += [e.AssistantDeltaEvent(message_id=message, text=words, **who) for _ in range(PIECES)]
    events += [
        e.ModelEndedEvent(message_id=message, model="m", **who),
        e.AssistantEvent(message_id=message, text=words * PIECES, tool_calls=CALLS, **who),
        e.UsageEvent(model="m", prompt_tokens=1_000, completion_tokens=100, cost_usd=0.01, **who),
    ]
    for number in range(CALLS):
        call: dict[str, Any] = {"tool_call_id": f"{message}-{number}", "tool": "bash", **who}
        events += [
            e.ToolCallEvent(arguments={"command": "ls -l", "timeout": 3}, summary="bash ls -l", **call),
            e.ToolStreamEvent(text=line * 8, **call),
            e.ToolResultEvent(status="ok", content=line * 40, files_changed=("a.py",), **call),
        ]
    return events


def fold_seconds(events: Sequence[Event]) -> float:
    """Return the processor time of a fold, as the best of several."""
    rounds: list[float] = []
    for _ in range(ROUNDS):
        view = View()
        begun = time.process_time()
        for event in events:
            apply(view, event)
        rounds.append(time.process_time() - begun)
    return min(rounds)


def late_join_seconds(events: Sequence[Event]) -> float:
    """Return the processor time of reading a journal of these events, folding them, and making plain data of it all."""
    bodies = [encode_event(event) for event in events]
    begun = time.process_time()
    view = View()
    for body in bodies:
        event = decode_event(body)
        if event is not None:
            apply(view, event)
    plain(view)
    return time.process_time() - begun


def import_ms() -> float:
    """Return the processor time of importing the view, less that of importing nothing, by the best runs."""
    return min(_process_ms("import vibe.view.view") for _ in range(STARTS)) - min(
        _process_ms("pass") for _ in range(STARTS)
    )


def _process_ms(code: str) -> float:
    process = subprocess.Popen([sys.executable, "-c", code])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return (usage.ru_utime + usage.ru_stime) * 1_000


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    events = told(EVENTS)
    figures = {
        "events": EVENTS,
        "fold_s": round(fold_seconds(events), 3),
        "late_join_s": round(late_join_seconds(events), 3),
        "import_ms": round(import_ms(), 1),
    }
    if args.json:
        print(json.dumps(figures))
    else:
        print(f"{EVENTS:,} events folded         {figures['fold_s']:>8} s   (bound {FOLD_BOUND_S})")
        print(f"read, folded and said whole   {figures['late_join_s']:>8} s")
        print(f"import over bare Python       {figures['import_ms']:>8} ms  (bound {IMPORT_BOUND_MS})")
    return int(figures["fold_s"] > FOLD_BOUND_S or figures["import_ms"] > IMPORT_BOUND_MS)


if __name__ == "__main__":
    sys.exit(main())
