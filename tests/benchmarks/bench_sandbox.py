"""What confining a command costs: ``bash -c true`` as the user would run it, and in each sandbox that works here."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from vibe.core.config.models import SandboxConfig
from vibe.core.sandbox.choose import BACKENDS
from vibe.core.sandbox.confinement import Confinement, Place

COMMAND = ("bash", "-c", "true")


def measure(times: int) -> dict[str, float]:
    """Medians in ms: starting a command plain and confined, and preparing the confinement."""
    found: dict[str, float] = {}
    environ = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "work"
        root.mkdir()
        found["plain_ms"] = _median(times, lambda: _run(COMMAND, environ, root))
        for backend in BACKENDS:
            found |= _measure_backend(backend, times, environ, root)
    return found


def _measure_backend(backend: str, times: int, environ: Mapping[str, str], root: Path) -> dict[str, float]:
    confinement = Confinement(SandboxConfig(), environ, root.parent / "home", backends=[backend])
    place = Place(roots=(root,))
    started = time.perf_counter()
    confined = confinement.confine(COMMAND, environ, place)
    probed = time.perf_counter() - started
    if confined is None:
        return {}
    argv, variables = confined.argv, confined.environ
    return {
        f"{backend}_probe_ms": round(probed * 1e3, 2),
        f"{backend}_prepare_ms": _median(times, lambda: confinement.confine(COMMAND, environ, place)),
        f"{backend}_ms": _median(times, lambda: _run(argv, variables, root)),
    }


def _run(argv: tuple[str, ...], environ: Mapping[str, str], cwd: Path) -> None:
    subprocess.run(argv, env=environ, cwd=cwd, check=True)


def _median(times: int, work: Callable[[], object]) -> float:
    durations: list[float] = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        durations.append((time.perf_counter() - started) * 1e3)
    return round(statistics.median(durations), 2)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--times", type=int, default=50)
    args = parser.parse_args()
    found = measure(args.times)
    text = json.dumps(found) if args.json else "\n".join(f"{name:>24} {value:g}" for name, value in found.items())
    sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
