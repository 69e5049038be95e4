"""An hour at the screen in minutes: memory, keys and turns of one `vibe` at its beginning and at its end.

    soak_screen.py [--json] [--turns N] [--plans N]

One installed `vibe` runs on a pseudo terminal, and a model server without think time in a process of its own. Each turn
is a typed prompt. In every other one the model reads a file first, and the conversation is summarised now and then. The
plans, each of an agent's step and a command's, come evenly between the turns. The beginning is measured once the caches
of painted output are full: after 400 turns, or after half of the turns if they are fewer. Times are those of a tenth of
the turns. If a bound is broken, the exit code is 1. Times are judged by their quicker quarter, since other work on the
machine only adds to them.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import termios
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.model_server import ModelServer, Received, Reply, ServedCall

VIBE = Path(sysconfig.get_path("scripts")) / "vibe"
ROOT = Path(__file__).parents[2]
GROWTH = 1.2
MORE_FILES = 8
KEYS = 40
QUIET_SECONDS = 0.12
SECONDS = 120.0
WARM = 400
FEWEST = 20
"""The fewest turns that show growth."""
PROSE = "A sentence of an answer, with `code` and **weight** in it, long enough to wrap where the screen is narrow. "
ASKED = re.compile(r"(?:turn|soak) (\d+)")
CONFIG = """active_model = "m"
[[providers]]
name = "p"
backend = "generic"
api_base = "{api_base}"
[[models]]
name = "m"
provider = "p"
auto_compact_threshold = 20000
"""
Row = dict[str, Any]


# --- the model


def called(name: str, arguments: Mapping[str, Any], number: int) -> Reply:
    """Return an answer that calls a tool."""
    return Reply(tool_calls=(ServedCall(name=name, arguments=json.dumps(arguments), id=f"c{number:08d}"),))


def respond(request: Received) -> Reply:
    """Answer as the planner, as the agent of a step, or as the agent of the conversation."""
    messages: list[dict[str, Any]] = request.body["messages"]
    said = (str(one["content"]) for one in reversed(messages) if one["role"] == "user")
    asked, found = next(((text, hit) for text in said if (hit := ASKED.search(text))), ("", None))
    number = int(found.group(1)) if found else 0
    offered = [tool["function"]["name"] for tool in request.body.get("tools", ())]
    is_new = messages[-1]["role"] == "user"
    if "hand_in_plan" in offered:
        look = {"id": f"look{number}", "title": "Look", "mode": "research", "prompt": "Read the notes."}
        note = {"id": f"note{number}", "title": "Note", "mode": "run", "command": "true", "depends_on": [look["id"]]}
        return called("hand_in_plan", {"value": {"steps": [look, note]}}, number)
    if is_new and "read_file" in offered and ("# Your step" in asked or number % 2):
        return called("read_file", {"path": "notes.txt", "offset": number % 40, "limit": 3}, number)
    return Reply(text=f"{PROSE * 4}answer{number:06d}" if offered else "All in short.")


def serve() -> None:
    """Answer until the parent closes stdin."""
    with ModelServer("openai") as server:

        def answer(request: Received) -> Reply:
            server.requests.clear()  # or this process would grow
            return respond(request)

        server.responder = answer
        print(server.api_base, flush=True)
        sys.stdin.read()


@contextmanager
def served() -> Generator[str]:
    """Run the model server in its own process, and yield its address."""
    command = [sys.executable, "-m", "tests.benchmarks.soak_screen", "--serve"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


# --- the person


class Person:
    """A terminal with ``vibe`` on it. Output is searched from the last keys on."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._master, slave = os.openpty()
        termios.tcsetwinsize(slave, (36, 120))
        self.process = subprocess.Popen(
            [VIBE],
            cwd=folder,
            env={**environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._seen = bytearray()
        self._came = threading.Condition()
        self._came_at = time.perf_counter()
        threading.Thread(target=self._read, daemon=True).start()

    def type(self, keys: str) -> None:
        """Press keys. From here on, ``wait_for`` looks at what comes after them."""
        with self._came:
            self._seen.clear()
        os.write(self._master, keys.encode())

    def wait_for(self, pattern: str) -> float:
        """Wait until something is shown, and return when, in seconds of ``perf_counter``.

        Raises:
            SystemExit: It is not shown within minutes.
        """
        wanted = re.compile(pattern.encode())
        with self._came:
            if not self._came.wait_for(lambda: wanted.search(self._seen), SECONDS):
                raise SystemExit(
                    f"{pattern!r} was never shown; the last was:\n{self._seen[-4000:].decode('utf-8', 'replace')}"
                )
            return self._came_at

    def rest(self) -> None:
        """Wait until nothing has been drawn for a moment."""
        while time.perf_counter() - self._came_at < QUIET_SECONDS:
            time.sleep(QUIET_SECONDS / 4)

    def _read(self) -> None:
        with suppress(OSError):  # the program has ended
            while piece := os.read(self._master, 65536):
                with self._came:
                    self._seen += piece
                    self._came_at = time.perf_counter()
                    self._came.notify_all()


# --- measurements


@dataclass(kw_only=True)
class Moment:
    """The state of the process: memory in MB, key to echo in ms, open files, and the times of the turns around it."""

    memory: float
    keys: list[float]
    files: int
    turns: list[float] = field(default_factory=list[float])
    processor: float = 0.0


def look(person: Person) -> Moment:
    """Press keys, and read the kernel's figures."""
    keys: list[float] = []
    for _ in range(KEYS):
        person.rest()
        start = time.perf_counter()
        person.type("z")
        keys.append((person.wait_for("z") - start) * 1e3)
        person.type("\x7f")
        person.wait_for(".")
    return Moment(
        memory=memory(person), keys=keys, files=sum(1 for _ in Path(f"/proc/{person.process.pid}/fd").iterdir())
    )


def memory(person: Person) -> float:
    """Return the resident megabytes."""
    pages = Path(f"/proc/{person.process.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20


def processor(person: Person) -> float:
    """Return the seconds of processor time so far, without children."""
    words = Path(f"/proc/{person.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def plan(person: Person, number: int) -> None:
    """Have a plan proposed, and run it."""
    person.type(f"/plan soak {number}\r")
    person.wait_for("accept and run")
    person.rest()
    person.type("a")
    person.wait_for("Plan completed")
    person.rest()


def soak(person: Person, turns: int, plans: int) -> tuple[Moment, Moment, list[float]]:
    """Run all turns and plans, and return the states at the beginning and at the end, and the memory at each tenth."""
    tenth, warm = turns // 10, min(WARM, turns // 2)
    times: list[float] = []
    sizes: list[float] = []
    spent: list[float] = [0.0] * (turns + 1)
    first: Moment | None = None
    done = 0
    for number in range(1, turns + 1):
        before, start = processor(person), time.perf_counter()
        person.type(f"turn {number} please\r")
        times.append((person.wait_for(f"answer{number:06d}") - start) * 1e3)
        person.rest()
        spent[number] = (processor(person) - before) * 1e3
        while done < -(-plans * number // turns):  # the first plan comes before the beginning is measured
            done += 1
            plan(person, done)
        if number % tenth == 0:
            sizes.append(memory(person))
            print(f"{number} turns, {done} plans: {sizes[-1]:.1f} MB", file=sys.stderr, flush=True)
        if number == warm:
            first = look(person)
            first.turns, first.processor = times[-tenth:], statistics.mean(spent[warm - tenth + 1 : warm + 1])
    last = look(person)
    last.turns, last.processor = times[-tenth:], statistics.mean(spent[-tenth:])
    assert first is not None
    return first, last, sizes


def rows_of(first: Moment, last: Moment) -> list[Row]:
    """Return the table: beginning, end, and the end over the beginning."""
    return [
        _row("memory, MB", first.memory, last.memory, GROWTH),
        _row("key to echo, ms", _quick(first.keys), _quick(last.keys), GROWTH),
        _row("a turn, typed to shown, ms", _quick(first.turns), _quick(last.turns), GROWTH),
        _row("processor time of a turn, ms", first.processor, last.processor, GROWTH),
        {"what": "open files", "first": first.files, "last": last.files, "bound": first.files + MORE_FILES},
    ]


def _quick(times: list[float]) -> float:
    return statistics.quantiles(times, n=4)[0]


def _row(what: str, first: float, last: float, bound: float) -> Row:
    return {
        "what": what,
        "first": round(first, 1),
        "last": round(last, 1),
        "growth": round(last / first, 2),
        "bound": bound,
    }


def run(turns: int, plans: int) -> tuple[list[Row], list[float], float]:
    """Measure, and return the rows, the memory at each tenth, and the MB left on the disk."""
    with tempfile.TemporaryDirectory(prefix="vb-") as name, served() as api_base:
        home, work = Path(name) / "home", Path(name) / "work"
        home.mkdir()
        work.mkdir()
        (work / "notes.txt").write_text("".join(f"line {number} of some notes\n" for number in range(60)))
        (home / "config.toml").write_text(CONFIG.format(api_base=api_base))
        person = Person(work, {"PATH": os.environ["PATH"], "HOME": name, "VIBE_HOME": str(home), "TMPDIR": name})
        try:
            person.wait_for("\x1b")
            first, last, sizes = soak(person, turns, plans)
            person.type("\x04")
            code = person.process.wait(timeout=60)
        finally:
            person.process.kill()
            person.process.wait()
        if code:
            raise SystemExit(f"vibe exited with {code}")
        disk = sum(path.stat().st_size for path in home.rglob("*") if path.is_file()) / 2**20
        return rows_of(first, last), sizes, disk


def is_broken(row: Row) -> bool:
    """Return whether a row is over its bound."""
    return float(row.get("growth", row["last"])) > float(row["bound"])


def main() -> int:
    """Measure, print, and return 1 if something is over its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--turns", type=int, default=3_000, help=f"prompts that are typed, {FEWEST} at least")
    parser.add_argument("--plans", type=int, default=40, help="plans that are run between them")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        gc.disable()
        serve()
        return 0
    if given.turns < FEWEST:
        parser.error(f"--turns: {FEWEST} at least")
    before, start = os.getloadavg()[0], time.monotonic()
    rows, sizes, disk = run(given.turns, given.plans)
    load, minutes = f"{before:.1f} to {os.getloadavg()[0]:.1f}", (time.monotonic() - start) / 60
    about = f"{given.turns} turns, {given.plans} plans, {minutes:.0f} min"
    if given.json:
        about = {"turns": given.turns, "plans": given.plans, "minutes": round(minutes, 1), "load": load}
        figures = {"memory_mb": [round(size, 1) for size in sizes], "disk_mb": round(disk, 1)}
        print(json.dumps({**about, "rows": rows, **figures}, indent=2))
    else:
        print(f"{about:<38}{'first':>9}{'last':>9}{'growth':>9}    load {load} on {os.cpu_count()} processors")
        for row in rows:
            growth = row.get("growth", "")
            print(f"{row['what']:<38}{row['first']:>9}{row['last']:>9}{growth:>9}    bound {row['bound']}")
        print(f"memory at each tenth, MB: {' '.join(f'{size:.0f}' for size in sizes)}; on the disk: {disk:.1f} MB")
    return int(any(map(is_broken, rows)))


if __name__ == "__main__":
    sys.exit(main())
