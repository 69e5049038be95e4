"""Conversations in one process: how soon another one is open, and how soon an interrupted prompt returns.

    python -m tests.benchmarks.bench_conversation [--rounds N] [--json]

The model is a server on the loopback interface. The interruptions hit an answer in the middle of its stream, a command
in the sandbox, and a question that nobody answers. The time is measured from ``interrupt`` to the return of ``send``.
Medians and the worst of each are printed beside their bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from ipc.events import ApprovalRequestEvent, AssistantDeltaEvent, Event, ToolCallEvent
from tests.fakes.model_server import ModelServer, Received, Reply, ServedCall
from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.opening import Opening, Seat
from vibe.app.conversation.runtime import Runtime
from vibe.app.engine.host import Host
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import ApprovalAnswer

OPEN_MS, INTERRUPT_MS = 60.0, 200.0
CONFIG = """active_model = "m1"
[[providers]]
name = "served"
api_base = "{api_base}"
api_key_env_var = "SERVED_KEY"
backend = "generic"
[[models]]
name = "m1"
provider = "served"
"""
COMMANDS = {"command": "sleep 600", "question": "touch asked"}
"""The commands that the model calls, by prompt. The second needs approval."""


class Reached:
    """Sets ``there`` once the work has come to the point where it is interrupted."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.there = anyio.Event()

    def publish(self, event: Event) -> None:
        """Watch for that point."""
        streams = self._where == "stream" and isinstance(event, AssistantDeltaEvent)
        runs = self._where == "command" and isinstance(event, ToolCallEvent)
        if streams or runs:
            self.there.set()

    async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        """Never answer."""
        self.there.set()
        await anyio.sleep_forever()
        return ApprovalAnswer(allow=False, reason=request.reason)


def answer(request: Received) -> Reply:
    """Stream without an end, or call a command."""
    prompt = str(request.body["messages"][-1]["content"])
    if prompt not in COMMANDS:
        return Reply(text="one two three", silent_after=3)
    return Reply(tool_calls=(ServedCall(name="bash", arguments=json.dumps({"command": COMMANDS[prompt]})),))


async def interrupted(runtime: Runtime, folder: Path, where: str) -> float:
    """Return the seconds from an interruption to the return of ``send``."""
    reached = Reached(where)
    mode = ApprovalMode.ASK if where == "question" else ApprovalMode.ALL
    seat = Seat(listeners=[reached], approver=reached)
    conversation = await runtime.open_conversation(Opening(workdir=folder, approvals=mode), seat)
    told = 0.0
    async with anyio.create_task_group() as group:
        group.start_soon(conversation.send, where)
        await reached.there.wait()
        await anyio.sleep(0.1)  # well in the middle of it
        told = time.perf_counter()
        conversation.interrupt()
    seconds = time.perf_counter() - told
    await conversation.aclose()
    return seconds


async def opened(runtime: Runtime, folder: Path) -> float:
    """Return the seconds until another conversation is open."""
    began = time.perf_counter()
    conversation = await runtime.open_conversation(Opening(workdir=folder))
    seconds = time.perf_counter() - began
    await conversation.aclose()
    return seconds


async def measured(rounds: int, home: Path, folder: Path) -> dict[str, list[float]]:
    """Return the milliseconds of each kind."""
    host = Host(home=home, environ={**os.environ, "SERVED_KEY": "k"})
    figures: dict[str, list[float]] = {}
    async with Runtime(host) as runtime:
        first: Conversation = await runtime.open_conversation(Opening(workdir=folder))
        kinds: dict[str, Callable[[], Awaitable[float]]] = {"open one more": partial(opened, runtime, folder)}
        kinds |= {
            f"interrupt a {where}": partial(interrupted, runtime, folder, where)
            for where in ("stream", "command", "question")
        }
        for _ in range(rounds):
            for kind, measure in kinds.items():
                figures.setdefault(kind, []).append(1000 * await measure())
        await first.aclose()
    return figures


def main() -> int:
    """Measure, print, and return 1 if a median is beyond its bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ModelServer(responder=answer) as server:
        home, folder = Path(name, "home"), Path(name, "work")
        home.mkdir(mode=0o700)
        folder.mkdir()
        (home / "config.toml").write_text(CONFIG.format(api_base=server.api_base))
        figures = anyio.run(measured, args.rounds, home, folder)
    rows: list[dict[str, Any]] = []
    for kind, values in figures.items():
        bound = OPEN_MS if kind.startswith("open") else INTERRUPT_MS
        row = {"what": kind, "median_ms": statistics.median(values), "worst_ms": max(values), "bound_ms": bound}
        rows.append(row)
    if args.json:
        print(json.dumps(rows, indent=2))
    else:
        for row in rows:
            print(
                f"{row['what']:<22} median {row['median_ms']:7.1f} ms  worst {row['worst_ms']:7.1f}  bound {row['bound_ms']:g}"
            )
    return int(any(row["median_ms"] > row["bound_ms"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
