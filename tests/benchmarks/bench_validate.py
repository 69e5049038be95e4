"""Reading a plan of 10 000 steps, and the memory that its run takes.

    python -m tests.benchmarks.bench_validate [--rounds N] [--json]

Validation is from the bytes of the document to a strictly checked plan with its graph: the best of some rounds, in
seconds of processor time (one thread), since wall time on a busy machine includes its other work. Memory is what the
run of no-op steps adds to a process with everything imported, with each shape in a process of its own. In the same run,
networkx builds the graph and proves that it has no cycle, and LangGraph compiles it, where installed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import networkx as nx

from planner.plan.loader import load_plan
from tests.benchmarks.bench_plan import BOUND_MB, SHAPES, Row
from tests.benchmarks.peers import LangGraph, installed

STEPS = 10_000
BOUND_SECONDS = 1.5
MEMORY = """
import sys, tempfile
from pathlib import Path
from tests.benchmarks.bench_plan import NoOp, SHAPES, Setting, chain, plan_of, run

def peak():
    # ru_maxrss would begin with what the process was forked from
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

with tempfile.TemporaryDirectory(prefix="vb-") as root:
    setting = Setting(root=Path(root), memory_sink=False)
    run(plan_of(chain(10)), NoOp(), setting)
    before = peak()
    run(plan_of(SHAPES[sys.argv[1]](int(sys.argv[2]))), NoOp(), setting)
    print((peak() - before) / 1024)
"""


def document(needs: list[list[int]]) -> bytes:
    """Return a plan file of such a graph, as a person or a program would write it."""
    steps = [
        {
            "id": f"s{number}",
            "title": f"Step {number} of the plan",
            "mode": "code",
            "prompt": "Make the change that the title asks for, and nothing else.",
            "writes": [f"src/part{number}.py"],
            "depends_on": [f"s{other}" for other in others],
        }
        for number, others in enumerate(needs)
    ]
    return json.dumps({"version": 1, "goal": "measure", "steps": steps}).encode()


def best(rounds: int, work: Callable[[], object]) -> float:
    """Return the processor seconds of the fastest round."""
    took: list[float] = []
    for _ in range(rounds):
        gc.collect()
        begun = time.process_time()
        work()
        took.append(time.process_time() - begun)
    return round(min(took), 3)


def measure(name: str, rounds: int, peer: LangGraph | None) -> list[Row]:
    """Return the rows of one shape."""
    needs = SHAPES[name](STEPS)
    source = document(needs)

    def bare() -> None:
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(STEPS))
        graph.add_edges_from((other, number) for number, others in enumerate(needs) for other in others)
        nx.is_directed_acyclic_graph(graph)

    seconds: Row = {"what": f"s to validate, {name}", "ours": best(rounds, lambda: load_plan(source, where="bench"))}
    seconds |= {"bound": BOUND_SECONDS, "networkx": best(rounds, bare)}
    if peer is not None:
        seconds["LangGraph"] = best(1, lambda: peer.build(needs))
    ended = subprocess.run([sys.executable, "-c", MEMORY, name, str(STEPS)], capture_output=True, text=True, check=True)
    return [seconds, {"what": f"MB to run, {name}", "ours": round(float(ended.stdout), 1), "bound": BOUND_MB}]


def main() -> int:
    """Measure, print, and return 1 if something is over its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    others, missing = installed()
    peer = next((other for other in others if isinstance(other, LangGraph)), None)
    rows = [row for name in SHAPES for row in measure(name, given.rounds, peer)]
    notes = [note for note in missing if LangGraph.name in note]
    if given.json:
        print(json.dumps({"load": os.getloadavg()[0], "rows": rows, "notes": notes}, indent=2))
    else:
        print(f"{'':<36}{'ours':>9}{'bound':>9}{'networkx':>10}{'LangGraph':>11}    load {os.getloadavg()[0]:.1f}")
        for row in rows:
            figures = f"{row['ours']:>9}{row['bound']:>9}{row.get('networkx', ''):>10}{row.get('LangGraph', ''):>11}"
            print(f"{row['what']:<36}{figures}")
        print("\n".join(notes))
    return int(any(float(row["ours"]) > float(row["bound"]) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
