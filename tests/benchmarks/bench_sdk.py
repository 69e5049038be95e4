"""The cost of the library: a query beside a warm ``vibe -p``, the import, callbacks, events and cancelling.

``python -m tests.benchmarks.bench_sdk [--json] [--rounds N]`` exits with 1 if a figure is over its bound. A model
server without think time runs in this process, so its work is in all figures except that of the import.
"""

from __future__ import annotations

import argparse
import asyncio  # noqa: TID251  as programs do
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from io import BytesIO, TextIOWrapper
from itertools import pairwise
from pathlib import Path

from ipc.events import AssistantDeltaEvent, Event
from tests.fakes.model_server import ModelServer, Received, Reply, ServedCall
from tests.fakes.waiting import until
from tests.integration.app.conversation.conftest import CONFIG
from vibe.cli.environment import CliEnvironment
from vibe.cli.run import run_command_line
from vibe.sdk import Home, Session, query

BOUNDS = {
    "query_over_command_percent": 10.0,
    "import_over_peers": 1.5,
    "callback_to_model_ms": 5.0,
    "milliseconds_per_event": 1.0,
    "events_lost_or_doubled": 0.0,
    "cancelled_await_s": 1.0,
}
CALLS = 20
WORDS = 3_000
"""Words of one answer. Each arrives as an event."""


class Answering:
    """The model: answers ``reply`` to all requests, and records when it was asked last."""

    def __init__(self) -> None:
        self.reply = Reply(text="done")
        self.asked = 0.0
        self.calls_left = 0

    def __call__(self, _: Received) -> Reply:
        """Answer a request."""
        self.asked = time.perf_counter()
        if not self.calls_left:
            return self.reply
        self.calls_left -= 1
        return Reply(tool_calls=(ServedCall(name="touched"),))


def took(function: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def command(home: Home, folder: Path) -> int:
    """Run ``vibe -p`` in this process, where everything is loaded."""
    out, err = (TextIOWrapper(BytesIO(), "utf-8") for _ in range(2))
    host = home.host
    stdin = TextIOWrapper(BytesIO(), "utf-8")
    env = CliEnvironment(home=host.home, cwd=folder, environ=host.environ, stdin=stdin, stdout=out, stderr=err)
    return int(run_command_line(("-p", "Say it"), env))


def over_command(home: Home, folder: Path, rounds: int) -> float:
    """Return how much longer a query takes than the command, in percent, by the quicker half of each."""
    kinds: Sequence[Callable[[], object]] = (
        lambda: query("Say it", home=home, workdir=folder).wait(),
        lambda: command(home, folder),
    )
    times: list[list[float]] = [[], []]
    for number in range(4 * rounds + 2):
        for kind, found in zip(kinds, times, strict=True):
            seconds = took(kind)
            if number > 1:  # everything is loaded by then
                found.append(seconds)
    asked, commanded = (statistics.median(sorted(found)[: len(found) // 2]) for found in times)
    return 100 * (asked / commanded - 1)


def imported(rounds: int) -> float:
    """Return the processor time of ``import vibe.sdk``, as a multiple of importing what any such library imports."""

    def spent(words: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", words], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    pairs = [(spent("import vibe.sdk"), spent("import httpx, pydantic")) for _ in range(rounds)]
    own, others = (min(found) for found in zip(*pairs, strict=True))
    return own / others


async def callback_to_model(home: Home, folder: Path, model: Answering) -> float:
    """Return the milliseconds from the return of the program's tool to the next request, read by the server."""
    returned: list[float] = []
    found: list[float] = []

    def touched() -> str:
        """Touch it."""
        if returned:
            found.append(model.asked - returned[-1])
        returned.append(time.perf_counter())
        return f"touched {len(returned)} times"

    model.calls_left = CALLS
    async with Session(home=home, workdir=folder, tools=[touched]) as session:
        await session.send("Go")
    return 1000 * statistics.median(found)


async def events(home: Home, folder: Path, model: Answering) -> tuple[float, float]:
    """Return the milliseconds for each event that is iterated, and the number of lost or duplicate events."""
    model.reply = Reply(text=" ".join(f"w{number}" for number in range(WORDS)))
    heard: list[Event] = []
    run = query("Say it", home=home, workdir=folder, on_event=heard.append)
    began = time.perf_counter()
    came = [event async for event in run]
    seconds = time.perf_counter() - began
    model.reply = Reply(text="done")
    numbers = [event.seq for event in came]
    wrong = sum(after != before + 1 for before, after in pairwise(numbers)) + abs(len(heard) - len(came))
    said = "".join(event.text for event in came if isinstance(event, AssistantDeltaEvent))
    return 1000 * seconds / len(came), wrong + (said != run.result.text)


async def cancelled(home: Home, folder: Path, model: Answering) -> float:
    """Return the seconds until a cancelled await returns, while a command of the agent runs."""
    model.reply = Reply(tool_calls=(ServedCall(name="bash", arguments='{"command": "touch at_work; sleep 600"}'),))
    task = asyncio.ensure_future(_awaited(home, folder))
    await asyncio.to_thread(until, (folder / "at_work").exists)
    began = time.perf_counter()
    task.cancel()
    await asyncio.wait([task])
    model.reply = Reply(text="done")
    return time.perf_counter() - began


async def _awaited(home: Home, folder: Path) -> None:
    await query("Sleep", home=home, workdir=folder, approve=True)


def measured(rounds: int) -> dict[str, float]:
    """Return every figure."""
    model = Answering()
    with tempfile.TemporaryDirectory() as name, ModelServer(responder=model) as server:
        base, folder = Path(name) / "home", Path(name) / "work"
        base.mkdir(mode=0o700)
        folder.mkdir()
        (base / "config.toml").write_text(CONFIG.format(api_base=server.api_base))
        home = Home(folder=base, environ={**os.environ, "SERVED_KEY": "k"})
        over = over_command(home, folder, rounds)
        per_event, wrong = asyncio.run(events(home, folder, model))
        return {
            "query_over_command_percent": over,
            "import_over_peers": imported(rounds),
            "callback_to_model_ms": asyncio.run(callback_to_model(home, folder, model)),
            "milliseconds_per_event": per_event,
            "events_lost_or_doubled": wrong,
            "cancelled_await_s": asyncio.run(cancelled(home, folder, model)),
        }


def main() -> int:
    """Measure, print, and return 1 if a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="how often each (default: 10)")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    given = parser.parse_args()
    figures = {name: round(value, 2) for name, value in measured(given.rounds).items()}
    load = os.getloadavg()[0]
    if given.json:
        print(json.dumps({"load": round(load, 1), **figures, "bounds": BOUNDS}))
    else:
        print(f"load {load:.1f}")
        for figure, value in figures.items():
            print(f"{figure:<28}{value:>9}  bound {BOUNDS[figure]:g}")
    return int(any(figures[figure] > bound for figure, bound in BOUNDS.items()))


if __name__ == "__main__":
    sys.exit(main())
