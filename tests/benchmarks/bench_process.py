"""The cost of a process for a step: the same plan of one-call agents with either executor, by the installed vibe.

The model answers at once, so that only the work around a step is measured. Ratios are taken within one run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

VIBE = Path(sysconfig.get_path("scripts")) / "vibe"
EXECUTORS = ("local", "process")
BOUND = 70
"""Processor time that a process costs a step, as a multiple of starting an interpreter that does nothing."""


def measure(steps: int, rounds: int) -> dict[str, Any]:
    """Return wall and processor ms per step, in a chain and side by side, by the best rounds, and the memory."""
    with tempfile.TemporaryDirectory() as folder:
        home = _home(Path(folder))
        found: dict[str, Any] = {
            "interpreter_cpu_ms": round(min(_timed([sys.executable, "-c", "pass"], home)[1] for _ in range(rounds)), 1)
        }
        for shape in ("chain", "wide"):
            for executor in EXECUTORS:
                plans = [_plan(home, shape, count) for count in (1, steps + 1)]
                runs = [[_run(home, plan, executor) for plan in plans] for _ in range(rounds)]
                one, many = ([min(run[n][figure] for run in runs) for figure in (0, 1)] for n in (0, 1))
                found[f"{shape}_{executor}_ms"] = round((many[0] - one[0]) / steps, 1)
                found[f"{shape}_{executor}_cpu_ms"] = round((many[1] - one[1]) / steps, 1)
                found[f"{shape}_{executor}_whole_ms"] = round(one[0], 1)
            for figure in ("ms", "cpu_ms"):
                more = found[f"{shape}_process_{figure}"] - found[f"{shape}_local_{figure}"]
                found[f"{shape}_cost_{figure}"] = round(more, 1)
            found[f"{shape}_cost_in_interpreters"] = round(
                found[f"{shape}_cost_cpu_ms"] / found["interpreter_cpu_ms"], 1
            )
    found["largest_process_mb"] = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
    return found


def _home(folder: Path) -> Path:
    home = folder / "home"
    home.mkdir(mode=0o700)
    script = folder / "script.json"
    script.write_text(json.dumps({"version": 1, "agents": {"*": {"turns": [{"text": "done"}]}}}))
    (home / "config.toml").write_text(
        f'active_model = "m"\n[[providers]]\nname = "p"\nbackend = "scripted"\nscript = "{script}"\n'
        '[[models]]\nname = "m"\nprovider = "p"\n'
    )
    return home


def _plan(home: Path, shape: str, count: int) -> Path:
    path = home.parent / f"{shape}-{count}.json"
    steps = [
        {"id": f"s{n}", "title": "A step", "mode": "code", "prompt": "Go.", "writes": [],
         "depends_on": [f"s{n - 1}"] if n and shape == "chain" else []}
        for n in range(count)
    ]  # fmt: skip
    path.write_text(json.dumps({"version": 1, "goal": "g", "max_parallel_steps": 4, "steps": steps}))
    return path


def _run(home: Path, plan: Path, executor: str) -> tuple[float, float]:
    words = [str(VIBE), "plan", "run", "--executor", executor, "--output", "json", str(plan)]
    return _timed(words, home)


def _timed(words: list[str], home: Path) -> tuple[float, float]:
    """Return wall and processor time in ms."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(words, cwd=home.parent, env={**os.environ, "VIBE_HOME": str(home)}, check=True, capture_output=True)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall * 1e3, cpu * 1e3


def main() -> int:
    """Measure, print, and judge by the bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.steps, options.rounds)
    if options.json:
        print(json.dumps(found))
    else:
        print(f"{'':34}{'local':>10}{'process':>10}")
        for shape in ("chain", "wide"):
            for figure, words in (
                ("ms", "a step"),
                ("cpu_ms", "a step, processor"),
                ("whole_ms", "a plan of one step"),
            ):
                local, process = (found[f"{shape}_{executor}_{figure}"] for executor in EXECUTORS)
                print(f"{f'{shape}: {words}, ms':34}{local:>10}{process:>10}")
            wall, cpu, ratio = (found[f"{shape}_cost_{unit}"] for unit in ("ms", "cpu_ms", "in_interpreters"))
            print(f"{shape}: a process costs a step {wall} ms, {cpu} of processor: {ratio} starts of an interpreter")
        print(f"largest process {found['largest_process_mb']} MB")
    return 0 if max(found[f"{shape}_cost_in_interpreters"] for shape in ("chain", "wide")) <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
