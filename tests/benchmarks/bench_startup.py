"""The time in which the installed ``vibe`` starts, sends its first request and exits.

``python -m tests.benchmarks.bench_startup [--json] [--rounds N]`` exits with 1 if a median is over its bound. All
commands take turns, so that other work on the machine affects them alike. A request counts when the server has read all
of it. A reply is counted from the same moment, so its way to the client is part of the figure.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.fakes.model_server import ModelServer, Received, Reply, Shape

Row = dict[str, str | float]
VIBE = Path(sys.executable).with_name("vibe")
BOUNDS = {"--version": 3.0, "--help": 6.0, "plan --help": 6.0}
"""Bounds on processor time, in units of an interpreter that does nothing."""
BOUND_REQUEST_MS = 600.0
BOUND_EXIT_MS = 150.0
PEERS = {
    "first request": "mistral-vibe 2.18 1060-1220 ms, 3.0 2040-2240 ms, on a quiet machine",
    "exit": "mistral-vibe 2.18 336-446 ms, 3.0 593-730 ms",
}
BACKENDS: dict[str, Shape] = {"generic": "openai", "mistral": "mistral"}
SMALL, LARGE = "a tiny repository", "2 500 files, README 20 kB, AGENTS.md 16 kB"
BOUND_MORE_MS = 120.0
BOUND_REQUEST_KB = 40.0
KEY_VARIABLE = "BENCH_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """One command: milliseconds of wall and of processor time, and its largest memory in MB.

    ``asked`` is when its first request was read, ``left`` how long it lived after its last, and ``size`` the kB of its
    request. They are zero without a request.
    """

    wall: float
    cpu: float
    memory: float
    asked: float = 0.0
    left: float = 0.0
    size: float = 0.0


@dataclass(slots=True)
class Answering:
    """Answers every request at once, and records its time."""

    times: list[float] = field(default_factory=list[float])
    sizes: list[float] = field(default_factory=list[float])

    def __call__(self, request: Received) -> Reply:
        """Answer with one word."""
        self.sizes.append(len(json.dumps(request.body)) / 1024)
        self.times.append(time.perf_counter())
        return Reply(text="hello")


def spawn(command: Sequence[str], environ: Mapping[str, str], cwd: Path, answering: Answering | None = None) -> Took:
    """Run one command to its end.

    Raises:
        SystemExit: It failed, or sent no request where it should have.
    """
    begun = time.perf_counter()
    process = subprocess.Popen(command, env=dict(environ), cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    ended = time.perf_counter()
    process.returncode = os.waitstatus_to_exitcode(status)
    times = [moment for moment in answering.times if moment > begun] if answering else []
    if process.returncode or (answering and not times):
        raise SystemExit(f"{' '.join(command)} exited with {process.returncode} after {len(times)} requests")
    return Took(
        wall=(ended - begun) * 1e3,
        cpu=(usage.ru_utime + usage.ru_stime) * 1e3,
        memory=usage.ru_maxrss / 1024,
        asked=(times[0] - begun) * 1e3 if times else 0.0,
        left=(ended - times[-1]) * 1e3 if times else 0.0,
    )


def take_turns(commands: Mapping[str, Callable[[], Took]], rounds: int) -> dict[str, list[Took]]:
    """Run every command once to warm the caches, then all of them in turn."""
    took: dict[str, list[Took]] = {name: [] for name in commands}
    for command in commands.values():
        command()
    for _ in range(rounds):
        for name, command in commands.items():
            took[name].append(command())
    return took


def config_of(servers: Mapping[str, ModelServer]) -> str:
    """Return a configuration with a provider and a model for each server, both with the same name."""
    tables = [
        f'[[providers]]\nname = "{name}"\nbackend = "{name}"\napi_base = "{server.api_base}"\n'
        f'api_key_env_var = "{KEY_VARIABLE}"\n[[models]]\nname = "{name}"\nprovider = "{name}"\n'
        for name, server in servers.items()
    ]
    return "\n".join(['active_model = "generic"', *tables])


def measure(rounds: int) -> dict[str, list[Took]]:
    """Measure everything, in an almost empty home and workspace."""
    answering = {name: Answering() for name in BACKENDS}
    with (
        tempfile.TemporaryDirectory(prefix="vb-") as folder,
        ModelServer("openai", answering["generic"]) as generic,
        ModelServer("mistral", answering["mistral"]) as mistral,
    ):
        home, work = Path(folder, "home"), Path(folder, "work")
        home.mkdir()
        work.mkdir()
        (work / "README.md").write_text("# A tiny project\n")
        (home / "config.toml").write_text(config_of({"generic": generic, "mistral": mistral}))
        environ = {"PATH": os.environ["PATH"], "HOME": folder, "VIBE_HOME": str(home), KEY_VARIABLE: "k"}

        def command(*words: str, asks: Answering | None = None, cwd: Path = work) -> Callable[[], Took]:
            return lambda: spawn(words, environ, cwd, asks)

        commands = {
            "python -c pass": command(sys.executable, "-c", "pass"),
            **{f"vibe {words}": command(str(VIBE), *words.split()) for words in BOUNDS},
        }
        short = take_turns(commands, rounds * 3)
        asking = {name: command(str(VIBE), "-p", "hi", "--model", name, asks=answering[name]) for name in BACKENDS}
        both = {SMALL: small_project(Path(folder, "small")), LARGE: large_project(Path(folder, "large"))}
        generic_asks = answering["generic"]
        asking |= {
            name: command(str(VIBE), "-p", "hi", "--trust", asks=generic_asks, cwd=root) for name, root in both.items()
        }
        took = short | take_turns(asking, rounds)
        took[LARGE] = [replace(one, size=generic_asks.sizes[-1]) for one in took[LARGE]]
        return took


def small_project(root: Path) -> Path:
    """Create a repository with one file."""
    return repository(root, {"README.md": "# A tiny project\n"})


def large_project(root: Path) -> Path:
    """Create a repository with 2 500 files in 125 folders, a 20 kB README, a 16 kB AGENTS.md, and new files."""
    files = {f"src/part{n // 100}/mod{n // 20}/file_{n}.py": f"x = {n}\n" for n in range(2_500)}
    made = repository(root, {**files, "README.md": "# Large\n" + "words \n" * 3_000, "AGENTS.md": "- a rule\n" * 1_800})
    for number in range(50):
        (root / "src" / f"new_{number}.py").write_text("new\n")
    return made


def repository(root: Path, files: Mapping[str, str]) -> Path:
    """Create a repository with these files committed."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    who = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    for words in (("init", "-q", "-b", "main"), ("add", "."), (*who, "commit", "-qm", "start")):
        subprocess.run(("git", *words), cwd=root, check=True)
    return root


def rows_of(took: Mapping[str, Sequence[Took]]) -> list[Row]:
    """Return the table: medians, and the best, which shows the effect of other work on the machine."""
    python = took["python -c pass"]
    rows = [_row("python -c pass, ms", [t.wall for t in python])]
    nothing = statistics.median(t.cpu for t in python)
    for words, bound in BOUNDS.items():
        command = took[f"vibe {words}"]
        rows.append(_row(f"vibe {words}, ms", [t.wall for t in command]))
        rows.append(_row(f"vibe {words} / python -c pass", [t.cpu / nothing for t in command]) | {"bound": bound})
    for name in BACKENDS:
        asked = _row(f"exec to first request, {name}, ms", [t.asked for t in took[name]])
        left = _row(f"last request read to exit, {name}, ms", [t.left for t in took[name]])
        rows += [asked | {"bound": BOUND_REQUEST_MS}, left | {"bound": BOUND_EXIT_MS}]
        rows.append(_row(f"whole run, {name}, ms of processor time", [t.cpu for t in took[name]]))
        rows.append(_row(f"whole run, {name}, peak MB", [t.memory for t in took[name]]))
    tiny = statistics.median(t.asked for t in took[SMALL])
    more = _row(f"to first request, {LARGE}: ms more than in {SMALL}", [t.asked - tiny for t in took[LARGE]])
    size = _row(f"first request, {LARGE}, kB", [t.size for t in took[LARGE]])
    return [*rows, more | {"bound": BOUND_MORE_MS}, size | {"bound": BOUND_REQUEST_KB}]


def _row(what: str, figures: Sequence[float]) -> Row:
    return {"what": what, "ours": round(statistics.median(figures), 2), "best": round(min(figures), 2)}


def main() -> int:
    """Measure, print, and return 1 if something is over its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--rounds", type=int, default=10, help="runs of each prompt; short commands run three times as often"
    )
    given = parser.parse_args()
    before = os.getloadavg()[0]
    rows = rows_of(measure(given.rounds))
    load = f"{before:.1f} to {os.getloadavg()[0]:.1f}"
    if given.json:
        print(json.dumps({"load": load, "processors": os.cpu_count(), "rows": rows, "peers": PEERS}, indent=2))
    else:
        print(f"{'':<96}{'median':>9}{'best':>9}    load {load} on {os.cpu_count()} processors")
        for row in rows:
            bound = f"bound {row['bound']}" if "bound" in row else ""
            print(f"{row['what']:<96}{row['ours']:>9}{row['best']:>9}    {bound}")
        for what, peer in PEERS.items():
            print(f"peers, {what}: {peer}")
    return int(any("bound" in row and float(row["ours"]) > float(row["bound"]) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
