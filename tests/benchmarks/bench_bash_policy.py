"""The time to judge a shell line, with paths resolved in a workspace. The bound is 1 ms (median)."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.unit.shell.policy import shell_lab
from tests.unit.shell.policy.bash_lines import EVASIONS, EVERYDAY
from vibe.core.tools.workspace import Workspace
from vibe.shell.policy.deny_rules import inspect
from vibe.shell.policy.parser import parse_line
from vibe.shell.policy.verdict import DEFAULT_ALLOWED, DEFAULT_DENIED, DEFAULT_DENIED_STANDALONE, classify

BOUND_MS = 1.0


def measure(rounds: int) -> dict[str, float]:
    """Return the median and the 99th percentile in ms over all lines, each parsed afresh every time."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(root=shell_lab.build(Path(folder) / "lab").work)
        times: list[float] = []
        for _ in range(rounds):
            for line in (*EVERYDAY, *EVASIONS):
                parse_line.cache_clear()
                inspect.cache_clear()
                started = time.perf_counter()
                classify(
                    line, DEFAULT_ALLOWED, DEFAULT_DENIED, standalone=DEFAULT_DENIED_STANDALONE, workspace=workspace
                )
                times.append((time.perf_counter() - started) * 1e3)
    return {
        "decisions": float(len(times)),
        "median_ms": round(statistics.median(times), 3),
        "p99_ms": round(statistics.quantiles(times, n=100)[-1], 3),
        "bound_median_ms": BOUND_MS,
    }


def main() -> int:
    """Measure, print, and return whether the bound holds as an exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    found = measure(args.rounds)
    if args.json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        sys.stdout.write("".join(f"{name:>16} {value:g}\n" for name, value in found.items()))
    return 0 if found["median_ms"] <= BOUND_MS else 1


if __name__ == "__main__":
    sys.exit(main())
