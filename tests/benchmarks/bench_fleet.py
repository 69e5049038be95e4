"""The cost of F2: the time until all agents are drawn, and the processor while they stream.

    python -m tests.benchmarks.bench_fleet [--seconds N]

The screen of 200 by 60 runs in this process, over a chat. The agents together stream 200 tokens per second, which makes
50 events per second. If a bound is broken, the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

from ipc import events as e
from tests.unit.cli.textual_ui.controllers.test_app_controller import ScriptedChat
from tests.unit.cli.textual_ui.overview.views import moved, outline
from tests.unit.cli.textual_ui.scenes import Scene, Stage, empty, made_app, played
from vibe.cli.textual_ui.screens.agent_screens import AgentDesk, FleetScreen, FleetView

SIZE = (200, 60)
EVENTS_A_SECOND, WORDS = 50, "some words of it, "
BOUND_OPEN_MS, BOUND_PROCESSOR = 100.0, 15.0


async def begin(on: Stage, agents: int) -> None:
    """Start ``agents`` agents."""
    ids = [f"step{number}" for number in range(agents)]
    await on.see(e.PlanStartedEvent(plan_id="plan", goal="measure", steps=tuple(map(outline, ids)), ts=time.time()))
    for one in ids:
        await on.see(moved(one, "in_progress", ts=time.time()))
        text = "\n".join(f"line {number} of {one}" for number in range(60))
        on.app.store.publish(e.AssistantEvent(message_id="1", text=text, **of(one)))


def of(step_id: str) -> dict[str, Any]:
    """Return the fields that say whose an event is."""
    return {"plan_id": "plan", "subagent_id": f"agent-{step_id}", "subagent_step_id": step_id, "ts": time.time()}


async def opened(on: Stage) -> float:
    """Return the milliseconds until the tiles are drawn."""
    chat = on.app.chat_screen
    desk = AgentDesk(store=on.app.store, chat=ScriptedChat(), requests=chat.requests, clock=time.time)
    fleet, drawn = FleetScreen(desk), anyio.Event()
    began = time.perf_counter()
    on.app.push_screen(fleet)
    while not fleet.query(FleetView) or not fleet.query_one(FleetView).places:
        await on.pilot.pause(0)
    fleet.call_after_refresh(drawn.set)
    await drawn.wait()
    return 1e3 * (time.perf_counter() - began)


async def stream(on: Stage, agents: int, seconds: float) -> float:
    """Return the processor's percentage while they stream."""
    began, before = time.perf_counter(), time.process_time()
    for number in range(int(seconds * EVENTS_A_SECOND)):
        text = "\n" if number % (7 * agents) < agents else WORDS
        on.app.store.publish(e.AssistantDeltaEvent(message_id="2", text=text, **of(f"step{number % agents}")))
        await anyio.sleep(max(0.0, began + number / EVENTS_A_SECOND - time.perf_counter()))
    return 100 * (time.process_time() - before) / (time.perf_counter() - began)


async def measure(agents: int, seconds: float) -> tuple[float, float, float, float]:
    """Return the milliseconds to open it first and again, and the processor's share with it and with the chat."""
    with tempfile.TemporaryDirectory() as folder:
        app = await anyio.to_thread.run_sync(made_app, "textual-dark", Path(folder))
        async with played(Scene(empty, SIZE), app, Path(folder)) as on:
            await begin(on, agents)
            chat = await stream(on, agents, seconds)
            first = await opened(on)
            await on.pilot.press("escape")
            await on.settle()
            again = await opened(on)
            await on.settle()
            return first, again, await stream(on, agents, seconds), chat


def main() -> int:
    """Measure, print, and return 1 if something is over its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="of streaming")
    seconds = parser.parse_args().seconds
    broken = False
    for agents in (8, 60):
        first, again, processor, chat = anyio.run(measure, agents, seconds)
        print(
            f"{agents} agents: open {first:.0f} ms, again {again:.0f} ms; {processor:.1f} % with it, {chat:.1f} % without"
        )
        broken |= again > BOUND_OPEN_MS or (agents == 8 and processor > BOUND_PROCESSOR)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
