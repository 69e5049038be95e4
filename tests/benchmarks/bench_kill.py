"""Kill a plan of 60 steps at random moments, resume it each time, and compare the states at the end.

    python -m tests.benchmarks.bench_kill [--count N] [--kills N] [--seed N] [--jobs N] [--executor local|process|both]

The plan has commands, agents with checks, steps in worktrees, decisions, and commands that fail at first. Its model is
a script. SIGKILL hits only the process, at a moment drawn evenly from its start to its end. Two runs in five are killed
two or three times; with ``--kills`` every run is killed that often, unless it ends before. At the end the journal must
hold exactly one completed attempt for each step. The files and commits must be those of an undisturbed run, and no
process, worktree, branch, socket, entry or temporary file may be left.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from tests.e2e.kill_lab import Kind, Report, experiment, undisturbed

EXECUTORS = ("local", "process")


def measure(kind: Kind, given: argparse.Namespace) -> dict[str, Any]:
    """Run the experiments of one executor, and return their results."""
    wanted, seconds = undisturbed(kind)

    def one(number: int) -> Report:
        report = experiment(kind, given.seed + number, wanted, seconds, given.kills)
        if report.problems:
            print(f"{kind.executor}, seed {report.seed}: {'; '.join(report.problems)}", file=sys.stderr, flush=True)
        return report

    with ThreadPoolExecutor(given.jobs) as pool:
        reports = list(pool.map(one, range(given.count)))
    failures = [report for report in reports if report.problems]
    return {
        "executor": kind.executor,
        "experiments": given.count,
        "kills": sum(len(report.killed_at) for report in reports),
        "resumes": sum(report.resumes for report in reports),
        "undisturbed_s": round(seconds, 2),
        "mean_s": round(statistics.fmean(report.seconds for report in reports), 2),
        "bound": 0,
        "failures": len(failures),
        "failed": [asdict(report) for report in failures],
    }


def main() -> int:
    """Measure, print, and return 1 if a run ended other than it should."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="how many experiments (default: 200)")
    parser.add_argument("--kills", type=int, help="how often each is killed (default: drawn)")
    parser.add_argument("--seed", type=int, default=0, help="of the first one (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, help="how many side by side (default: 2)")
    parser.add_argument("--executor", choices=(*EXECUTORS, "both"), default="both")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args()
    executors = EXECUTORS if given.executor == "both" else (given.executor,)
    rows = [measure(Kind(executor=executor), given) for executor in executors]
    report = {"load": os.getloadavg()[0], "jobs": given.jobs, "rows": rows}
    if given.json:
        print(json.dumps(report, indent=2))
    else:
        print(f"{'executor':<10}{'experiments':>12}{'kills':>7}{'resumes':>9}{'mean s':>8}{'failures':>10}")
        for row in rows:
            print(
                f"{row['executor']:<10}{row['experiments']:>12}{row['kills']:>7}{row['resumes']:>9}"
                f"{row['mean_s']:>8}{row['failures']:>10}"
            )
    return int(any(row["failures"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
