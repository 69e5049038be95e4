"""The cost of running a command: a bash call between two requests, and a plan of commands beside ``make -j8``.

    bench_sandbox.py [--json] [--turns N] [--steps N] [--rounds N]

The figures are of one machine at one time, so `bash -c true` and a bare ``bwrap`` around it are measured in turn with
them. If a bound is broken, the exit code is 1. Bounds are multiples of what is measured beside them, because machines
differ.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.bench_turns import VIBE, run_vibe
from vibe.shell.sandbox.confinement import Confinement, Place
from vibe.shell.sandbox.given_files import without_shell
from vibe.shell.sandbox.settings import SandboxConfig

COMMAND = ("bash", "-c", "true")
BARE = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-user", "--unshare-pid", "--unshare-net")
TURN = {
    "a bash call, sandbox bubblewrap, ms": ("bash", ""),
    "a bash call that writes, ms": ("touch", '[tools.bash]\nallowlist = ["touch"]\n'),
    "a bash call, sandbox off, ms": ("bash", '[sandbox]\nmode = "off"\n'),
}
"""The call to measure, and its settings."""
BOUND_TURN = 2.1
"""The bound of a bash call in bubblewrap, as a multiple of a bare ``bwrap`` around the same."""
BOUND_PLAN = 8.0
"""The bound of a plan of commands, as a multiple of ``make -j8``."""
PEERS = "a bash call: mistral-vibe 2.18, without a sandbox, 11.8 ms; 3.0 32 ms; bare bwrap 4.9, bash -c true 1.2 there"
WIDE = 8


def measure(turns: int, steps: int, rounds: int) -> dict[str, float]:
    """Return ms of single commands and bash calls, and seconds of plan and ``make``: medians of the rounds."""
    found: dict[str, list[float]] = {}
    bare = _bare()
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="vb-") as name:
            folder = Path(name)
            found.setdefault("bash -c true, ms", []).append(_command(COMMAND))
            if bare is not None:
                found.setdefault("bare bwrap, ms", []).append(_command(bare))
            for number, (what, (tool, settings)) in enumerate(TURN.items()):
                place = folder / str(number)
                place.mkdir()
                run, _ = run_vibe(turns, place, tool, settings)
                found.setdefault(what, []).append(statistics.median(run.periods))
            plan, make = _plan_and_make(steps, folder)
            found.setdefault(f"make -j{WIDE}, s", []).append(make)
            found.setdefault(f"a plan of {steps} commands, s", []).append(plan)
    return {what: round(statistics.median(figures), 2) for what, figures in found.items()}


def _bare() -> tuple[str, ...] | None:
    """Return the command of the ``bwrap`` used here with the fewest options it needs, or None if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        confinement = Confinement(SandboxConfig(), {}, Path(folder), backends=["bubblewrap"])
        confined = confinement.confine(COMMAND, {}, Place(roots=(Path(folder),)))
    return None if confined is None else (without_shell(confined[0].argv)[0][0], *BARE, *COMMAND)


def _command(argv: Sequence[str], times: int = 50) -> float:
    durations: list[float] = []
    for _ in range(times):
        started = time.perf_counter()
        subprocess.run(argv, check=True)
        durations.append((time.perf_counter() - started) * 1e3)
    return statistics.median(durations)


def _plan_and_make(steps: int, folder: Path) -> tuple[float, float]:
    """Return the seconds for commands that do nothing, side by side, by a plan and by ``make``."""
    names = [f"s{number}" for number in range(steps)]
    plan: dict[str, Any] = {
        "version": 1,
        "goal": "nothing",
        "max_parallel_steps": WIDE,
        "steps": [{"id": name, "title": name, "mode": "run", "command": "true"} for name in names],
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    rules = "".join(f"{name}:\n\t@bash -c true\n" for name in names)
    (folder / "Makefile").write_text(f"all: {' '.join(names)}\n{rules}")
    home = folder / "home"
    home.mkdir(mode=0o700)
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "VIBE_HOME": str(home)}
    run = [str(VIBE), "plan", "run", "plan.json"]
    return _seconds(run, folder, environ), _seconds(["make", f"-j{WIDE}"], folder, environ)


def _seconds(argv: Sequence[str], cwd: Path, environ: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(argv, cwd=cwd, env=environ, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def ratios(found: dict[str, float], steps: int) -> list[tuple[str, float, float]]:
    """Return each name with a bound, with its ratio and the bound."""
    rows = [
        (f"plan over make -j{WIDE}", found[f"a plan of {steps} commands, s"] / found[f"make -j{WIDE}, s"], BOUND_PLAN)
    ]
    if "bare bwrap, ms" in found:
        call = found["a bash call, sandbox bubblewrap, ms"] / found["bare bwrap, ms"]
        rows.append(("bash call over bare bwrap", call, BOUND_TURN))
    return rows


def main() -> int:
    """Measure, print, and return 1 if something is over its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--turns", type=int, default=101, help="model calls of a run")
    parser.add_argument("--steps", type=int, default=1_000, help="commands of the plan")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind")
    given = parser.parse_args()
    found = measure(given.turns, given.steps, given.rounds)
    rows = ratios(found, given.steps)
    if given.json:
        document = {
            **found,
            "ratios": {what: {"ratio": round(ratio, 2), "bound": bound} for what, ratio, bound in rows},
        }
        print(json.dumps(document | {"peers": PEERS}, indent=2))
    else:
        for what, figure in found.items():
            print(f"{what:<40}{figure:>9}")
        for what, ratio, bound in rows:
            print(f"{what:<40}{ratio:>9.2f}    bound {bound:g}")
        print(f"peers: {PEERS}")
    return int(any(ratio > bound for _, ratio, bound in rows))


if __name__ == "__main__":
    sys.exit(main())
