"""The cost of a tool-call turn beside the model: the time between two requests, its growth with the history, and
memory.

    bench_turns.py [--json] [--turns N] [--rounds N]

A model server without think time runs in a process of its own, and asks for `read_file` in every answer except the
last. A bare httpx client then sends the same bodies, and reads the answers without using them. Its time is subtracted.
If a bound is broken, the exit code is 1. Growth is judged by the quietest round.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import httpx

from tests.fakes.model_server import ModelServer, Received, Reply, ServedCall

VIBE = Path(sysconfig.get_path("scripts")) / "vibe"
MEASURED = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
BOUND_TURN_MS = 4.0
BOUND_GROWTH = 1.2
BOUND_MEMORY_MB = 80
PEERS = "mistral-vibe 2.18: 12.5-21 ms, 113 MB; 3.0: 26-64 ms, 170 MB; bare httpx stream 0.7-0.95 ms (201 turns)"
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of some turns: the milliseconds between its requests, and its peak memory."""

    periods: list[float]
    memory: float = 0.0


def reading(number: int) -> ServedCall:
    """Return the call in the model's answer with this number."""
    arguments = json.dumps({"path": "notes.txt", "offset": number % 40, "limit": 3})
    return ServedCall(name="read_file", arguments=arguments, id=f"c{number:08d}")


def shelling(number: int) -> ServedCall:
    """Return the same with a shell line that does nothing."""
    return ServedCall(name="bash", arguments=json.dumps({"command": f"true {number}"}), id=f"c{number:08d}")


def touching(number: int) -> ServedCall:
    """Return the same with a shell line after which the files are recorded for a rewind."""
    return ServedCall(name="bash", arguments=json.dumps({"command": f"touch made-{number}"}), id=f"c{number:08d}")


CALLS: dict[str, Callable[[int], ServedCall]] = {"read_file": reading, "bash": shelling, "touch": touching}


def serve(turns: int, folder: Path, call: Callable[[int], ServedCall]) -> None:
    """Answer until the parent closes stdin, then write the time and the body of each request to files."""
    gc.disable()  # the bodies are kept, and scanning them again and again would slow the answers down
    times: list[float] = []
    bodies: list[dict[str, Any]] = []

    def respond(request: Received) -> Reply:
        times.append(time.perf_counter())
        bodies.append(request.body)
        number = len(times)
        if number >= turns:
            return Reply(text="All done.")
        return Reply(text="Reading on.", tool_calls=(call(number),))

    with ModelServer("openai", respond) as server:
        print(server.api_base, flush=True)
        sys.stdin.read()
    (folder / "times.json").write_text(json.dumps(times))
    (folder / "bodies.json").write_text(json.dumps(bodies))


class Served:
    """The model server in its own process. ``end`` returns its records."""

    def __init__(self, turns: int, folder: Path, tool: str = "read_file") -> None:
        self._folder = folder
        command = [sys.executable, "-m", "tests.benchmarks.bench_turns", "--serve", str(turns), str(folder), tool]
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.api_base = self._process.stdout.readline().strip()

    def end(self) -> tuple[list[float], list[dict[str, Any]]]:
        """Return the milliseconds between requests, and the bodies."""
        self._process.communicate()
        times: list[float] = json.loads((self._folder / "times.json").read_text())
        bodies: list[dict[str, Any]] = json.loads((self._folder / "bodies.json").read_text())
        return [(after - before) * 1e3 for before, after in pairwise(times)], bodies


def run_vibe(turns: int, folder: Path, tool: str = "read_file", settings: str = "") -> tuple[Run, list[dict[str, Any]]]:
    """Run a whole ``vibe -p`` of ``turns`` turns, each of which calls the tool."""
    served = Served(turns, folder, tool)
    home, work = folder / "home", folder / "work"
    home.mkdir()
    work.mkdir()
    (work / "notes.txt").write_text("".join(f"line {number} of some notes\n" for number in range(60)))
    (home / "config.toml").write_text(
        f'active_model = "m"\n[[providers]]\nname = "p"\nbackend = "generic"\napi_base = "{served.api_base}"\n'
        f'[[models]]\nname = "m"\nprovider = "p"\n{settings}'
    )
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "VIBE_HOME": str(home)}
    # Run through a small process: a child's peak counts the memory of its parent at the fork, and this one has a lot.
    command = [sys.executable, "-S", "-c", MEASURED, str(VIBE), "-p", "read it"]
    ended = subprocess.run(
        command, env=environ, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False
    )
    periods, bodies = served.end()
    if ended.returncode or len(bodies) != turns:
        raise SystemExit(f"vibe exited with {ended.returncode} after {len(bodies)} of {turns} requests")
    return Run(periods=periods, memory=int(ended.stdout) / 1024), bodies


def run_bare(bodies: Sequence[Mapping[str, Any]], folder: Path) -> Run:
    """Send the same requests from a client that does nothing else."""
    served = Served(len(bodies), folder)
    encoded = [json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode() for body in bodies]

    async def send() -> None:
        async with httpx.AsyncClient(timeout=30) as client:
            for body in encoded:
                async with client.stream("POST", f"{served.api_base}/chat/completions", content=body) as response:
                    async for _ in response.aiter_bytes():
                        pass

    anyio.run(send)
    return Run(periods=served.end()[0])


def measure(turns: int, rounds: int) -> tuple[list[Run], list[Run]]:
    """Run ours and the bare client in turn."""
    ours: list[Run] = []
    bare: list[Run] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="vb-") as first, tempfile.TemporaryDirectory(prefix="vb-") as second:
            run, bodies = run_vibe(turns, Path(first))
            ours.append(run)
            bare.append(run_bare(bodies, Path(second)))
    return ours, bare


def rows_of(ours: Sequence[Run], bare: Sequence[Run]) -> list[Row]:
    """Return the table: medians over the rounds, and the best."""
    own = [
        [a - b for a, b in zip(run.periods, other.periods, strict=True)] for run, other in zip(ours, bare, strict=True)
    ]
    growth = [_growth(run.periods) for run in ours]
    own_growth = [_growth(run) for run in own]
    return [
        _row("between two requests, ms", [statistics.median(run.periods) for run in ours]),
        _row("the same with a bare httpx client, ms", [statistics.median(run.periods) for run in bare]),
        _row("of that ours, ms", [statistics.median(run) for run in own]) | {"bound": BOUND_TURN_MS},
        _row("last tenth of the turns over the first, whole", growth),
        _row("last tenth of the turns over the first, ours", own_growth) | {"bound": BOUND_GROWTH, "judged": "best"},
        _row("peak memory, MB", [run.memory for run in ours]) | {"bound": BOUND_MEMORY_MB},
    ]


def _growth(periods: Sequence[float]) -> float:
    """Return the last tenth over the first.

    Lower quartiles are compared, since other work on the machine only adds to a turn.
    """
    tenth = max(2, len(periods) // 10)
    first, last = periods[1 : 1 + tenth], periods[-tenth:]
    return statistics.quantiles(last, n=4)[0] / statistics.quantiles(first, n=4)[0]


def _row(what: str, figures: Sequence[float]) -> Row:
    return {"what": what, "ours": round(statistics.median(figures), 2), "best": round(min(figures), 2)}


def main() -> int:
    """Measure, print, and return 1 if something is over its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--turns", type=int, default=201, help="model calls of a run")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind")
    parser.add_argument("--serve", nargs=3, metavar=("TURNS", "FOLDER", "TOOL"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(int(given.serve[0]), Path(given.serve[1]), CALLS[given.serve[2]])
        return 0
    before = os.getloadavg()[0]
    rows = rows_of(*measure(given.turns, given.rounds))
    load = f"{before:.1f} to {os.getloadavg()[0]:.1f}"
    if given.json:
        print(json.dumps({"load": load, "turns": given.turns, "rows": rows, "peers": PEERS}, indent=2))
    else:
        print(f"{given.turns} turns{'':<44}{'median':>9}{'best':>9}    load {load} on {os.cpu_count()} processors")
        for row in rows:
            bound = f"bound {row['bound']}" if "bound" in row else ""
            print(f"{row['what']:<54}{row['ours']:>9}{row['best']:>9}    {bound}")
        print(f"peers: {PEERS}")
    return int(any("bound" in row and float(row[row.get("judged", "ours")]) > float(row["bound"]) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
